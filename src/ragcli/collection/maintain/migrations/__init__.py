"""Migrations of the disk format: `migration_runner` applies them, one module a step.

A step from format N to the next is a module `from_format_N` with a function that changes the store inside the runner's
transaction; `migration_runner.MIGRATIONS` lists it.
"""

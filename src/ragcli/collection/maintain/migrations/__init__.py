"""Migrations of the disk format, one module a step."""

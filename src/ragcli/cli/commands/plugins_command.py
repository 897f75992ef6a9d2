"""`ragcli plugins`: list what installed packages bring, and say which of it cannot be used and why."""

from __future__ import annotations

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import FastCommand, examples, new_app
from ragcli.cli.option_groups.common_options import Json
from ragcli.cli.terminal import note, write
from ragcli.errors import EXIT_DONE
from ragcli.serialize import plugin_record

app = new_app()


@app.command(cls=FastCommand, epilog=examples("ragcli plugins", "ragcli plugins --json | jq -r '.[].distribution'"))
def plugins(ctx: typer.Context, as_json: Json = False) -> int:
    """List what installed packages add: parsers, encoders, rerankers, judges.

    A parser is used for files of its type; the others are named, as in --reranker plugin:NAME. Each is loaded to see
    whether it can be used.
    """
    from ragcli.plugins import installed_plugins, plugin_problem

    found = [(each, plugin_problem(each)) for each in installed_plugins()]
    if as_json:
        from ragcli.cli.render.json_output import write_json

        write_json([plugin_record(plugin, problem) for plugin, problem in found])
        return EXIT_DONE
    if not found:
        note("no installed package brings a plugin.")
        return EXIT_DONE

    from ragcli.cli.render.rich_table import Column, table

    columns = (
        Column("Group", whole=True),
        Column("Name"),
        Column("Package"),
        Column("Version"),
        Column("File types"),
        Column("State"),
    )
    rows = [
        (
            f"ragcli.{plugin.group}",
            plugin.name,
            plugin.distribution,
            plugin.version,
            f".{plugin.name}" if plugin.group == "parsers" else "",
            "cannot be used" if problem else "ready",
        )
        for plugin, problem in found
    ]
    write(table(CommandContext(ctx).screen, columns, rows))
    for _, problem in found:
        if problem:
            note(problem)
    return EXIT_DONE

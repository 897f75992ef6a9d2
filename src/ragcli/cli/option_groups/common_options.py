"""Options of every command or of most: data folder, configuration, colour, tenant, collections, JSON.

`--data-dir`, `--config`, `--color` and `--tenant` hold for every command and may stand before or after its name.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ragcli.cli.command_context import META_PREFIX, CommandContext


def store_global_option(ctx: typer.Context, param: typer.CallbackParam, value: str | None) -> str | None:
    """Keep an option that holds for every command where the command finds it; the last one given wins."""
    if value is not None:
        from ragcli.options.command_options import COLOR_MODES

        if param.name == "color" and value not in COLOR_MODES:
            raise typer.BadParameter(f"'{value}' is none of {', '.join(COLOR_MODES)}.", ctx=ctx, param_hint="--color")
        ctx.meta[f"{META_PREFIX}{param.name}"] = value
    return value


def complete_collection(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of collections that begin with what was typed; none if they cannot be read."""
    from ragcli.collection import list_collections
    from ragcli.errors import RagcliError

    try:
        return [name for name in list_collections(CommandContext(ctx).data_dir) if name.startswith(incomplete)]
    except (RagcliError, OSError):
        return []


DataDir = Annotated[
    str | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="Folder of the collections.", callback=store_global_option, expose_value=False
    ),
]
ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The collections.toml to read.",
        callback=store_global_option,
        expose_value=False,
    ),
]
ColorMode = Annotated[
    str | None,
    typer.Option(
        "--color", metavar="auto|always|never", help="Colours.", callback=store_global_option, expose_value=False
    ),
]
Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        metavar="NAME",
        help="Whose documents to read, of collections that have tenants.",
        callback=store_global_option,
        expose_value=False,
    ),
]
CollectionArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The collection.", autocompletion=complete_collection)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait while another process writes to the collection.")]


def global_options(
    data_dir: DataDir = None, config: ConfigFile = None, color: ColorMode = None, tenant: Tenant = None
) -> None:
    """The options that every command takes, as a signature to read them from."""

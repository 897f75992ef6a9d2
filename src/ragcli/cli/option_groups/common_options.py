"""Options of every command or of most: data folder, configuration, colour, tenant, collections, JSON.

`--data-dir`, `--config`, `--color` and `--tenant` hold for every command and may stand before or after its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ragcli.cli.command_context import META_PREFIX, CommandContext
from ragcli.errors import UsageError

if TYPE_CHECKING:
    pass


COLOR_MODES: Final = ("auto", "always", "never")


def store_global_option(ctx: typer.Context, param: typer.CallbackParam, value: str | None) -> str | None:
    """Keep an option that holds for every command where the command finds it; the last one given wins."""
    if value is not None:
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


def complete_pipeline(incomplete: str) -> list[str]:
    """The pipelines that begin with what was typed."""
    from ragcli.retrieval.request import PIPELINE_NAMES

    return [name for name in PIPELINE_NAMES if name.startswith(incomplete)]


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
CollectionName = Annotated[
    str | None,
    typer.Option("-c", "--collection", metavar="NAME", help="The collection.", autocompletion=complete_collection),
]
CollectionNames = Annotated[
    list[str] | None,
    typer.Option(
        "-c",
        "--collection",
        metavar="NAME",
        help="Search this collection; may be repeated. Without it, all of them.",
        autocompletion=complete_collection,
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


@dataclass(frozen=True, slots=True)
class ExclusiveFlag:
    """One of several output forms, at most one of which may be asked for."""

    flag: str
    asked: bool


def exclusive_flag(*choices: ExclusiveFlag) -> str | None:
    """The flag that was given, if any. Raises UsageError when two were that exclude each other."""
    given = [choice.flag for choice in choices if choice.asked]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other; give one of them.")
    return given[0] if given else None

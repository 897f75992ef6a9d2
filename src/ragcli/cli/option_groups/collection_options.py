"""Options fixed when a collection is created (chunking, encoder), and opening or creating it."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragcli.errors import CollectionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ragcli.cli.command_context import CommandContext
    from ragcli.collection import Collection
    from ragcli.config import CollectionConfig

ChunkSize = Annotated[
    int | None, typer.Option("--chunk-size", metavar="N", help="Characters in a chunk (1200).", show_default=False)
]
Overlap = Annotated[
    int | None, typer.Option("--overlap", metavar="N", help="Characters that the next chunk repeats (200).")
]
EncoderName = Annotated[
    str | None,
    typer.Option("--encoder", metavar="MODEL", help="Makes vectors of texts: a name on the hub, or a folder."),
]
TokenVectors = Annotated[
    str | None,
    typer.Option("--token-vectors", metavar="bits|none", help="Keep token vectors for reranking, or make them anew."),
]
Context = Annotated[
    str | None,
    typer.Option("--context", metavar="none|title|heading", help="What is embedded before a chunk's text (heading)."),
]

TenantKey = Annotated[
    str | None,
    typer.Option(
        "--tenant-key",
        metavar="KEY",
        help="Let everybody read only documents whose metadata say so under this key. For a new collection.",
    ),
]


def absolute_model(name: str | None) -> str | None:
    """A model named by a folder, by its absolute path, so that it is found from anywhere later on."""
    if name and "\0" not in name and Path(name).expanduser().is_dir():
        return str(Path(name).expanduser().absolute())
    return name


def configured_collection(name: str, here: CommandContext, *, encoder: str | None) -> CollectionConfig:
    """What the configuration says of a collection. The model it names is part of that unless `encoder` is given.

    Raises UntrustedConfig when that model takes trust that the file has not got.
    """
    if encoder is None:
        here.allow(("collections", name, "encoder"))
        if "encoder" not in here.config.collection(name).asked:
            here.allow(("defaults", "encoder"))
    return here.config.collection(name)


@contextmanager
def open_or_create_collection(
    name: str, config: CollectionConfig, asked: Mapping[str, Any], here: CommandContext, *, dry_run: bool = False
) -> Iterator[Collection]:
    """The collection of that name as it is, or a new one with the settings asked for.

    A dry run gets a new one that goes when it ends, and one that stays empty because of an error, such as a
    mistyped model, goes too. Raises CollectionError when the collection is there and was
    made with other settings than the options or the configuration ask for, UsageError when none can have them.
    """
    from ragcli.collection import Collection, check_name, list_collections

    given = {field: value for field, value in asked.items() if value is not None}
    stated = {field: getattr(config.settings, field) for field in config.asked} | given
    if check_name(name) in list_collections(here.data_dir):
        yield _open_existing(name, stated, here)
        return
    wanted = replace(config.settings, **given)
    if not dry_run:
        try:
            made = Collection.create(here.data_dir, name, wanted)
        except CollectionError:
            # Another process has made it since we looked.
            if name not in list_collections(here.data_dir):
                raise
            yield _open_existing(name, stated, here)
            return
        try:
            yield made
        except Exception:
            if made.is_empty():
                with suppress(CollectionError):
                    made.delete()
            raise
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="ragcli-") as folder:
        yield Collection.create(Path(folder), name, wanted)


def _open_existing(name: str, stated: Mapping[str, Any], here: CommandContext) -> Collection:
    from ragcli.collection.handle import check_settings

    collection = here.collection(name)
    # What no collection can have is a mistake of the call, whatever this one was made with.
    check_settings(replace(collection.settings, **stated))
    collection.check_settings(**stated)
    return collection

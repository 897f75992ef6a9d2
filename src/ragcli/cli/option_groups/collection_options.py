"""Options fixed when a collection is created (chunking, encoder), and opening or creating it."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragcli.errors import CollectionError
from ragcli.options.command_options import CHUNKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ragcli.cli.command_context import CommandContext
    from ragcli.collection import Collection
    from ragcli.config import CollectionConfig
    from ragcli.options import OptionValues


def asked_settings(values: OptionValues) -> dict[str, Any]:
    """What the options state of a collection's settings, by the settings' names."""
    asked = {
        option.config_key: values.stated[option.name] for option in CHUNKING.options if option.name in values.stated
    }
    if "tenant_key" in values.stated:
        asked["tenant_key"] = values.tenant_key
    return asked | ({"encoder": absolute_model(asked["encoder"])} if "encoder" in asked else {})


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

    stated = {field: getattr(config.settings, field) for field in config.asked} | dict(asked)
    if check_name(name) in list_collections(here.data_dir):
        yield _open_existing(name, stated, here)
        return
    wanted = replace(config.settings, **asked)
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

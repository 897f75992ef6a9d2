"""Which engine reads a collection: the one that its settings name, built in or out of an installed package."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from ragcli.collection import Collection, Snapshot
from ragcli.engines.local_reader import LocalReader
from ragcli.errors import CollectionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ragcli.engines.reader_protocol import CollectionReader

ENGINE_GROUP: Final = "ragcli.engines"
"""Entry points of installed packages: the engine's name, as settings have it, and an `EngineOpener`."""


class EngineOpener(Protocol):
    """Makes an engine's reader of a state whose documents are in the local store."""

    def __call__(self, snapshot: Snapshot) -> CollectionReader:
        """A reader that closes the snapshot when it is closed. Raises CollectionError."""


def open_reader(collection: Collection) -> CollectionReader:
    """A reader of the collection's last committed state; a context manager, to be closed.

    Raises CollectionError for an engine that is not installed or cannot be loaded, and what opening a snapshot raises.
    """
    snapshot = collection.snapshot()
    try:
        name = snapshot.settings.search_engine
        return (LocalReader if name == "local" else _installed(name, collection.name))(snapshot)
    except BaseException:
        snapshot.close()
        raise


@contextmanager
def opened(source: Collection | CollectionReader) -> Iterator[CollectionReader]:
    """A reader of a collection, closed at the end; one that is open already is passed through, and left open."""
    if isinstance(source, Collection):
        with open_reader(source) as reader:
            yield reader
    else:
        yield source


def _installed(name: str, collection: str) -> EngineOpener:
    from importlib.metadata import entry_points

    for point in entry_points(group=ENGINE_GROUP, name=name):
        try:
            opener: EngineOpener = point.load()
        except Exception as error:
            brought = f" of {point.dist.name}" if point.dist is not None else ""
            raise CollectionError(
                f"The collection '{collection}' is searched by the engine '{name}'{brought}, which cannot be loaded:"
                f" {error}"
            ) from error
        return opener
    raise CollectionError(
        f"The collection '{collection}' is searched by the engine '{name}', which is not installed; install the package"
        " that brings it."
    )

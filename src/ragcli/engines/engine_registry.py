"""Which engine reads a collection."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from ragcli.collection import Collection
from ragcli.engines.local_reader import LocalReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ragcli.engines.reader_protocol import CollectionReader


def open_reader(collection: Collection) -> CollectionReader:
    """A reader of the collection's last committed state; a context manager, to be closed."""
    return LocalReader(collection.snapshot())


@contextmanager
def opened(source: Collection | CollectionReader) -> Iterator[CollectionReader]:
    """A reader of a collection, closed at the end; one that is open already is passed through, and left open."""
    if isinstance(source, Collection):
        with open_reader(source) as reader:
            yield reader
    else:
        yield source

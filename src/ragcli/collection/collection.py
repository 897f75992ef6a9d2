"""A collection's handle: its name and place, and what can be done with it as a whole.

A handle is cheap and holds nothing open. Reading goes through a `Snapshot`, writing through `ingest` and
`reindex`; renaming and deleting are one rename each, done as the collection's only writer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ragcli.collection.catalogue import StoredFailure, all_failures
from ragcli.collection.generation import CURRENT, NO_ENCODER, first_generation, read_generation, write_generation
from ragcli.collection.lock import make_lock_files, writer_lock
from ragcli.collection.manifest import write_manifest
from ragcli.collection.names import check_name, discard, draft_folder, list_collections, name_taken, publish, sweep
from ragcli.collection.snapshot import Snapshot
from ragcli.collection.store import create_store, explained, open_for_reading, transaction
from ragcli.errors import CollectionError, MissingCollection, UsageError
from ragcli.records import CollectionSettings


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """What a list of collections shows. `bytes` is everything on the disk, `failures` the documents not taken in."""

    name: str
    documents: int
    chunks: int
    bytes: int
    encoder: str
    last_ingest: datetime | None
    failures: int
    settings: CollectionSettings
    generation: int


class Collection:
    """A named set of documents on disk. Get one with `open` or `create`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name

    @classmethod
    def open(
        cls, data_dir: Path, name: str, *, as_is: bool = False, notify: Callable[[str], None] | None = None
    ) -> Collection:
        """The collection of that name, brought up to date if it is of an older format, which `notify` is told.

        `as_is` leaves an older format alone; all one can do with it then is to rename or delete it.

        MissingCollection if there is none, UsageError if none can be called so.
        """
        from ragcli.collection.upgrading import is_old, upgrade

        check_name(name)
        collection = cls(data_dir / name)
        if name not in list_collections(data_dir):
            others = ", ".join(list_collections(data_dir)) or "none yet"
            raise MissingCollection(f"There is no collection '{name}' in {data_dir} (there are: {others}).")
        if not as_is and is_old(collection.path):
            upgrade(collection.path, notify)
        return collection

    @classmethod
    def create(cls, data_dir: Path, name: str, settings: CollectionSettings | None = None) -> Collection:
        """A new, empty collection. CollectionError if the name is taken, UsageError if settings make no sense."""
        from ragcli.index.lexical import LexicalWriter

        check_name(name)
        settings = settings or CollectionSettings()
        check_settings(settings)
        with draft_folder(data_dir, name) as folder, explained(data_dir / name):
            with closing(create_store(folder)) as connection:
                record = first_generation(settings)
                with transaction(connection):
                    write_generation(connection, record, CURRENT)
                make_lock_files(folder)
                with LexicalWriter(folder / record.lexical_name) as lexical:
                    lexical.commit()
                write_manifest(folder, connection, record)
            publish(folder, data_dir, name)
        return cls(data_dir / name)

    @property
    def settings(self) -> CollectionSettings:
        """What was fixed when the collection was made."""
        with closing(open_for_reading(self.path)) as connection, explained(self.path):
            return read_generation(connection).settings

    def check_settings(
        self,
        *,
        chunk_size: int | None = None,
        overlap: int | None = None,
        encoder: str | None = None,
        token_vectors: str | None = None,
        context: str | None = None,
    ) -> None:
        """CollectionError, naming `ragcli reindex`, if anything but what the collection was made with is asked for."""
        asked = {
            "chunk_size": chunk_size,
            "overlap": overlap,
            "encoder": encoder,
            "token_vectors": token_vectors,
            "context": context,
        }
        settings = self.settings
        for name, value in asked.items():
            here = getattr(settings, name)
            if value is not None and value != here:
                raise CollectionError(
                    f"The collection '{self.name}' was made with {name.replace('_', ' ')} {here}, not {value};"
                    f" `ragcli reindex -c {self.name}` with that option changes it."
                )

    def info(self) -> CollectionInfo:
        """Counts, size and settings as of the last commit."""
        with closing(open_for_reading(self.path)) as connection, explained(self.path):
            connection.execute("BEGIN")
            record = read_generation(connection)
            (failures,) = connection.execute("SELECT count(*) FROM failures").fetchone()
        return CollectionInfo(
            name=self.name,
            documents=record.documents,
            chunks=record.chunks,
            bytes=sum(size for size in _sizes(self.path)),
            encoder=record.settings.encoder,
            last_ingest=datetime.fromisoformat(record.last_ingest) if record.last_ingest else None,
            failures=failures,
            settings=record.settings,
            generation=record.generation,
        )

    def failures(self) -> tuple[StoredFailure, ...]:
        """The documents that could not be taken in, and why."""
        with closing(open_for_reading(self.path)) as connection, explained(self.path):
            return all_failures(connection)

    def snapshot(self) -> Snapshot:
        """One committed state for reading, the same whatever writers do; a context manager, closed at its end."""
        return Snapshot(self.path)

    def verify(self) -> tuple[str, ...]:
        """What is damaged, a sentence each; nothing if every checksum, count and reference is right."""
        try:
            with self.snapshot() as snapshot:
                return tuple(problem.sentence for problem in snapshot.problems())
        except MissingCollection:
            raise
        except CollectionError as error:
            return (str(error),)

    def rename(self, new: str, *, wait: bool = False, notify: Callable[[str], None] | None = None) -> Collection:
        """Give the collection another name. CollectionError if it is taken."""
        check_name(new)
        target = self.path.with_name(new)
        with writer_lock(self.path, wait=wait, notify=notify), explained(self.path):
            if target.exists():
                raise name_taken(self.path.parent, new)
            publish(self.path, self.path.parent, new)
        return Collection(target)

    def delete(self, *, wait: bool = False, notify: Callable[[str], None] | None = None) -> None:
        """Delete the collection. It is out of sight in one rename, whatever happens after."""
        with writer_lock(self.path, wait=wait, notify=notify), explained(self.path):
            discard(self.path)
        sweep(self.path.parent)


def check_settings(settings: CollectionSettings) -> None:
    """UsageError if no collection can be made with these settings."""
    if settings.chunk_size < 50:
        raise UsageError(f"The chunk size must be at least 50 characters, not {settings.chunk_size}.")
    if not 0 <= settings.overlap < settings.chunk_size:
        raise UsageError(
            f"The overlap must be at least 0 and less than the chunk size ({settings.chunk_size}), not"
            f" {settings.overlap}."
        )
    if settings.token_vectors not in ("bits", "none"):
        raise UsageError(f"token_vectors is 'bits' or 'none', not '{settings.token_vectors}'.")
    if settings.context not in ("none", "title", "heading"):
        raise UsageError(f"context is 'none', 'title' or 'heading', not '{settings.context}'.")
    if not settings.encoder:
        raise UsageError(f"The encoder has no name; '{NO_ENCODER}' makes a collection without vectors.")


def _sizes(folder: Path) -> Iterator[int]:
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.lstat(os.path.join(root, name)).st_size  # noqa: PTH118 (a million times faster than Path)
            except OSError:
                continue

"""Handle of a collection: create, open, inspect, rename, delete; holds no file open."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ragcli.collection.data_directory import (
    check_name,
    discard,
    list_collections,
    name_taken,
    publish,
    staging_folder,
    sweep,
)
from ragcli.collection.read.document_queries import StoredFailure, all_failures
from ragcli.collection.read.snapshot import Snapshot
from ragcli.collection.store.generation_record import (
    CURRENT,
    NO_ENCODER,
    Generation,
    first_generation,
    read_generation,
    write_generation,
    write_manifest,
)
from ragcli.collection.store.locks import make_lock_files, writer_lock
from ragcli.collection.store.sqlite_connection import create_store, open_for_reading, transaction, translated_errors
from ragcli.collection.store.stored_calibration import StoredCalibration, read_calibration, write_calibration
from ragcli.errors import CollectionError, MissingCollection, UsageError
from ragcli.types import CollectionSettings


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """What a list of collections shows. `bytes` is everything on the disk, `failures` the documents not taken in.

    Of a collection with tenants the counts are those of the tenant it was opened for, and None without one. Nobody's
    are the failures: of a file that was not read nobody knows whose it is.
    """

    name: str
    documents: int | None
    chunks: int | None
    bytes: int
    encoder: str
    last_ingest: datetime | None
    failures: int | None
    settings: CollectionSettings
    generation: int


class Collection:
    """A named set of documents on disk. Get one with `open` or `create`.

    If it has tenants, whatever reads it reads for `tenant`, and TenantNeeded is raised where there is none. One that
    has no tenants is the same for everybody.
    """

    def __init__(self, path: Path, tenant: str | None = None) -> None:
        self.path = path
        self.name = path.name
        self.tenant = tenant

    @classmethod
    def open(
        cls,
        data_dir: Path,
        name: str,
        *,
        tenant: str | None = None,
        notify: Callable[[str], None] | None = None,
    ) -> Collection:
        """The collection of that name, brought up to date if it is of an older format, which `notify` is told.

        MissingCollection if there is none, UsageError if none can be called so.
        """
        from ragcli.collection.maintain.migrations.migration_runner import migrate, needs_migration

        check_name(name)
        collection = cls(data_dir / name, tenant)
        if name not in list_collections(data_dir):
            others = ", ".join(list_collections(data_dir)) or "none yet"
            raise MissingCollection(f"There is no collection '{name}' in {data_dir} (there are: {others}).")
        if needs_migration(collection.path):
            migrate(collection.path, notify)
        return collection

    @classmethod
    def create(cls, data_dir: Path, name: str, settings: CollectionSettings | None = None) -> Collection:
        """A new, empty collection. CollectionError if the name is taken, UsageError if settings make no sense."""
        from ragcli.index.bm25 import LexicalWriter

        check_name(name)
        settings = settings or CollectionSettings()
        check_settings(settings)
        with staging_folder(data_dir, name) as folder, translated_errors(data_dir / name):
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

    def for_tenant(self, tenant: str) -> Collection:
        """The same collection, to be read for that tenant."""
        return Collection(self.path, tenant)

    def check_readable(self) -> None:
        """TenantNeeded if the collection has tenants and this handle was opened for none."""
        from ragcli.collection.read.tenant_views import check_tenant

        check_tenant(self.name, self.settings.tenant_key, self.tenant)

    @property
    def settings(self) -> CollectionSettings:
        """What was fixed when the collection was made."""
        with self._reading() as (_, record):
            return record.settings

    @contextmanager
    def _reading(self) -> Iterator[tuple[sqlite3.Connection, Generation]]:
        """One committed state of the store, all tenants' documents in it, with a read transaction open."""
        with closing(open_for_reading(self.path)) as connection, translated_errors(self.path):
            connection.execute("BEGIN")
            yield connection, read_generation(connection)

    def check_settings(
        self,
        *,
        chunk_size: int | None = None,
        overlap: int | None = None,
        encoder: str | None = None,
        token_vectors: str | None = None,
        context: str | None = None,
        tenant_key: str | None = None,
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
        if tenant_key is not None and tenant_key != settings.tenant_key:
            by = f"divided among tenants by '{settings.tenant_key}'" if settings.tenant_key else "made without tenants"
            raise CollectionError(
                f"The collection '{self.name}' was {by}, not by '{tenant_key}', and that is fixed for good; ingest the"
                " documents into a new collection."
            )
        for name, value in asked.items():
            here = getattr(settings, name)
            if value is not None and value != here:
                raise CollectionError(
                    f"The collection '{self.name}' was made with {name.replace('_', ' ')} {here}, not {value};"
                    f" `ragcli reindex -c {self.name}` with that option changes it."
                )

    def info(self) -> CollectionInfo:
        """Counts, size and settings as of the last commit."""
        failures: int | None = None
        with self._reading() as (connection, record):
            divided = record.settings.tenant_key is not None
            if not divided:
                (failures,) = connection.execute("SELECT count(*) FROM failures").fetchone()
            elif self.tenant is not None:
                from ragcli.collection.read.tenant_views import restrict_to_tenant

                record = restrict_to_tenant(connection, record, self.name, self.tenant)
        hidden = divided and self.tenant is None
        return CollectionInfo(
            name=self.name,
            documents=None if hidden else record.documents,
            chunks=None if hidden else record.chunks,
            bytes=sum(size for size in _sizes(self.path)),
            encoder=record.settings.encoder,
            last_ingest=datetime.fromisoformat(record.last_ingest) if record.last_ingest else None,
            failures=failures,
            settings=record.settings,
            generation=record.generation,
        )

    def is_empty(self) -> bool:
        """Is nothing in the collection, and did nothing fail to get into it?"""
        with self._reading() as (connection, _):
            held = connection.execute("SELECT EXISTS (SELECT 1 FROM documents) OR EXISTS (SELECT 1 FROM failures)")
            return not held.fetchone()[0]

    def failures(self) -> tuple[StoredFailure, ...]:
        """The documents that could not be taken in, and why; where there are tenants, they are nobody's to see."""
        with self._reading() as (connection, record):
            return () if record.settings.tenant_key is not None else all_failures(connection)

    def snapshot(self, tenant: str | None = None) -> Snapshot:
        """One committed state for reading, the same whatever writers do; a context manager, closed at its end.

        `tenant` is whom it is read for, if not the one that the handle was opened for. TenantNeeded if there is none
        and the collection has tenants.
        """
        return Snapshot(self.path, tenant if tenant is not None else self.tenant)

    @contextmanager
    def store(self) -> Iterator[sqlite3.Connection]:
        """The store for reading, with a read transaction open; of a collection with tenants, as a snapshot has it."""
        with self._reading() as (connection, record):
            if record.settings.tenant_key is not None:
                from ragcli.collection.read.tenant_views import restrict_to_tenant

                restrict_to_tenant(connection, record, self.name, self.tenant)
            yield connection

    def verify(self) -> tuple[str, ...]:
        """What is damaged, a sentence each; nothing if every checksum, count and reference is right."""
        from ragcli.collection.maintain.verification import find_problems

        try:
            with Snapshot(self.path, everything=True) as snapshot:
                problems = find_problems(snapshot.folder, snapshot.connection, snapshot.record)
                return tuple(problem.sentence for problem in problems)
        except MissingCollection:
            raise
        except CollectionError as error:
            return (str(error),)

    def calibration(self) -> StoredCalibration | None:
        """What the gate has learned of this collection, None if nothing. CollectionError if it is damaged."""
        return read_calibration(self.path)

    def store_calibration(
        self, text: str | None, *, wait: bool = False, notify: Callable[[str], None] | None = None
    ) -> None:
        """Keep what the gate has learned, in the place of what it had; None forgets it. Raises CollectionBusy."""
        write_calibration(self.path, text, wait=wait, notify=notify)

    def rename(self, new: str, *, wait: bool = False, notify: Callable[[str], None] | None = None) -> Collection:
        """Give the collection another name. CollectionError if it is taken."""
        check_name(new)
        target = self.path.with_name(new)
        with writer_lock(self.path, wait=wait, notify=notify), translated_errors(self.path):
            if target.exists():
                raise name_taken(self.path.parent, new)
            publish(self.path, self.path.parent, new)
        return Collection(target, self.tenant)

    def delete(self, *, wait: bool = False, notify: Callable[[str], None] | None = None) -> None:
        """Delete the collection. It is out of sight in one rename, whatever happens after."""
        with writer_lock(self.path, wait=wait, notify=notify), translated_errors(self.path):
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
    if settings.tenant_key is not None:
        from ragcli.collection.read.tenant_views import check_tenant_key

        check_tenant_key(settings.tenant_key)


def _sizes(folder: Path) -> Iterator[int]:
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                yield os.lstat(os.path.join(root, name)).st_size  # noqa: PTH118 (a million times faster than Path)
            except OSError:
                continue

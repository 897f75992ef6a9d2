"""What happens to the store in a commit: a document comes, a file is done with, moves or goes.

Each step is a value made beforehand, so that a commit is a list of steps carried out in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from os import fsencode

from ragcli.collection.drafts import Cut, Draft, SourceFile, drop_document, first_free, put_chunks, put_document
from ragcli.collection.generation import now
from ragcli.collection.seals import card_of, failure_seal, reseal, reseal_file
from ragcli.collection.texts import clean


@dataclass(frozen=True, slots=True)
class FileDone:
    """A file was read to its end: all its drafts come before this step.

    `documents` is how many documents it has now, `dropped` the ones that are no longer in it, `failures` (source,
    reason) of what could not be read, under the reading settings `failed_with`.
    """

    file: SourceFile
    documents: int
    dropped: tuple[int, ...]
    failures: tuple[tuple[str, str], ...]
    failed_with: str | None


@dataclass(frozen=True, slots=True)
class FileMoved:
    """The file with record `number` is now at another path, its content the same."""

    number: int
    file: SourceFile


@dataclass(frozen=True, slots=True)
class FileRemoved:
    """The file with record `number` is gone, and its documents go too."""

    number: int


@dataclass(frozen=True, slots=True)
class Recut:
    """The document with that `number` gets other chunks in the state that is being built."""

    number: int
    cut: Cut


@dataclass(frozen=True, slots=True)
class DocumentLost:
    """The document with that `number` is damaged; it goes, and its file will be read again."""

    number: int


Step = Draft | Recut | DocumentLost | FileDone | FileMoved | FileRemoved


def cuts_of(steps: Iterable[Step]) -> list[Cut]:
    """The chunks that come with the steps."""
    return [step.cut for step in steps if isinstance(step, (Draft, Recut))]


def take_step(connection: sqlite3.Connection, step: Step) -> list[int]:
    """Carry out one step inside the caller's transaction; the numbers of the chunks that went."""
    if isinstance(step, Draft):
        return _take_draft(connection, step)
    if isinstance(step, Recut):
        put_chunks(connection, step.number, step.cut, table="next_chunks")
        return []
    if isinstance(step, DocumentLost):
        (file,) = connection.execute("SELECT file FROM documents WHERE number = ?", (step.number,)).fetchone()
        connection.execute("UPDATE files SET hash = NULL WHERE number = ?", (file,))
        reseal_file(connection, file)
        return drop_document(connection, step.number)
    if isinstance(step, FileDone):
        return _finish_file(connection, step)
    if isinstance(step, FileMoved):
        _move_file(connection, step)
        return []
    gone = _drop_all(connection, _documents_of(connection, step.number))
    connection.execute("DELETE FROM files WHERE number = ?", (step.number,))
    return gone


def switch_tables(connection: sqlite3.Connection) -> None:
    """Make the chunks that a reindex has built the chunks of the collection, inside the caller's transaction."""
    connection.execute("DELETE FROM chunks")
    connection.execute("INSERT INTO chunks SELECT * FROM next_chunks")
    connection.execute("DELETE FROM next_chunks")
    connection.execute(
        "UPDATE documents SET chunks = (SELECT count(*) FROM chunks c WHERE c.document = documents.number)"
    )
    for table in ("lexical_deletes", "parked"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608
    for table in ("generation", "blobs"):
        connection.execute(f"DELETE FROM {table} WHERE slot = 2")  # noqa: S608


def _take_draft(connection: sqlite3.Connection, draft: Draft) -> list[int]:
    gone: list[int] = []
    names: tuple[str, str] | None = None
    if draft.replaces is not None:
        names = connection.execute("SELECT id, source FROM documents WHERE number = ?", (draft.replaces,)).fetchone()
        gone = drop_document(connection, draft.replaces)
    file = _put_file(connection, draft.file, complete=False)
    put_document(connection, draft, file, names)
    return gone


def _finish_file(connection: sqlite3.Connection, step: FileDone) -> list[int]:
    gone: list[int] = []
    if step.documents or not step.failures:
        file = _put_file(connection, step.file, complete=True)
        gone = _drop_all(connection, step.dropped)
    else:
        # What an earlier version of the file said stays, and a query tells that the file has changed since.
        file = _put_failed_file(connection, step.file, step.failed_with)
    _put_failures(connection, file, step.failures)
    return gone


def _move_file(connection: sqlite3.Connection, step: FileMoved) -> None:
    file = step.file
    connection.execute(
        "UPDATE files SET path = ?, source = ?, size = ?, mtime_ns = ?, ctime_ns = ? WHERE number = ?",
        (fsencode(file.path), clean(file.source), file.size, file.mtime_ns, file.ctime_ns, step.number),
    )
    reseal_file(connection, step.number)
    # Documents that are records are called by their ids and keep them.
    row = connection.execute(
        "SELECT number, source FROM documents WHERE file = ? AND record_id IS NULL", (step.number,)
    ).fetchone()
    if row is not None and row[1] != clean(file.source):
        source = first_free(connection, "source", [clean(file.source), clean(file.path)])
        connection.execute("UPDATE documents SET source = ? WHERE number = ?", (source, row[0]))
        reseal(connection, row[0])
    for document in _documents_of(connection, step.number):
        card = card_of(connection, document)
        connection.execute("UPDATE documents SET card = ? WHERE number = ?", (card, document))


def _documents_of(connection: sqlite3.Connection, file: int) -> list[int]:
    return [number for (number,) in connection.execute("SELECT number FROM documents WHERE file = ?", (file,))]


def _drop_all(connection: sqlite3.Connection, documents: Iterable[int]) -> list[int]:
    return [chunk for document in documents for chunk in drop_document(connection, document)]


def _put_file(connection: sqlite3.Connection, file: SourceFile, *, complete: bool) -> int:
    """Insert or renew a file's record; its number. Until complete it has no hash, so it would be read again."""
    connection.execute(
        "INSERT INTO files (path, source, hash, size, mtime_ns, ctime_ns, engine, ingested_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (path) DO UPDATE SET source = excluded.source,"
        " hash = excluded.hash, size = excluded.size, mtime_ns = excluded.mtime_ns, ctime_ns = excluded.ctime_ns,"
        " engine = excluded.engine, ingested_at = excluded.ingested_at, failed_hash = NULL, failed_with = NULL",
        (
            fsencode(file.path),
            clean(file.source),
            file.hash if complete else None,
            file.size,
            file.mtime_ns,
            file.ctime_ns,
            file.engine,
            now(),
        ),
    )
    return _sealed_file(connection, file)


def _put_failed_file(connection: sqlite3.Connection, file: SourceFile, failed_with: str | None) -> int:
    connection.execute(
        "INSERT INTO files (path, source, size, mtime_ns, ctime_ns, failed_hash, failed_with, ingested_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (path) DO UPDATE SET failed_hash = excluded.failed_hash, failed_with = excluded.failed_with",
        (
            fsencode(file.path),
            clean(file.source),
            file.size,
            file.mtime_ns,
            file.ctime_ns,
            file.hash,
            failed_with,
            now(),
        ),
    )
    return _sealed_file(connection, file)


def _sealed_file(connection: sqlite3.Connection, file: SourceFile) -> int:
    """Seal the record of a file that was just written; its number."""
    number: int = connection.execute("SELECT number FROM files WHERE path = ?", (fsencode(file.path),)).fetchone()[0]
    reseal_file(connection, number)
    return number


def _put_failures(connection: sqlite3.Connection, file: int, failures: Iterable[tuple[str, str]]) -> None:
    connection.execute("DELETE FROM failures WHERE file = ?", (file,))
    at = now()
    rows = ((file, clean(source), clean(reason), at) for source, reason in failures)
    connection.executemany(
        "INSERT INTO failures (file, source, reason, failed_at, seal) VALUES (?, ?, ?, ?, ?)",
        ((*row, failure_seal(*row)) for row in rows),
    )

"""Steps of a commit as values (insert, move, remove ...), applied in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os import fsencode
from types import MappingProxyType

from ragcli.collection.read.document_queries import STDIN_PATH
from ragcli.collection.store.generation_record import utc_now
from ragcli.collection.store.metadata_layers import (
    ExternalMetadata,
    MetadataLayers,
    MetadataPatch,
    decode_metadata,
    encode_metadata,
    metadata_would_change,
    stored_layers,
    update_metadata,
)
from ragcli.collection.store.row_hash import (
    is_row_intact,
    update_row_hash,
)
from ragcli.collection.write.prepared_documents import (
    ChunkedDocument,
    PreparedDocument,
    SourceFile,
    delete_document,
    first_unused_name,
    insert_chunks,
    insert_document,
)
from ragcli.text.characters import replace_surrogates


@dataclass(frozen=True, slots=True)
class FileIngested:
    """A file was read to its end: all its prepared documents come before this step.

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
class FileMetadataChanged:
    """The file with record `number` says what it said, but has other times, or other things are said of it."""

    number: int
    file: SourceFile


@dataclass(frozen=True, slots=True)
class DocumentMetadataChanged:
    """Other things are said of the document with that `number`, which is a record from standard input."""

    number: int
    outside: ExternalMetadata


@dataclass(frozen=True, slots=True)
class ParserVersionChanged:
    """Another version of a parser has read the document with that `number`, and it says what it said."""

    number: int
    parser: str
    version: str


@dataclass(frozen=True, slots=True)
class FileRemoved:
    """The file with record `number` is gone, and its documents go too."""

    number: int


@dataclass(frozen=True, slots=True)
class RechunkedDocument:
    """The document with that `number` gets other chunks in the state that is being built."""

    number: int
    cut: ChunkedDocument


@dataclass(frozen=True, slots=True)
class DamagedDocumentRemoved:
    """The document with that `number` is damaged; it goes, and its file will be read again."""

    number: int


CommitStep = (
    PreparedDocument
    | RechunkedDocument
    | DamagedDocumentRemoved
    | DocumentMetadataChanged
    | FileIngested
    | FileMetadataChanged
    | FileMoved
    | FileRemoved
    | ParserVersionChanged
)


def chunked_documents_of(steps: Iterable[CommitStep]) -> list[ChunkedDocument]:
    """The chunks that come with the steps."""
    return [step.cut for step in steps if isinstance(step, (PreparedDocument, RechunkedDocument))]


def apply_step(connection: sqlite3.Connection, step: CommitStep) -> list[int]:
    """Carry out one step inside the caller's transaction; the numbers of the chunks that went."""
    match step:
        case PreparedDocument():
            return _insert_prepared(connection, step)
        case FileIngested():
            return _finish_file(connection, step)
        case FileRemoved(number):
            gone = _drop_all(connection, _documents_of(connection, number))
            connection.execute("DELETE FROM files WHERE number = ?", (number,))
            return gone
        case DamagedDocumentRemoved(number):
            (file,) = connection.execute("SELECT file FROM documents WHERE number = ?", (number,)).fetchone()
            connection.execute("UPDATE files SET hash = NULL WHERE number = ?", (file,))
            update_row_hash(connection, "files", file)
            return delete_document(connection, number)
        case RechunkedDocument(number, cut):
            insert_chunks(connection, number, cut, table="next_chunks")
        case FileMoved() | FileMetadataChanged():
            _renew_file(connection, step)
        case DocumentMetadataChanged(number, outside):
            _update_document_metadata(connection, number, stored_layers(connection, number).under(outside))
        case ParserVersionChanged(number, parser, version):
            # As with metadata: what is damaged is left so.
            if is_row_intact(connection, "documents", number):
                versions = (parser, version, number)
                connection.execute("UPDATE documents SET parser = ?, parser_version = ? WHERE number = ?", versions)
                update_row_hash(connection, "documents", number)
    return []


def switch_to_rebuilt_chunks(connection: sqlite3.Connection) -> None:
    """Make the chunks that a reindex has built the chunks of the collection, inside the caller's transaction."""
    connection.execute("DELETE FROM chunks")
    connection.execute("INSERT INTO chunks SELECT * FROM next_chunks")
    connection.execute("DELETE FROM next_chunks")
    connection.execute(
        "UPDATE documents SET chunks = (SELECT count(*) FROM chunks c WHERE c.document = documents.number)"
    )
    for table in ("lexical_deletes", "uncommitted_rows"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608
    for table in ("generation", "blobs"):
        connection.execute(f"DELETE FROM {table} WHERE slot = 2")  # noqa: S608


def _insert_prepared(connection: sqlite3.Connection, prepared: PreparedDocument) -> list[int]:
    gone: list[int] = []
    names: tuple[str, str] | None = None
    before = MetadataLayers({})
    if prepared.replaces is not None:
        names = connection.execute("SELECT id, source FROM documents WHERE number = ?", (prepared.replaces,)).fetchone()
        before = stored_layers(connection, prepared.replaces)
        gone = delete_document(connection, prepared.replaces)
    file = _put_file(connection, prepared.file, complete=False)
    if fsencode(prepared.file.path) != STDIN_PATH:
        before = replace(before, meta=_file_meta(connection, file))
    insert_document(connection, prepared, file, names, before)
    return gone


def _finish_file(connection: sqlite3.Connection, step: FileIngested) -> list[int]:
    gone: list[int] = []
    if step.documents or not step.failures:
        file = _put_file(connection, step.file, complete=True)
        gone = _drop_all(connection, step.dropped)
    else:
        # What an earlier version of the file said stays, and a query tells that the file has changed since.
        file = _put_failed_file(connection, step.file, step.failed_with)
    if fsencode(step.file.path) != STDIN_PATH:
        _update_documents_metadata(connection, file, step.file.outside)
    _put_failures(connection, file, step.failures)
    return gone


def _renew_file(connection: sqlite3.Connection, step: FileMoved | FileMetadataChanged) -> None:
    """Renew the record of a file whose content is the old one, and what it says of its documents."""
    file = step.file
    names = (fsencode(file.path), replace_surrogates(file.source))
    same = connection.execute("SELECT path, source FROM files WHERE number = ?", (step.number,)).fetchone() == names
    sound = (
        []
        if same
        else [each for each in _documents_of(connection, step.number) if is_row_intact(connection, "documents", each)]
    )
    connection.execute(
        "UPDATE files SET path = ?, source = ?, size = ?, mtime_ns = ?, ctime_ns = ?, birthtime_ns = ?, ingested_at = ?"
        " WHERE number = ?",
        (*names, file.size, file.mtime_ns, file.ctime_ns, file.birthtime_ns, utc_now(), step.number),
    )
    _put_external_metadata(connection, step.number, file.outside)
    if not same:
        _rename_document(connection, step.number, file)
    for document in sound:
        # The path is part of what a document's hash covers.
        update_row_hash(connection, "documents", document)
    _update_documents_metadata(connection, step.number, file.outside)


def _rename_document(connection: sqlite3.Connection, number: int, file: SourceFile) -> None:
    # Documents that are records are called by their ids and keep them.
    row = connection.execute(
        "SELECT number, source FROM documents WHERE file = ? AND record_id IS NULL", (number,)
    ).fetchone()
    if row is not None and row[1] != replace_surrogates(file.source):
        source = first_unused_name(
            connection, "source", [replace_surrogates(file.source), replace_surrogates(file.path)]
        )
        connection.execute("UPDATE documents SET source = ? WHERE number = ?", (source, row[0]))


def _put_external_metadata(connection: sqlite3.Connection, number: int, outside: ExternalMetadata) -> None:
    """Note what is said of a file from outside, and renew the hash of its record."""
    if outside.meta:
        meta = encode_metadata({**_file_meta(connection, number), **outside.meta})
        connection.execute("UPDATE files SET meta = ? WHERE number = ? AND path != ?", (meta, number, STDIN_PATH))
    if outside.sidecar is not None:
        told = (outside.sidecar_hash, number, outside.sidecar_hash)
        connection.execute("UPDATE files SET sidecar = ? WHERE number = ? AND sidecar IS NOT ?", told)
    update_row_hash(connection, "files", number)


def _file_meta(connection: sqlite3.Connection, number: int) -> MetadataPatch:
    """What `--meta` said of a file, and says of every document that comes from it."""
    (meta,) = connection.execute("SELECT meta FROM files WHERE number = ?", (number,)).fetchone()
    return decode_metadata(meta)


def _update_documents_metadata(connection: sqlite3.Connection, number: int, outside: ExternalMetadata) -> None:
    """Bring the metadata of a file's documents up to date with what is said of it."""
    meta = _file_meta(connection, number)
    for document in _documents_of(connection, number):
        _update_document_metadata(
            connection, document, replace(stored_layers(connection, document).under(outside), meta=meta)
        )


def _update_document_metadata(connection: sqlite3.Connection, document: int, layers: MetadataLayers) -> None:
    # One that is damaged is left so, for `verify` to find: with a new hash it would be sound from then on.
    if metadata_would_change(connection, document, layers) and is_row_intact(connection, "documents", document):
        update_metadata(connection, document, layers)
        update_row_hash(connection, "documents", document)


def _documents_of(connection: sqlite3.Connection, file: int) -> list[int]:
    return [number for (number,) in connection.execute("SELECT number FROM documents WHERE file = ?", (file,))]


def _drop_all(connection: sqlite3.Connection, documents: Iterable[int]) -> list[int]:
    return [chunk for document in documents for chunk in delete_document(connection, document)]


def _put_file(connection: sqlite3.Connection, file: SourceFile, *, complete: bool) -> int:
    """Insert or renew a file's record; its number. Until complete it has no hash, so it would be read again."""
    return _upsert_file(
        connection,
        file,
        {
            **_first_columns(file),
            "hash": file.hash if complete else None,
            "birthtime_ns": file.birthtime_ns,
            "engine": file.engine,
            "failed_hash": None,
            "failed_with": None,
        },
    )


def _put_failed_file(connection: sqlite3.Connection, file: SourceFile, failed_with: str | None) -> int:
    """Note in a file's record that it could not be read; its number."""
    failed = {"failed_hash": file.hash, "failed_with": failed_with}
    return _upsert_file(connection, file, failed, _first_columns(file))


def _first_columns(file: SourceFile) -> dict[str, object]:
    return {
        "source": replace_surrogates(file.source),
        "size": file.size,
        "mtime_ns": file.mtime_ns,
        "ctime_ns": file.ctime_ns,
        "ingested_at": utc_now(),
    }


def _upsert_file(
    connection: sqlite3.Connection,
    file: SourceFile,
    changed: Mapping[str, object],
    first: Mapping[str, object] = MappingProxyType({}),
) -> int:
    """Insert a file's record or change these columns of it; its number. A new record has the columns `first` too."""
    path = fsencode(file.path)
    columns = {"path": path, "meta": "{}", "row_hash": b"", **first, **changed}
    connection.execute(
        f"INSERT INTO files ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608
        f" ON CONFLICT (path) DO UPDATE SET {', '.join(f'{column} = excluded.{column}' for column in changed)}",
        tuple(columns.values()),
    )
    number: int = connection.execute("SELECT number FROM files WHERE path = ?", (path,)).fetchone()[0]
    _put_external_metadata(connection, number, file.outside)
    return number


def _put_failures(connection: sqlite3.Connection, file: int, failures: Iterable[tuple[str, str]]) -> None:
    connection.execute("DELETE FROM failures WHERE file = ?", (file,))
    at = utc_now()
    for source, reason in failures:
        row = (file, replace_surrogates(source), replace_surrogates(reason), at)
        cursor = connection.execute(
            "INSERT INTO failures (file, source, reason, failed_at, row_hash) VALUES (?, ?, ?, ?, x'')", row
        )
        update_row_hash(connection, "failures", cursor.lastrowid or 0)

"""SQL queries for documents, chunks, texts, failures, metadata fields and provenance.

The functions take a connection with a read transaction open, so several of them see one state. Nothing here imports
numpy; exact search and listings answer without it. Provenance and dates read a few columns for some chunks at once:
reading the chunks themselves costs ten times as much.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from os import fsdecode, fsencode
from typing import Any, Final, Literal

from ragcli.collection.read.document_bloom_filters import candidate_ranges
from ragcli.collection.store.document_text import (
    LAYOUT_COLUMNS,
    check_layout,
    decode_pages,
    read_slice,
    read_text,
    unpack_integers,
    verified_text,
)
from ragcli.collection.store.metadata_layers import decode_metadata
from ragcli.collection.store.row_hash import DOCUMENT_COLUMNS, DOCUMENT_TABLES, check_row
from ragcli.text.characters import replace_surrogates
from ragcli.text.datetimes import epoch_seconds, parse_metadata_text
from ragcli.types import Chunk, Metadata, MetadataValue, PageSpan, StoredChunk


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """A document as lists show it.

    `number` is the store's own; `pages` is 0 where the kind has none; `parser` of `parser_version` has read it.
    """

    number: int
    document_id: str
    source: str
    path: str | None
    record_id: str | None
    kind: str
    title: str | None
    characters: int
    pages: int
    chunks: int
    ingested_at: str
    warnings: tuple[str, ...] = ()
    metadata: Metadata = field(default_factory=dict)
    parser: str = ""
    parser_version: str = ""


@dataclass(frozen=True, slots=True)
class DocumentText:
    """A whole document for exact search: its text, joins and pages, and where its chunks stand, in order.

    A chunk's place may be damaged until `verified_chunk` has looked: that takes longer than finding nothing in it.
    `row_hashes` are what it looks at; without any, the chunks are as they are.
    """

    document_id: str
    source: str
    path: str | None
    title: str | None
    text: str
    joins: tuple[int, ...]
    pages: tuple[PageSpan, ...]
    chunks: tuple[Chunk, ...]
    row_hashes: tuple[tuple[int, int, bytes], ...] = ()

    def verified_chunk(self, at: int) -> Chunk:
        """Chunk `at`, checked against its hash. CollectionError if it is not what was stored."""
        chunk = self.chunks[at]
        if not self.row_hashes:
            return chunk
        number, document, row_hash = self.row_hashes[at]
        values = (number, document, *_place(chunk), self.text[chunk.start : chunk.end])
        check_row(values, row_hash, f"Chunk {self.document_id}:{chunk.ordinal}")
        return chunk


@dataclass(frozen=True, slots=True)
class StoredFailure:
    """A document that could not be taken in: what it is called, why, and when that was."""

    source: str
    path: str | None
    reason: str
    failed_at: str


@dataclass(frozen=True, slots=True)
class MetadataField:
    """A key of the documents' metadata: in how many documents it is, as which types, and its commonest values."""

    key: str
    documents: int
    types: tuple[str, ...]
    examples: tuple[MetadataValue, ...]


STDIN_PATH: Final = b"-"
"""The path of the records that came through standard input."""

_DOCUMENT_SELECTED: Final = f"SELECT {DOCUMENT_COLUMNS}, d.row_hash, d.chunks FROM"
_DOCUMENT: Final = f"{_DOCUMENT_SELECTED} {DOCUMENT_TABLES}"
_DOCUMENTS: Final = (
    f"{_DOCUMENT_SELECTED} json_each(?) j CROSS JOIN documents d ON d.number = j.value"
    " JOIN files f ON f.number = d.file ORDER BY d.source"
)
_PLACE: Final = "c.number, c.document, c.ordinal, c.start, c.stop, c.page_start, c.page_end, c.heading, c.row_hash"
_CHUNK: Final = (
    f"SELECT {_PLACE}, {DOCUMENT_COLUMNS}, d.row_hash"  # noqa: S608
    " FROM {origin} JOIN documents d ON d.number = c.document JOIN files f ON f.number = d.file"
)
_BY_NUMBER: Final = _CHUNK.format(origin="json_each(?) j CROSS JOIN chunks c ON c.number = j.value")
_BY_PLACE: Final = _CHUNK.format(origin="chunks c") + " WHERE d.id = ? AND c.ordinal BETWEEN ? AND ? ORDER BY c.ordinal"


def path_text(path: bytes) -> str | None:
    """A stored path as people see it; None for standard input."""
    return None if path == STDIN_PATH else fsdecode(path)


def all_documents(connection: sqlite3.Connection, numbers: Sequence[int] | None = None) -> Iterator[DocumentRow]:
    """Every document, or those with these numbers, by source."""
    if numbers is None:
        rows = connection.execute(_DOCUMENT + " ORDER BY d.source")
    else:
        rows = connection.execute(_DOCUMENTS, (json.dumps(numbers),))
    for row in rows:
        yield _document_row(row)


def metadata_fields(connection: sqlite3.Connection, examples: int) -> Iterator[MetadataField]:
    """Every key there is, by name, with so many of its commonest values."""
    counts = connection.execute("SELECT key, count(DISTINCT document) FROM metadata GROUP BY key ORDER BY key")
    for key, documents in counts.fetchall():
        types = connection.execute("SELECT DISTINCT type FROM metadata WHERE key = ? ORDER BY type", (key,)).fetchall()
        values = connection.execute(
            "SELECT replace(type, 'item', 'text') kind, text, number FROM metadata WHERE key = ?"
            " GROUP BY kind, text, number ORDER BY count(*) DESC, text, number LIMIT ?",
            (key, examples),
        ).fetchall()
        told = tuple("list" if kind == "item" else kind for (kind,) in types)
        yield MetadataField(key, documents, told, tuple(_value(key, *row) for row in values))


def _value(key: str, kind: str, text: str | None, number: float | None) -> MetadataValue:
    if kind == "boolean":
        return bool(number)
    if text is None:
        return number if number is not None else ""
    return parse_metadata_text(key, text) if kind == "date" else text


def find_document(connection: sqlite3.Connection, wanted: str) -> DocumentRow | None:
    """The document with that id, else that source, else that path (of a file that is one document)."""
    if replace_surrogates(wanted) == wanted:
        for condition in ("d.id = ?", "d.source = ?"):
            row = connection.execute(f"{_DOCUMENT} WHERE {condition}", (wanted,)).fetchone()
            if row is not None:
                return _document_row(row)
    row = connection.execute(f"{_DOCUMENT} WHERE f.path = ? AND d.record_id IS NULL", (fsencode(wanted),)).fetchone()
    return None if row is None else _document_row(row)


def _document_row(row: Any) -> DocumentRow:
    *document, row_hash, chunks = row
    _check_document(document, row_hash)
    number, identity, source, path, record, kind, title, characters, pages, at, warnings, stored, *read_by = document
    parser, parser_version, *_ = read_by
    metadata = decode_metadata(stored)
    return DocumentRow(
        number=number,
        document_id=identity,
        source=source,
        path=path_text(path),
        record_id=record,
        kind=kind,
        title=_shown_title(title, metadata),
        characters=characters,
        pages=pages,
        chunks=chunks,
        ingested_at=at,
        warnings=tuple(json.loads(warnings)),
        metadata=metadata,
        parser=parser,
        parser_version=parser_version,
    )


def read_chunks(connection: sqlite3.Connection, collection: str, numbers: Sequence[int]) -> dict[int, StoredChunk]:
    """Chunks by number, in the order asked for; numbers that are not there are left out."""
    rows = connection.execute(_BY_NUMBER, (json.dumps(list(numbers)),)).fetchall()
    return {chunk.number: chunk for chunk in _stored_chunks(connection, collection, rows)}


def document_numbers(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, int]:
    """The number of the document that each chunk is from; chunks that are not there are left out."""
    query = "SELECT c.number, c.document FROM json_each(?) j CROSS JOIN chunks c ON c.number = j.value"
    return dict(connection.execute(query, (json.dumps(list(numbers)),)).fetchall())


def read_chunk_range(
    connection: sqlite3.Connection, collection: str, document_id: str, first: int, last: int
) -> tuple[StoredChunk, ...]:
    """The chunks of a document with ordinals `first` to `last`, both included."""
    rows = connection.execute(_BY_PLACE, (document_id, first, last)).fetchall()
    return tuple(_stored_chunks(connection, collection, rows))


def _stored_chunks(connection: sqlite3.Connection, collection: str, rows: Iterable[Any]) -> Iterator[StoredChunk]:
    for row in rows:
        number, document, ordinal, start, stop, first, last, heading, row_hash, *columns, document_hash = row
        _check_document(columns, document_hash)
        _, identity, source, path, _, _, title, _, _, _, _, stored, *_ = columns
        metadata = decode_metadata(stored)
        text = read_slice(connection, document, start, stop)
        check_row((*row[:8], text), row_hash, f"Chunk {identity}:{ordinal}")
        yield StoredChunk(
            number=number,
            chunk_id=f"{identity}:{ordinal}",
            document_id=identity,
            collection=collection,
            source=source,
            path=path_text(path),
            title=_shown_title(title, metadata),
            text=text,
            ordinal=ordinal,
            start=start,
            end=stop,
            page_start=first,
            page_end=last,
            heading=heading,
            metadata=metadata,
        )


_TEXT: Final = f"SELECT {DOCUMENT_COLUMNS}, d.row_hash, {LAYOUT_COLUMNS} FROM {{origin}}"  # noqa: S608
_LAYOUT_LENGTH: Final = len(LAYOUT_COLUMNS.split(","))
_TEXT_PARTS: Final = f"{DOCUMENT_TABLES} JOIN layouts l ON l.document = d.number"
_THESE_TEXTS: Final = (
    f"{_TEXT.format(origin=f'json_each(?) j CROSS JOIN {_TEXT_PARTS} AND d.number = j.value')} ORDER BY j.key"
)
_ALL_TEXTS: Final = f"{_TEXT.format(origin=_TEXT_PARTS)} ORDER BY d.number"
# The cross join makes SQLite look into the folded text first and read the rest of those that hold the literal.
_WITH_LITERAL: Final = (
    _TEXT.format(origin="{first} CROSS JOIN documents d ON d.number = s.document JOIN files f ON f.number = d.file")
    + " JOIN layouts l ON l.document = d.number WHERE instr(s.text, ?) > 0"
)
_IN_RUN: Final = _WITH_LITERAL.format(first="folded_text s") + " AND s.document BETWEEN ? AND ? ORDER BY s.document"
_CHOSEN: Final = (
    _WITH_LITERAL.format(first="json_each(?) j CROSS JOIN folded_text s ON s.document = j.value") + " ORDER BY j.key"
)


def read_texts(
    connection: sqlite3.Connection, folded: str | None, numbers: Sequence[int] | None = None
) -> Iterator[DocumentText]:
    """Whole documents in order of ingestion; only those whose folded text holds `folded`, if given.

    Of `numbers`, which ascend, if they are given, and no others.
    """
    # No name for the rows: what an error holds on to must not outlive the connection.
    for row in _text_rows(connection, folded) if numbers is None else _chosen_rows(connection, folded, numbers):
        *document, row_hash = row[:-_LAYOUT_LENGTH]
        _check_document(document, row_hash)
        number, identity, source, path, _, _, title, *_ = document
        layout = row[-_LAYOUT_LENGTH:]
        check_layout(number, layout)
        pages, _, _, joins, text_hash, _ = layout
        places = _chunk_rows(connection, number)
        yield DocumentText(
            document_id=identity,
            source=source,
            path=path_text(path),
            title=title,
            text=verified_text(connection, number, text_hash),
            joins=unpack_integers(joins),
            pages=decode_pages(pages),
            chunks=tuple(Chunk(*place) for _, *place, _ in places),
            row_hashes=tuple((chunk, number, row_hash) for chunk, *_, row_hash in places),
        )


def _text_rows(connection: sqlite3.Connection, folded: str | None) -> Iterator[Any]:
    if folded is None:
        yield from connection.execute(_ALL_TEXTS)
        return
    literal = replace_surrogates(folded)
    for run in candidate_ranges(connection, literal):
        if run.chosen is None:
            yield from connection.execute(_IN_RUN, (literal, run.first, run.last))
        elif run.chosen:
            yield from connection.execute(_CHOSEN, (json.dumps(run.chosen), literal))


def _chosen_rows(connection: sqlite3.Connection, folded: str | None, numbers: Sequence[int]) -> Iterator[Any]:
    if folded is None:
        yield from connection.execute(_THESE_TEXTS, (json.dumps(numbers),))
        return
    literal, wanted = replace_surrogates(folded), set(numbers)
    for run in candidate_ranges(connection, literal):
        if run.chosen is None:
            chosen = numbers[bisect_left(numbers, run.first) : bisect_right(numbers, run.last)]
        else:
            chosen = [number for number in run.chosen if number in wanted]
        if chosen:
            yield from connection.execute(_CHOSEN, (json.dumps(chosen), literal))


def document_chunks(connection: sqlite3.Connection, number: int) -> tuple[Chunk, ...]:
    """Where the chunks of document `number` stand, in order."""
    return tuple(Chunk(*place) for _, *place, _ in _chunk_rows(connection, number))


def _chunk_rows(connection: sqlite3.Connection, number: int) -> list[Any]:
    return connection.execute(
        "SELECT number, ordinal, start, stop, page_start, page_end, heading, row_hash FROM chunks WHERE document = ?"
        " ORDER BY ordinal",
        (number,),
    ).fetchall()


def chunk_texts(
    connection: sqlite3.Connection, table: Literal["chunks", "next_chunks"] = "chunks"
) -> Iterator[tuple[int, str]]:
    """(number, text) of every chunk, in order of numbers, one document's text in memory at a time."""
    rows = connection.execute(f"SELECT number, document, start, stop FROM {table} ORDER BY number")  # noqa: S608
    held, text = -1, ""
    for number, document, start, stop in rows:
        if document != held:
            held, text = document, read_text(connection, document)
        yield number, text[start:stop]


def all_failures(connection: sqlite3.Connection) -> tuple[StoredFailure, ...]:
    """Every recorded failure, by source."""
    rows = connection.execute(
        "SELECT e.source, f.path, e.reason, e.failed_at FROM failures e JOIN files f ON f.number = e.file"
        " ORDER BY e.source, e.number"
    )
    return tuple(StoredFailure(source, path_text(path), reason, at) for source, path, reason, at in rows)


def _place(chunk: Chunk) -> tuple[object, ...]:
    return chunk.ordinal, chunk.start, chunk.end, chunk.page_start, chunk.page_end, chunk.heading


def _check_document(columns: Sequence[Any], row_hash: bytes) -> None:
    check_row(columns, row_hash, f"What the store says of document {columns[0]}")


def _shown_title(own: str | None, metadata: Metadata) -> str | None:
    """A title that a sidecar or `--meta` gave; else the document's own, by which it was embedded."""
    title = metadata.get("title")
    return title if isinstance(title, str) else own


@dataclass(frozen=True, slots=True)
class Provenance:
    """A chunk's place: the hash of its document's whole text, the stretch of it, and the document's path and record.

    `path` is as the system knows it; `record` is None where the file is one document.
    """

    text: bytes
    start: int
    stop: int
    path: bytes
    record: str | None

    @property
    def piped(self) -> bool:
        """Did the document come through standard input, so that no path says where it is from?"""
        return self.path == STDIN_PATH


_PLACES: Final = (
    "SELECT c.number, l.text_hash, c.start, c.stop, f.path, d.record_id FROM json_each(?) j"
    " CROSS JOIN chunks c ON c.number = j.value JOIN documents d ON d.number = c.document"
    " JOIN files f ON f.number = d.file JOIN layouts l ON l.document = d.number"
)
_DATES: Final = (
    "SELECT c.number, m.key, m.number FROM json_each(?) j CROSS JOIN chunks c ON c.number = j.value"
    " JOIN metadata m ON m.document = c.document AND m.position = 0"
    " AND (m.key IN ('date', 'modified') AND m.type = 'date' OR m.key = 'year' AND m.type = 'number')"
)


_SAME_TEXT: Final = (
    "SELECT c.number, c.start, c.stop FROM documents d JOIN layouts l ON l.document = d.number AND l.text_hash = ?"
    " JOIN chunks c ON c.document = d.number WHERE d.characters = ?"
)


def provenance(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, Provenance]:
    """Where each chunk comes from; chunks that are not there are left out."""
    rows = connection.execute(_PLACES, (json.dumps(list(numbers)),))
    return {number: Provenance(*place) for number, *place in rows}


def same_text(connection: sqlite3.Connection, text: bytes, characters: int) -> list[tuple[int, int, int]]:
    """The chunks of documents whose whole text has that hash and length: each one's number and stretch.

    The length is looked at first: there is no index over the hashes, which are hardly ever asked for.
    """
    return connection.execute(_SAME_TEXT, (text, characters)).fetchall()


def dates(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, float]:
    """When each chunk's document is from, in seconds since 1970; those of which nothing is known are left out.

    That is its `date`, in want of one the last moment of its `year`, in want of both the time its file was last
    modified.
    """
    found: dict[int, dict[str, float]] = {}
    for number, key, value in connection.execute(_DATES, (json.dumps(list(numbers)),)):
        found.setdefault(number, {})[key] = value
    moments = {number: _document_time(keys) for number, keys in found.items()}
    return {number: moment for number, moment in moments.items() if moment is not None}


def _document_time(keys: dict[str, float]) -> float | None:
    year = keys.get("year")
    if "date" not in keys and year is not None and 1 <= year <= 9998:
        return epoch_seconds(datetime(int(year) + 1, 1, 1, tzinfo=UTC)) - 1
    return keys.get("date", keys.get("modified"))

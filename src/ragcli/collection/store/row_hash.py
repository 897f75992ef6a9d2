"""Hashes of stored rows, by which damage is told from data.

SQLite notices damage to its structure and not to its content. What a reader shows is hashed so that checking it costs
little beside reading it: a chunk with its text, a whole text, a document's summary columns, its layout (pages,
headings, joins). Records of files and failures are checked by verification alone. All of it is against accident, not
against forgers.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from ragcli.collection.store.schema import HASH_SIZE

SUMMARY_COLUMNS: Final = (
    "d.number, d.id, d.source, f.path, d.record_id, d.kind, d.title, d.characters, d.pages, d.ingested_at,"
    " d.warnings, d.metadata"
)
"""What the card of a document is made of, from `documents d JOIN files f`; in this order for `card_seal`."""

_SHORT_HASH_SIZE: Final = 8


def hash_text(text: str) -> bytes:
    """The hash that a document's text is checked against when it is read whole."""
    return blake2b(text.encode(), digest_size=HASH_SIZE).digest()


def hash_chunk(place: Sequence[object], text: str) -> bytes:
    """The hash that a chunk is checked against when it is read: over its row and its text."""
    return blake2b(json.dumps([*place, text]).encode(), digest_size=_SHORT_HASH_SIZE).digest()


def hash_summary(card: Sequence[object]) -> bytes:
    """The hash over the columns `CARD` of one document."""
    return _short_hash(card)


def hash_layout(document: int, pages: str, headings: str, spans: str, joins: bytes) -> bytes:
    """The hash over a document's layout as it is stored."""
    return _short_hash((document, pages, headings, spans, joins))


def hash_document_rows(connection: sqlite3.Connection, number: int) -> bytes:
    """A hash over everything the store says of a document, but for its chunks, which have seals of their own."""
    state = blake2b(digest_size=HASH_SIZE)
    for query in (
        "SELECT id, file, record_id, source, kind, title, hex(hash), metadata, warnings, characters, pages,"
        " ingested_at, layers FROM documents WHERE number = ?",
        "SELECT pages, headings, spans, hex(joins), hex(seal) FROM layouts WHERE document = ?",
        "SELECT key, position, type, text, number FROM metadata WHERE document = ? ORDER BY key, position",
        "SELECT text FROM squeezed WHERE document = ?",
    ):
        for row in connection.execute(query, (number,)):
            state.update(json.dumps(row).encode())
        state.update(b"\n")
    return state.digest()


def hash_stored_summary(connection: sqlite3.Connection, number: int) -> bytes:
    """The seal of a document's card as the store has it now."""
    query = f"SELECT {SUMMARY_COLUMNS} FROM documents d JOIN files f ON f.number = d.file WHERE d.number = ?"  # noqa: S608
    row = connection.execute(query, (number,)).fetchone()
    return b"" if row is None else hash_summary(row)


def hash_file_record(connection: sqlite3.Connection, number: int) -> bytes:
    """A hash over the record of a file."""
    row = connection.execute(
        "SELECT number, path, source, hash, size, mtime_ns, ctime_ns, engine, failed_hash, failed_with, ingested_at,"
        " born_ns, sidecar, meta FROM files WHERE number = ?",
        (number,),
    ).fetchone()
    return b"" if row is None else _short_hash(row)


def hash_failure_record(file: int, source: str, reason: str, failed_at: str) -> bytes:
    """A hash over the record of a failure."""
    return _short_hash((file, source, reason, failed_at))


def is_document_intact(connection: sqlite3.Connection, number: int) -> bool:
    """Is what the store says of a document what was stored, its text and chunks aside?"""
    seal, card = connection.execute("SELECT seal, card FROM documents WHERE number = ?", (number,)).fetchone()
    return bool(hash_stored_summary(connection, number) == card and hash_document_rows(connection, number) == seal)


def update_document_hashes(connection: sqlite3.Connection, number: int) -> None:
    """Renew the seals of a document that was just written."""
    connection.execute(
        "UPDATE documents SET seal = ?, card = ? WHERE number = ?",
        (hash_document_rows(connection, number), hash_stored_summary(connection, number), number),
    )


def update_file_record_hash(connection: sqlite3.Connection, number: int) -> None:
    """Renew the seal of a file's record that was just written."""
    connection.execute("UPDATE files SET seal = ? WHERE number = ?", (hash_file_record(connection, number), number))


def _short_hash(values: Sequence[object]) -> bytes:
    plain = [value.hex() if isinstance(value, bytes) else value for value in values]
    return blake2b(json.dumps(plain).encode(), digest_size=_SHORT_HASH_SIZE).digest()


def hash_bytes(data: bytes) -> bytes:
    """The store's hash of some bytes."""
    return blake2b(data, digest_size=HASH_SIZE).digest()

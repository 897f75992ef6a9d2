"""Hashes of stored rows, by which damage is told from data.

SQLite notices damage to its structure and not to its content. Each row that a reader shows has a `row_hash` over its
other columns, so checking it costs little beside reading it. A chunk's covers its text too; a document's the path of
its file, and not its count of chunks, which a reindex changes for all documents at once. Rows of files, failures and
folded texts are checked by verification alone. All of it is against accident, not against forgers.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Final, Literal

from ragcli.errors import CollectionError

HASH_SIZE: Final = 16
"""Bytes of every hash in the store (BLAKE2b). Enough against accident; nothing here defends against a forger."""

FILE_COLUMNS: Final = (
    *("number", "path", "source", "hash", "size", "mtime_ns", "ctime_ns", "birthtime_ns", "engine", "failed_hash"),
    *("failed_with", "ingested_at", "sidecar", "meta"),
)
"""The columns of `files` that its hash covers: all others."""

DOCUMENT_COLUMNS: Final = (
    "d.number, d.id, d.source, f.path, d.record_id, d.kind, d.title, d.characters, d.pages, d.ingested_at,"
    " d.warnings, d.metadata, d.parser, d.parser_version, d.chunker_version, d.file, d.hash, d.layers"
)
"""What the hash of a document covers, in this order, of `documents d JOIN files f`."""

DOCUMENT_TABLES: Final = "documents d JOIN files f ON f.number = d.file"

HashedTable = Literal["files", "failures", "documents", "layouts", "folded_text"]

# Of each table: its name in the query, what to select from, and the columns, of which the first is the key.
_HASHED: Final[Mapping[HashedTable, tuple[str, str, str]]] = MappingProxyType(
    {
        "files": ("f", "files f", ", ".join(FILE_COLUMNS)),
        "failures": ("e", "failures e", "number, file, source, reason, failed_at"),
        "documents": ("d", DOCUMENT_TABLES, DOCUMENT_COLUMNS),
        "layouts": ("l", "layouts l", "document, pages, headings, spans, joins, text_hash"),
        "folded_text": ("t", "folded_text t", "document, text"),
    }
)


def new_hash() -> blake2b:
    """A hash to be fed some bytes at a time."""
    return blake2b(digest_size=HASH_SIZE)


def hash_bytes(*parts: bytes) -> bytes:
    """The hash of some bytes, one after the other."""
    state = new_hash()
    for part in parts:
        state.update(part)
    return state.digest()


def hash_text(text: str) -> bytes:
    """The hash that a document's text is checked against when it is read whole."""
    return hash_bytes(text.encode())


def hash_row(values: Iterable[object]) -> bytes:
    """The hash of a row's values: texts, numbers, bytes, None."""
    plain = [[value.hex()] if isinstance(value, bytes) else value for value in values]
    return hash_bytes(json.dumps(plain).encode())


def check_row(values: Sequence[object], row_hash: bytes, what: str) -> None:
    """CollectionError if the values are not those that were stored with the hash; `what` begins its sentence."""
    if hash_row(values) != row_hash:
        raise CollectionError(f"{what} is damaged; `ragcli collections verify` says more.")


def is_row_intact(connection: sqlite3.Connection, table: HashedTable, key: int) -> bool:
    """Is the row with that key there, and what was stored?"""
    try:
        row = _row(connection, table, key, "row_hash")
    except (sqlite3.DatabaseError, ValueError):  # a text that is none
        return False
    return row is not None and hash_row(row[:-1]) == row[-1]


def update_row_hash(connection: sqlite3.Connection, table: HashedTable, key: int) -> None:
    """Renew the hash of a row that was just written, inside the caller's transaction."""
    row = _row(connection, table, key)
    if row is not None:
        column = _HASHED[table][2].split(",")[0].rpartition(".")[2]
        connection.execute(f"UPDATE {table} SET row_hash = ? WHERE {column} = ?", (hash_row(row), key))  # noqa: S608


def _row(connection: sqlite3.Connection, table: HashedTable, key: int, *more: str) -> tuple[object, ...] | None:
    alias, tables, columns = _HASHED[table]
    wanted = ", ".join([columns, *(f"{alias}.{column}" for column in more)])
    by = columns.split(",")[0].rpartition(".")[2]
    found: tuple[object, ...] | None = connection.execute(
        f"SELECT {wanted} FROM {tables} WHERE {alias}.{by} = ?",  # noqa: S608
        (key,),
    ).fetchone()
    return found

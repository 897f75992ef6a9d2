"""Row hashes as formats 2 and 3 computed them (to be deleted with those formats)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from ragcli.collection.store.metadata_layers import MetadataLayers, clean_metadata
from ragcli.collection.store.row_hash import SUMMARY_COLUMNS, hash_failure_record, hash_layout, hash_summary
from ragcli.collection.store.schema import HASH_SIZE

_SHORT: Final = 8
_DOCUMENT: Final = (
    "SELECT id, file, record_id, source, kind, title, hex(hash), metadata, warnings, characters, pages,"
    " ingested_at FROM documents WHERE number = ?",
    "SELECT pages, headings, spans, hex(joins), hex(seal) FROM layouts WHERE document = ?",
    "SELECT key, position, type, text, number FROM metadata WHERE document = ? ORDER BY key, position",
    "SELECT text FROM squeezed WHERE document = ?",
)
FILE_QUERY_FORMAT_3: Final = (
    "SELECT number, path, source, hash, size, mtime_ns, ctime_ns, engine, failed_hash, failed_with, ingested_at, seal"
    " FROM files"
)
_NAMES: Final = {"authors": "author", "tags": "tag"}


@dataclass(frozen=True, slots=True)
class IntactRows:
    """What is as it was stored: numbers of files and documents, and rows of failures, the number first in each."""

    files: tuple[int, ...]
    failures: tuple[tuple[Any, ...], ...]
    documents: tuple[int, ...]


def intact_rows_of_old_format(connection: sqlite3.Connection, *, cards: bool) -> IntactRows:
    """What is sound in a store of an older format. Without `cards`, files, failures and frames have no seals yet."""
    files = [
        number
        for number, *row, seal in connection.execute(FILE_QUERY_FORMAT_3)
        if not cards or short_hash_format_3([number, *row]) == seal
    ]
    query = "SELECT number, file, source, reason, failed_at, seal FROM failures"
    failures = [
        (number, *row)
        for number, *row, seal in connection.execute(query)
        if not cards or hash_failure_record(*row) == seal
    ]
    rows = connection.execute("SELECT number, seal FROM documents ORDER BY number").fetchall()
    documents = [
        number
        for number, seal in rows
        if hash_document_format_3(connection, number) == seal and (not cards or _has_card_and_frame(connection, number))
    ]
    return IntactRows(tuple(files), tuple(failures), tuple(documents))


def layers_of(metadata: str) -> MetadataLayers:
    """The layers of a document whose metadata were all its own, under the names that they have now."""
    told = {_NAMES.get(key, key): value for key, value in json.loads(metadata).items()}
    return MetadataLayers(clean_metadata(told))


def hash_document_format_3(connection: sqlite3.Connection, number: int) -> bytes:
    """The seal of a document in formats 2 and 3."""
    state = blake2b(digest_size=HASH_SIZE)
    for query in _DOCUMENT:
        for row in connection.execute(query, (number,)):
            state.update(json.dumps(row).encode())
        state.update(b"\n")
    return state.digest()


def _has_card_and_frame(connection: sqlite3.Connection, number: int) -> bool:
    query = f"SELECT {SUMMARY_COLUMNS}, d.card FROM documents d JOIN files f ON f.number = d.file WHERE d.number = ?"  # noqa: S608
    row = connection.execute(query, (number,)).fetchone()
    query = "SELECT pages, headings, spans, joins, frame FROM layouts WHERE document = ?"
    layout = connection.execute(query, (number,)).fetchone()
    return bool(
        row is not None
        and layout is not None
        and hash_summary(row[:-1]) == row[-1]
        and hash_layout(number, *layout[:-1]) == layout[-1]
    )


def short_hash_format_3(values: Sequence[object]) -> bytes:
    """The seal over the columns of a file's record in format 3."""
    plain = [value.hex() if isinstance(value, bytes) else value for value in values]
    return blake2b(json.dumps(plain).encode(), digest_size=_SHORT).digest()

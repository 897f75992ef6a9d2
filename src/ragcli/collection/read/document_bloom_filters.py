"""Bloom filters over documents, which narrow down exact search in large collections.

A filter covers a range of documents, by number, and says which of them may hold a literal. Documents that no filter
covers are read, so one is made only when they are enough to matter, at the end of an ingest. When deleted documents
are the greater part, all filters are made anew. Nothing here imports numpy before a filter is made.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ragcli.collection.store.document_text import pack_integers, unpack_integers
from ragcli.collection.store.row_hash import hash_bytes
from ragcli.collection.store.sqlite_connection import transaction
from ragcli.index.bit_sliced_bloom_filter import (
    BLOCK_BYTES,
    FILTER_BITS,
    bit_slices,
    candidate_blocks,
    ngram_bits,
    text_blocks,
)

BLOCKS_PER_FILTER: Final = 4096
"""Blocks of text from which a filter is made: 32 MB, which take 50 ms to read through."""

_LAST: Final = 2**62


@dataclass(frozen=True, slots=True)
class DocumentRange:
    """Documents numbered from `first` to `last`; of those only `chosen` may hold the literal, if that is known."""

    first: int
    last: int
    chosen: tuple[int, ...] | None


def candidate_ranges(connection: sqlite3.Connection, literal: str) -> Iterator[DocumentRange]:
    """All documents in order of numbers, in runs, of which each says where a folded literal may stand."""
    places = ngram_bits(literal.encode())
    covered = 0
    if places:
        for number, first, last in connection.execute(
            "SELECT number, first, last FROM bloom_filters ORDER BY first"
        ).fetchall():
            yield DocumentRange(first, last, _candidate_documents(connection, number, places))
            covered = last
    yield DocumentRange(covered + 1, _LAST, None)


def _candidate_documents(
    connection: sqlite3.Connection, filter_number: int, places: tuple[int, ...]
) -> tuple[int, ...] | None:
    keys = json.dumps([filter_number * FILTER_BITS + place for place in places])
    rows = connection.execute(
        "SELECT blocks FROM json_each(?) j CROSS JOIN bloom_rows r ON r.key = j.value", (keys,)
    ).fetchall()
    if len(rows) < len(places):
        # A damaged filter costs time and no hit; `verify` tells of it.
        return None
    blocks = candidate_blocks([row for (row,) in rows])
    if not blocks:
        return ()
    (packed,) = connection.execute("SELECT documents FROM bloom_filters WHERE number = ?", (filter_number,)).fetchone()
    documents = unpack_integers(packed)
    return tuple(dict.fromkeys(documents[block] for block in blocks if block < len(documents)))


def build_bloom_filters(connection: sqlite3.Connection) -> None:
    """Make as many filters as there is text for that none covers."""
    covered, held = connection.execute(
        "SELECT ifnull(max(last), 0), ifnull(sum(held), 0) FROM bloom_filters"
    ).fetchone()
    if held:
        query = "SELECT count(*) FROM documents WHERE number <= ?"
        (alive,) = connection.execute(query, (covered,)).fetchone()
        if alive * 2 < held:
            drop_bloom_filters(connection)
            covered = 0
    while _blocks_above(connection, covered) >= BLOCKS_PER_FILTER:
        covered = _build_bloom_filter(connection, covered)


def _blocks_above(connection: sqlite3.Connection, covered: int) -> int:
    """About how many blocks of text no filter covers. Counting them would mean to read them all."""
    query = f"SELECT ifnull(sum(characters / {BLOCK_BYTES} + 1), 0) FROM documents WHERE number > ?"  # noqa: S608
    blocks: int = connection.execute(query, (covered,)).fetchone()[0]
    return blocks


def _build_bloom_filter(connection: sqlite3.Connection, covered: int) -> int:
    """Make one filter of the next documents; the number of the last."""
    owners: list[int] = []
    rows = bit_slices(_next_blocks(connection, covered, owners))
    packed = pack_integers(owners)
    (number,) = connection.execute("SELECT ifnull(max(number), 0) + 1 FROM bloom_filters").fetchone()
    with transaction(connection):
        connection.executemany(
            "INSERT INTO bloom_rows (key, blocks) VALUES (?, ?)",
            ((number * FILTER_BITS + place, row) for place, row in enumerate(rows)),
        )
        connection.execute(
            "INSERT INTO bloom_filters (number, first, last, held, documents, row_hash) VALUES (?, ?, ?, ?, ?, ?)",
            (number, covered + 1, owners[-1], len({*owners}), packed, hash_bytes(packed, *rows)),
        )
    return owners[-1]


def _next_blocks(connection: sqlite3.Connection, covered: int, owners: list[int]) -> Iterator[bytes]:
    """Blocks of the documents after `covered`, whole documents only; `owners` gets the document of each."""
    rows = connection.execute("SELECT document, text FROM folded_text WHERE document > ? ORDER BY document", (covered,))
    for document, text in rows:
        for block in text_blocks(text.encode()):
            owners.append(document)
            yield block
        if len(owners) >= BLOCKS_PER_FILTER:
            return


def drop_bloom_filters(connection: sqlite3.Connection) -> None:
    """Forget all filters, in a transaction of its own; `build_bloom_filters` makes them anew."""
    with transaction(connection):
        connection.execute("DELETE FROM bloom_rows")
        connection.execute("DELETE FROM bloom_filters")


def damaged_bloom_filters(connection: sqlite3.Connection) -> Iterator[int]:
    """Numbers of the filters that are not what was stored."""
    for number, packed, row_hash in connection.execute(
        "SELECT number, documents, row_hash FROM bloom_filters"
    ).fetchall():
        keys = (number * FILTER_BITS, (number + 1) * FILTER_BITS - 1)
        rows = connection.execute("SELECT blocks FROM bloom_rows WHERE key BETWEEN ? AND ? ORDER BY key", keys)
        if hash_bytes(packed, *(row for (row,) in rows)) != row_hash:
            yield number

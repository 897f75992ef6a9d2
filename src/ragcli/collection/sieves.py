"""The sieves of a collection: which documents exact search has to read, once there are many.

A sieve covers a run of documents, by their numbers, and says which of them may hold a literal (see
`ragcli.index.sieve`). It lies in the store, so it is right whenever the store is. Documents that no sieve covers are
read, so one is made only when they are enough to matter, at the end of an ingest. Documents that went stay in their
sieve and are not found in the store; when they are the greater part, all sieves are made anew. So the sieves always
cover the documents from the first to some number.

Nothing here imports numpy before a sieve is made: exact search asks here.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from ragcli.collection.schema import DIGEST
from ragcli.collection.store import transaction
from ragcli.collection.texts import pack_integers, unpack_integers
from ragcli.index.sieve import BLOCK, PLACES, blocks_of, common_blocks, places_of, sieve_rows

WIDTH: Final = 4096
"""Blocks of text from which a sieve is made: 32 MB, which take 50 ms to read through."""

_LAST: Final = 2**62


@dataclass(frozen=True, slots=True)
class Run:
    """Documents numbered from `first` to `last`; of those only `chosen` may hold the literal, if that is known."""

    first: int
    last: int
    chosen: tuple[int, ...] | None


def runs_with(connection: sqlite3.Connection, literal: str) -> Iterator[Run]:
    """All documents in order of numbers, in runs, of which each says where a squeezed literal may stand."""
    places = places_of(literal.encode())
    covered = 0
    if places:
        for number, first, last in connection.execute(
            "SELECT number, first, last FROM sieves ORDER BY first"
        ).fetchall():
            yield Run(first, last, _sifted(connection, number, places))
            covered = last
    yield Run(covered + 1, _LAST, None)


def _sifted(connection: sqlite3.Connection, sieve: int, places: tuple[int, ...]) -> tuple[int, ...] | None:
    keys = json.dumps([sieve * PLACES + place for place in places])
    rows = connection.execute(
        "SELECT blocks FROM json_each(?) j CROSS JOIN sieve_rows r ON r.key = j.value", (keys,)
    ).fetchall()
    if len(rows) < len(places):
        # A damaged sieve costs time and no hit; `verify` tells of it.
        return None
    blocks = common_blocks([row for (row,) in rows])
    if not blocks:
        return ()
    (packed,) = connection.execute("SELECT documents FROM sieves WHERE number = ?", (sieve,)).fetchone()
    documents = unpack_integers(packed)
    return tuple(dict.fromkeys(documents[block] for block in blocks if block < len(documents)))


def make_sieves(connection: sqlite3.Connection) -> None:
    """Make as many sieves as there is text for that none covers."""
    covered, held = connection.execute("SELECT ifnull(max(last), 0), ifnull(sum(held), 0) FROM sieves").fetchone()
    if held:
        query = "SELECT count(*) FROM documents WHERE number <= ?"
        (alive,) = connection.execute(query, (covered,)).fetchone()
        if alive * 2 < held:
            drop_sieves(connection)
            covered = 0
    while _blocks_above(connection, covered) >= WIDTH:
        covered = _make_sieve(connection, covered)


def _blocks_above(connection: sqlite3.Connection, covered: int) -> int:
    """About how many blocks of text no sieve covers. Counting them would mean to read them all."""
    query = f"SELECT ifnull(sum(characters / {BLOCK} + 1), 0) FROM documents WHERE number > ?"  # noqa: S608
    blocks: int = connection.execute(query, (covered,)).fetchone()[0]
    return blocks


def _make_sieve(connection: sqlite3.Connection, covered: int) -> int:
    """Make one sieve of the next documents; the number of the last."""
    owners: list[int] = []
    rows = sieve_rows(_next_blocks(connection, covered, owners))
    packed = pack_integers(owners)
    (number,) = connection.execute("SELECT ifnull(max(number), 0) + 1 FROM sieves").fetchone()
    with transaction(connection):
        connection.executemany(
            "INSERT INTO sieve_rows (key, blocks) VALUES (?, ?)",
            ((number * PLACES + place, row) for place, row in enumerate(rows)),
        )
        connection.execute(
            "INSERT INTO sieves (number, first, last, held, documents, seal) VALUES (?, ?, ?, ?, ?, ?)",
            (number, covered + 1, owners[-1], len({*owners}), packed, _seal(packed, rows)),
        )
    return owners[-1]


def _next_blocks(connection: sqlite3.Connection, covered: int, owners: list[int]) -> Iterator[bytes]:
    """Blocks of the documents after `covered`, whole documents only; `owners` gets the document of each."""
    rows = connection.execute("SELECT document, text FROM squeezed WHERE document > ? ORDER BY document", (covered,))
    for document, text in rows:
        for block in blocks_of(text.encode()):
            owners.append(document)
            yield block
        if len(owners) >= WIDTH:
            return


def drop_sieves(connection: sqlite3.Connection) -> None:
    """Forget all sieves, in a transaction of its own; `make_sieves` makes them anew."""
    with transaction(connection):
        connection.execute("DELETE FROM sieve_rows")
        connection.execute("DELETE FROM sieves")


def damaged_sieves(connection: sqlite3.Connection) -> Iterator[int]:
    """Numbers of the sieves that are not what was stored."""
    for number, packed, seal in connection.execute("SELECT number, documents, seal FROM sieves").fetchall():
        keys = (number * PLACES, (number + 1) * PLACES - 1)
        rows = connection.execute("SELECT blocks FROM sieve_rows WHERE key BETWEEN ? AND ? ORDER BY key", keys)
        if _seal(packed, [row for (row,) in rows]) != seal:
            yield number


def _seal(packed: bytes, rows: list[bytes]) -> bytes:
    state = blake2b(packed, digest_size=DIGEST)
    for row in rows:
        state.update(row)
    return state.digest()

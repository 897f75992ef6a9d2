"""Small arrays that belong to a generation and change with it: dead rows, document frequencies, checksums.

They lie in the store, so that they are committed with everything else and cost one read to open.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import numpy as np

from ragcli.collection.generation import CURRENT, Slot

if TYPE_CHECKING:
    from ragcli.collection.rowfiles import Segment
    from ragcli.collection.rows import IntArray

BlobName = Literal["dead", "frequency"]


def read_integers(connection: sqlite3.Connection, name: BlobName, slot: Slot = CURRENT) -> IntArray:
    """The stored 32-bit integers, none if nothing was stored."""
    row = connection.execute("SELECT data FROM blobs WHERE slot = ? AND name = ?", (slot, name)).fetchone()
    return np.frombuffer(row[0], "<i4").astype(np.int32) if row is not None else np.empty(0, np.int32)


def put_integers(connection: sqlite3.Connection, name: BlobName, values: IntArray, slot: Slot = CURRENT) -> None:
    """Store 32-bit integers, inside the caller's transaction."""
    connection.execute(
        "INSERT OR REPLACE INTO blobs (slot, name, data) VALUES (?, ?, ?)",
        (slot, name, np.asarray(values, "<i4").tobytes()),
    )


def put_segments(connection: sqlite3.Connection, edition: int, segments: Iterable[Segment]) -> None:
    """Store checksums of stretches of files, inside the caller's transaction."""
    connection.executemany(
        "INSERT OR REPLACE INTO segments (edition, file, start, stop, checksum) VALUES (?, ?, ?, ?, ?)",
        ((edition, each.file, each.start, each.stop, each.checksum) for each in segments),
    )


def count_pieces(frequency: IntArray, chunks: Iterable[IntArray], change: Literal[1, -1]) -> None:
    """Add to, or take from, the number of chunks each word piece stands in. Changes `frequency` in place."""
    for pieces in chunks:
        there = np.unique(pieces)
        # Damaged pieces may be any number; `verify` tells of them, and they must not end an ingest.
        frequency[there[(there >= 0) & (there < len(frequency))]] += change

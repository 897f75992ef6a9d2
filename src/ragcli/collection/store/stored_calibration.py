"""Calibration of the sufficiency gate, stored with its collection.

It is an opaque text to this floor, with a hash before it, in one row beside the generation's small arrays. A reindex
with the same model keeps it, one with another drops it, because scores by another model mean something else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ragcli.collection.store.generation_record import CURRENT, read_generation
from ragcli.collection.store.locks import writer_lock
from ragcli.collection.store.row_hash import HASH_SIZE, hash_bytes
from ragcli.collection.store.sqlite_connection import (
    open_for_reading,
    open_for_writing,
    transaction,
    translated_errors,
    translated_read_errors,
)
from ragcli.errors import CollectionError

_NAME: Final = "gate"


@dataclass(frozen=True, slots=True)
class StoredCalibration:
    """The text, and the fingerprint of the model that the collection's vectors are by now; None without vectors."""

    text: str
    fingerprint: str | None


def read_calibration(folder: Path) -> StoredCalibration | None:
    """What is stored, None if nothing is. CollectionError if it is damaged."""
    with closing(open_for_reading(folder)) as connection, translated_read_errors(folder):
        connection.execute("BEGIN")
        text = read_calibration_text(connection)
        return None if text is None else StoredCalibration(text, read_generation(connection).fingerprint)


def write_calibration(
    folder: Path, text: str | None, *, wait: bool = False, notify: Callable[[str], None] | None = None
) -> None:
    """Store a text in the place of the earlier one; None stores nothing. As the collection's only writer."""
    with (
        writer_lock(folder, wait=wait, notify=notify),
        closing(open_for_writing(folder)) as connection,
        translated_errors(folder),
        transaction(connection),
    ):
        drop_calibration(connection)
        if text is not None:
            data = text.encode()
            row = CURRENT, _NAME, hash_bytes(data) + data
            connection.execute("INSERT INTO blobs (slot, name, data) VALUES (?, ?, ?)", row)


def drop_calibration(connection: sqlite3.Connection) -> None:
    """Forget what is stored, inside the caller's transaction."""
    connection.execute("DELETE FROM blobs WHERE name = ?", (_NAME,))


def read_calibration_text(connection: sqlite3.Connection) -> str | None:
    """The text, None if there is none. CollectionError if it is not what was stored."""
    row = connection.execute(
        "SELECT CAST(data AS BLOB) FROM blobs WHERE slot = ? AND name = ?", (CURRENT, _NAME)
    ).fetchone()
    if row is None:
        return None
    data: bytes = row[0]
    if hash_bytes(data[HASH_SIZE:]) != data[:HASH_SIZE]:
        raise CollectionError(
            "The gate's calibration in the store is damaged; `ragcli collections verify --repair` drops it, and"
            " `ragcli eval --calibrate-gate` makes a new one."
        )
    return data[HASH_SIZE:].decode()

"""Whether the arrays of a generation are what was committed, down to the single row.

Every committed byte lies in a stretch that has a checksum. From the stretches that are damaged follow the rows
that cannot be trusted; `verify` names the files, `repair` makes those rows anew and keeps the others.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from ragcli.collection.blobs import count_pieces, read_integers
from ragcli.collection.generation import Generation
from ragcli.collection.rowfiles import (
    NUMBERS,
    OFFSETS,
    PIECES,
    SUMS,
    ArrayFile,
    StoredRows,
    array_files,
    sign_file,
)
from ragcli.collection.schema import DIGEST
from ragcli.index.arrays import row_bytes

BytesRange = tuple[int, int]
_REMADE: Final = (sign_file(0).name, SUMS.name)
_BLOCK: Final = 8 << 20
_ROWS: Final = 1024


def damaged_stretches(
    folder: Path, connection: sqlite3.Connection, record: Generation
) -> dict[ArrayFile, list[BytesRange]]:
    """Byte ranges of the committed length of each array that are missing or not what was written."""
    return {
        file: ranges
        for file in array_files(record)
        if (ranges := list(_damaged_ranges(folder, connection, record, file)))
    }


def _damaged_ranges(
    folder: Path, connection: sqlite3.Connection, record: Generation, file: ArrayFile
) -> Iterator[BytesRange]:
    need = file.length(record.rows, record.tokens) * row_bytes(file.dtype, file.shape) if record.rows else 0
    stretches = connection.execute(
        "SELECT start, stop, checksum FROM segments WHERE edition = ? AND file = ? AND start < ? ORDER BY start",
        (record.arrays, file.name, need),
    ).fetchall()
    path = file.path(folder, record.arrays)
    covered = 0
    for start, stop, checksum in stretches:
        if start > covered:
            yield covered, start
        if _checksum(path, start, stop) != checksum:
            yield start, stop
        covered = max(covered, stop)
    if covered < need:
        yield covered, need


def _checksum(path: Path, start: int, stop: int) -> bytes | None:
    state = blake2b(digest_size=DIGEST)
    try:
        with path.open("rb", buffering=0) as stream:
            stream.seek(start)
            while start < stop:
                block = stream.read(min(_BLOCK, stop - start))
                if not block:
                    return None
                state.update(block)
                start += len(block)
    except OSError:
        return None
    return state.digest()


def sound_rows(folder: Path, record: Generation, damage: dict[ArrayFile, list[BytesRange]]) -> npt.NDArray[np.bool_]:
    """(rows,) which rows can be trusted in all arrays."""
    sound = np.ones(record.rows, np.bool_)
    bounds: npt.NDArray[np.int64] | None = None
    for file, ranges in damage.items():
        # The signs of the vectors and the sums are made whenever a row is written.
        if file.per != "token" and file.name not in _REMADE:
            # A damaged bound spoils the row before it and the row after it.
            before = 1 if file.per == "bound" else 0
            for first, last in _rows_in(file, ranges):
                sound[max(0, first - before) : last] = False
    token_files = [file for file in damage if file.per == "token"]
    if token_files and OFFSETS not in {*damage}:
        bounds = np.asarray(OFFSETS.open(folder, record))
    for file in token_files:
        if bounds is None:
            sound[:] = False
            continue
        for first, last in _rows_in(file, damage[file]):
            touched = np.searchsorted(bounds, [first, last - 1], side="right") - 1
            sound[max(0, int(touched[0])) : int(touched[1]) + 1] = False
    if not damage:
        for first, mask in unsound_rows(folder, record):
            sound[first : first + len(mask)] &= ~mask
    return sound


def unsound_rows(folder: Path, record: Generation) -> Iterator[tuple[int, npt.NDArray[np.bool_]]]:
    """(first row, mask) of all rows, some at a time: which are not what their own checksums say."""
    stored = StoredRows(folder, record)
    try:
        for first in range(0, record.rows, _ROWS):
            yield first, stored.unsound(first, min(_ROWS, record.rows - first))
    finally:
        stored.close()


def _rows_in(file: ArrayFile, ranges: list[BytesRange]) -> Iterator[tuple[int, int]]:
    size = row_bytes(file.dtype, file.shape)
    for start, stop in ranges:
        yield start // size, -(-stop // size)


def check_arrays(folder: Path, connection: sqlite3.Connection, record: Generation) -> Iterator[str]:
    """What is wrong with the arrays, in sentences."""
    damage = damaged_stretches(folder, connection, record)
    for file, ranges in damage.items():
        start, stop = ranges[0]
        more = f" and {len(ranges) - 1} more stretches" if len(ranges) > 1 else ""
        yield f"{file.path(folder, record.arrays).name}: bytes {start:,} to {stop:,}{more} are not what was written"
    if damage:
        return
    numbers = np.asarray(NUMBERS.open(folder, record))
    dead = read_integers(connection, "dead")
    if len(numbers) > 1 and not (np.diff(numbers) > 0).all():
        yield "rows.ids does not ascend"
    if len(dead) and not ((np.diff(dead) > 0).all() and dead[0] >= 0 and dead[-1] < record.rows):
        yield "the list of dead rows is damaged"
        return
    known = np.fromiter((row[0] for row in connection.execute("SELECT number FROM chunks ORDER BY number")), np.int64)
    bad = sum(int(mask.sum()) for _, mask in unsound_rows(folder, record))
    if bad:
        yield f"{bad:,} rows of the arrays are not what their checksums in rows.sums say"
    live = np.delete(numbers, dead)
    if not np.array_equal(live, known):
        yield (
            f"{len(np.setdiff1d(known, live)):,} chunks have no row in the arrays, and"
            f" {len(np.setdiff1d(live, known)):,} rows have no chunk"
        )
    if record.dimension and record.rows:
        yield from _check_tokens(folder, connection, record, dead)


def _check_tokens(
    folder: Path, connection: sqlite3.Connection, record: Generation, dead: npt.ArrayLike
) -> Iterator[str]:
    bounds = np.asarray(OFFSETS.open(folder, record))
    if bounds[0] != 0 or bounds[-1] != record.tokens or (np.diff(bounds) < 0).any():
        yield "tokens.offsets does not divide the tokens into rows"
        return
    if not np.array_equal(count_frequency(folder, record, dead), read_integers(connection, "frequency")):
        yield "the counts of word pieces do not agree with the chunks"


def count_frequency(folder: Path, record: Generation, dead: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """In how many live rows each word piece stands, counted anew."""
    bounds = np.asarray(OFFSETS.open(folder, record)).tolist()
    pieces = PIECES.open(folder, record).view(np.ndarray)
    frequency = np.zeros(record.vocabulary, np.int32)
    live = np.delete(np.arange(record.rows), np.asarray(dead, np.int64)).tolist()
    count_pieces(frequency, (pieces[bounds[row] : bounds[row + 1]] for row in live), 1)
    return frequency

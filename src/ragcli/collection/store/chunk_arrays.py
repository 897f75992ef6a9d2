"""Append-only arrays with one row per chunk: vectors, sign bits, token bits, row checksums.

`vectors.f32` has the chunk's vector and `vectors.bits` its signs, `rows.ids` its number (ascending, found by
bisection), `tokens.offsets` where its tokens lie in `tokens.bits` (signs of the token vectors) and `tokens.ids` (word
pieces). `rows.sums` has three CRC-32 of each row, so the few rows that decide a query can be checked when read.

A writer appends, syncs, and only then commits in the store how many rows there are. Each stretch between two commits
gets a checksum: every committed byte can be verified and none is hashed twice. Small arrays that change with a
generation (dead rows, token frequencies) lie in the store.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from ragcli.collection.store.generation_record import (
    CURRENT,
    Generation,
    Slot,
    edition_name,
)
from ragcli.collection.store.row_hash import hash_bytes, new_hash
from ragcli.errors import CollectionError
from ragcli.index.append_only_array import RowRangeReader, RowWriter, open_rows, row_bytes
from ragcli.index.late_interaction import pack_signs

if TYPE_CHECKING:
    from types import TracebackType

    from ragcli.models.engine_interface import Encoding


ChunkNumbers = npt.NDArray[np.int64]
ChecksumArray = npt.NDArray[np.uint32]
ArrayOfAnyType = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ArrayFile:
    """One array: its file name, the type and shape of a row, and what a row stands for.

    A `bound` array has one row more than there are chunks: chunk `i` lies between bounds `i` and `i + 1`.
    """

    stem: str
    suffix: str
    dtype: str
    shape: tuple[int, ...]
    per: Literal["chunk", "bound", "token"]

    @property
    def name(self) -> str:
        """The file name of the first edition."""
        return self.stem + self.suffix

    def length(self, rows: int, tokens: int) -> int:
        """Rows of this array when the collection has so many chunk rows and tokens."""
        return {"chunk": rows, "bound": rows + 1, "token": tokens}[self.per]

    def path(self, folder: Path, edition: int) -> Path:
        """Where an edition of the array lies."""
        return folder / edition_name(self.stem, self.suffix, edition)

    def open(self, folder: Path, record: Generation) -> ArrayOfAnyType:
        """The committed rows, mapped for reading. CollectionError if the file is short or missing."""
        rows = self.length(record.rows, record.tokens)
        return open_rows(self.path(folder, record.arrays), self.dtype, self.shape, rows)

    def spans(self, folder: Path, record: Generation) -> RowRangeReader:
        """The committed rows, to be read a stretch at a time. CollectionError if the file is short or missing."""
        rows = self.length(record.rows, record.tokens)
        return RowRangeReader(self.path(folder, record.arrays), self.dtype, self.shape, rows)


@dataclass(frozen=True, slots=True)
class Segment:
    """The bytes of one array that one commit added, with their checksum."""

    file: str
    start: int
    stop: int
    checksum: bytes


CHUNK_NUMBERS: Final = ArrayFile("rows", ".ids", "<i8", (), "chunk")
ROW_CHECKSUMS: Final = ArrayFile("rows", ".sums", "<u4", (3,), "chunk")
TOKEN_OFFSETS: Final = ArrayFile("tokens", ".offsets", "<i8", (), "bound")
TOKEN_IDS: Final = ArrayFile("tokens", ".ids", "<i4", (), "token")


def vector_file(dimension: int) -> ArrayFile:
    """The array of chunk vectors."""
    return ArrayFile("vectors", ".f32", "<f4", (dimension,), "chunk")


def sign_bits_file(dimension: int) -> ArrayFile:
    """The array of the chunk vectors' sign bits."""
    return ArrayFile("vectors", ".bits", "|u1", (-(-dimension // 8),), "chunk")


def token_bits_file(dimension: int) -> ArrayFile:
    """The array of token sign bits."""
    return ArrayFile("tokens", ".bits", "|u1", (-(-dimension // 8),), "token")


def _all_array_files(dimension: int) -> tuple[ArrayFile, ...]:
    vectors = vector_file(dimension), sign_bits_file(dimension)
    return CHUNK_NUMBERS, ROW_CHECKSUMS, *vectors, TOKEN_OFFSETS, TOKEN_IDS, token_bits_file(dimension)


def array_files(record: Generation) -> tuple[ArrayFile, ...]:
    """The arrays of a collection in that state; only the numbers when it has no encoder."""
    if not record.dimension:
        return (CHUNK_NUMBERS,)
    files = _all_array_files(record.dimension)
    return files if record.keeps_bits else files[:-1]


ARRAY_NAMES: Final = tuple((file.stem, file.suffix) for file in _all_array_files(0))
"""Stem and suffix of every array that a collection may have."""


_COPIED_ROWS: Final = 1024


class DamagedRow(CollectionError):
    """A row of the arrays is not what was written. What needs it can be embedded anew."""


class ChunkArrayReader:
    """Reads single rows of one edition from disk, whatever else of it may be damaged."""

    def __init__(self, folder: Path, record: Generation) -> None:
        self.edition = record.arrays
        self._folder = folder
        self._files = array_files(record)
        self._dimension = record.dimension
        self._readers: dict[str, int] = {}

    def read(self, row: int, *, checked: bool = True) -> ChunkArrayRow:
        """One row. DamagedRow if the files do not reach so far, or, `checked`, if it is not what was written."""
        if not self._dimension:
            return empty_row()
        found = self._read(row)
        if checked and row_checksums(int(self.block(CHUNK_NUMBERS, row, 1)[0]), found) != tuple(self._sums(row)):
            raise DamagedRow(
                f"Row {row} of the arrays in {self._folder} is damaged; `ragcli collections verify` says more."
            )
        return found

    def sums(self, first: int, count: int) -> ChecksumArray:
        """What the checksums (count, 3) of some rows must be, made anew from the rows."""
        numbers = self.block(CHUNK_NUMBERS, first, count).tolist()
        found = [row_checksums(number, self._read(first + at)) for at, number in enumerate(numbers)]
        return np.asarray(found, np.uint32).reshape(count, 3)

    def unsound(self, first: int, count: int) -> npt.NDArray[np.bool_]:
        """(count,) which of some rows are not what their checksums say."""
        if not self._dimension:
            return np.zeros(count, np.bool_)
        differ: npt.NDArray[np.bool_] = (self.sums(first, count) != self.block(ROW_CHECKSUMS, first, count)).any(axis=1)
        return differ

    def _read(self, row: int) -> ChunkArrayRow:
        start, stop = self._bounds(row)
        bits = token_bits_file(self._dimension)
        return ChunkArrayRow(
            self.block(vector_file(self._dimension), row, 1)[0],
            self.block(bits, start, stop - start) if bits in self._files else np.empty((stop - start, 0), np.uint8),
            self.block(TOKEN_IDS, start, stop - start),
        )

    def pieces(self, row: int) -> IntArray:
        """The word pieces of one row."""
        start, stop = self._bounds(row)
        return self.block(TOKEN_IDS, start, stop - start)

    def block(self, file: ArrayFile, first: int, count: int) -> ArrayOfAnyType:
        """Some rows of one array. CollectionError if they are not there."""
        size = row_bytes(file.dtype, file.shape)
        path = file.path(self._folder, self.edition)
        try:
            if file.name not in self._readers:
                self._readers[file.name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            data = os.pread(self._readers[file.name], size * count, size * first)
        except OSError as error:
            raise CollectionError(f"{path} cannot be read: {error}.") from error
        except (OverflowError, ValueError, MemoryError):
            data = b""
        if count < 0 or len(data) < size * count:
            raise DamagedRow(f"{path} is damaged; `ragcli collections verify` says more.")
        return np.frombuffer(data, file.dtype).reshape(count, *file.shape)

    def close(self) -> None:
        """Close the files."""
        while self._readers:
            os.close(self._readers.popitem()[1])

    def _sums(self, row: int) -> list[int]:
        found: list[int] = self.block(ROW_CHECKSUMS, row, 1)[0].tolist()
        return found

    def _bounds(self, row: int) -> tuple[int, int]:
        start, stop = self.block(TOKEN_OFFSETS, row, 2).tolist()
        return start, stop


class ChunkArrayWriter(ChunkArrayReader):
    """Writes one edition of the arrays, from what the generation `record` has committed of it.

    Opening cuts what a dead writer left behind the committed rows. Not for two writers, which the lock sees to.
    """

    def __init__(self, folder: Path, record: Generation) -> None:
        super().__init__(folder, record)
        self.rows = record.rows
        self.tokens = record.tokens
        self._numbers: ChunkNumbers = np.array(CHUNK_NUMBERS.open(folder, record), np.int64)
        self._new_numbers: list[int] = []
        self._writers: dict[str, RowWriter] = {}
        try:
            for file in self._files:
                committed = file.length(record.rows, record.tokens) if record.rows else 0
                path = file.path(folder, record.arrays)
                self._writers[file.name] = RowWriter(path, file.dtype, file.shape, committed)
        except OSError as error:
            self.close()
            raise CollectionError(f"The collection at {folder} cannot be written: {error.strerror}.") from error
        except BaseException:
            self.close()
            raise
        self._hashes = {file.name: new_hash() for file in self._files}
        self._synced = {file.name: self._bytes(file) for file in self._files}
        if self._dimension and not record.rows:
            self._put(TOKEN_OFFSETS, np.zeros(1, np.int64))

    def append(self, numbers: Sequence[int], rows: Sequence[ChunkArrayRow]) -> None:
        """Add the rows of chunks whose numbers ascend and are above all before."""
        if not numbers:
            return
        if self._dimension:
            bits = token_bits_file(self._dimension)
            vectors = np.stack([row.vector for row in rows])
            self._put(vector_file(self._dimension), vectors)
            self._put(sign_bits_file(self._dimension), pack_signs(vectors))
            kept = bits in self._files
            sums = [row_checksums(number, row, bits=kept) for number, row in zip(numbers, rows, strict=True)]
            self._put(ROW_CHECKSUMS, np.asarray(sums, np.uint32))
            self._put(TOKEN_IDS, np.concatenate([row.pieces for row in rows]))
            if kept:
                self._put(bits, np.concatenate([row.bits for row in rows]))
            ends = self.tokens + np.cumsum([len(row.pieces) for row in rows], dtype=np.int64)
            self._put(TOKEN_OFFSETS, ends)
            self.tokens = int(ends[-1])
        self._put(CHUNK_NUMBERS, np.asarray(numbers, np.int64))
        self._new_numbers += numbers
        self.rows += len(numbers)

    def copy(self, other: ChunkArrayReader, first: int, keep: npt.NDArray[np.bool_]) -> None:
        """Append those rows of another edition, from row `first` on, that `keep` (n,) says to keep.

        DamagedRow if one of them is not what was written: a copy would get a checksum that says it was.
        """
        count = len(keep)
        numbers = other.block(CHUNK_NUMBERS, first, count)[keep]
        if not len(numbers):
            return
        if self._dimension:
            if (other.unsound(first, count) & keep).any():
                raise DamagedRow("The arrays are damaged; `ragcli collections verify` says more.")
            bounds = other.block(TOKEN_OFFSETS, first, count + 1)
            lengths, start, stop = np.diff(bounds), int(bounds[0]), int(bounds[-1])
            of_kept = np.repeat(keep, lengths)
            for file in self._files:
                if file.per == "token":
                    self._put(file, other.block(file, start, stop - start)[of_kept])
                elif file.per == "chunk" and file != CHUNK_NUMBERS:
                    self._put(file, other.block(file, first, count)[keep])
            ends = self.tokens + np.cumsum(lengths[keep])
            self._put(TOKEN_OFFSETS, ends)
            self.tokens = int(ends[-1])
        self._put(CHUNK_NUMBERS, numbers)
        self._new_numbers += numbers.tolist()
        self.rows += len(numbers)

    def sync(self) -> tuple[Segment, ...]:
        """Bring all appended rows to the disk; what was appended since the last sync, by file."""
        segments = []
        for file in self._files:
            start, stop = self._synced[file.name], self._bytes(file)
            if stop > start:
                self._writers[file.name].sync()
                segments.append(Segment(file.name, start, stop, self._hashes[file.name].digest()))
                self._hashes[file.name] = new_hash()
                self._synced[file.name] = stop
        self._numbers = np.concatenate([self._numbers, np.asarray(self._new_numbers, np.int64)])
        self._new_numbers = []
        return tuple(segments)

    @property
    def numbers(self) -> ChunkNumbers:
        """The chunk numbers of the synced rows."""
        return self._numbers

    def find(self, number: int) -> int | None:
        """The row of a chunk that was synced, or None."""
        at = int(np.searchsorted(self._numbers, number))
        return at if at < len(self._numbers) and self._numbers[at] == number else None

    def find_all(self, numbers: Sequence[int]) -> list[int]:
        """The rows of chunks that were synced; numbers without a row are left out."""
        return [row for number in numbers if (row := self.find(number)) is not None]

    def close(self) -> None:
        """Close the files; what was not synced is lost."""
        super().close()
        for writer in self._writers.values():
            writer.close()

    def __enter__(self) -> ChunkArrayWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _put(self, file: ArrayFile, rows: ArrayOfAnyType) -> None:
        data = np.ascontiguousarray(rows, file.dtype)
        self._writers[file.name].append(data)
        self._hashes[file.name].update(data.tobytes())

    def _bytes(self, file: ArrayFile) -> int:
        return self._writers[file.name].rows * row_bytes(file.dtype, file.shape)


def copy_live_rows(reader: ChunkArrayReader, writer: ChunkArrayWriter, rows: int, dead: npt.ArrayLike) -> None:
    """Append those of the first `rows` rows that are not among `dead` to another edition.

    DamagedRow if one of them is not what was written.
    """
    live = np.ones(rows, np.bool_)
    live[np.asarray(dead, np.int64)] = False
    for first in range(0, rows, _COPIED_ROWS):
        writer.copy(reader, first, live[first : first + _COPIED_ROWS])


FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]
SignArray = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class ChunkArrayRow:
    """What the arrays hold of one chunk: vector (d,), token signs (t, ceil(d/8)), word pieces (t,)."""

    vector: FloatArray
    bits: SignArray
    pieces: IntArray


def row_from_encoding(encoding: Encoding) -> ChunkArrayRow:
    """What is kept of a chunk's encoding."""
    return ChunkArrayRow(
        np.asarray(encoding.vector, np.float32),
        pack_signs(np.asarray(encoding.tokens, np.float32)),
        np.asarray(encoding.token_ids, np.int32),
    )


def empty_row() -> ChunkArrayRow:
    """The row of a chunk in a collection without an encoder."""
    return ChunkArrayRow(np.empty(0, np.float32), np.empty((0, 0), np.uint8), np.empty(0, np.int32))


CHECKSUM_PARTS: Final = ("vector", "bits", "pieces")
"""The parts of a row that have a checksum each, in the order in which these are kept."""


def row_checksums(number: int, row: ChunkArrayRow, *, bits: bool = True) -> tuple[int, int, int]:
    """The three checksums of a row; that of its token bits is of nothing if they are not kept."""
    parts = (row.vector.astype("<f4", copy=False), row.bits if bits else row.bits[:0], row.pieces.astype("<i4"))
    vector, signs, pieces = (row_part_checksum(number, np.ascontiguousarray(part).data) for part in parts)
    return vector, signs, pieces


def row_part_checksum(number: int, part: memoryview) -> int:
    """CRC-32 of the bytes of a part of a row, and of the number of the chunk whose row it is."""
    return zlib.crc32(part, zlib.crc32(number.to_bytes(8, "little", signed=True)))


GenerationArrayName = Literal["dead", "frequency"]


def read_integers(connection: sqlite3.Connection, name: GenerationArrayName, slot: Slot = CURRENT) -> IntArray:
    """The stored 32-bit integers, none if nothing was stored."""
    row = connection.execute("SELECT data FROM blobs WHERE slot = ? AND name = ?", (slot, name)).fetchone()
    return np.frombuffer(row[0], "<i4").astype(np.int32) if row is not None else np.empty(0, np.int32)


def put_integers(
    connection: sqlite3.Connection, name: GenerationArrayName, values: IntArray, slot: Slot = CURRENT
) -> None:
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


def update_token_frequency(frequency: IntArray, chunks: Iterable[IntArray], change: Literal[1, -1]) -> None:
    """Add to, or take from, the number of chunks each word piece stands in. Changes `frequency` in place."""
    for pieces in chunks:
        there = np.unique(pieces)
        # Damaged pieces may be any number; `verify` tells of them, and they must not end an ingest.
        frequency[there[(there >= 0) & (there < len(frequency))]] += change


def file_segment(path: Path) -> Segment:
    """The checksum of a TF-IDF file."""
    data = path.read_bytes()
    return Segment(f"tfidf/{path.name}", 0, len(data), hash_bytes(data))


def count_token_frequency(folder: Path, record: Generation, dead: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """In how many live rows each word piece stands, counted anew."""
    bounds = np.asarray(TOKEN_OFFSETS.open(folder, record)).tolist()
    pieces = TOKEN_IDS.open(folder, record).view(np.ndarray)
    frequency = np.zeros(record.vocabulary, np.int32)
    live = np.delete(np.arange(record.rows), np.asarray(dead, np.int64)).tolist()
    update_token_frequency(frequency, (pieces[bounds[row] : bounds[row + 1]] for row in live), 1)
    return frequency

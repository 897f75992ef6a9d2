"""The append-only arrays of a collection, one row per chunk, all of one edition in step.

`vectors.f32` has the chunk's vector and `vectors.bits` its signs, by which large collections are searched first
(see `ragcli.index.dense`), `rows.ids` has its number, and `tokens.offsets` says where its tokens lie in
`tokens.bits` (the signs of the token vectors) and `tokens.ids` (the word pieces, from which document frequencies
are counted when chunks come and go). Rows are appended in order of numbers, so `rows.ids` ascends and a number's
row is found by bisection. `rows.sums` has three checksums of each row, so that the few rows which decide a query can
be checked when they are read: nobody reads all of an array to ask one question.

A writer appends, syncs, and only then commits in the store how many rows there are. Each stretch between two
commits gets a checksum, so every committed byte can be verified and none is hashed twice.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from ragcli.collection.generation import Generation, edition_name
from ragcli.collection.rows import IntArray, Row, empty_row, sums_of
from ragcli.collection.schema import DIGEST
from ragcli.errors import CollectionError
from ragcli.index.arrays import RowWriter, SpanReader, open_rows, row_bytes
from ragcli.index.tokens import pack_signs

if TYPE_CHECKING:
    from types import TracebackType

Numbers = npt.NDArray[np.int64]
SumArray = npt.NDArray[np.uint32]
AnyArray = npt.NDArray[Any]


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

    def open(self, folder: Path, record: Generation) -> AnyArray:
        """The committed rows, mapped for reading. CollectionError if the file is short or missing."""
        rows = self.length(record.rows, record.tokens)
        return open_rows(self.path(folder, record.arrays), self.dtype, self.shape, rows)

    def spans(self, folder: Path, record: Generation) -> SpanReader:
        """The committed rows, to be read a stretch at a time. CollectionError if the file is short or missing."""
        rows = self.length(record.rows, record.tokens)
        return SpanReader(self.path(folder, record.arrays), self.dtype, self.shape, rows)


@dataclass(frozen=True, slots=True)
class Segment:
    """The bytes of one array that one commit added, with their checksum."""

    file: str
    start: int
    stop: int
    checksum: bytes


NUMBERS: Final = ArrayFile("rows", ".ids", "<i8", (), "chunk")
SUMS: Final = ArrayFile("rows", ".sums", "<u4", (3,), "chunk")
OFFSETS: Final = ArrayFile("tokens", ".offsets", "<i8", (), "bound")
PIECES: Final = ArrayFile("tokens", ".ids", "<i4", (), "token")
STEMS: Final = ("rows", "vectors", "tokens")


def vector_file(dimension: int) -> ArrayFile:
    """The array of chunk vectors."""
    return ArrayFile("vectors", ".f32", "<f4", (dimension,), "chunk")


def sign_file(dimension: int) -> ArrayFile:
    """The array of the chunk vectors' sign bits."""
    return ArrayFile("vectors", ".bits", "|u1", (-(-dimension // 8),), "chunk")


def bit_file(dimension: int) -> ArrayFile:
    """The array of token sign bits."""
    return ArrayFile("tokens", ".bits", "|u1", (-(-dimension // 8),), "token")


def array_files(record: Generation) -> tuple[ArrayFile, ...]:
    """The arrays of a collection in that state; only the numbers when it has no encoder."""
    if not record.dimension:
        return (NUMBERS,)
    files = (NUMBERS, SUMS, vector_file(record.dimension), sign_file(record.dimension), OFFSETS, PIECES)
    return (*files, bit_file(record.dimension)) if record.keeps_bits else files


class DamagedRow(CollectionError):
    """A row of the arrays is not what was written. What needs it can be embedded anew."""


class StoredRows:
    """Reads single rows of one edition from disk, whatever else of it may be damaged."""

    def __init__(self, folder: Path, record: Generation) -> None:
        self.edition = record.arrays
        self._folder = folder
        self._files = array_files(record)
        self._dimension = record.dimension
        self._readers: dict[str, int] = {}

    def read(self, row: int, *, checked: bool = True) -> Row:
        """One row. DamagedRow if the files do not reach so far, or, `checked`, if it is not what was written."""
        if not self._dimension:
            return empty_row()
        found = self._read(row)
        if checked and sums_of(int(self.block(NUMBERS, row, 1)[0]), found) != tuple(self._sums(row)):
            raise DamagedRow(
                f"Row {row} of the arrays in {self._folder} is damaged; `ragcli collections verify` says more."
            )
        return found

    def sums(self, first: int, count: int) -> SumArray:
        """What the checksums (count, 3) of some rows must be, made anew from the rows."""
        numbers = self.block(NUMBERS, first, count).tolist()
        found = [sums_of(number, self._read(first + at)) for at, number in enumerate(numbers)]
        return np.asarray(found, np.uint32).reshape(count, 3)

    def unsound(self, first: int, count: int) -> npt.NDArray[np.bool_]:
        """(count,) which of some rows are not what their checksums say."""
        if not self._dimension:
            return np.zeros(count, np.bool_)
        differ: npt.NDArray[np.bool_] = (self.sums(first, count) != self.block(SUMS, first, count)).any(axis=1)
        return differ

    def _read(self, row: int) -> Row:
        start, stop = self._bounds(row)
        bits = bit_file(self._dimension)
        return Row(
            self.block(vector_file(self._dimension), row, 1)[0],
            self.block(bits, start, stop - start) if bits in self._files else np.empty((stop - start, 0), np.uint8),
            self.block(PIECES, start, stop - start),
        )

    def pieces(self, row: int) -> IntArray:
        """The word pieces of one row."""
        start, stop = self._bounds(row)
        return self.block(PIECES, start, stop - start)

    def block(self, file: ArrayFile, first: int, count: int) -> AnyArray:
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
        found: list[int] = self.block(SUMS, row, 1)[0].tolist()
        return found

    def _bounds(self, row: int) -> tuple[int, int]:
        start, stop = self.block(OFFSETS, row, 2).tolist()
        return start, stop


class RowFiles(StoredRows):
    """Writes one edition of the arrays, from what the generation `record` has committed of it.

    Opening cuts what a dead writer left behind the committed rows. Not for two writers, which the lock sees to.
    """

    def __init__(self, folder: Path, record: Generation) -> None:
        super().__init__(folder, record)
        self.rows = record.rows
        self.tokens = record.tokens
        self._numbers: Numbers = np.array(NUMBERS.open(folder, record), np.int64)
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
        self._hashes = {file.name: blake2b(digest_size=DIGEST) for file in self._files}
        self._synced = {file.name: self._bytes(file) for file in self._files}
        if self._dimension and not record.rows:
            self._put(OFFSETS, np.zeros(1, np.int64))

    def append(self, numbers: Sequence[int], rows: Sequence[Row]) -> None:
        """Add the rows of chunks whose numbers ascend and are above all before."""
        if not numbers:
            return
        if self._dimension:
            bits = bit_file(self._dimension)
            vectors = np.stack([row.vector for row in rows])
            self._put(vector_file(self._dimension), vectors)
            self._put(sign_file(self._dimension), pack_signs(vectors))
            kept = bits in self._files
            sums = [sums_of(number, row, bits=kept) for number, row in zip(numbers, rows, strict=True)]
            self._put(SUMS, np.asarray(sums, np.uint32))
            self._put(PIECES, np.concatenate([row.pieces for row in rows]))
            if kept:
                self._put(bits, np.concatenate([row.bits for row in rows]))
            ends = self.tokens + np.cumsum([len(row.pieces) for row in rows], dtype=np.int64)
            self._put(OFFSETS, ends)
            self.tokens = int(ends[-1])
        self._put(NUMBERS, np.asarray(numbers, np.int64))
        self._new_numbers += numbers
        self.rows += len(numbers)

    def copy(self, other: StoredRows, first: int, keep: npt.NDArray[np.bool_]) -> None:
        """Append those rows of another edition, from row `first` on, that `keep` (n,) says to keep.

        DamagedRow if one of them is not what was written: a copy would get a checksum that says it was.
        """
        count = len(keep)
        numbers = other.block(NUMBERS, first, count)[keep]
        if not len(numbers):
            return
        if self._dimension:
            if (other.unsound(first, count) & keep).any():
                raise DamagedRow("The arrays are damaged; `ragcli collections verify` says more.")
            bounds = other.block(OFFSETS, first, count + 1)
            lengths, start, stop = np.diff(bounds), int(bounds[0]), int(bounds[-1])
            of_kept = np.repeat(keep, lengths)
            for file in self._files:
                if file.per == "token":
                    self._put(file, other.block(file, start, stop - start)[of_kept])
                elif file.per == "chunk" and file != NUMBERS:
                    self._put(file, other.block(file, first, count)[keep])
            ends = self.tokens + np.cumsum(lengths[keep])
            self._put(OFFSETS, ends)
            self.tokens = int(ends[-1])
        self._put(NUMBERS, numbers)
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
                self._hashes[file.name] = blake2b(digest_size=DIGEST)
                self._synced[file.name] = stop
        self._numbers = np.concatenate([self._numbers, np.asarray(self._new_numbers, np.int64)])
        self._new_numbers = []
        return tuple(segments)

    @property
    def numbers(self) -> Numbers:
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

    def __enter__(self) -> RowFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _put(self, file: ArrayFile, rows: AnyArray) -> None:
        data = np.ascontiguousarray(rows, file.dtype)
        self._writers[file.name].append(data)
        self._hashes[file.name].update(data.tobytes())

    def _bytes(self, file: ArrayFile) -> int:
        return self._writers[file.name].rows * row_bytes(file.dtype, file.shape)

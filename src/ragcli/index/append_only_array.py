"""Append-only files of fixed-size rows, memory-mapped for readers."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ragcli.atomic_files import fsync_directory
from ragcli.errors import CollectionError

if TYPE_CHECKING:
    from ragcli.array_types import AnyArray

RowShape = tuple[int, ...]


def _row_type(dtype: npt.DTypeLike) -> np.dtype[Any]:
    return np.dtype(dtype).newbyteorder("<")


def row_bytes(dtype: npt.DTypeLike, row_shape: RowShape) -> int:
    """Size of one row in bytes."""
    return _row_type(dtype).itemsize * int(np.prod(row_shape, dtype=np.int64))


def open_rows(path: Path, dtype: npt.DTypeLike, row_shape: RowShape, rows: int) -> AnyArray:
    """Map exactly `rows` rows for reading: an array of shape (rows, *row_shape).

    The file may be longer, never shorter: then CollectionError. With no rows the file need not exist.
    """
    kind = _row_type(dtype)
    if rows == 0:
        return np.empty((0, *row_shape), kind)
    try:
        _check_length(path, path.stat().st_size, rows * row_bytes(dtype, row_shape))
        # A plain array over the map: every slice of numpy's own class for maps takes ten times as long.
        return np.memmap(path, kind, mode="r", shape=(rows, *row_shape)).view(np.ndarray)
    except OSError as error:
        raise CollectionError(f"Cannot read {path}: {error.strerror or error}.") from error


class RowRangeReader:
    """Reads scattered stretches of rows from a file that has at least `rows` of them; else CollectionError.

    By system calls and not through a map: the first touch of each mapped page costs a fault, and the pages of a
    question's pool are new ones nearly every time. For 100 chunks' tokens 0.4 ms instead of 4.
    """

    def __init__(self, path: Path, dtype: npt.DTypeLike, row_shape: RowShape, rows: int) -> None:
        self.path, self.rows = path, rows
        self._kind, self._shape = _row_type(dtype), row_shape
        self._row = row_bytes(dtype, row_shape)
        if rows == 0:
            return
        try:
            self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            weakref.finalize(self, os.close, self._descriptor)
            _check_length(path, os.fstat(self._descriptor).st_size, rows * self._row)
        except OSError as error:
            raise CollectionError(f"Cannot read {path}: {error.strerror or error}.") from error

    def read(self, starts: Sequence[int], stops: Sequence[int]) -> AnyArray:
        """The rows of each stretch `starts[i]:stops[i]`, one stretch after another."""
        if any(not 0 <= start <= stop <= self.rows for start, stop in zip(starts, stops, strict=True)):
            raise CollectionError(f"The places in {self.path} are damaged; `ragcli reindex` builds them anew.")
        counts = [stop - start for start, stop in zip(starts, stops, strict=True)]
        found = np.empty((sum(counts), *self._shape), self._kind)
        view = found.reshape(-1).view(np.uint8).data
        at = 0
        for start, count in zip(starts, counts, strict=True):
            size = count * self._row
            if size and os.preadv(self._descriptor, [view[at : at + size]], start * self._row) != size:
                raise CollectionError(f"{self.path} has become shorter while it was read.")
            at += size
        return found


def _check_length(path: Path, have: int, need: int) -> None:
    if have < need:
        raise CollectionError(
            f"{path} is damaged: it should have {need:,} bytes and has {have:,}. "
            "`ragcli collections verify --repair` builds it anew."
        )


class RowWriter:
    """Appends rows to a file whose first `committed` rows are to be kept; see the module's head.

    Only one writer may be at a file, which the caller's lock sees to. Nothing counts until `sync` has returned
    and the store has committed `rows`.
    """

    def __init__(self, path: Path, dtype: npt.DTypeLike, row_shape: RowShape, committed: int) -> None:
        self.path = path
        self.rows = committed
        self._kind = _row_type(dtype)
        self._shape = row_shape
        keep = committed * row_bytes(dtype, row_shape)
        created = not path.exists()
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        self._file = os.fdopen(descriptor, "r+b", buffering=1 << 20)
        try:
            have = os.fstat(descriptor).st_size
            if have < keep:
                raise CollectionError(
                    f"{path} is damaged: it should have at least {keep:,} bytes and has {have:,}. "
                    "`ragcli collections verify --repair` builds it anew."
                )
            if have > keep:
                self._file.truncate(keep)
            self._file.seek(keep)
            if created:
                fsync_directory(path.parent)
        except BaseException:
            self._file.close()
            raise

    def append(self, rows: npt.ArrayLike) -> int:
        """Add rows of shape (n, *row_shape); returns the number of the first of them."""
        array = np.ascontiguousarray(rows, self._kind)
        if array.shape[1:] != self._shape:
            raise ValueError(f"rows of shape {array.shape[1:]} do not fit {self.path.name}, which has {self._shape}")
        first = self.rows
        self._file.write(array.tobytes())
        self.rows += len(array)
        return first

    def sync(self) -> None:
        """Return when every appended row is on the disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file. Rows that were appended and not synced may or may not be in it."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""Open, read and hash regular files, and name them in messages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from io import BufferedReader
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Final

from ragcli.errors import DocumentError

HASH_BYTES: Final = 16


def content_hash(data: bytes) -> bytes:
    """The hash of a file's bytes."""
    return blake2b(data, digest_size=HASH_BYTES).digest()


def open_regular_file(path: Path) -> BufferedReader:
    """The file, for reading. Raises DocumentError for one that can't be opened, or is no regular file.

    A pipe would keep its reader waiting for a writer; that the path was a regular file's a moment ago means nothing.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise DocumentError(f"{display_name(path)} cannot be opened: {reason}.") from error
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DocumentError(f"{display_name(path)} is not a regular file, so it is not read.")
    return os.fdopen(descriptor, "rb")


class HashingStream:
    """A file that is read as a stream, and the hash of what was read of it so far."""

    def __init__(self, stream: BinaryIO | BufferedReader) -> None:
        self._stream = stream
        self._state = blake2b(digest_size=HASH_BYTES)

    def read1(self, size: int) -> bytes:
        """Up to so many bytes, as soon as there are any; none at the end."""
        block: bytes = self._stream.read1(size)  # type: ignore[union-attr]
        self._state.update(block)
        return block

    def content(self) -> bytes:
        """The hash of the bytes read so far."""
        return self._state.digest()


def printable_path(path: Path) -> str:
    """The path as it can be printed and stored, whatever bytes its name has."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def display_name(path: Path) -> str:
    """The file's name, as messages about it have it; where it lies is for the one who shows them to say."""
    return printable_path(Path(path.name))


def read_bytes(path: Path, most: int = -1) -> bytes:
    """A file's bytes, no more than `most` unless that is negative.

    Raises DocumentError if there are none to be had, or if it is no regular file.
    """
    with open_regular_file(path) as file, read_errors_translated(path):
        return file.read(most)


@contextmanager
def read_errors_translated(path: Path) -> Iterator[None]:
    """Turn an OSError into a DocumentError that names the file."""
    try:
        yield
    except OSError as error:
        raise DocumentError(f"{display_name(path)} cannot be read: {error.strerror or error}.") from error

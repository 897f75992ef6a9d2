"""What a file holds, as a hash: how it is known again.

The hash is taken of the very bytes that are parsed, while they are read, so that a file that changes in between is
never taken for the one that was read.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from io import BufferedReader
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Final

from ragcli.documents.options import called
from ragcli.errors import DocumentError

HASH_BYTES: Final = 16


def content_hash(data: bytes) -> bytes:
    """The hash of a file's bytes."""
    return blake2b(data, digest_size=HASH_BYTES).digest()


def open_regular(path: Path) -> BufferedReader:
    """The file, for reading. Raises DocumentError for one that can't be opened, or is no regular file.

    A pipe would keep its reader waiting for a writer; that the path was a regular file's a moment ago means nothing.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise DocumentError(f"{called(path)} cannot be opened: {reason}.") from error
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DocumentError(f"{called(path)} is not a regular file, so it is not read.")
    return os.fdopen(descriptor, "rb")


class HashedStream:
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

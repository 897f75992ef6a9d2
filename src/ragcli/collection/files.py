"""A collection's files: what the store recorded of one, and what the disk says of it now.

Apart from the planning of an ingest, because every query asks whether the files behind its hits have changed.
"""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from hashlib import blake2b
from os import fsdecode, fsencode
from pathlib import Path
from typing import Any, Final

from ragcli.documents.content import HASH_BYTES

_BLOCK: Final = 1 << 20
_LAST: Final = 2**63 - 1

FILE: Final = (
    "SELECT number, path, source, hash, size, mtime_ns, ctime_ns, engine, failed_hash, failed_with, ingested_at,"
    " sidecar, meta FROM files"
)


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file's record in the store. `hash` is of the content that is in the collection, None if none is.

    `sidecar` is the hash of the sidecar that was heeded, `meta` what `--meta` said, as stored.
    """

    number: int
    path: str
    source: str
    hash: bytes | None
    size: int | None
    mtime_ns: int | None
    ctime_ns: int | None
    engine: str | None
    failed_hash: bytes | None
    failed_with: str | None
    ingested_at: str
    sidecar: bytes | None
    meta: str

    @property
    def content(self) -> bytes | None:
        """Hash of the content that size and times were recorded with."""
        return self.hash if self.hash is not None else self.failed_hash


def find_file(connection: sqlite3.Connection, path: Path) -> KnownFile | None:
    """The record of the file at that absolute path."""
    row = connection.execute(f"{FILE} WHERE path = ?", (fsencode(path),)).fetchone()
    return None if row is None else known_file(row)


def known_file(row: Any) -> KnownFile:
    """The record that a row of the query `FILE` holds."""
    number, path, *rest = row
    return KnownFile(number, fsdecode(path), *rest)


def hash_file(path: Path) -> bytes:
    """Hash of a file's bytes. OSError if it can't be read."""
    state = blake2b(digest_size=HASH_BYTES)
    with open(path, "rb", buffering=0, opener=_open_at_once) as stream:
        while block := stream.read(_BLOCK):
            state.update(block)
    return state.digest()


def _open_at_once(path: str, flags: int) -> int:
    # What was a file a moment ago may be a pipe by now, and would be waited for.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def stamp_of(state: os.stat_result) -> tuple[int, int, int]:
    """Size, modification time and change time, in nanoseconds, as they can be stored.

    A clock that was wrong, or a program that sets times, can date a file beyond 2262, which 64 bits don't reach.
    """
    return state.st_size, _storable(state.st_mtime_ns), _storable(state.st_ctime_ns)


def born_ns(state: os.stat_result) -> int | None:
    """When the file was made, in nanoseconds, where the system tells it."""
    seconds = getattr(state, "st_birthtime", None)
    return None if seconds is None else _storable(int(seconds * 1e9))


def _storable(time: int) -> int:
    return max(-_LAST, min(time, _LAST))


def is_gone(path: str) -> bool:
    """Is there surely no file any more? A folder that may not be looked into proves nothing."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False

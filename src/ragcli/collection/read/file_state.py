"""Recorded and present state of source files: stat, content hash, changed since ingest or not."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import fsdecode, fsencode
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Final

from ragcli.collection.store.row_hash import FILE_COLUMNS, new_hash
from ragcli.types import StoredChunk

if TYPE_CHECKING:
    from ragcli.collection.handle import Collection

_BLOCK: Final = 1 << 20
_LAST: Final = 2**63 - 1

FILE_QUERY: Final = f"SELECT {', '.join(FILE_COLUMNS)} FROM files"  # noqa: S608


@dataclass(frozen=True, slots=True)
class FileRecord:
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
    birthtime_ns: int | None
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


def find_file_record(connection: sqlite3.Connection, path: Path) -> FileRecord | None:
    """The record of the file at that absolute path."""
    row = connection.execute(f"{FILE_QUERY} WHERE path = ?", (fsencode(path),)).fetchone()
    return None if row is None else file_record(row)


def file_record(row: Any) -> FileRecord:
    """The record that a row of `FILE_QUERY` holds."""
    number, path, *rest = row
    return FileRecord(number, fsdecode(path), *rest)


def hash_file(path: Path) -> bytes:
    """Hash of a file's bytes. OSError if it can't be read."""
    state = new_hash()
    with open(path, "rb", buffering=0, opener=_open_at_once) as stream:
        while block := stream.read(_BLOCK):
            state.update(block)
    return state.digest()


def _open_at_once(path: str, flags: int) -> int:
    # What was a file a moment ago may be a pipe by now, and would be waited for.
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def size_and_times(state: os.stat_result) -> tuple[int, int, int]:
    """Size, modification time and change time, in nanoseconds, as they can be stored.

    A clock that was wrong, or a program that sets times, can date a file beyond 2262, which 64 bits don't reach.
    """
    return state.st_size, _storable(state.st_mtime_ns), _storable(state.st_ctime_ns)


def birthtime_ns(state: os.stat_result) -> int | None:
    """When the file was made, in nanoseconds, where the system tells it."""
    seconds = getattr(state, "st_birthtime", None)
    return None if seconds is None else _storable(int(seconds * 1e9))


def _storable(time: int) -> int:
    return max(-_LAST, min(time, _LAST))


def is_missing(path: str) -> bool:
    """Is there surely no file any more? A folder that may not be looked into proves nothing."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def changed_sources(collections: Sequence[Collection], chunks: Iterable[StoredChunk]) -> tuple[str, ...]:
    """Sources of those chunks whose file has changed or gone since ingest, each once, in the order of the chunks.

    A file is only read when its size or time differs from what was recorded. Records from standard input have no
    file and never change; a file that may not be read now is taken as unchanged, because nothing is known of it.
    """
    by_name = {collection.name: collection for collection in collections}
    sources: dict[tuple[str, str], list[str]] = {}
    for chunk in chunks:
        if chunk.path is not None and chunk.collection in by_name:
            told = sources.setdefault((chunk.collection, chunk.path), [])
            if chunk.source not in told:
                told.append(chunk.source)
    stale: list[str] = []
    for name in by_name:
        paths = [path for collection, path in sources if collection == name]
        if not paths:
            continue
        with by_name[name].store() as connection:
            for path in paths:
                known = find_file_record(connection, Path(path))
                if known is not None and _has_changed(path, known.size, known.mtime_ns, known.hash):
                    stale += sources[name, path]
    return tuple(dict.fromkeys(stale))


def _has_changed(path: str, size: int | None, mtime_ns: int | None, content: bytes | None) -> bool:
    if is_missing(path):
        return True
    try:
        state = Path(path).stat()
        if not S_ISREG(state.st_mode):
            # Reading a pipe or a device could go on for ever.
            return True
        if size_and_times(state)[:2] == (size, mtime_ns):
            return False
        return state.st_size != size or hash_file(Path(path)) != content
    except OSError:
        return False

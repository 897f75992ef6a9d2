"""The cache folder: exported models, and what was found out about files once.

Everything in it can be made again. Writers build beside the place and rename, so a reader sees all of an entry
or none, and two processes that make the same thing at once end with one of them.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from ragcli.private import cache_dir, open_lock, replace_file

_HASHES = "hashes.json"


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, waiting for whoever has it. It goes with its process, so none is left behind.

    Where locks do not exist the work may be done twice; the renames still keep the outcome whole.
    """
    descriptor = open_lock(path)
    try:
        try:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except (ImportError, OSError):
            pass
        yield
    finally:
        os.close(descriptor)


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, hexadecimal. Computed once: 90 MB of weights take half a second, too much for each start.

    The verdict is kept under the file's size, modification time and inode, which a replaced file does not share.
    """
    status = path.stat()
    key = str(path.resolve())
    stamp = [status.st_size, status.st_mtime_ns, status.st_ino]
    book = cache_dir() / _HASHES
    known = _read_book(book).get(key)
    if isinstance(known, list) and known[:3] == stamp and len(known) == 4:
        return str(known[3])
    import hashlib

    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    entries = _read_book(book) | {key: [*stamp, digest]}
    # A cache that cannot be written costs time, not the answer.
    with contextlib.suppress(OSError):
        replace_file(book, json.dumps(entries, indent=1).encode())
    return digest


def _read_book(path: Path) -> dict[str, object]:
    try:
        book = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return book if isinstance(book, dict) else {}

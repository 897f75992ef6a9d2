"""File locks of a collection (flock): one exclusive writer, shared readers.

Both are the kernel's, so a process that dies holds none. `writer.lock` admits one writer; it holds the writer's
process id and start, for messages only. `readers.lock` is shared by every reader for as long as it reads: a writer
takes it alone, without waiting, before it removes old files or deletes dead chunks from the lexical index; if it
can't, the next writer tries again.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ragcli.errors import CollectionBusy, CollectionError, MissingCollection

WRITER_LOCK: Final = "writer.lock"
READERS_LOCK: Final = "readers.lock"
_POLL_SECONDS: Final = 0.1
# In a folder that was copied from somebody, a lock may be a link to another file, or a pipe that waits for a writer.
_OPEN_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def make_lock_files(folder: Path) -> None:
    """Create both lock files in a new collection."""
    for name in (WRITER_LOCK, READERS_LOCK):
        os.close(os.open(folder / name, os.O_CREAT | os.O_RDWR | _OPEN_FLAGS, 0o600))


@contextmanager
def writer_lock(
    folder: Path,
    *,
    wait: bool = False,
    notify: Callable[[str], None] | None = None,
    hint: str = ", or wait for it with --wait",
) -> Iterator[None]:
    """Be the one writer. CollectionBusy, naming the other's process id, unless `wait`; it ends with the hint."""
    descriptor = _take_writer_lock(folder, wait=wait, notify=notify, hint=hint)
    try:
        yield
    finally:
        os.close(descriptor)


def _take_writer_lock(folder: Path, *, wait: bool, notify: Callable[[str], None] | None, hint: str) -> int:
    path = folder / WRITER_LOCK
    told = False
    while True:
        if not folder.is_dir():
            raise MissingCollection(f"There is no collection '{folder.name}' in {folder.parent}.")
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | _OPEN_FLAGS, 0o600)
        except OSError as error:
            raise CollectionError(f"The collection at {folder} cannot be written: {error.strerror}.") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _owner(descriptor)
            os.close(descriptor)
            if not wait:
                raise CollectionBusy(
                    f"{owner} is writing to the collection '{folder.name}'; try again when it is done{hint}."
                ) from None
            if not told and notify is not None:
                notify(f"{owner} is writing to the collection '{folder.name}'; waiting for it to finish.")
                told = True
            time.sleep(_POLL_SECONDS)
            continue
        except BaseException:
            os.close(descriptor)
            raise
        # The collection may have been renamed or deleted between opening and locking: then this is the lock of
        # something else, or of nothing.
        if _is_same_file(path, descriptor):
            started = time.strftime("%Y-%m-%d %H:%M:%S")
            # It is only said to those who wait; on a full disk it can't be.
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()} {started}\n".encode(), 0)
            return descriptor
        os.close(descriptor)


def share_writer_lock(folder: Path) -> int | None:
    """Share the writers' lock, so that none begins until the descriptor is closed; None if one is at work."""
    try:
        descriptor = os.open(folder / WRITER_LOCK, os.O_RDONLY | _OPEN_FLAGS)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _is_same_file(path: Path, descriptor: int) -> bool:
    try:
        there = path.stat()
    except OSError:
        return False
    here = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def _owner(descriptor: int) -> str:
    words = os.pread(descriptor, 200, 0).decode(errors="replace").split()
    if not words or not words[0].isdigit():
        return "Another process"
    since = f" (since {' '.join(words[1:3])})" if len(words) >= 3 else ""
    return f"Process {words[0]}{since}"


def share_readers_lock(folder: Path) -> int | None:
    """Share the readers' lock; close the descriptor to leave. None where the folder cannot have the file."""
    path = folder / READERS_LOCK
    try:
        descriptor = os.open(path, os.O_RDONLY | _OPEN_FLAGS)
    except FileNotFoundError:
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR | _OPEN_FLAGS, 0o600)
        except OSError:
            return None
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def try_exclusive_readers_lock(folder: Path) -> Iterator[bool]:
    """True if no reader is there, and none comes in while inside; False at once otherwise."""
    descriptor = os.open(folder / READERS_LOCK, os.O_CREAT | os.O_RDWR | _OPEN_FLAGS, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        alone = True
    except BlockingIOError:
        alone = False
    try:
        yield alone
    finally:
        os.close(descriptor)

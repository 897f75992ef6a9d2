"""Create and atomically replace files and folders that only their owner can read.

Collections hold the texts of people's documents, and what ragcli remembers of a person decides what it does for them;
neither is for others on the machine to read or to change, whatever the umask. `write_output_file` is the exception: a
result that the user asked for gets the permissions that the umask gives.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EEXIST, ENOSYS, ENOTSUP, EPERM
from pathlib import Path
from typing import IO, Final

from ragcli.errors import InputError

_PART_PREFIX: Final = ".ragcli-part-"


def cache_dir() -> Path:
    """`RAGCLI_CACHE_DIR`, else the platform's place for a user's caches. It may not exist yet."""
    named = os.environ.get("RAGCLI_CACHE_DIR")
    if named:
        return Path(named).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_cache_path("ragcli"))


def make_private_folder(path: Path) -> None:
    """Make the folder and those above it that are missing. OSError as the system has it."""
    if path.is_dir():
        return
    if path.parent != path:
        make_private_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def open_lock_file(path: Path) -> int:
    """A descriptor of the file to lock, which is made if it is not there, and its folder with it."""
    make_private_folder(path.parent)
    return os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)


def replace_file_atomically(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Put `data` at `path` in one step: a reader sees the old file or the new one.

    The file is its owner's alone, and so are the folders that had to be made for it. With `durable`, it is on the disk
    when this returns. A link at `path` is replaced and not followed. OSError as the system has it.
    """
    make_private_folder(path.parent)
    _replace_file(path, data, fsync=durable)
    if durable:
        fsync_directory(path.parent)


def _replace_file(path: Path, data: bytes, *, fsync: bool, mode: int | None = None) -> None:
    """Write beside `path`, then rename. Without `mode`, the file is for its owner alone, as mkstemp makes it."""
    descriptor, part = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            if fsync:
                stream.flush()
                os.fsync(descriptor)
        if mode is not None:
            Path(part).chmod(mode)
        Path(part).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(part).unlink()
        raise


def create_durable_file(path: Path, data: bytes) -> None:
    """Write a file that is its owner's alone and on the disk when this returns. FileExistsError if there is one."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(descriptor)


@contextmanager
def atomic_file(path: Path, *, replace: bool = False) -> Iterator[IO[bytes]]:
    """A file to write that appears at `path` when the block ends, whole and on the disk, or not at all.

    FileExistsError if there is something at `path`, unless it is to be replaced; also if it came in the meantime.
    What a process that was killed has left in the folder is removed. OSError as the system has it.
    """
    if not replace and os.path.lexists(path):
        raise FileExistsError(EEXIST, os.strerror(EEXIST), str(path))
    _remove_stale_parts(path.parent)
    part = path.parent / f"{_PART_PREFIX}{secrets.token_hex(4)}"
    descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield stream
            stream.flush()
            os.fsync(descriptor)
            if replace:
                part.replace(path)
            else:
                _link_without_replacing(part, path)
        fsync_directory(path.parent)
    finally:
        part.unlink(missing_ok=True)


def fsync_directory(folder: Path) -> None:
    """Make the folder's entries durable, so that a new or renamed file survives a power cut."""
    if os.name == "nt":  # Windows opens no folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link_without_replacing(part: Path, path: Path) -> None:
    try:
        # Unlike a renaming, a link never takes the place of a file.
        path.hardlink_to(part)
    except OSError as error:
        if error.errno not in (EPERM, ENOTSUP, ENOSYS):
            raise
        # A stick with FAT on it knows no links.
        if os.path.lexists(path):
            raise FileExistsError(EEXIST, os.strerror(EEXIST), str(path)) from None
        part.rename(path)


def _remove_stale_parts(folder: Path) -> None:
    for part in folder.glob(f"{_PART_PREFIX}*"):
        with suppress(OSError):
            descriptor = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
            finally:
                os.close(descriptor)


@contextmanager
def exclusive_lock(path: Path, *, required: bool = False) -> Iterator[None]:
    """Hold the lock file `path`, waiting for whoever has it. It goes with its process, so none is left behind.

    Where the file system has no locks, OSError if one is `required`; else the work may be done twice, and the renames
    still keep its outcome whole.
    """
    descriptor = open_lock_file(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:
            if required:
                raise
        yield
    finally:
        os.close(descriptor)


def write_output_file(path: Path, data: str | bytes) -> None:
    """Write a result that the user asked for in one step: after a full disk there is the old file or the new.

    A link is followed, and an existing file keeps its mode. Raises InputError when the place cannot be written to.
    """
    place = path.resolve()
    # The renaming below would put a file in the place of a device or a pipe.
    if place.exists() and not place.is_file():
        raise InputError(f"{path} cannot be written: it is not a file.")
    try:
        # A result is a file like any other, with the permissions that its folder's files have.
        mode = place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~_current_umask()
        _replace_file(place, data.encode("utf-8") if isinstance(data, str) else data, fsync=True, mode=mode)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}.") from None


def _current_umask() -> int:
    # The only portable way to read the mask is to set it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask

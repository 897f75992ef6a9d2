"""Where collections lie and what they may be called.

A name becomes a folder, so it may hold no separator and start with no dot: no name leads out of the data
directory. Folders that start with a dot are ours, half made or half deleted, and never shown: a collection comes
to be and ceases to be by one rename.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from pathlib import Path
from typing import Final

from ragcli.errors import CollectionError, UsageError
from ragcli.private import make_folder

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TRASH: Final = ".trash-"
_DRAFT: Final = ".new-"
_DRAFT_AGE: Final = 3600.0

STORE: Final = "store.db"


def check_name(name: str) -> str:
    """The name itself if a collection may be called so; UsageError otherwise."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a collection: use 1 to 64 letters, digits, dots, underscores and hyphens,"
            " starting with a letter or digit."
        )
    return name


def list_collections(data_dir: Path) -> tuple[str, ...]:
    """Names of the collections in the data directory, sorted. Empty if the directory is not there."""
    try:
        entries = sorted(os.scandir(data_dir), key=lambda entry: entry.name)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise CollectionError(f"The data directory {data_dir} cannot be read: {error.strerror}.") from error
    return tuple(entry.name for entry in entries if _NAME.fullmatch(entry.name) and Path(entry.path, STORE).is_file())


def draft_folder(data_dir: Path, name: str) -> Path:
    """A new folder, for the user alone, to make a collection in before it is renamed into place."""
    try:
        make_folder(data_dir)
        folder = data_dir / f"{_DRAFT}{name}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise CollectionError(f"The data directory {data_dir} cannot be written: {error.strerror}.") from error
    return folder


def discard(folder: Path) -> None:
    """Take a folder out of sight in one rename, then remove it. What a crash leaves, `sweep` removes."""
    hidden = folder.parent / f"{_TRASH}{secrets.token_hex(8)}"
    folder.rename(hidden)
    fsync_folder(folder.parent)
    shutil.rmtree(hidden, ignore_errors=True)


def sweep(data_dir: Path) -> None:
    """Remove what earlier deletions and creations left when they were killed. Never fails."""
    try:
        entries = list(os.scandir(data_dir))
    except OSError:
        return
    for entry in entries:
        stale = entry.name.startswith(_TRASH)
        if entry.name.startswith(_DRAFT):
            try:
                stale = time.time() - entry.stat().st_mtime > _DRAFT_AGE
            except OSError:
                continue
        if stale and entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)


def fsync_folder(folder: Path) -> None:
    """Make the folder's entries durable, so that a new or renamed file survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Collections in a data directory: names, listing, staging folders, atomic publish and delete."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from errno import EEXIST, ENOTDIR, ENOTEMPTY
from pathlib import Path
from typing import Final

from ragcli.atomic_files import fsync_directory, make_private_folder
from ragcli.collection.store.locks import writer_lock
from ragcli.collection.store.schema import STORE_FILE
from ragcli.errors import CollectionBusy, CollectionError, UsageError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TRASH: Final = ".trash-"
_STAGING: Final = ".new-"


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
    return tuple(
        entry.name for entry in entries if _NAME.fullmatch(entry.name) and Path(entry.path, STORE_FILE).is_file()
    )


@contextmanager
def staging_folder(data_dir: Path, name: str) -> Iterator[Path]:
    """A new folder, for the user alone, to make a collection in before `publish` renames it into place.

    It is removed at the end if it is still there, and what others have left is swept.
    """
    sweep(data_dir)
    with ExitStack() as held:
        folder = _locked_staging_folder(data_dir, name, held)
        try:
            yield folder
        finally:
            if folder.exists():
                discard(folder)


def _locked_staging_folder(data_dir: Path, name: str, held: ExitStack) -> Path:
    while True:
        folder = _new_staging_folder(data_dir, name)
        try:
            held.enter_context(writer_lock(folder))
        except CollectionError as error:
            # Another process may have swept it away, or be at it, before it was locked.
            if folder.exists() and not isinstance(error, CollectionBusy):
                shutil.rmtree(folder, ignore_errors=True)
                raise
        else:
            return folder


def _new_staging_folder(data_dir: Path, name: str) -> Path:
    try:
        make_private_folder(data_dir)
        folder = data_dir / f"{_STAGING}{name}-{secrets.token_hex(4)}"
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise CollectionError(f"The data directory {data_dir} cannot be written: {error.strerror}.") from error
    return folder


def name_taken(data_dir: Path, name: str, hint: str = "") -> CollectionError:
    """The error for a name that has a folder already. `hint` tells what else to call it, and how."""
    if not (data_dir / name / STORE_FILE).is_file():
        # Not in the list of collections, and `delete` does not know it.
        return CollectionError(
            f"{data_dir / name} is in the way: it is no collection, or has lost its {STORE_FILE}."
            " Move it away or remove it."
        )
    return CollectionError(f"There is a collection '{name}' in {data_dir} already{hint}.")


def publish(folder: Path, data_dir: Path, name: str) -> None:
    """Make a staging folder the collection of that name, in one rename. CollectionError if there is one already."""
    fsync_directory(folder)
    try:
        folder.rename(data_dir / name)
    except OSError as error:
        if error.errno in (EEXIST, ENOTEMPTY, ENOTDIR):
            raise name_taken(data_dir, name) from error
        raise
    fsync_directory(data_dir)


def discard(folder: Path) -> None:
    """Take a folder out of sight in one rename, then remove it. What a crash leaves, `sweep` removes."""
    hidden = folder.parent / f"{_TRASH}{secrets.token_hex(8)}"
    folder.rename(hidden)
    fsync_directory(folder.parent)
    shutil.rmtree(hidden, ignore_errors=True)


def sweep(data_dir: Path) -> None:
    """Remove what earlier deletions and creations left when they were killed. Never fails."""
    try:
        entries = list(os.scandir(data_dir))
    except OSError:
        return
    for entry in entries:
        if not entry.name.startswith((_TRASH, _STAGING)) or not entry.is_dir(follow_symlinks=False):
            continue
        if entry.name.startswith(_TRASH):
            shutil.rmtree(entry.path, ignore_errors=True)
            continue
        with suppress(CollectionError, OSError), writer_lock(Path(entry.path)):
            shutil.rmtree(entry.path, ignore_errors=True)

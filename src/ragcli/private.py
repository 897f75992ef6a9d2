"""Folders and files for the user alone, whatever the umask.

Collections hold the texts of people's documents, and what ragcli remembers of a person decides what it does for
them; neither is for others on the machine to read or to change.
"""

from __future__ import annotations

import os
from pathlib import Path


def make_folder(path: Path) -> None:
    """Make the folder and those above it that are missing. OSError as the system has it."""
    if path.is_dir():
        return
    if path.parent != path:
        make_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def open_lock(path: Path) -> int:
    """A descriptor of the file to lock, which is made if it is not there, and its folder with it."""
    make_folder(path.parent)
    return os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` at `path` in one step: a reader sees the old file or the new one. OSError as the system has it."""
    import tempfile

    make_folder(path.parent)
    # mkstemp makes its file for the user alone.
    descriptor, fresh = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        Path(fresh).replace(path)
    except BaseException:
        Path(fresh).unlink(missing_ok=True)
        raise

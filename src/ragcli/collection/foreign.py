"""Is everything in a collection's folder its own?

A collection that was copied from somebody may hold anything. The store names no files (see `generation`), so what
could lead out of the folder is the folder itself: a link in the place of an array would have a stranger's choice of
file read, and cut to the array's length by the next ingest; a pipe would be waited for without end.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from ragcli.errors import CollectionError


def refuse_links(folder: Path) -> None:
    """CollectionError if anything in the folder, or in a folder in it, is neither a file nor a folder."""
    inner = [entry.path for entry in _checked(os.fspath(folder)) if entry.is_dir(follow_symlinks=False)]
    for path in inner:
        # A writer may remove an old edition at any moment.
        with suppress(FileNotFoundError):
            _checked(path)


def refuse_programs(connection: sqlite3.Connection, folder: Path) -> None:
    """CollectionError if the store has triggers or views, which no ragcli made and which act when it is used."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type NOT IN ('table', 'index')").fetchone()
    if found is not None:
        raise CollectionError(
            f"The store of the collection at {folder} has the trigger or view '{found[0]}', which ragcli did not make;"
            f" nothing of it is used. `ragcli collections delete {folder.name}` removes the collection."
        )


def _checked(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        if not entry.is_file(follow_symlinks=False) and not entry.is_dir(follow_symlinks=False):
            kind = "a link" if entry.is_symlink() else "no file"
            raise CollectionError(
                f"{entry.path} is {kind}, and a collection has files of its own only; nothing of it is used. Put the"
                " file itself there, or remove the collection's folder."
            )
    return found

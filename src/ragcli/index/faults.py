"""What can be wrong with the files of the word index, found before tantivy does or told in place of what it says.

tantivy has one exception for everything, and panics over damaged files; a person gets a sentence, and what to do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ragcli.errors import CollectionBusy, CollectionError
from ragcli.index.seal import altered_files, lists_elsewhere

NOT_WRITABLE: Final = ("PermissionDenied", "ReadOnlyFilesystem")
FULL: Final = ("StorageFull", "No space left")

_LONGEST_REASON: Final = 200


def check_unaltered(folder: Path, *, to_write: bool = False) -> None:
    """CollectionError if files of the index are not what was sealed, or its list names files elsewhere."""
    # What tantivy makes of damaged files is a panic, or hits that are none; and it removes what a list tells it to.
    astray = lists_elsewhere(folder)
    damaged = [astray] if astray is not None else altered_files(folder, to_write=to_write)
    if damaged:
        raise CollectionError(
            f"The word index in {folder} is damaged ({damaged[0]});"
            f" `ragcli collections verify {folder.parent.name} --repair` builds it anew."
        )


@contextmanager
def sound(folder: Path) -> Iterator[None]:
    """Turn whatever tantivy makes of a damaged or unreadable folder into a sentence."""
    try:
        yield
    except (ValueError, OSError) as error:
        if is_about(error, ("LockBusy",)):
            raise CollectionBusy(f"Another process is writing to {folder}.") from error
        if is_about(error, FULL):
            raise CollectionError(
                f"The disk is full: the word index in {folder} cannot be written. What was committed is intact."
            ) from error
        if is_about(error, NOT_WRITABLE):
            raise CollectionError(
                f"The word index in {folder} may not be read or written: permission denied."
            ) from error
        reason = " ".join(str(error).split())[:_LONGEST_REASON]
        raise CollectionError(
            f"The word index in {folder} cannot be used ({reason});"
            " `ragcli collections verify --repair` builds it anew."
        ) from error
    except BaseException as error:
        # A Rust panic arrives as an exception that is not an Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise CollectionError(
            f"The word index in {folder} is damaged; `ragcli collections verify --repair` builds it anew."
        ) from error


def is_about(error: Exception, words: Sequence[str]) -> bool:
    """tantivy raises ValueError for everything and tells what in the text only."""
    return any(word in str(error) for word in words)


def folder_of_links(folder: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder for a reader that may not write to its own: the same files by links. Gone when it is let go."""
    links = tempfile.TemporaryDirectory(prefix="ragcli-")
    for path in folder.iterdir():
        if path.suffix != ".lock":
            (Path(links.name) / path.name).symlink_to(path.absolute())
    return links

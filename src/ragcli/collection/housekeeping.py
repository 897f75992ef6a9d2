"""Removing files that no generation names any more.

Compaction, refitting and reindexing write new editions beside the old. The old ones go when the new generation is
committed and no reader is left who might open them; also what a killed writer left half made.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

from ragcli.collection.generation import Generation, edition_name
from ragcli.collection.lock import no_readers

_DERIVED: Final = re.compile(
    r"(?:rows(?:-\d+)?\.(?:ids|sums)|vectors(?:-\d+)?\.(?:f32|bits)|tokens(?:-\d+)?\.(?:offsets|ids|bits)"
    r"|lexical(?:-\d+)?|tfidf(?:-\d+)?(?:\.new|\.old)?|manifest\.json\.new)"
)
_ARRAYS: Final = (
    ("rows", ".ids"),
    ("rows", ".sums"),
    ("vectors", ".f32"),
    ("vectors", ".bits"),
    ("tokens", ".offsets"),
    ("tokens", ".ids"),
    ("tokens", ".bits"),
)


def remove_old_files(folder: Path, *kept: Generation | None) -> None:
    """Remove derived files that belong to none of the kept generations. Does nothing while readers are there."""
    names = {name for record in kept if record is not None for name in _names(record)}
    old = [entry for entry in folder.iterdir() if _DERIVED.fullmatch(entry.name) and entry.name not in names]
    if not old:
        return
    with no_readers(folder) as alone:
        if not alone:
            return
        for entry in old:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


def next_edition(folder: Path, stem: str, current: int | None) -> int:
    """An edition number above the current one and above every file of that stem that still lies there."""
    numbered = re.compile(rf"{stem}(?:-(\d+))?(?:\..*)?")
    taken = [current or 0]
    for entry in folder.iterdir():
        found = numbered.fullmatch(entry.name)
        if found:
            taken.append(int(found[1] or 1))
    return max(taken) + 1


def _names(record: Generation) -> set[str]:
    names = {edition_name(stem, suffix, record.arrays) for stem, suffix in _ARRAYS}
    names.add(record.lexical_name)
    if record.tfidf_name is not None:
        names.add(record.tfidf_name)
    return names

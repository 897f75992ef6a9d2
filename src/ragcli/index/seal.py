"""Checks that the files of a lexical index are as tantivy wrote them.

tantivy puts a CRC-32 of its content at the end of each segment file, which covers all but that footer itself and the
JSON files beside. A seal, written when a writer closes the index, covers those. It is broken first thing when a
writer opens it, so a writer that was killed leaves an index without a seal: that is checked for less, and never
taken for damage.

To read all of a large index takes longer than a query. But files that another program has changed, or only half
copied, have another size or time than was sealed, and that is looked at whenever an index is opened; those are read.
So is a small index, always, because a disk that forgets a bit changes no time. A writer reads all of what it will
merge: damage that is merged gets a sum of its own, and nobody would know of it any more.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from pathlib import Path
from typing import Any, Final

from ragcli.index.arrays import sync_folder

_SEAL: Final = "seal.json"
_TAIL: Final = 256
_ALWAYS_READ: Final = 4 << 20
"""Bytes that are read in 3 ms: an index of some 15,000 chunks."""
_MOST_READ: Final = 128 << 20
_PLAIN_NAME: Final = re.compile(r"\.?[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FOOTER_MAGIC: Final = 1337
_SEGMENT_KINDS: Final = ("fast", "fieldnorm", "idx", "pos", "store", "term")


def seal(folder: Path) -> None:
    """Write down what the JSON files and the footers of the index are now."""
    names = [".managed.json", "meta.json", *_segment_names(folder)]
    fresh = folder / f"{_SEAL}.new"
    with fresh.open("w", encoding="utf-8") as file:
        json.dump({name: [_tail_sum(folder / name), *_stamp(folder / name)] for name in names}, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(folder / _SEAL)


def break_seal(folder: Path) -> None:
    """Take the seal away before anything is changed."""
    if (folder / _SEAL).exists():
        (folder / _SEAL).unlink()
        sync_folder(folder)


def damaged_files(folder: Path) -> list[str]:
    """Names of the index's files that are missing or not as written. What a killed writer left does not count."""
    if (astray := lists_elsewhere(folder)) is not None:
        return [astray]
    try:
        names = _segment_names(folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ["meta.json"]
    damaged = {name for name in names if not _footer_agrees(folder / name)}
    if (folder / _SEAL).exists():
        try:
            sealed = json.loads((folder / _SEAL).read_bytes())
            damaged |= {name for name in (".managed.json", "meta.json", *names) if name not in sealed}
            damaged |= {name for name, told in sealed.items() if _tail_sum(folder / name) != _sum_in(told)}
        except (OSError, ValueError, TypeError, AttributeError, LookupError):
            damaged.add(_SEAL)
    return sorted(damaged)


def altered_files(folder: Path, *, to_write: bool = False) -> list[str]:
    """As `damaged_files`, but a large index is not read as long as every file has the size and time that were sealed.

    That takes some 10 µs a file. An index so large that reading it would be felt is not read here; `verify` does.
    `to_write` reads what can be read in a tenth of a second in any case.
    """
    try:
        told = (folder / _SEAL).read_bytes()
        sealed: dict[str, list[int]] = json.loads(told)
        size = sum(each[1] for each in sealed.values())
        kept = all(_stamp(folder / name) == tuple(each[1:]) for name, each in sealed.items())
        if size > _MOST_READ or (kept and size > _ALWAYS_READ and not to_write):
            return []
    except (OSError, ValueError, TypeError, AttributeError, LookupError):
        # No seal, or an older one, or a damaged one: `verify` looks closer.
        return []
    damaged = damaged_files(folder)
    try:
        # A writer that came meanwhile takes the seal away, and then the files.
        return damaged if (folder / _SEAL).read_bytes() == told else []
    except OSError:
        return []


def lists_elsewhere(folder: Path) -> str | None:
    """Which of the index's own lists of files has a name in it that is no plain one, if any.

    tantivy removes what `.managed.json` lists and `meta.json` does not, wherever that is, and here files are read by
    the names in the seal: in an index that was copied from somebody, those could be anyone's files.
    """
    for file, names_in in ((".managed.json", list), (_SEAL, list), ("meta.json", _names_in_segments)):
        try:
            found = names_in(json.loads((folder / file).read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # Not there, or damaged: others see to that.
            continue
        if not all(_PLAIN_NAME.fullmatch(str(name)) for name in found):
            return file
    return None


def _stamp(path: Path) -> tuple[int, int]:
    try:
        state = path.stat()
    except OSError:
        return -1, -1
    return state.st_size, state.st_mtime_ns


def _sum_in(told: Any) -> Any:
    # Older seals have the sum alone.
    return told[0] if isinstance(told, list) else told


def _segment_names(folder: Path) -> list[str]:
    return _names_in_segments(json.loads((folder / "meta.json").read_bytes()))


def _names_in_segments(meta: dict[str, Any]) -> list[str]:
    return [name for segment in meta["segments"] for name in _names_of(segment)]


def _names_of(segment: dict[str, Any]) -> list[str]:
    stem = str(segment["segment_id"]).replace("-", "")
    names = [f"{stem}.{kind}" for kind in _SEGMENT_KINDS]
    return [*names, f"{stem}.{int(segment['deletes']['opstamp'])}.del"] if segment["deletes"] else names


def _footer_agrees(path: Path) -> bool:
    """A segment file ends in a JSON footer, its length, and a magic number (tantivy's `directory/footer.rs`)."""
    try:
        content = memoryview(path.read_bytes())
        length, magic = struct.unpack("<II", content[-8:])
        footer = json.loads(bytes(content[-8 - length : -8]))
        return bool(magic == _FOOTER_MAGIC and zlib.crc32(content[: -8 - length]) == footer["crc"])
    except (OSError, struct.error, ValueError, KeyError, TypeError):
        return False


def _tail_sum(path: Path) -> int | None:
    """CRC-32 of a JSON file, or of the end of another, which its footer is part of; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            if path.suffix != ".json":
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            return zlib.crc32(file.read())
    except OSError:
        return None

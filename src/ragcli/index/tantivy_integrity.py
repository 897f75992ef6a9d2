"""Integrity of tantivy's files: checksums, unsafe file lists, its errors and panics translated."""

from __future__ import annotations

import json
import os
import re
import struct
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ragcli.atomic_files import fsync_directory, replace_file_atomically
from ragcli.errors import CollectionBusy, CollectionError

_CHECKSUM_FILE: Final = "checksums.json"
_TAIL: Final = 256
_ALWAYS_READ: Final = 4 << 20
"""Bytes that are read in 3 ms: an index of some 15,000 chunks."""
_MOST_READ: Final = 128 << 20
_PLAIN_NAME: Final = re.compile(r"\.?[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FOOTER_MAGIC: Final = 1337
_SEGMENT_KINDS: Final = ("fast", "fieldnorm", "idx", "pos", "store", "term")


def write_checksums(folder: Path) -> None:
    """Write down what the JSON files and the footers of the index are now."""
    names = [".managed.json", "meta.json", *_segment_names(folder)]
    content = {name: [_tail_crc(folder / name), *_size_and_mtime(folder / name)] for name in names}
    replace_file_atomically(folder / _CHECKSUM_FILE, json.dumps(content).encode(), durable=True)


def remove_checksums(folder: Path) -> None:
    """Remove the checksums before anything is changed."""
    if (folder / _CHECKSUM_FILE).exists():
        (folder / _CHECKSUM_FILE).unlink()
        fsync_directory(folder)


def damaged_index_files(folder: Path) -> list[str]:
    """Names of the index's files that are missing or not as written. What a killed writer left does not count."""
    if (astray := unsafe_file_list(folder)) is not None:
        return [astray]
    try:
        names = _segment_names(folder)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ["meta.json"]
    damaged = {name for name in names if not _footer_agrees(folder / name)}
    if (folder / _CHECKSUM_FILE).exists():
        try:
            recorded = json.loads((folder / _CHECKSUM_FILE).read_bytes())
            damaged |= {name for name in (".managed.json", "meta.json", *names) if name not in recorded}
            damaged |= {name for name, told in recorded.items() if _tail_crc(folder / name) != told[0]}
        except (OSError, ValueError, TypeError, AttributeError, LookupError):
            damaged.add(_CHECKSUM_FILE)
    return sorted(damaged)


def changed_index_files(folder: Path, *, to_write: bool = False) -> list[str]:
    """As `damaged_index_files`, but a large index is not read while every file has its recorded size and time.

    That takes some 10 µs a file. An index so large that reading it would be felt is not read here; `verify` does.
    `to_write` reads what can be read in a tenth of a second in any case.
    """
    try:
        told = (folder / _CHECKSUM_FILE).read_bytes()
        recorded: dict[str, list[int]] = json.loads(told)
        size = sum(each[1] for each in recorded.values())
        kept = all(_size_and_mtime(folder / name) == tuple(each[1:]) for name, each in recorded.items())
        if size > _MOST_READ or (kept and size > _ALWAYS_READ and not to_write):
            return []
    except (OSError, ValueError, TypeError, AttributeError, LookupError):
        # No checksums, or damaged ones: `verify` looks closer.
        return []
    damaged = damaged_index_files(folder)
    try:
        # A writer that came meanwhile removes the checksums, and then the files.
        return damaged if (folder / _CHECKSUM_FILE).read_bytes() == told else []
    except OSError:
        return []


def unsafe_file_list(folder: Path) -> str | None:
    """Which of the index's own lists of files has a name in it that is no plain one, if any.

    tantivy removes what `.managed.json` lists and `meta.json` does not, wherever that is, and here files are read by
    the names beside the checksums: in an index that was copied from somebody, those could be anyone's files.
    """
    for file, names_in in ((".managed.json", list), (_CHECKSUM_FILE, list), ("meta.json", _names_in_segments)):
        try:
            found = names_in(json.loads((folder / file).read_bytes()))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # Not there, or damaged: others see to that.
            continue
        if not all(_PLAIN_NAME.fullmatch(str(name)) for name in found):
            return file
    return None


def _size_and_mtime(path: Path) -> tuple[int, int]:
    try:
        state = path.stat()
    except OSError:
        return -1, -1
    return state.st_size, state.st_mtime_ns


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


def _tail_crc(path: Path) -> int | None:
    """CRC-32 of a JSON file, or of the end of another, which its footer is part of; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            if path.suffix != ".json":
                file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            return zlib.crc32(file.read())
    except OSError:
        return None


NOT_WRITABLE_MARKERS: Final = ("PermissionDenied", "ReadOnlyFilesystem")
DISK_FULL_MARKERS: Final = ("StorageFull", "No space left")

_LONGEST_REASON: Final = 200


def check_index_files(folder: Path, *, to_write: bool = False) -> None:
    """CollectionError if files of the index are not what the checksums say, or its list names files elsewhere."""
    # What tantivy makes of damaged files is a panic, or hits that are none; and it removes what a list tells it to.
    astray = unsafe_file_list(folder)
    damaged = [astray] if astray is not None else changed_index_files(folder, to_write=to_write)
    if damaged:
        raise CollectionError(
            f"The word index in {folder} is damaged ({damaged[0]});"
            f" `ragcli collections verify {folder.parent.name} --repair` builds it anew."
        )


@contextmanager
def tantivy_errors_translated(folder: Path) -> Iterator[None]:
    """Turn whatever tantivy makes of a damaged or unreadable folder into a sentence."""
    try:
        yield
    except (ValueError, OSError) as error:
        if mentions_any(error, ("LockBusy",)):
            raise CollectionBusy(f"Another process is writing to {folder}.") from error
        if mentions_any(error, DISK_FULL_MARKERS):
            raise CollectionError(
                f"The disk is full: the word index in {folder} cannot be written. What was committed is intact."
            ) from error
        if mentions_any(error, NOT_WRITABLE_MARKERS):
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


def mentions_any(error: Exception, words: Sequence[str]) -> bool:
    """tantivy raises ValueError for everything and tells what in the text only."""
    return any(word in str(error) for word in words)


def symlinked_copy(folder: Path) -> tempfile.TemporaryDirectory[str]:
    """A folder for a reader that may not write to its own: the same files by links. Gone when it is let go."""
    links = tempfile.TemporaryDirectory(prefix="ragcli-")
    for path in folder.iterdir():
        if path.suffix != ".lock":
            (Path(links.name) / path.name).symlink_to(path.absolute())
    return links

"""Change detection: compare files on disk with the store and plan an ingest, without parsing.

A file is known by its absolute path and told apart by the hash of its bytes. Where size and both times are as
recorded, and old enough that a later write must have moved them, the bytes are not read: a program that restores the
modification time can't restore the change time.
"""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from os import fsdecode, fsencode
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ragcli.collection.read.document_queries import STDIN_PATH
from ragcli.collection.read.file_state import (
    FILE_QUERY,
    FileRecord,
    birthtime_ns,
    file_record,
    find_file_record,
    hash_file,
    is_missing,
    size_and_times,
)
from ragcli.collection.store.metadata_layers import ExternalMetadata, MetadataPatch, clean_patch, decode_metadata
from ragcli.collection.write.prepared_documents import SourceFile
from ragcli.documents.parser_registry import kind_of
from ragcli.errors import DocumentError
from ragcli.text.characters import replace_surrogates
from ragcli.types import Failure

if TYPE_CHECKING:
    from ragcli.documents.discovery import FoundFile
    from ragcli.documents.parse_options import ReadOptions

_SETTLED_NS: Final = 3_000_000_000


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """What an ingest has to do. `to_read` has what was added and what changed, in order of discovery.

    `unreadable` could not even be hashed, for the reason given. `failed_before` failed in an earlier run and would
    fail again. `touched` has new times but the old content, and of `described` other things are said than before, by
    a sidecar or by `--meta`. `warnings` are about sidecars that cannot be read.
    """

    added: tuple[SourceFile, ...]
    changed: tuple[SourceFile, ...]
    to_read: tuple[SourceFile, ...]
    moved: tuple[tuple[FileRecord, SourceFile], ...]
    touched: tuple[tuple[FileRecord, SourceFile], ...]
    described: tuple[tuple[FileRecord, SourceFile], ...]
    gone: tuple[FileRecord, ...]
    unchanged: int
    unreadable: tuple[tuple[SourceFile, str], ...]
    failed_before: tuple[Failure, ...]
    warnings: tuple[Failure, ...]


def plan_ingest(
    connection: sqlite3.Connection,
    found: Sequence[FoundFile],
    roots: Sequence[Path],
    options: ReadOptions,
    meta: MetadataPatch = MappingProxyType({}),
    checked: Callable[[], None] = lambda: None,
) -> IngestPlan:
    """Compare the files found with the store; `checked` is called after each. `meta` is said of all of them."""
    added: list[SourceFile] = []
    changed: list[SourceFile] = []
    to_read: list[SourceFile] = []
    moved: list[tuple[FileRecord, SourceFile]] = []
    touched: list[tuple[FileRecord, SourceFile]] = []
    described: list[tuple[FileRecord, SourceFile]] = []
    warnings: list[Failure] = []
    unreadable: list[tuple[SourceFile, str]] = []
    failed_before: list[Failure] = []
    taken: set[int] = set()
    unchanged = 0
    for each in found:
        known = find_file_record(connection, each.path)
        file, complaint = inspect_file(each.path, each.source, known, options)
        outside, warning = _external_metadata(each, known, meta)
        file = replace(file, outside=outside)
        if warning is not None:
            warnings.append(Failure(replace_surrogates(each.source), warning))
        if complaint is not None:
            unreadable.append((file, complaint))
        elif known is None:
            origin = _moved_from(connection, file, taken)
            if origin is None:
                added.append(file)
                to_read.append(file)
            else:
                taken.add(origin.number)
                moved.append((origin, file))
        elif file.hash == known.hash and not _needs_other_reading(connection, known, options):
            unchanged += 1
            failed_before += _failures(connection, known)
            if external_metadata_changed(known, outside):
                described.append((known, file))
            elif (file.size, file.mtime_ns, file.ctime_ns) != (known.size, known.mtime_ns, known.ctime_ns):
                touched.append((known, file))
        elif file.hash == known.failed_hash and known.failed_with == failure_settings(options):
            failed_before += _failures(connection, known)
        else:
            (changed if _has_documents(connection, known) else added).append(file)
            to_read.append(file)
        checked()
    gone = tuple(file for file in _gone(connection, roots) if file.number not in taken)
    return IngestPlan(
        tuple(added),
        tuple(changed),
        tuple(to_read),
        tuple(moved),
        tuple(touched),
        tuple(described),
        gone,
        unchanged,
        tuple(unreadable),
        tuple(failed_before),
        tuple(warnings),
    )


def _external_metadata(
    found: FoundFile, known: FileRecord | None, meta: MetadataPatch
) -> tuple[ExternalMetadata, str | None]:
    """What is said of a file from outside, and what is wrong with its sidecar, if anything."""
    from ragcli.documents.formats.sidecar import load_sidecar, parse_sidecar

    if found.sidecar is None:
        return ExternalMetadata({}, None, meta), None
    try:
        data, content = load_sidecar(found.sidecar)
        return ExternalMetadata(clean_patch(parse_sidecar(data, found.sidecar)), content, meta), None
    except DocumentError as error:
        stays = "; what it said before holds" if known is not None and known.sidecar is not None else ""
        return ExternalMetadata(None, None, meta), f"{str(error).removesuffix('.')}{stays}"


def external_metadata_changed(known: FileRecord, outside: ExternalMetadata) -> bool:
    """Is something said of the file that was not said before, or no more what was?"""
    before = decode_metadata(known.meta)
    news = any(key not in before or before[key] != value for key, value in outside.meta.items())
    return news or (outside.sidecar is not None and outside.sidecar_hash != known.sidecar)


def failure_settings(options: ReadOptions) -> str | None:
    """The reading settings under which a file that failed would fail again; None if another try may succeed."""
    if options.ocr == "on" or options.passwords:
        return None
    return f"{options.pdf_engine} {options.timeout:g} {options.timeout_per_page:g} {options.memory_limit}"


def inspect_file(
    path: Path, source: str, known: FileRecord | None, options: ReadOptions
) -> tuple[SourceFile, str | None]:
    """The file as it is now, and why it can't be read, if so. Hashes it unless nothing can have changed."""
    engine = options.pdf_engine
    try:
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):
            return SourceFile(str(path), source, None, 0, 0, 0, engine), "it is not a regular file"
        if state.st_size > options.memory_limit and kind_of(path) != "jsonl":
            # Not even hashed: a file of holes costs nothing to make and hours to read.
            size, most = (number / 1e9 for number in (state.st_size, options.memory_limit))
            complaint = f"it has {size:,.1f} GB, and a file may have {most:,.1f} GB; split it"
            return SourceFile(str(path), source, None, 0, 0, 0, engine), complaint
        seen = size_and_times(state)
        # A file that was taken in by half has times and no hash: they say nothing about the other half.
        whole = known if known is not None and known.content is not None else None
        if whole and seen == (whole.size, whole.mtime_ns, whole.ctime_ns) and _settled(whole, seen):
            return SourceFile(str(path), source, whole.content, *seen, engine, birthtime_ns(state)), None
        return SourceFile(str(path), source, hash_file(path), *seen, engine, birthtime_ns(state)), None
    except OSError as error:
        return SourceFile(str(path), source, None, 0, 0, 0, engine), f"it cannot be read: {error.strerror or error}"


def _settled(known: FileRecord, seen: tuple[int, int, int]) -> bool:
    # A write within the clock's grain of the last one may leave the same times.
    # Only this asks what the clock said: if it said something odd, the file is read once more, and no harm is done.
    try:
        recorded = datetime.fromisoformat(known.ingested_at).timestamp() * 1e9
    except (ValueError, TypeError, OverflowError):
        return False
    return max(seen[1:]) < recorded - _SETTLED_NS


def _needs_other_reading(connection: sqlite3.Connection, known: FileRecord, options: ReadOptions) -> bool:
    """Does this run ask for a reading that the recorded one can't have had: OCR of bare pages, the other engine?"""
    if options.pdf_engine == "pypdf" and known.engine != "pypdf":
        kinds = connection.execute("SELECT 1 FROM documents WHERE file = ? AND kind = 'pdf'", (known.number,))
        if kinds.fetchone() is not None:
            return True
    if options.ocr == "on":
        warned = connection.execute("SELECT 1 FROM documents WHERE file = ? AND warnings != '[]'", (known.number,))
        return warned.fetchone() is not None
    return False


def _has_documents(connection: sqlite3.Connection, known: FileRecord) -> bool:
    found = connection.execute("SELECT 1 FROM documents WHERE file = ? LIMIT 1", (known.number,)).fetchone()
    return found is not None


def _failures(connection: sqlite3.Connection, known: FileRecord) -> list[Failure]:
    rows = connection.execute("SELECT source, reason FROM failures WHERE file = ? ORDER BY number", (known.number,))
    return [Failure(source, reason) for source, reason in rows]


def _moved_from(connection: sqlite3.Connection, file: SourceFile, taken: set[int]) -> FileRecord | None:
    """A file with the same content that is no longer where it was."""
    rows = connection.execute(f"{FILE_QUERY} WHERE hash = ? ORDER BY number", (file.hash,)).fetchall()
    for row in rows:
        known = file_record(row)
        if known.number not in taken and is_missing(known.path):
            return known
    return None


def _gone(connection: sqlite3.Connection, roots: Sequence[Path]) -> Iterator[FileRecord]:
    """Files under the roots that the store knows and the disk no longer has."""
    inside = tuple(fsencode(root).rstrip(b"/") for root in roots)
    for row in connection.execute(FILE_QUERY + " ORDER BY source"):
        path: bytes = row[1]
        if path == STDIN_PATH or not any(path == root or path.startswith(root + b"/") for root in inside):
            continue
        if is_missing(fsdecode(path)):
            yield file_record(row)

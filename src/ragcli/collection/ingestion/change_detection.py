"""Change detection: compare files on disk with the store and plan an ingest, without parsing.

A file is known by its absolute path and told apart by the hash of its bytes. Where size and both times are as
recorded, and old enough that a later write must have moved them, the bytes are not read: a program that restores the
modification time can't restore the change time.
"""

from __future__ import annotations

import sqlite3
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
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
from ragcli.collection.write.prepared_documents import SourceFile, reading_versions
from ragcli.documents.parser_registry import kind_of
from ragcli.errors import DocumentError
from ragcli.text.characters import replace_surrogates
from ragcli.types import Failure

if TYPE_CHECKING:
    from ragcli.documents.discovery import FoundFile
    from ragcli.documents.parse_options import ReadOptions

_SETTLED_NS: Final = 3_000_000_000


@dataclass(slots=True)
class IngestPlan:
    """What an ingest has to do.

    `to_read` has what was added, what changed and what is refreshed, in order of discovery. `refreshed` did not change,
    and another version of its parser has read it; `outdated` counts the documents of which that holds and which stay
    as they are. `unreadable` could not even be hashed, for the reason given. `failed_before` failed in an earlier run
    and would fail again. `touched` has new times but the old content, and of `described` other things are said than
    before, by a sidecar or by `--meta`. `warnings` are about sidecars that cannot be read.
    """

    added: list[SourceFile] = field(default_factory=list)
    changed: list[SourceFile] = field(default_factory=list)
    refreshed: list[SourceFile] = field(default_factory=list)
    to_read: list[SourceFile] = field(default_factory=list)
    moved: list[tuple[FileRecord, SourceFile]] = field(default_factory=list)
    touched: list[tuple[FileRecord, SourceFile]] = field(default_factory=list)
    described: list[tuple[FileRecord, SourceFile]] = field(default_factory=list)
    gone: list[FileRecord] = field(default_factory=list)
    unchanged: int = 0
    outdated: int = 0
    unreadable: list[tuple[SourceFile, str]] = field(default_factory=list)
    failed_before: list[Failure] = field(default_factory=list)
    warnings: list[Failure] = field(default_factory=list)

    def read(self, file: SourceFile, kind: list[SourceFile]) -> None:
        """Plan to read a file, which is of that kind: added, changed or refreshed."""
        kind.append(file)
        self.to_read.append(file)


def plan_ingest(
    connection: sqlite3.Connection,
    found: Sequence[FoundFile],
    roots: Sequence[Path],
    options: ReadOptions,
    meta: MetadataPatch = MappingProxyType({}),
    *,
    refresh: bool = False,
) -> IngestPlan:
    """Compare the files found with the store. `meta` is said of all of them.

    With `refresh`, what another version of its parser or of the chunker has read is planned to be read anew.
    """
    plan = IngestPlan()
    outdated = _outdated_documents(connection)
    taken: set[int] = set()
    for each in found:
        known = find_file_record(connection, each.path)
        file, complaint = inspect_file(each.path, each.source, known, options)
        outside, warning = _external_metadata(each, known, meta)
        file = replace(file, outside=outside)
        if warning is not None:
            plan.warnings.append(Failure(replace_surrogates(each.source), warning))
        if complaint is not None:
            plan.unreadable.append((file, complaint))
        elif known is None:
            origin = _moved_from(connection, file, taken)
            if origin is None:
                plan.read(file, plan.added)
            else:
                taken.add(origin.number)
                plan.moved.append((origin, file))
        elif file.hash == known.hash and not _needs_other_reading(connection, known, options):
            if refresh and known.number in outdated:
                plan.read(file, plan.refreshed)
                continue
            plan.unchanged += 1
            plan.outdated += outdated.get(known.number, 0)
            plan.failed_before += _failures(connection, known)
            if external_metadata_changed(known, outside):
                plan.described.append((known, file))
            elif (file.size, file.mtime_ns, file.ctime_ns) != (known.size, known.mtime_ns, known.ctime_ns):
                plan.touched.append((known, file))
        elif file.hash == known.failed_hash and known.failed_with == failure_settings(options):
            plan.failed_before += _failures(connection, known)
        else:
            plan.read(file, plan.changed if _has_documents(connection, known) else plan.added)
    plan.gone += (file for file in _gone(connection, roots) if file.number not in taken)
    return plan


def _outdated_documents(connection: sqlite3.Connection) -> dict[int, int]:
    """How many documents of each file were read by another version of their parser, or cut by one of the chunker.

    What no parser is there for now is not among them.
    """
    outdated: Counter[int] = Counter()
    query = "SELECT DISTINCT kind, parser, parser_version, chunker_version FROM documents"
    for kind, *versions in connection.execute(query).fetchall():
        now = reading_versions(kind)
        if now[1] and now != tuple(versions):
            outdated.update(
                dict(
                    connection.execute(
                        "SELECT file, count(*) FROM documents WHERE (kind, parser, parser_version, chunker_version)"
                        " = (?, ?, ?, ?) GROUP BY file",
                        (kind, *versions),
                    )
                )
            )
    return outdated


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

"""Parse files and JSONL streams in worker processes, isolating hangs, crashes and memory use."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ragcli.documents.file_access import display_name, open_regular_file, printable_path, read_errors_translated
from ragcli.documents.formats.jsonl_parser import (
    ByteStream,
    LineBatch,
    OversizedLine,
    line_batches,
    parse_numbered_lines,
)
from ragcli.documents.parse_options import MAX_LINE_BYTES, ReadOptions
from ragcli.documents.parser_registry import kind_of
from ragcli.documents.workers.ipc_frames import decode_documents
from ragcli.documents.workers.process_pool import ProcessPool, WorkerExit, WorkerReply, WorkerRequest
from ragcli.errors import DocumentError
from ragcli.types import Document, Failure

ParsedItems = Iterable[Document | Failure]
NumberedItem = tuple[int, Document | Failure]
_BYTES_PER_PAGE: Final = 3_000
"""A low guess, for the time that a PDF may take where its reader can't watch the clock."""


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """What a file gave. `content` is the hash of the bytes that were parsed, None if there is none to tell."""

    path: Path
    items: ParsedItems
    content: bytes | None = None


def read_files(paths: Iterable[Path], options: ReadOptions) -> Generator[ParsedFile, None, None]:
    """Reads files and gives each one's documents as soon as they are there, in no fixed order.

    A file that can't be read gives a Failure. A JSONL file's items are a stream, read while it is consumed and lost
    if it isn't; all others are lists. No more than a few files are read ahead. Closing the generator ends the
    workers, at once and in the middle of a document if need be.
    """
    if options.workers == 0:
        yield from _read_in_process(paths, options)
        return
    count = options.workers or os.cpu_count() or 1
    pool: ProcessPool[Path] = ProcessPool(count, asdict(options))
    try:
        for path in paths:
            if kind_of(path) == "jsonl":
                yield ParsedFile(path, _records(path, options))
                continue
            pool.ask(path, WorkerRequest({"path": os.fspath(path)}, seconds=_external_timeout(path, options)))
            while pool.waiting > 2 * count:
                yield _reading(*pool.answer(), options)
        while pool.waiting:
            yield _reading(*pool.answer(), options)
    finally:
        pool.end()


def read_lines(
    lines: Iterable[bytes] | ByteStream, name: str, options: ReadOptions
) -> Generator[NumberedItem, None, None]:
    """Reads JSON lines, those of a stream as they come: each one's number and what it holds.

    A bad line is a Failure that names `name` and the line's number. Closing the generator ends the worker.
    """
    pool: ProcessPool[LineBatch] | None = ProcessPool(1, asdict(options)) if options.workers != 0 else None
    try:
        for each in line_batches(lines):
            if isinstance(each, OversizedLine):
                yield each.number, _oversized_line_failure(each, name)
            elif pool is None:
                yield from parse_numbered_lines(each.lines, name, each.first)
            else:
                yield from _batch(pool, each, name, options)
    finally:
        if pool is not None:
            pool.end()


def _read_in_process(paths: Iterable[Path], options: ReadOptions) -> Iterator[ParsedFile]:
    from ragcli.documents.workers.worker_process import parse_file

    for path in paths:
        if kind_of(path) == "jsonl":
            yield ParsedFile(path, _records(path, options))
        else:
            items, content = parse_file(path, options)
            yield ParsedFile(path, items, content)


def _reading(path: Path, answer: WorkerReply | WorkerExit, options: ReadOptions) -> ParsedFile:
    if isinstance(answer, WorkerExit):
        reason = _exit_reason(display_name(path), answer, options, paged=kind_of(path) == "pdf")
        return ParsedFile(path, [Failure(printable_path(path), reason)])
    content = answer.header["content"]
    return ParsedFile(path, decode_documents(answer.body), bytes.fromhex(content) if content else None)


def _records(path: Path, options: ReadOptions) -> Iterator[Document | Failure]:
    name = printable_path(path)
    try:
        with (
            read_errors_translated(path),
            open_regular_file(path) as stream,
            closing(read_lines(stream, name, options)) as records,
        ):
            yield from (item for _, item in records)
    except DocumentError as error:
        yield Failure(name, str(error))


def _batch(pool: ProcessPool[LineBatch], batch: LineBatch, name: str, options: ReadOptions) -> Iterator[NumberedItem]:
    """The records of some lines. If the reader fails over them, each is tried alone, to tell the one to blame."""
    header = {"name": name, "first": batch.first, "lengths": [len(line) for line in batch.lines]}
    pool.ask(batch, WorkerRequest(header, b"".join(batch.lines), None if _workers_set_alarms() else options.timeout))
    _, answer = pool.answer()
    if isinstance(answer, WorkerReply) and "failed" not in answer.header:
        yield from zip(answer.header["numbers"], decode_documents(answer.body), strict=True)
    elif len(batch.lines) > 1:
        for number, line in enumerate(batch.lines, start=batch.first):
            yield from _batch(pool, LineBatch(number, (line,)), name, options)
    else:
        place = f"{name}, line {batch.first}"
        if isinstance(answer, WorkerExit):
            reason = _exit_reason(place, answer, options, paged=False)
        else:
            reason = f"{place} {answer.header['failed']}."
        yield batch.first, Failure(f"{name}:{batch.first}", reason)


def _oversized_line_failure(line: OversizedLine, name: str) -> Failure:
    reason = (
        f"{name}, line {line.number} has {line.size:,} bytes and was passed over; "
        f"a line may have {MAX_LINE_BYTES:,}, so split the record."
    )
    return Failure(f"{name}:{line.number}", reason)


def _workers_set_alarms() -> bool:
    return hasattr(signal, "setitimer")


def _external_timeout(path: Path, options: ReadOptions) -> float | None:
    """The time limit to be kept from outside, where readers can't: by a generous guess at the number of pages."""
    if _workers_set_alarms():
        return None
    pages = 1 + (path.stat().st_size if path.exists() else 0) // _BYTES_PER_PAGE
    return options.time_limit(pages, pages if options.ocr == "on" else 0)


def _exit_reason(name: str, death: WorkerExit, options: ReadOptions, *, paged: bool) -> str:
    """Why a reader died, as far as its death tells."""
    code = death.code
    if death.timed_out or code == -getattr(signal, "SIGALRM", 0):
        share = f" and {options.timeout_per_page:g} s for each page" if paged else ""
        return f"{name} took longer than {options.timeout:g} s{share}, so it was given up."
    if death.too_large:
        return f"{name} holds more than can be taken in as one document; split it."
    if death.never_started:
        return f"{name} could not be read: no process to read it in could be started (exit code {code})."
    if -code in (signal.SIGTERM, getattr(signal, "SIGKILL", 9)):
        return f"{name} was being read when the system ended the reader, most likely for want of memory."
    kind = signal.Signals(-code).name if code < 0 and -code in set(signal.Signals) else f"exit code {code}"
    return (
        f"{name} crashed its reader ({kind}); it is damaged, or needs more than the "
        f"{options.memory_limit >> 20} MB allowed."
    )

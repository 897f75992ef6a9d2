"""Reading in worker processes, where a file that hangs, crashes or fills the memory costs only itself.

PDFium is a large program in C++ that is fed by strangers, but no parser is to be trusted with a stranger's file: a
few kilobytes of markdown can keep one busy for hours, and a line of JSON can be as long as the memory. So everything
is parsed in readers (see `reader` and `pool`), each kept to its time, memory and output, and what they give is all
that the caller's process sees of a file. When one dies, its document is reported, with the reason as far as the death
tells it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from ragcli.documents.batches import Batch, Overlong, Stream, batches
from ragcli.documents.content import open_regular
from ragcli.documents.jsonl import numbered_records
from ragcli.documents.limits import LONGEST_LINE
from ragcli.documents.options import ReadOptions, called, shown
from ragcli.documents.pool import Answer, Death, Pool, Request
from ragcli.documents.read import kind_of
from ragcli.documents.wire import unpacked
from ragcli.errors import DocumentError
from ragcli.records import Document, Failure

Items = Iterable[Document | Failure]
Numbered = tuple[int, Document | Failure]
_BYTES_PER_PAGE: Final = 3_000
"""A low guess, for the time that a PDF may take where its reader can't watch the clock."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a file gave. `content` is the hash of the bytes that were parsed, None if there is none to tell."""

    path: Path
    items: Items
    content: bytes | None = None


def read_files(paths: Iterable[Path], options: ReadOptions) -> Generator[Reading, None, None]:
    """Reads files and gives each one's documents as soon as they are there, in no fixed order.

    A file that can't be read gives a Failure. A JSONL file's items are a stream, read while it is consumed and lost
    if it isn't; all others are lists. No more than a few files are read ahead. Closing the generator ends the
    workers, at once and in the middle of a document if need be.
    """
    if options.workers == 0:
        yield from _read_here(paths, options)
        return
    count = options.workers or os.cpu_count() or 1
    pool: Pool[Path] = Pool(count, asdict(options))
    try:
        for path in paths:
            if kind_of(path) == "jsonl":
                yield Reading(path, _records(path, options))
                continue
            pool.ask(path, Request({"path": os.fspath(path)}, seconds=_ceiling(path, options)))
            while pool.waiting > 2 * count:
                yield _reading(*pool.answer(), options)
        while pool.waiting:
            yield _reading(*pool.answer(), options)
    finally:
        pool.end()


def read_lines(lines: Iterable[bytes] | Stream, name: str, options: ReadOptions) -> Generator[Numbered, None, None]:
    """Reads JSON lines, those of a stream as they come: each one's number and what it holds.

    A bad line is a Failure that names `name` and the line's number. Closing the generator ends the worker.
    """
    pool: Pool[Batch] | None = Pool(1, asdict(options)) if options.workers != 0 else None
    try:
        for each in batches(lines):
            if isinstance(each, Overlong):
                yield each.number, _overlong(each, name)
            elif pool is None:
                yield from numbered_records(each.lines, name, each.first)
            else:
                yield from _batch(pool, each, name, options)
    finally:
        if pool is not None:
            pool.end()


def _read_here(paths: Iterable[Path], options: ReadOptions) -> Iterator[Reading]:
    from ragcli.documents.reader import read_whole

    for path in paths:
        if kind_of(path) == "jsonl":
            yield Reading(path, _records(path, options))
        else:
            items, content = read_whole(path, options)
            yield Reading(path, items, content)


def _reading(path: Path, answer: Answer | Death, options: ReadOptions) -> Reading:
    if isinstance(answer, Death):
        reason = _obituary(called(path), answer, options, paged=kind_of(path) == "pdf")
        return Reading(path, [Failure(shown(path), reason)])
    content = answer.header["content"]
    return Reading(path, unpacked(answer.body), bytes.fromhex(content) if content else None)


def _records(path: Path, options: ReadOptions) -> Iterator[Document | Failure]:
    try:
        with open_regular(path) as stream, closing(read_lines(stream, shown(path), options)) as records:
            for _, item in records:
                yield item
    except DocumentError as error:
        yield Failure(shown(path), str(error))
    except OSError as error:
        yield Failure(shown(path), f"{called(path)} cannot be read: {error.strerror or error}.")


def _batch(pool: Pool[Batch], batch: Batch, name: str, options: ReadOptions) -> Iterator[Numbered]:
    """The records of some lines. If the reader fails over them, each is tried alone, to tell the one to blame."""
    header = {"name": name, "first": batch.first, "lengths": [len(line) for line in batch.lines]}
    pool.ask(batch, Request(header, b"".join(batch.lines), None if _watch_themselves() else options.timeout))
    _, answer = pool.answer()
    if isinstance(answer, Answer) and "failed" not in answer.header:
        yield from zip(answer.header["numbers"], unpacked(answer.body), strict=True)
    elif len(batch.lines) > 1:
        for number, line in enumerate(batch.lines, start=batch.first):
            yield from _batch(pool, Batch(number, (line,)), name, options)
    else:
        place = f"{name}, line {batch.first}"
        if isinstance(answer, Death):
            reason = _obituary(place, answer, options, paged=False)
        else:
            reason = f"{place} {answer.header['failed']}."
        yield batch.first, Failure(f"{name}:{batch.first}", reason)


def _overlong(line: Overlong, name: str) -> Failure:
    reason = (
        f"{name}, line {line.number} has {line.size:,} bytes and was passed over; "
        f"a line may have {LONGEST_LINE:,}, so split the record."
    )
    return Failure(f"{name}:{line.number}", reason)


def _watch_themselves() -> bool:
    return hasattr(signal, "setitimer")


def _ceiling(path: Path, options: ReadOptions) -> float | None:
    """The time limit to be kept from outside, where readers can't: by a generous guess at the number of pages."""
    if _watch_themselves():
        return None
    size = path.stat().st_size if path.exists() else 0
    per_page = options.timeout_per_page + (options.timeout_per_ocr_page if options.ocr == "on" else 0.0)
    return options.timeout + per_page * (1 + size / _BYTES_PER_PAGE)


def _obituary(name: str, death: Death, options: ReadOptions, *, paged: bool) -> str:
    """Why a reader died, as far as its death tells."""
    code = death.code
    if death.timed_out or code == -getattr(signal, "SIGALRM", 0):
        share = f" and {options.timeout_per_page:g} s for each page" if paged else ""
        return f"{name} took longer than {options.timeout:g} s{share}, so it was given up."
    if death.too_large:
        return f"{name} holds more than can be taken in as one document; split it."
    if death.unborn:
        return f"{name} could not be read: no process to read it in could be started (exit code {code})."
    if -code in (signal.SIGTERM, getattr(signal, "SIGKILL", 9)):
        return f"{name} was being read when the system ended the reader, most likely for want of memory."
    kind = signal.Signals(-code).name if code < 0 and -code in set(signal.Signals) else f"exit code {code}"
    return (
        f"{name} crashed its reader ({kind}); it is damaged, or needs more than the "
        f"{options.memory_limit >> 20} MB allowed."
    )

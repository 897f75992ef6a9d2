"""Reading in worker processes, where a file that hangs, crashes or fills the memory costs only itself.

PDFium is a large program in C++ that is fed by strangers, so PDFs, and web pages whose trees can be made hostile, are
never read in the caller's process. Small notes are: for them the workers' start would cost more than the reading.

Workers come from a fork server: a fork of the caller would copy the threads' locks of its models and indexes in
whatever state they are, and a fresh interpreter for each worker takes 0.3 s where a fork of a clean server takes
0.02 s. Windows has no fork and gets fresh interpreters. The caller's main module is not run again in the workers, as
multiprocessing otherwise does: they need nothing from it, and a user's script needs no `if __name__ == "__main__"`.

Each worker limits itself, for only it knows how many pages its document has: an alarm that no one catches ends it,
even in the middle of C++. The pool sees it die, starts another, and the document is reported.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragcli.documents.options import ReadOptions, called, shown
from ragcli.documents.read import kind_of, read_file
from ragcli.errors import RagcliError
from ragcli.records import Document, Failure

if TYPE_CHECKING:
    from pebble import ProcessPool

_SMALL = 262_144
"""Notes up to this many bytes are read by the caller itself."""
_OCR_MEMORY = 6 << 30
"""What the OCR models and their libraries may map on top of the memory limit."""
_ATTEMPTS = 2
"""How often a document is given to a pool that breaks down as a whole, before it is given up."""

Items = Iterable[Document | Failure]


def read_files(paths: Iterable[Path], options: ReadOptions) -> Iterator[tuple[Path, Items]]:
    """Reads files and gives each one's documents as soon as they are there, in no fixed order.

    A file that can't be read gives a Failure. A JSONL file's items are a stream, read while it is consumed and lost
    if it isn't; all others are lists. No more than a few files are read ahead. Closing the generator ends the
    workers, at once and in the middle of a document if need be.
    """
    crew = _Crew(options)
    try:
        for path in paths:
            if _is_read_here(path):
                yield path, _safely(path, options)
                continue
            crew.add(path)
            while crew.full:
                yield from crew.done()
        while crew.busy:
            yield from crew.done()
    finally:
        crew.end()


def _is_read_here(path: Path) -> bool:
    kind = kind_of(path)
    if kind == "jsonl":
        return True
    if kind in ("pdf", "html"):
        return False
    try:
        return path.stat().st_size <= _SMALL
    except OSError:
        return True


def _safely(path: Path, options: ReadOptions) -> Items:
    """The file's items, read in this process; errors become a Failure."""
    items = _caught(path, options)
    return items if kind_of(path) == "jsonl" else list(items)


def _caught(path: Path, options: ReadOptions, told: Any = None) -> Iterator[Document | Failure]:
    try:
        yield from read_file(path, options, pages_known=told)
    except RagcliError as error:
        yield Failure(shown(path), str(error))
    except MemoryError:
        limit = options.memory_limit >> 20
        yield Failure(shown(path), f"{called(path)} needs more memory than the {limit} MB allowed.")
    except Exception as error:  # one bad file never stops the rest
        reason = " ".join(str(error).split())[:200]
        yield Failure(shown(path), f"{called(path)} cannot be read: {type(error).__name__} {reason}".rstrip() + ".")


class _Crew:
    """The workers and what they are at."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._count = max(1, options.workers or os.cpu_count() or 1)
        self._pool: ProcessPool | None = None
        self._work: dict[Future[list[Document | Failure]], tuple[Path, int]] = {}

    @property
    def busy(self) -> bool:
        return bool(self._work)

    @property
    def full(self) -> bool:
        """True if there is enough work to keep every worker going."""
        return len(self._work) >= 2 * self._count + 1

    def add(self, path: Path, attempt: int = 1) -> None:
        if self._pool is None:
            self._pool = _started(self._count, self._options)
        future = self._pool.schedule(
            _work, args=(os.fspath(path), self._options), timeout=_ceiling(path, self._options)
        )
        self._work[future] = (path, attempt)

    def done(self) -> Iterator[tuple[Path, Items]]:
        """Waits for a document to be done, and gives all that are."""
        from concurrent.futures.process import BrokenProcessPool

        ready, _ = wait(self._work, return_when=FIRST_COMPLETED)
        broken: list[tuple[Path, int]] = []
        for future in ready:
            path, attempt = self._work.pop(future)
            error = future.exception()
            if error is None:
                yield path, future.result()
            elif isinstance(error, BrokenProcessPool | CancelledError) and attempt < _ATTEMPTS:
                broken.append((path, attempt))
            else:
                yield path, [Failure(shown(path), _obituary(path, error, self._options))]
        if broken:
            broken += self._work.values()
            self._work.clear()
            self.end()
            for path, attempt in broken:
                self.add(path, attempt + 1)

    def end(self) -> None:
        """Ends the workers, whatever they are at."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.stop()  # type: ignore[no-untyped-call]
            pool.join()


def _ceiling(path: Path, options: ReadOptions) -> float | None:
    """The pool's own time limit, where workers can't limit themselves: by a generous guess at the number of pages."""
    if hasattr(signal, "setitimer"):
        return None
    size = path.stat().st_size if path.exists() else 0
    return options.timeout + (options.timeout_per_page + _per_ocr_page(options)) * (1 + size / 3_000)


def _per_ocr_page(options: ReadOptions) -> float:
    return options.timeout_per_ocr_page if options.ocr == "on" else 0.0


def _started(count: int, options: ReadOptions) -> ProcessPool:
    from pebble import ProcessPool

    from ragcli.documents.processes import worker_context

    return ProcessPool(
        max_workers=count, max_tasks=200, initializer=_prepare, initargs=(options,), context=worker_context()
    )


def _prepare(options: ReadOptions) -> None:
    """Runs first in every worker: signals as the system has them, and the memory limit."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    limit = options.memory_limit + (_OCR_MEMORY if options.ocr == "on" else 0)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    except (ImportError, ValueError, OSError):  # Windows has none, macOS refuses
        return


def _work(path: str, options: ReadOptions) -> list[Document | Failure]:
    """One document, in a worker."""
    if not hasattr(signal, "setitimer"):
        return list(_caught(Path(path), options))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, options.timeout)
    try:
        return list(_caught(Path(path), options, partial(_allow, options)))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _allow(options: ReadOptions, pages: int, ocr_pages: int) -> None:
    """Sets the alarm anew for a document of so many pages."""
    seconds = options.timeout + options.timeout_per_page * pages + options.timeout_per_ocr_page * ocr_pages
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _obituary(path: Path, error: BaseException, options: ReadOptions) -> str:
    """Why a worker died, as far as its death tells."""
    name = called(path)
    code = getattr(error, "exitcode", None)
    if isinstance(error, TimeoutError) or code == -getattr(signal, "SIGALRM", 0):
        return (
            f"{name} took longer than {options.timeout:g} s and {options.timeout_per_page:g} s for each page, "
            "so it was given up."
        )
    if code is not None and -code in (signal.SIGTERM, getattr(signal, "SIGKILL", 9)):
        return f"{name} was being read when the system ended the reader, most likely for want of memory."
    if code is not None:
        kind = signal.Signals(-code).name if code < 0 and -code in set(signal.Signals) else f"exit code {code}"
        return (
            f"{name} crashed its reader ({kind}); it is damaged, or needs more than the "
            f"{options.memory_limit >> 20} MB allowed."
        )
    return f"{name} could not be read: its reader was lost ({type(error).__name__})."

"""A reader: the process in which documents are parsed, one after another, within limits.

It is started by `pool` and takes requests from its standard input until that ends, which it does when the process
that started it is gone, however it went. It limits itself, for only it knows how many pages its document has: an
alarm that no one catches ends it, even in the middle of C++. Its memory is limited by the system, and it leaves no
core file.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Final

from ragcli.documents.content import content_hash
from ragcli.documents.limits import LARGEST_ANSWER
from ragcli.documents.options import ReadOptions, called, shown
from ragcli.documents.read import load, parse
from ragcli.documents.wire import Header, packed, read_frame, write_frame
from ragcli.errors import RagcliError
from ragcli.records import Document, Failure

_OCR_MEMORY: Final = 6 << 30
"""What the OCR models and their libraries may map on top of the memory limit."""

_LEAST_BYTES_A_PAGE: Final = 100
"""Pages are hardly ever told in fewer bytes of a PDF."""

Answer = tuple[Header, bytes]


def main() -> None:
    """Answer requests until there are no more."""
    requests, answers = _private_streams()
    opening = read_frame(requests, LARGEST_ANSWER)
    if opening is None:
        return
    options = ReadOptions(**{**opening[0], "passwords": tuple(opening[0]["passwords"])})
    _limit(options)
    write_frame(answers, {})
    waiting: SimpleQueue[Answer] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests, waiting), daemon=True).start()
    while True:
        header, body = waiting.get()
        said, content = _answer(header, body, options)
        write_frame(answers, said, content)


def _private_streams() -> tuple[IO[bytes], IO[bytes]]:
    """The streams of requests and answers, out of the way of whatever a library prints."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nowhere, stream)
    os.close(nowhere)
    return requests, answers


def _listen(requests: IO[bytes], waiting: SimpleQueue[Answer]) -> None:
    """Take requests, in a thread, so that their end ends a reader that is busy."""
    try:
        while (frame := read_frame(requests, LARGEST_ANSWER)) is not None:
            waiting.put(frame)
    finally:
        if os.name == "posix" and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # the programs that this one has called, too
        os._exit(0)


def _limit(options: ReadOptions) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM, signal.SIGTERM})
    try:
        import resource
    except ImportError:  # Windows has none
        return
    memory = options.memory_limit + (_OCR_MEMORY if options.ocr == "on" else 0)
    for kind, limit in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_AS, memory)):
        try:
            resource.setrlimit(kind, (limit, limit))
        except (ValueError, OSError):  # macOS refuses a limit on memory
            continue


def _answer(header: Header, body: bytes, options: ReadOptions) -> Answer:
    if "path" in header:
        return _file(Path(header["path"]), options)
    return _lines(header, body, options)


def _file(path: Path, options: ReadOptions) -> Answer:
    with _alarm(options):
        items, content = read_whole(path, options, pages_known=partial(_allow, path, options))
        return {"content": content.hex() if content is not None else None}, _packed(items, path, options)


def read_whole(
    path: Path, options: ReadOptions, *, pages_known: Callable[[int, int], None] | None = None
) -> tuple[list[Document | Failure], bytes | None]:
    """The documents of a file that is no JSONL, and the hash of the bytes that they were read from.

    Whatever goes wrong becomes a Failure. `pages_known` as for `read.read_file`.
    """
    content: bytes | None = None
    try:
        data = load(path)
        content = content_hash(data)
        return [parse(data, path, options, pages_known=pages_known)], content
    except RagcliError as error:
        return [Failure(shown(path), str(error))], content
    except MemoryError:
        return [_too_large(path, options)], content
    except Exception as error:  # one bad file never stops the rest
        return [Failure(shown(path), f"{called(path)} cannot be read: {_reason(error)}.")], content


def _lines(header: Header, body: bytes, options: ReadOptions) -> Answer:
    """The records of a batch of JSON lines. One that fails as a whole is answered by the reason alone."""
    from ragcli.documents.jsonl import numbered_records

    lines, start = [], 0
    for length in header["lengths"]:
        lines.append(body[start : start + length])
        start += length
    name, first = header["name"], header["first"]
    try:
        with _alarm(options):
            found = list(numbered_records(lines, name, first))
            return {"numbers": [number for number, _ in found]}, packed(item for _, item in found)
    except MemoryError:
        return {"failed": f"needs more memory than the {options.memory_limit >> 20} MB allowed"}, b""
    except Exception as error:
        return {"failed": f"cannot be read: {_reason(error)}"}, b""


def _packed(items: list[Document | Failure], path: Path, options: ReadOptions) -> bytes:
    try:
        return packed(items)
    except MemoryError:
        return packed([_too_large(path, options)])


def _too_large(path: Path, options: ReadOptions) -> Failure:
    limit = options.memory_limit >> 20
    return Failure(shown(path), f"{called(path)} needs more memory than the {limit} MB allowed.")


def _reason(error: Exception) -> str:
    return f"{type(error).__name__} {' '.join(str(error).split())[:200]}".rstrip()


@contextmanager
def _alarm(options: ReadOptions) -> Iterator[None]:
    if not hasattr(signal, "setitimer"):  # Windows: the process that started this one watches the clock
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, options.timeout)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _allow(path: Path, options: ReadOptions, pages: int, pictures: int) -> None:
    """Set the alarm anew for a document with so many pages, `pictures` of them to be read by OCR.

    A small file may claim a million pages; it gets time for as many as it can have.
    """
    if hasattr(signal, "setitimer"):
        most = 1 + path.stat().st_size // _LEAST_BYTES_A_PAGE
        pages, pictures = min(pages, most), min(pictures, most)
        seconds = options.timeout + options.timeout_per_page * pages + options.timeout_per_ocr_page * pictures
        signal.setitimer(signal.ITIMER_REAL, seconds)

"""Main loop of a parser process: parses documents under time and memory limits."""

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

from ragcli.documents.file_access import content_hash, display_name, printable_path, read_bytes
from ragcli.documents.parse_options import MAX_REPLY_BYTES, ReadOptions
from ragcli.documents.parser_registry import parse_documents
from ragcli.documents.workers.ipc_frames import FrameHeader, encode_documents, read_frame, write_frame
from ragcli.errors import RagcliError
from ragcli.types import Document, Failure

_OCR_MEMORY: Final = 6 << 30
"""What the OCR models and their libraries may map on top of the memory limit."""

_LEAST_BYTES_A_PAGE: Final = 100
"""Pages are hardly ever told in fewer bytes of a PDF."""

Frame = tuple[FrameHeader, bytes]


def worker_main() -> None:
    """Answer requests until there are no more."""
    requests, answers = _private_streams()
    opening = read_frame(requests, MAX_REPLY_BYTES)
    if opening is None:
        return
    options = ReadOptions(**{**opening[0], "passwords": tuple(opening[0]["passwords"])})
    _set_resource_limits(options)
    write_frame(answers, {})
    waiting: SimpleQueue[Frame] = SimpleQueue()
    threading.Thread(target=_receive_requests, args=(requests, waiting), daemon=True).start()
    while True:
        header, body = waiting.get()
        said, content = _handle_request(header, body, options)
        write_frame(answers, said, content)


def _private_streams() -> tuple[IO[bytes], IO[bytes]]:
    """The streams of requests and answers, out of the way of whatever a library prints."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nowhere, stream)
    os.close(nowhere)
    return requests, answers


def _receive_requests(requests: IO[bytes], waiting: SimpleQueue[Frame]) -> None:
    """Take requests, in a thread, so that their end ends a reader that is busy."""
    try:
        while (frame := read_frame(requests, MAX_REPLY_BYTES)) is not None:
            waiting.put(frame)
    finally:
        if os.name == "posix" and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # the programs that this one has called, too
        os._exit(0)


def _set_resource_limits(options: ReadOptions) -> None:
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


def _handle_request(header: FrameHeader, body: bytes, options: ReadOptions) -> Frame:
    if "path" in header:
        return _handle_file(Path(header["path"]), options)
    return _handle_lines(header, body, options)


def _handle_file(path: Path, options: ReadOptions) -> Frame:
    with _time_limit(options):
        items, content = parse_file(path, options, on_page_count=partial(_extend_time_limit, path, options))
        return {"content": content.hex() if content is not None else None}, _encoded_or_failure(items, path, options)


def parse_file(
    path: Path, options: ReadOptions, *, on_page_count: Callable[[int, int], None] | None = None
) -> tuple[list[Document | Failure], bytes | None]:
    """The documents of a file that is no JSONL, and the hash of the bytes that they were read from.

    Whatever goes wrong becomes a Failure. `on_page_count` as for `ragcli.documents.parser_registry.read_file`.
    """
    content: bytes | None = None
    try:
        data = read_bytes(path)
        content = content_hash(data)
        return [*parse_documents(data, path, options, on_page_count=on_page_count)], content
    except RagcliError as error:
        return [Failure(printable_path(path), str(error))], content
    except MemoryError:
        return [_too_large(path, options)], content
    except Exception as error:  # one bad file never stops the rest
        return [Failure(printable_path(path), f"{display_name(path)} cannot be read: {_reason(error)}.")], content


def _handle_lines(header: FrameHeader, body: bytes, options: ReadOptions) -> Frame:
    """The records of a batch of JSON lines. One that fails as a whole is answered by the reason alone."""
    from ragcli.documents.formats.jsonl_parser import parse_numbered_lines

    lines, start = [], 0
    for length in header["lengths"]:
        lines.append(body[start : start + length])
        start += length
    name, first = header["name"], header["first"]
    try:
        with _time_limit(options):
            found = list(parse_numbered_lines(lines, name, first))
            return {"numbers": [number for number, _ in found]}, encode_documents(item for _, item in found)
    except MemoryError:
        return {"failed": f"needs more memory than the {options.memory_limit >> 20} MB allowed"}, b""
    except Exception as error:
        return {"failed": f"cannot be read: {_reason(error)}"}, b""


def _encoded_or_failure(items: list[Document | Failure], path: Path, options: ReadOptions) -> bytes:
    try:
        return encode_documents(items)
    except MemoryError:
        return encode_documents([_too_large(path, options)])
    except Exception as error:  # a plugin's parser may give values that are none of metadata's
        return encode_documents(
            [Failure(printable_path(path), f"{display_name(path)} cannot be read: {_reason(error)}.")]
        )


def _too_large(path: Path, options: ReadOptions) -> Failure:
    limit = options.memory_limit >> 20
    return Failure(printable_path(path), f"{display_name(path)} needs more memory than the {limit} MB allowed.")


def _reason(error: Exception) -> str:
    return f"{type(error).__name__} {' '.join(str(error).split())[:200]}".rstrip()


@contextmanager
def _time_limit(options: ReadOptions) -> Iterator[None]:
    if not hasattr(signal, "setitimer"):  # Windows: the process that started this one watches the clock
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, options.timeout)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _extend_time_limit(path: Path, options: ReadOptions, pages: int, pictures: int) -> None:
    """Set the alarm anew for a document with so many pages, `pictures` of them to be read by OCR.

    A small file may claim a million pages; it gets time for as many as it can have.
    """
    if hasattr(signal, "setitimer"):
        most = 1 + path.stat().st_size // _LEAST_BYTES_A_PAGE
        signal.setitimer(signal.ITIMER_REAL, options.time_limit(min(pages, most), min(pictures, most)))

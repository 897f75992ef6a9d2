"""Pool of parser processes (fresh interpreters, not forks), with a thread for each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import IO, Final, Generic, TypeVar, cast

from ragcli.documents.parse_options import MAX_REPLY_BYTES
from ragcli.documents.workers.ipc_frames import FrameHeader, FrameTooLargeError, read_frame, write_frame

_REQUESTS_PER_PROCESS: Final = 500
"""Requests to one process, which may not give back all memory it has used."""
_WORKER_COMMAND: Final = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from ragcli.documents.workers.worker_process import worker_main; worker_main()"
)

RequestKey = TypeVar("RequestKey")


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """What a reader is asked. `seconds` is how long it may take where it can't watch the clock itself."""

    header: FrameHeader
    body: bytes = b""
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class WorkerReply:
    """What a reader said."""

    header: FrameHeader
    body: bytes


@dataclass(frozen=True, slots=True)
class WorkerExit:
    """How a reader ended over a request: its exit code (negative: a signal's), and what is known beyond it."""

    code: int
    timed_out: bool = False
    too_large: bool = False
    never_started: bool = False


class ProcessPool(Generic[RequestKey]):
    """Up to `count` readers that are told `settings` when they start. Answers come in no fixed order."""

    def __init__(self, count: int, settings: FrameHeader) -> None:
        self._count = count
        self._settings = settings
        self._requests: SimpleQueue[tuple[RequestKey, WorkerRequest] | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[RequestKey, WorkerReply | WorkerExit | Exception]] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._readers: set[_Worker] = set()
        self._lock = threading.Lock()
        self._ended = False
        self.waiting = 0
        """Requests not yet answered."""

    def ask(self, key: RequestKey, request: WorkerRequest) -> None:
        """Have a request done; `key` comes back with its answer."""
        self.waiting += 1
        self._requests.put((key, request))
        if len(self._threads) < min(self._count, self.waiting):
            thread = threading.Thread(target=self._run_worker, name="ragcli-reader", daemon=True)
            self._threads.append(thread)
            thread.start()

    def answer(self) -> tuple[RequestKey, WorkerReply | WorkerExit]:
        """Wait for the next answer. Raises OSError if no process can be started."""
        key, answer = self._answers.get()
        self.waiting -= 1
        if isinstance(answer, Exception):
            raise answer
        return key, answer

    def end(self) -> None:
        """End the readers, at once and whatever they are at."""
        with self._lock:
            self._ended = True
            for reader in self._readers:
                reader.kill()
        for _ in self._threads:
            self._requests.put(None)
        for thread in self._threads:
            thread.join()

    def _run_worker(self) -> None:
        """One reader's thread."""
        reader: _Worker | None = None
        while (asked := self._requests.get()) is not None and not self._ended:
            key, request = asked
            answer: WorkerReply | WorkerExit | Exception
            try:
                if reader is None:
                    reader = self._started()
                answer = reader.answer(request)
            except Exception as error:
                answer = error
            if reader is not None and (not isinstance(answer, WorkerReply) or reader.answered >= _REQUESTS_PER_PROCESS):
                self._stop(reader)
                reader = None
            self._answers.put((key, answer))
        if reader is not None:
            self._stop(reader)

    def _started(self) -> _Worker:
        with self._lock:
            if self._ended:
                raise OSError("the readers were ended")
            reader = _Worker(self._settings)
            self._readers.add(reader)
        return reader

    def _stop(self, reader: _Worker) -> None:
        reader.end()
        with self._lock:
            self._readers.discard(reader)


class _Worker:
    """A process that reads."""

    def __init__(self, settings: FrameHeader) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WORKER_COMMAND, *(path for path in sys.path if path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            process_group=0 if os.name == "posix" else None,
        )
        self._lock = threading.Lock()
        self._code: int | None = None
        self._settings = settings
        self._ready = False
        self._timed_out = False
        self.answered = 0

    def answer(self, request: WorkerRequest) -> WorkerReply | WorkerExit:
        """What it says to a request, or how it died over it."""
        watch = None if request.seconds is None else threading.Timer(request.seconds, self._expire)
        if watch is not None:
            watch.start()
        try:
            said = self._told(request)
        except FrameTooLargeError:
            return WorkerExit(self._reap(), too_large=True)
        finally:
            if watch is not None:
                watch.cancel()
        if said is None:
            return WorkerExit(self._reap(), timed_out=self._timed_out, never_started=not self._ready)
        self.answered += 1
        return WorkerReply(*said)

    def kill(self) -> None:
        """End it now, with whatever program it is waiting for."""
        with self._lock:
            if self._code is None:
                self._kill()

    def end(self) -> None:
        """End it, and keep nothing of it."""
        self._reap()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what was still to be sent
                cast("IO[bytes]", pipe).close()

    def _reap(self) -> int:
        """Its exit code; ends it first if it lives. Its group goes before it does, since then the number is free."""
        with self._lock:
            if self._code is None:
                self._kill()
                self._code = self._process.wait()
            return self._code

    def _kill(self) -> None:
        if os.name == "posix":
            with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of one that is dead
                os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()

    def _told(self, request: WorkerRequest) -> tuple[FrameHeader, bytes] | None:
        requests, answers = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        with suppress(OSError):  # a pipe that broke has its end at the other end too
            if not self._ready:
                write_frame(requests, self._settings)
                if read_frame(answers, MAX_REPLY_BYTES) is None:
                    return None
                self._ready = True
            write_frame(requests, request.header, request.body)
        return read_frame(answers, MAX_REPLY_BYTES)

    def _expire(self) -> None:
        self._timed_out = True
        self.kill()

"""Doing things in a process of their own: a fork of this one, which has everything imported already.

A fork costs milliseconds where a new interpreter with all libraries costs seconds, so a process can be killed some
hundred times a minute. It is the real thing: the commands run in it as `ragcli` runs them, from the words of the
call to the exit code.
"""

from __future__ import annotations

import faulthandler
import gc
import io
import json
import os
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from scripts.torturing.gate import Gate, close_gate

import ragcli.models
from ragcli.__main__ import EXIT_BUG, main

if TYPE_CHECKING:
    from ragcli.documents.parse_options import ReadOptions

_IMPORTED: Final = """
onnxruntime platformdirs re2 sklearn.feature_extraction.text tantivy ragcli.cli.app
ragcli.cli.commands.collections_command ragcli.cli.commands.documents_command ragcli.cli.commands.grep_command
ragcli.cli.commands.ingest_command ragcli.cli.render.json_output ragcli.cli.render.progress_bar
ragcli.cli.commands.query_command ragcli.cli.commands.reindex_command ragcli.cli.render.ingest_report
ragcli.cli.commands.show_command ragcli.collection.write.compaction ragcli.collection.ingestion.ingest_run
ragcli.collection.ingestion.document_ingester ragcli.collection.maintain.reindexing
ragcli.collection.maintain.repairing ragcli.collection.maintain.migrations.migration_runner
ragcli.collection.maintain.verification ragcli.config.config_loader ragcli.documents.chunking
ragcli.documents.discovery ragcli.documents.pdf.reflow ragcli.documents.formats.jsonl_parser
ragcli.documents.formats.markdown_parser ragcli.documents.formats.plain_text_parser
ragcli.documents.workers.parallel_parsing ragcli.index.pattern_matching ragcli.index.bm25 ragcli.index.tfidf
ragcli.retrieval.exact_search ragcli.retrieval.searcher ragcli.retrieval.rerank
"""
"""What the commands import when they are called."""

SECONDS: Final = 180
"""How long a child may take. What takes longer hangs; much, for a busy machine stands still at times."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a child ended: exit code or minus the signal, its function's value, what it wrote, what it left running."""

    code: int
    value: Any
    told: str
    left: int = 0

    @property
    def killed(self) -> bool:
        """Was it killed as it should be?"""
        return self.code == -signal.SIGKILL

    @property
    def failure(self) -> str | None:
        """What is wrong with a child that should have come to its end; None if it did."""
        if self.code == 0:
            return None
        kind = f"ended with code {self.code}"
        if self.code < 0:
            kind = "hung" if self.code == -signal.SIGALRM else f"died of {signal.Signals(-self.code).name}"
        # The stack of what hangs begins with the last call, a traceback ends with it.
        told = self.told[-2000:] if self.code > 0 else self.told[:2000]
        return f"{kind}: {told.strip()}"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output, read; None where there is none."""
        return json.loads(self.out) if self.out.strip() else None

    @property
    def is_bug(self) -> bool:
        """Would a person have seen a traceback, or the sentence that stands for one?"""
        return self.code == EXIT_BUG or "Traceback" in self.err


class Child:
    """A fork of this process that runs a function. With a gate, its writes are watched from the start."""

    def __init__(self, function: Callable[[], Any], gate: Gate | None = None, seconds: int = SECONDS) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self._gate = gate
        # Closed by `wait`.
        self._told = tempfile.TemporaryFile()  # noqa: SIM115
        self._value = tempfile.TemporaryFile()  # noqa: SIM115
        self._channel, there = socket.socketpair()
        self.process = os.fork()
        if self.process == 0:
            channel = there if gate is not None else None
            _be_child(function, self._told.fileno(), self._value.fileno(), channel, seconds)
        there.close()

    def wait(self) -> Ending:
        """Wait for its end."""
        left = 0
        with self._told, self._value, self._channel:
            if self._gate is None:
                code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
            else:
                _, descriptors, _, _ = socket.recv_fds(self._channel, 1, 1)
                try:
                    code, left = self._gate.serve(descriptors[0], self.process)
                finally:
                    os.close(descriptors[0])
            self._told.seek(0)
            self._value.seek(0)
            value = json.loads(self._value.read()) if code == 0 else None
            return Ending(code, value, self._told.read().decode(errors="replace"), left)


def in_child(function: Callable[[], Any], gate: Gate | None = None, seconds: int = SECONDS) -> Ending:
    """Run a function in a fork of this process."""
    return Child(function, gate, seconds).wait()


def in_children(count: int, function: Callable[[int], Any], seconds: int) -> list[Any]:
    """The values of a function called with 0, 1, … in so many forks at once. RuntimeError if one fails."""
    started = [Child(partial(function, number), seconds=seconds) for number in range(count)]
    return [value_of(child.wait()) for child in started]


def value_of(ending: Ending) -> Any:
    """What the child's function returned. RuntimeError if it did not come so far."""
    if ending.failure:
        raise RuntimeError(f"a child {ending.failure}")
    return ending.value


def _be_child(function: Callable[[], Any], told: int, value: int, channel: socket.socket | None, seconds: int) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        os.dup2(told, 1)
        os.dup2(told, 2)
        faulthandler.register(signal.SIGALRM, file=2, chain=True)
        signal.alarm(seconds)
        if channel is not None:
            close_gate(channel)
        given = json.dumps(function()).encode()
        while given:
            given = given[os.write(value, given) :]
        code = 0
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        sys.__stderr__.flush()  # type: ignore[union-attr]
        os._exit(code)


def command(*arguments: str) -> Answer:
    """A command, called in this process as a person calls it, with its output caught."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = io.StringIO(), io.StringIO()
    try:
        code = main(list(arguments))
        return Answer(code, sys.stdout.getvalue(), sys.stderr.getvalue())
    finally:
        sys.stdout, sys.stderr = streams


class CountingEncoder:
    """A model that was loaded once, and knows how many texts it has embedded."""

    def __init__(self, encoder: Any) -> None:
        self._encoder = encoder
        self.embedded = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._encoder, name)

    def encode_tokens(self, texts: Sequence[str]) -> Any:
        """Vectors and token vectors, as the model makes them."""
        self.embedded += len(texts)
        return self._encoder.encode_tokens(texts)


def warm_up(model: str) -> CountingEncoder:
    """Import what the commands will need, and load the model, for all children to come."""
    from importlib import import_module

    for name in _IMPORTED.split():
        import_module(name)
    loaded = CountingEncoder(ragcli.models.load_encoder(model))
    ragcli.models.load_encoder = lambda *_arguments, **_options: loaded
    # What is here by now stays, so the children's collectors need not touch, and thereby copy, all of it.
    gc.freeze()
    return loaded


def read_here() -> None:
    """From here on, documents are parsed in this process and not in readers of their own."""
    from ragcli.documents.workers import parallel_parsing

    files, records = parallel_parsing.read_files, parallel_parsing.read_lines

    def files_here(paths: Iterable[Path], options: ReadOptions) -> Generator[parallel_parsing.ParsedFile, None, None]:
        return files(paths, replace(options, workers=0))

    def records_here(lines: Any, name: str, options: ReadOptions) -> Generator[Any, None, None]:
        return records(lines, name, replace(options, workers=0))

    parallel_parsing.read_files, parallel_parsing.read_lines = files_here, records_here

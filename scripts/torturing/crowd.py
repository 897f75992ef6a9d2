"""Readers in a crowd while a writer is at work: every answer must be that of one committed state, whole.

Eight processes ask without a pause, each question by the command that a person would use, while another takes
documents in, prunes and reindexes, by small commits. The writer notes after each commit what every question's answer
is now. An answer is right if it is the one of a state that was the current one at some time between the question's
begin and its end.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from scripts.torturing.children import Child, command, in_child, read_here, value_of
from scripts.torturing.material import (
    NAME,
    QUESTIONS,
    answer_to,
    ingest_call,
    strays,
    told_by,
    watch_commits,
    write_first,
    write_note,
    write_records,
)

import ragcli.collection.ingestion.document_ingester
import ragcli.collection.write.compaction
import ragcli.collection.write.embedding_batches
from ragcli.collection import Collection

READERS: Final = 8
_COLD: Final = 100
"""One question in so many is asked by a process that was started for it."""
_SECONDS: Final = 3600


@dataclass
class Tally:
    """What came of it."""

    queries: int = 0
    cold: int = 0
    states: int = 0
    rounds: int = 0
    errors: list[str] = field(default_factory=list)
    mixed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    bugs: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Heard:
    """One answer, by its digest, and the generations between which it was given."""

    question: str
    before: int
    after: int
    digest: str


class Board:
    """Counters that all processes see: one for each reader, and whether to stop."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8 * (READERS + 1))

    def count(self, reader: int) -> None:
        """One more answer for a reader."""
        struct.pack_into("q", self._memory, 8 * reader, self._at(reader) + 1)

    @property
    def total(self) -> int:
        """All answers so far."""
        return sum(self._at(reader) for reader in range(READERS))

    @property
    def stopped(self) -> bool:
        """Is it over?"""
        return bool(self._at(READERS))

    def stop(self) -> None:
        """End it."""
        struct.pack_into("q", self._memory, 8 * READERS, 1)

    def _at(self, place: int) -> int:
        found: int = struct.unpack_from("q", self._memory, 8 * place)[0]
        return found


def run(work: Path, model: Path, most: int) -> Tally:
    """So many questions at least, while a collection goes through several rounds of everything."""
    folder, data = work / "crowd", work / "crowd" / "data"
    write_first(folder / "in")
    os.environ["RAGCLI_DATA_DIR"] = str(data)
    first = value_of(in_child(lambda: command(*ingest_call(folder / "in", str(model))).code))
    if first:
        raise RuntimeError(f"the first ingest ended with {first}")
    board = Board()
    writer = Child(lambda: _write(folder, model, board, most), seconds=_SECONDS)
    readers = [Child(partial(_read, data, board, reader), seconds=_SECONDS) for reader in range(READERS)]
    tally = Tally()
    heard: list[Heard] = []
    texts: dict[str, str] = {}
    while len(heard) < most // _COLD and not board.stopped:
        _ask_cold(data, len(heard), heard, texts, tally)
    tally.cold = len(heard)
    written = writer.wait()
    board.stop()
    for ending in [reader.wait() for reader in readers]:
        if ending.failure:
            tally.bugs.append(f"a reader {ending.failure}")
            continue
        heard += [Heard(*each) for each in ending.value["heard"]]
        texts |= ending.value["texts"]
        tally.bugs += ending.value["bugs"]
    if written.failure:
        tally.bugs.append(f"the writer {written.failure}")
        return tally
    tally.queries = len(heard)
    tally.states, tally.rounds = len(written.value["states"]), written.value["rounds"]
    tally.wrong += written.value["wrong"]
    _judge(heard, texts, written.value["states"], tally)
    return tally


def _judge(heard: list[Heard], texts: dict[str, str], states: list[list[Any]], tally: Tally) -> None:
    known = {digest for _, answers in states for digest in answers.values()}
    for each in heard:
        text = texts[each.digest]
        if text.startswith('"'):
            tally.errors.append(f"{each.question}: {text[:500]}")
        elif each.digest not in known:
            tally.mixed.append(f"{each.question} between {each.before} and {each.after}: {text[:300]}")
        elif not any(
            each.before <= generation <= each.after and answers[each.question] == each.digest
            for generation, answers in states
        ):
            tally.wrong.append(
                f"{each.question} between {each.before} and {each.after} has the answer of another state"
            )


def _read(data: Path, board: Board, reader: int) -> dict[str, Any]:
    """Ask until it is over."""
    os.nice(5)  # the writer should come forward too
    collection = Collection(data / NAME)
    heard: list[tuple[str, int, int, str]] = []
    texts: dict[str, str] = {}
    bugs: list[str] = []
    turn = reader
    while not board.stopped:
        question = list(QUESTIONS)[turn % len(QUESTIONS)]
        turn += 1
        before = collection.info().generation
        answer, bug = answer_to(question, NAME)
        digest = _digest(answer, texts)
        heard.append((question, before, collection.info().generation, digest))
        if bug:
            bugs.append(bug)
        board.count(reader)
    return {"heard": heard, "texts": texts, "bugs": bugs}


def _ask_cold(data: Path, turn: int, heard: list[Heard], texts: dict[str, str], tally: Tally) -> None:
    """Ask by a process that is started for it, with its own model."""
    question = list(QUESTIONS)[turn % len(QUESTIONS)]
    collection = Collection(data / NAME)
    before = collection.info().generation
    done = subprocess.run(
        [sys.executable, "-m", "ragcli", *QUESTIONS[question], "-c", NAME, "--json"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    answer, bug = told_by(question, done.returncode, done.stdout, done.stderr)
    heard.append(Heard(question, before, collection.info().generation, _digest(answer, texts)))
    if bug:
        tally.bugs.append(bug)


def _write(folder: Path, model: Path, board: Board, most: int) -> dict[str, Any]:
    """Do everything that a writer does, round after round, until enough was asked."""
    read_here()
    ragcli.collection.write.embedding_batches.EMBED_BATCH = 8  # type: ignore[misc]
    ragcli.collection.ingestion.document_ingester.COMMIT_CHUNKS = 8  # type: ignore[misc]
    ragcli.collection.ingestion.document_ingester.COMMIT_MIN_SECONDS = 0.0  # type: ignore[misc]
    ragcli.collection.write.compaction.DEAD_ROW_MIN = 5  # type: ignore[misc]
    data = folder / "data"
    states: list[tuple[int, dict[str, str]]] = []
    texts: dict[str, str] = {}

    def observe() -> None:
        generation = Collection(data / NAME).info().generation
        answers = {question: _digest(answer_to(question, NAME)[0], texts) for question in QUESTIONS}
        if not states or states[-1] != (generation, answers):
            states.append((generation, answers))

    observe()
    watch_commits(observe)
    call = ingest_call(folder / "in", str(model))
    wrong: list[str] = []
    rounds = 0
    while board.total < most or rounds < 1:
        rounds += 1
        write_records(folder / "in" / "corpus.jsonl", {n: rounds + n % 2 for n in range(rounds % 3, 20)})
        for number in range(4):
            write_note(folder / "in", number, rounds)
        steps = [call, *_pruned(folder / "in", call), _reindexed(rounds)]
        for step in steps:
            if callable(step):
                step()
                continue
            answer = command(*step)
            if answer.code:
                wrong.append(f"`ragcli {' '.join(step)}` ends with {answer.code}: {answer.err}")
    board.stop()
    _wait_for_readers(data)
    command(*call)
    wrong += [f"left over: {each}" for each in strays(data)]
    wrong += Collection(data / NAME).verify()
    return {"states": states, "rounds": rounds, "wrong": wrong}


def _pruned(folder: Path, call: list[str]) -> list[Any]:
    def remove() -> None:
        for number in (0, 2):
            (folder / f"note{number}.md").unlink()

    return [remove, [*call, "--prune"]]


def _reindexed(rounds: int) -> list[str]:
    size = ("1200", "600")[rounds % 2]
    return ["reindex", "-c", NAME, "--chunk-size", size, "--overlap", "40", "--json"]


def _wait_for_readers(data: Path) -> None:
    """Let the last answers be given, after which nobody keeps old files in use."""
    from ragcli.collection.store.locks import try_exclusive_readers_lock

    for _ in range(600):
        with try_exclusive_readers_lock(data / NAME) as alone:
            if alone:
                break
        time.sleep(0.05)
    time.sleep(0.5)


def _digest(answer: Any, texts: dict[str, str]) -> str:
    text = json.dumps(answer, sort_keys=True)
    digest = blake2b(text.encode(), digest_size=12).hexdigest()
    texts.setdefault(digest, text[:1000])
    return digest

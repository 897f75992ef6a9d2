"""An aid for making qrels: a person sees each passage that some pipeline found, once, and says yes or no.

Passages are pooled as at TREC (Sparck Jones and van Rijsbergen 1975): the union of each pipeline's first few.
A query's passages come in turns, first places first, so that a person who stops early has judged what matters
most. Each answer is on the disk before the next question is asked, and a later run asks only what is not yet
judged. The screen and the keys are the command's; here is what an answer does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from ragcli.evaluation.judgements import Topic
from ragcli.evaluation.labelled import labelled_text, read_labelled
from ragcli.evaluation.lines import write_whole
from ragcli.evaluation.trec import column, qrels_text, read_qrels

Key = Literal["y", "n", "u", "b", "q"]
KEYS: Mapping[Key, str] = {"y": "yes", "n": "no", "u": "unsure", "b": "back", "q": "quit"}


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage to be judged. `place` says where in the source it stands, in words."""

    chunk_id: str
    document_id: str
    source: str
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """One thing to ask: a passage for a topic, and how far along the work is."""

    topic: Topic
    passage: Passage
    number: int
    total: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a session did: new judgements, answers left unsure, and questions that remain."""

    relevant: int
    not_relevant: int
    unsure: int
    remaining: int


class QrelsFile:
    """Judgements in a file, TREC's four columns or, with the suffix .jsonl, the labelled form.

    What the file holds already is kept, and every change is written as a whole new file, so that neither a crash
    nor an undone answer leaves a part of one.
    """

    def __init__(self, path: Path, topics: Sequence[Topic]) -> None:
        self.path = path
        self._labelled = path.suffix.lower() in {".jsonl", ".json"}
        self._topics = {topic.query_id: topic for topic in topics}
        self._judgements: dict[str, dict[str, int]] = {}
        if path.exists() and path.stat().st_size:
            self._read()

    def set(self, query_id: str, item: str, grade: int) -> None:
        """Record a judgement; it is on the disk when this returns."""
        self._judgements.setdefault(self._name(query_id), {})[self._name(item)] = grade
        self._write()

    def remove(self, query_id: str, item: str) -> None:
        """Take a judgement back."""
        self._judgements.get(self._name(query_id), {}).pop(self._name(item), None)
        self._write()

    def grade(self, query_id: str, item: str) -> int | None:
        """The grade given, None if the item was not judged."""
        return self._judgements.get(self._name(query_id), {}).get(self._name(item))

    def _name(self, text: str) -> str:
        return text if self._labelled else column(text)

    def _read(self) -> None:
        if not self._labelled:
            self._judgements = {query: dict(items) for query, items in read_qrels(self.path).judgements.items()}
            return
        topics, qrels = read_labelled(self.path, keep_irrelevant=True)
        for topic in topics:
            self._topics.setdefault(topic.query_id, topic)
        self._judgements = {query: dict(items) for query, items in qrels.judgements.items()}

    def _write(self) -> None:
        if self._labelled:
            write_whole(self.path, labelled_text(self._topics.values(), self._judgements))
        else:
            write_whole(self.path, qrels_text(self._judgements))


def pool(rankings: Iterable[Sequence[Passage]]) -> tuple[Passage, ...]:
    """The passages of several rankings, each once: all first places, then all second ones, and so on."""
    turns = zip_longest(*rankings)
    found = {passage.chunk_id: passage for turn in turns for passage in turn if passage is not None}
    return tuple(found.values())


def label(
    pools: Sequence[tuple[Topic, Sequence[Passage]]], qrels: QrelsFile, ask: Callable[[Question], Key]
) -> Outcome:
    """Ask for every passage that is not judged yet, until all are or the person quits.

    `b` takes the last answer back and asks again; `u` records nothing, so a later run asks once more.
    """
    open_questions = [
        (topic, passage)
        for topic, passages in pools
        for passage in passages
        if qrels.grade(topic.query_id, passage.chunk_id) is None
    ]
    answers: list[Key] = []
    while len(answers) < len(open_questions):
        topic, passage = open_questions[len(answers)]
        key = ask(Question(topic, passage, len(answers) + 1, len(open_questions)))
        if key == "q":
            break
        if key == "b":
            if answers and answers.pop() != "u":
                topic, passage = open_questions[len(answers)]
                qrels.remove(topic.query_id, passage.chunk_id)
            continue
        if key != "u":
            qrels.set(topic.query_id, passage.chunk_id, int(key == "y"))
        answers.append(key)
    return Outcome(
        relevant=answers.count("y"),
        not_relevant=answers.count("n"),
        unsure=answers.count("u"),
        remaining=len(open_questions) - len(answers),
    )

"""Read labelled-question JSONL files, and label pooled passages interactively.

A line is `{"query", "relevant_ids", "answerable"?, "id"?, "history"?}`; without an `id` it gets one made of its
words, so that adding a line does not rename the others. `"answerable": false` has no part in ranking metrics and is
kept for measures of abstention. `history` has the turns before the question. Passages to label are pooled as at TREC
(Sparck Jones and van Rijsbergen 1975): the union of each pipeline's first few, first places first. Each answer is on
the disk before the next question is asked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ragcli.atomic_files import write_output_file
from ragcli.errors import InputError
from ragcli.evaluation.beir_dataset import id_text
from ragcli.evaluation.topics_qrels_runs import Qrels, Topic
from ragcli.evaluation.trec_format import (
    encode_id,
    format_qrels,
    line_error,
    numbered_lines,
    parse_json_line,
    read_qrels,
)

if TYPE_CHECKING:
    from ragcli.llm.chat_model import Message


def read_labelled_questions(path: Path, *, keep_irrelevant: bool = False) -> tuple[tuple[Topic, ...], Qrels]:
    """Topics and qrels of a labelled JSONL file. Raises InputError naming file and line.

    A question with no relevant item is one without judgements, since no ranking answers it better than another;
    `keep_irrelevant` keeps what was judged there all the same.
    """
    topics: dict[str, tuple[int, Topic]] = {}
    judgements: dict[str, dict[str, int]] = {}
    for number, line in numbered_lines(path):
        record = parse_json_line(path, number, line)
        topic = _read_topic(path, number, record)
        if topic.query_id in topics:
            raise line_error(path, number, f"the query stands already on line {topics[topic.query_id][0]}")
        relevant = _read_ids(path, number, record, "relevant_ids")
        rejected = _read_ids(path, number, record, "nonrelevant_ids") if "nonrelevant_ids" in record else ()
        if topic.answerable is False and relevant:
            raise line_error(path, number, '"answerable" is false, but there are relevant ids')
        both = set(relevant) & set(rejected)
        if both:
            raise line_error(path, number, f"{min(both)} is both relevant and not relevant")
        topics[topic.query_id] = (number, topic)
        if relevant or (rejected and keep_irrelevant):
            judgements[topic.query_id] = dict.fromkeys(relevant, 1) | dict.fromkeys(rejected, 0)
    if not topics:
        raise InputError(f"{path} has no questions in it; it is empty.")
    return tuple(topic for _, topic in topics.values()), Qrels(judgements)


def format_labelled_questions(topics: Iterable[Topic], judgements: Mapping[str, Mapping[str, int]]) -> str:
    """Topics with their judgements as labelled JSONL; a topic without judgement is left out."""
    lines = []
    for topic in topics:
        items = judgements.get(topic.query_id)
        if not items:
            continue
        record: dict[str, Any] = {
            "id": topic.query_id,
            "query": topic.text,
            "relevant_ids": [item for item, grade in items.items() if grade > 0],
        }
        if topic.answerable is not None:
            record["answerable"] = topic.answerable
        if topic.history:
            record["history"] = [{"role": turn.role, "content": turn.text} for turn in topic.history]
        record["nonrelevant_ids"] = [item for item, grade in items.items() if grade <= 0]
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    return "".join(lines)


def query_id_from_text(text: str) -> str:
    """An id for a question that has none: it depends on its words, not on case, spacing or place in the file."""
    words = " ".join(text.casefold().split())
    return "q" + hashlib.blake2b(words.encode(), digest_size=5).hexdigest()


def _read_topic(path: Path, number: int, record: Mapping[str, Any]) -> Topic:
    text = record.get("query")
    if not isinstance(text, str) or not text.strip():
        raise line_error(path, number, 'the line has no "query" with words in it')
    answerable = record.get("answerable")
    if answerable is not None and not isinstance(answerable, bool):
        raise line_error(path, number, f'"answerable" must be true or false, not {json.dumps(answerable)}')
    given = record.get("id", record.get("query_id"))
    query_id = query_id_from_text(text) if given is None else id_text(given)
    if not query_id:
        raise line_error(path, number, f'"id" must be a text or a whole number, not {json.dumps(given)}')
    return Topic(query_id, text.strip(), answerable, _read_history(path, number, record))


def _read_history(path: Path, number: int, record: Mapping[str, Any]) -> tuple[Message, ...]:
    value = record.get("history")
    if value is None:
        return ()
    from ragcli.retrieval.expansion.conversation import turns_of

    turns = turns_of(value)
    if turns is None:
        raise line_error(path, number, '"history" must be a list of turns, each with "role" and "content"')
    return turns


def _read_ids(path: Path, number: int, record: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = record.get(key)
    if value is None and record.get("answerable") is not None:
        # Enough for measuring the gate.
        return ()
    if not isinstance(value, list):
        raise line_error(path, number, f'"{key}" must be a list of ids')
    ids = tuple(id_text(item) for item in value)
    if not all(ids):
        raise line_error(path, number, f'"{key}" has an entry that is not an id: {json.dumps(value[ids.index("")])}')
    return tuple(dict.fromkeys(ids))


LabelKey = Literal["y", "n", "u", "b", "q"]
LABEL_KEYS: Mapping[LabelKey, str] = {"y": "yes", "n": "no", "u": "unsure", "b": "back", "q": "quit"}


@dataclass(frozen=True, slots=True)
class LabelPassage:
    """A passage to be judged. `place` says where in the source it stands, in words."""

    chunk_id: str
    document_id: str
    source: str
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class LabelQuestion:
    """One thing to ask: a passage for a topic, and how far along the work is."""

    topic: Topic
    passage: LabelPassage
    number: int
    total: int


@dataclass(frozen=True, slots=True)
class LabellingOutcome:
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
        return text if self._labelled else encode_id(text)

    def _read(self) -> None:
        if not self._labelled:
            self._judgements = {query: dict(items) for query, items in read_qrels(self.path).judgements.items()}
            return
        topics, qrels = read_labelled_questions(self.path, keep_irrelevant=True)
        for topic in topics:
            self._topics.setdefault(topic.query_id, topic)
        self._judgements = {query: dict(items) for query, items in qrels.judgements.items()}

    def _write(self) -> None:
        if self._labelled:
            write_output_file(self.path, format_labelled_questions(self._topics.values(), self._judgements))
        else:
            write_output_file(self.path, format_qrels(self._judgements))


def pool_passages(rankings: Iterable[Sequence[LabelPassage]]) -> tuple[LabelPassage, ...]:
    """The passages of several rankings, each once: all first places, then all second ones, and so on."""
    turns = zip_longest(*rankings)
    found = {passage.chunk_id: passage for turn in turns for passage in turn if passage is not None}
    return tuple(found.values())


def label_passages(
    pools: Sequence[tuple[Topic, Sequence[LabelPassage]]], qrels: QrelsFile, ask: Callable[[LabelQuestion], LabelKey]
) -> LabellingOutcome:
    """Ask for every passage that is not judged yet, until all are or the person quits.

    `b` takes the last answer back and asks again; `u` records nothing, so a later run asks once more.
    """
    open_questions = [
        (topic, passage)
        for topic, passages in pools
        for passage in passages
        if qrels.grade(topic.query_id, passage.chunk_id) is None
    ]
    answers: list[LabelKey] = []
    while len(answers) < len(open_questions):
        topic, passage = open_questions[len(answers)]
        key = ask(LabelQuestion(topic, passage, len(answers) + 1, len(open_questions)))
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
    return LabellingOutcome(
        relevant=answers.count("y"),
        not_relevant=answers.count("n"),
        unsure=answers.count("u"),
        remaining=len(open_questions) - len(answers),
    )

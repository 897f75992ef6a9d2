"""Questions with their answers in one JSONL file: `{"query", "relevant_ids", "answerable"?}` a line.

It is the form people write by hand. A line may give the query an `id`; without one it gets an id made of its
words, so that adding a line does not rename the others. A question that the collection cannot answer is a line
with `"answerable": false` and no relevant ids: it has no part in ranking metrics, and is kept for measures of
when to abstain, as is one with `"answerable": true` of which nobody said where its answer stands. A question out
of a conversation has what was said before in its `history`, turns of `role` and `content`, for pipelines that
rewrite it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragcli.errors import InputError
from ragcli.evaluation.beir import text_of
from ragcli.evaluation.judgements import Qrels, Topic
from ragcli.evaluation.lines import at_line, json_object, numbered_lines

if TYPE_CHECKING:
    from ragcli.llm.protocols import Message


def read_labelled(path: Path, *, keep_irrelevant: bool = False) -> tuple[tuple[Topic, ...], Qrels]:
    """Topics and qrels of a labelled JSONL file. Raises InputError naming file and line.

    A question with no relevant item is one without judgements, since no ranking answers it better than another;
    `keep_irrelevant` keeps what was judged there all the same.
    """
    topics: dict[str, tuple[int, Topic]] = {}
    judgements: dict[str, dict[str, int]] = {}
    for number, line in numbered_lines(path):
        record = json_object(path, number, line)
        topic = _topic(path, number, record)
        if topic.query_id in topics:
            raise at_line(path, number, f"the query stands already on line {topics[topic.query_id][0]}")
        relevant = _ids(path, number, record, "relevant_ids")
        rejected = _ids(path, number, record, "nonrelevant_ids") if "nonrelevant_ids" in record else ()
        if topic.answerable is False and relevant:
            raise at_line(path, number, '"answerable" is false, but there are relevant ids')
        both = set(relevant) & set(rejected)
        if both:
            raise at_line(path, number, f"{min(both)} is both relevant and not relevant")
        topics[topic.query_id] = (number, topic)
        if relevant or (rejected and keep_irrelevant):
            judgements[topic.query_id] = dict.fromkeys(relevant, 1) | dict.fromkeys(rejected, 0)
    if not topics:
        raise InputError(f"{path} has no questions in it; it is empty.")
    return tuple(topic for _, topic in topics.values()), Qrels(judgements)


def labelled_text(topics: Iterable[Topic], judgements: Mapping[str, Mapping[str, int]]) -> str:
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


def query_id_of(text: str) -> str:
    """An id for a question that has none: it depends on its words, not on case, spacing or place in the file."""
    words = " ".join(text.casefold().split())
    return "q" + hashlib.blake2b(words.encode(), digest_size=5).hexdigest()


def _topic(path: Path, number: int, record: Mapping[str, Any]) -> Topic:
    text = record.get("query")
    if not isinstance(text, str) or not text.strip():
        raise at_line(path, number, 'the line has no "query" with words in it')
    answerable = record.get("answerable")
    if answerable is not None and not isinstance(answerable, bool):
        raise at_line(path, number, f'"answerable" must be true or false, not {json.dumps(answerable)}')
    given = record.get("id", record.get("query_id"))
    query_id = query_id_of(text) if given is None else text_of(given)
    if not query_id:
        raise at_line(path, number, f'"id" must be a text or a whole number, not {json.dumps(given)}')
    return Topic(query_id, text.strip(), answerable, _history(path, number, record))


def _history(path: Path, number: int, record: Mapping[str, Any]) -> tuple[Message, ...]:
    value = record.get("history")
    if value is None:
        return ()
    from ragcli.retrieval.techniques.history import turns_of

    turns = turns_of(value)
    if turns is None:
        raise at_line(path, number, '"history" must be a list of turns, each with "role" and "content"')
    return turns


def _ids(path: Path, number: int, record: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = record.get(key)
    if value is None and record.get("answerable") is not None:
        # Enough for measuring the gate.
        return ()
    if not isinstance(value, list):
        raise at_line(path, number, f'"{key}" must be a list of ids')
    ids = tuple(text_of(item) for item in value)
    if not all(ids):
        raise at_line(path, number, f'"{key}" has an entry that is not an id: {json.dumps(value[ids.index("")])}')
    return tuple(dict.fromkeys(ids))

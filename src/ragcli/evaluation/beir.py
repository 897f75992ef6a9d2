"""A BEIR folder: `corpus.jsonl`, `queries.jsonl` and `qrels/<split>.tsv` (Thakur et al. 2021, arXiv:2104.08663)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ragcli.errors import InputError
from ragcli.evaluation.judgements import EvaluationSet, Topic, join_topics
from ragcli.evaluation.lines import at_line, json_object, numbered_lines
from ragcli.evaluation.trec import read_qrels

CORPUS: Final = "corpus.jsonl"
QUERIES: Final = "queries.jsonl"
QRELS: Final = "qrels"

_PREFERRED_SPLIT: Final = "test"


def is_beir_folder(path: Path) -> bool:
    """Whether a folder has the three parts."""
    return (path / CORPUS).is_file() and (path / QUERIES).is_file() and (path / QRELS).is_dir()


def read_beir(folder: Path, split: str | None = None) -> EvaluationSet:
    """The topics and qrels of one split: `test` where there is one, unless another is named.

    Raises InputError for a missing part, an unknown split, or a wrong line.
    """
    for part in (CORPUS, QUERIES, QRELS):
        if not (folder / part).exists():
            raise InputError(f"{folder} is not a BEIR folder: it has no {part}.")
    chosen = _choose_split(folder, split)
    qrels = read_qrels(folder / QRELS / f"{chosen}.tsv")
    judged, unjudged, without_topic, kept = join_topics(read_queries(folder / QUERIES), qrels)
    return EvaluationSet(
        name=folder.resolve().name,
        format="beir",
        level="document",
        topics=judged,
        qrels=kept,
        split=chosen,
        unjudged=unjudged,
        without_topic=without_topic,
    )


def read_queries(path: Path) -> tuple[Topic, ...]:
    """The topics of a `queries.jsonl`: an object with `_id` (or `id`) and `text` on each line."""
    topics: dict[str, tuple[int, Topic]] = {}
    for number, line in numbered_lines(path):
        record = json_object(path, number, line)
        query_id = text_of(record.get("_id", record.get("id")))
        text = record.get("text")
        if not query_id:
            raise at_line(path, number, 'the query has no "_id"')
        if not isinstance(text, str) or not text.strip():
            raise at_line(path, number, f'query {query_id} has no "text"')
        if query_id in topics:
            raise at_line(path, number, f"query {query_id} stands already on line {topics[query_id][0]}")
        topics[query_id] = (number, Topic(query_id, text.strip()))
    if not topics:
        raise InputError(f"{path} has no queries in it; it is empty.")
    return tuple(topic for _, topic in topics.values())


def corpus_digest(path: Path) -> str:
    """What a corpus file holds, as 12 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=6)).hexdigest()


def text_of(value: object) -> str:
    """An id as text: a JSON number is taken as its digits. Empty for anything else."""
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _choose_split(folder: Path, split: str | None) -> str:
    splits = sorted(path.stem for path in (folder / QRELS).glob("*.tsv"))
    if not splits:
        raise InputError(f"{folder / QRELS} has no .tsv file with judgements in it.")
    if split is not None:
        if split not in splits:
            raise InputError(f"{folder / QRELS} has no split '{split}'; {_list(splits)}.")
        return split
    if _PREFERRED_SPLIT in splits:
        return _PREFERRED_SPLIT
    if len(splits) > 1:
        raise InputError(f"Choose a split of {folder} with --split; {_list(splits)}.")
    return splits[0]


def _list(splits: Sequence[str]) -> str:
    return f"it has {', '.join(splits)}"

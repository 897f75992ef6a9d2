"""Detect the format of evaluation files and load them as topics with qrels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, Protocol
from urllib.parse import unquote

from ragcli.errors import InputError, UsageError
from ragcli.evaluation.beir_dataset import is_beir_folder, read_beir_queries
from ragcli.evaluation.relevance_labels import query_id_from_text, read_labelled_questions
from ragcli.evaluation.topics_qrels_runs import EvaluationSet, Level, Qrels, Topic, join_topics
from ragcli.evaluation.trec_format import (
    TopicField,
    numbered_lines,
    parse_json_line,
    read_qrels,
    read_topics,
    read_tsv_topics,
)

TopicFormat = Literal["beir", "trec", "tsv", "queries", "jsonl", "lines"]

_NAMES: Final[Mapping[TopicFormat, str]] = {
    "beir": "a BEIR folder",
    "trec": "TREC topics",
    "tsv": "topics as id and text with a tab between",
    "queries": "JSONL with _id and text",
    "jsonl": "JSONL with query and relevant_ids",
    "lines": "one question a line",
}


class ItemLookup(Protocol):
    """What a collection has: its documents by id or by source, and its chunks."""

    def document(self, name: str) -> str | None:
        """The id of the document that has this id or this source; None if there is none."""

    def chunk(self, name: str) -> str | None:
        """The id of the document that the chunk of this id belongs to; None if there is no such chunk."""


def detect_format(path: Path) -> TopicFormat:
    """The form of an input by its look. Raises InputError when the look fits none."""
    if path.is_dir():
        if is_beir_folder(path):
            return "beir"
        raise InputError(
            f"{path} is a folder, but not a BEIR folder with corpus.jsonl, queries.jsonl and qrels/; "
            "name a file of topics, or the right folder."
        )
    for number, line in numbered_lines(path, blank=True):
        if line.lstrip().startswith("<"):
            return "trec"
        if line.lstrip().startswith("{"):
            return "jsonl" if "query" in parse_json_line(path, number, line) else "queries"
        return "tsv" if "\t" in line else "lines"
    raise InputError(f"{path} is empty.")


def read_topics_of_format(
    path: Path, form: TopicFormat | None = None, field: TopicField = "title"
) -> tuple[tuple[Topic, ...], Qrels | None]:
    """The topics of a file in any form, with qrels where the form holds them.

    Raises InputError naming file and line.
    """
    match form or detect_format(path):
        case "trec":
            return read_topics(path, field), None
        case "tsv":
            return read_tsv_topics(path), None
        case "queries":
            return read_beir_queries(path), None
        case "jsonl":
            return read_labelled_questions(path)
        case "lines":
            return _read_plain_topics(path), None
        case "beir":
            return read_beir_queries(path / "queries.jsonl"), None


def read_ranking_set(
    topics_file: Path | None,
    qrels_file: Path | None,
    *,
    form: TopicFormat | None = None,
    field: TopicField = "title",
) -> EvaluationSet:
    """Topics and qrels that go with a collection; what their ids stand for is settled by `match_items`.

    A labelled JSONL file needs no second file, and may be given as either. Raises UsageError when the qrels or
    the topics are missing.
    """
    given, without = _read_evaluation_set(topics_file, qrels_file, form, field)
    if without is not None:
        raise UsageError(f"{topics_file} is {without}, which says nothing of relevance; add --qrels FILE.")
    if not given.topics:
        where = f" by {qrels_file}" if topics_file and qrels_file else ""
        raise InputError(
            f"None of the {len(given.unjudged)} questions in {topics_file or qrels_file} is judged{where};"
            " do the ids agree?"
        )
    return given


def read_answerability_set(
    topics_file: Path | None,
    qrels_file: Path | None,
    *,
    form: TopicFormat | None = None,
    field: TopicField = "title",
) -> EvaluationSet:
    """As `read_for_collection`, for questions of which it is enough to know whether they can be answered."""
    return _read_evaluation_set(topics_file, qrels_file, form, field)[0]


def _read_evaluation_set(
    topics_file: Path | None, qrels_file: Path | None, form: TopicFormat | None, field: TopicField
) -> tuple[EvaluationSet, str | None]:
    """The questions with what is judged of them; and what their form is called, where nothing says what is relevant."""
    if topics_file is None and qrels_file is not None and (form or detect_format(qrels_file)) == "jsonl":
        topics_file, qrels_file = qrels_file, None
    if topics_file is None:
        raise UsageError("Name the file with the questions: `ragcli eval QUESTIONS -c NAME --qrels FILE`.")
    chosen = form or detect_format(topics_file)
    topics, qrels = read_topics_of_format(topics_file, chosen, field)
    if qrels_file is not None:
        # A file of qrels beside labelled questions has the last word on what is relevant.
        labelled = detect_format(qrels_file) == "jsonl"
        qrels = read_labelled_questions(qrels_file)[1] if labelled else read_qrels(qrels_file)
    judged, unjudged, without_topic, kept = join_topics(topics, qrels or Qrels({}))
    given = EvaluationSet(
        name=topics_file.stem,
        format=chosen,
        level="document",
        topics=judged,
        qrels=kept,
        unjudged=unjudged,
        without_topic=without_topic,
    )
    return given, None if qrels is not None else _NAMES[chosen]


def is_known_item(name: str, items: ItemLookup) -> bool:
    """Does a judged id stand for a document or a chunk that is there?"""
    return any(
        items.document(reading) is not None or items.chunk(reading) is not None for reading in (name, unquote(name))
    )


def match_items(
    given: EvaluationSet, items: ItemLookup, wanted: Level | None = None
) -> tuple[EvaluationSet, Mapping[str, str]]:
    """Find what the judged ids stand for in a collection, and count those that stand for nothing.

    Unless a level is `wanted`, chunks are what is ranked and judged where every id that is known is a chunk's;
    else documents are, and a chunk's judgement counts for its document. Also gives, for each document that the
    qrels call by its source, that name, under which it appears in runs. Raises InputError when no id is known,
    and when chunks are wanted but documents judged.
    """
    documents: dict[str, str] = {}
    chunks: dict[str, tuple[str, str]] = {}
    unknown: list[str] = []
    for name in sorted(given.qrels.items()):
        for reading in dict.fromkeys((name, unquote(name))):
            document = items.document(reading)
            if document is not None:
                documents[name] = document
                break
            owner = items.chunk(reading)
            if owner is not None:
                chunks[name] = (reading, owner)
                break
        else:
            unknown.append(name)
    if not documents and not chunks:
        raise InputError(
            f"None of the {len(unknown)} judged ids ({list_first(unknown)}) is a document, a source or a chunk of "
            "the collection; is it the right one?"
        )
    if wanted == "chunk" and documents:
        raise InputError(
            f"Chunks cannot be scored: {len(documents)} judged ids are documents ({list_first(sorted(documents))})."
        )
    level: Level = wanted or ("document" if documents else "chunk")
    notes = list(given.notes)
    if level == "chunk":
        renamed = {name: chunk for name, (chunk, _) in chunks.items()}
        names: dict[str, str] = {}
    else:
        if chunks:
            notes.append(f"{len(chunks)} judged ids are chunks; each counts for its document.")
        names = {document: name for name, document in documents.items()}
        renamed = {name: names.get(owner, owner) for name, (_, owner) in chunks.items()}
        # Two names of one document (its id and its source) are one item.
        renamed |= {name: names[document] for name, document in documents.items() if names[document] != name}
    qrels = given.qrels.renamed(renamed)
    return replace(given, level=level, qrels=qrels, unknown=tuple(unknown), notes=tuple(notes)), names


def list_first(items: Sequence[str], limit: int = 5, show: Callable[[str], str] = str) -> str:
    """The first items of a list as words, and how many more there are."""
    shown = ", ".join(show(item) for item in items[:limit])
    return shown + (f" and {len(items) - limit} more" if len(items) > limit else "")


def _read_plain_topics(path: Path) -> tuple[Topic, ...]:
    topics: dict[str, Topic] = {}
    for _, line in numbered_lines(path, blank=True):
        if not line.lstrip().startswith("#"):
            topic = Topic(query_id_from_text(line), " ".join(line.split()))
            topics.setdefault(topic.query_id, topic)
    if not topics:
        raise InputError(f"{path} has no questions in it.")
    return tuple(topics.values())

"""Read a BEIR dataset, and index its corpus as a cached collection.

The folder has `corpus.jsonl`, `queries.jsonl` and `qrels/<split>.tsv` (Thakur et al. 2021, arXiv:2104.08663).
Encoding a corpus takes minutes and the corpus does not change, so its collection is named for what the file holds and
how it is cut and encoded, and any later run finds it in `.evaluation` of the data directory, where `ragcli
collections` does not list it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragcli._version import __version__
from ragcli.atomic_files import write_output_file
from ragcli.errors import InputError, MissingCollection
from ragcli.evaluation.topics_qrels_runs import EvaluationSet, Topic, join_topics
from ragcli.evaluation.trec_format import line_error, numbered_lines, parse_json_line, read_qrels
from ragcli.types import CollectionSettings, Failure

if TYPE_CHECKING:
    from ragcli.collection import Collection, IngestEvent
    from ragcli.models import Encoder


CORPUS_FILE: Final = "corpus.jsonl"
QUERIES_FILE: Final = "queries.jsonl"
QRELS_FOLDER: Final = "qrels"

_PREFERRED_SPLIT: Final = "test"


def is_beir_folder(path: Path) -> bool:
    """Whether a folder has the three parts."""
    return (path / CORPUS_FILE).is_file() and (path / QUERIES_FILE).is_file() and (path / QRELS_FOLDER).is_dir()


def read_beir(folder: Path, split: str | None = None) -> EvaluationSet:
    """The topics and qrels of one split: `test` where there is one, unless another is named.

    Raises InputError for a missing part, an unknown split, or a wrong line.
    """
    for part in (CORPUS_FILE, QUERIES_FILE, QRELS_FOLDER):
        if not (folder / part).exists():
            raise InputError(f"{folder} is not a BEIR folder: it has no {part}.")
    chosen = _choose_split(folder, split)
    qrels = read_qrels(folder / QRELS_FOLDER / f"{chosen}.tsv")
    judged, unjudged, without_topic, kept = join_topics(read_beir_queries(folder / QUERIES_FILE), qrels)
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


def read_beir_queries(path: Path) -> tuple[Topic, ...]:
    """The topics of a `queries.jsonl`: an object with `_id` (or `id`) and `text` on each line."""
    topics: dict[str, tuple[int, Topic]] = {}
    for number, line in numbered_lines(path):
        record = parse_json_line(path, number, line)
        query_id = id_text(record.get("_id", record.get("id")))
        text = record.get("text")
        if not query_id:
            raise line_error(path, number, 'the query has no "_id"')
        if not isinstance(text, str) or not text.strip():
            raise line_error(path, number, f'query {query_id} has no "text"')
        if query_id in topics:
            raise line_error(path, number, f"query {query_id} stands already on line {topics[query_id][0]}")
        topics[query_id] = (number, Topic(query_id, text.strip()))
    if not topics:
        raise InputError(f"{path} has no queries in it; it is empty.")
    return tuple(topic for _, topic in topics.values())


def corpus_sha256(path: Path) -> str:
    """What a corpus file holds, as 12 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=6)).hexdigest()


def id_text(value: object) -> str:
    """An id as text: a JSON number is taken as its digits. Empty for anything else."""
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _choose_split(folder: Path, split: str | None) -> str:
    splits = sorted(path.stem for path in (folder / QRELS_FOLDER).glob("*.tsv"))
    if not splits:
        raise InputError(f"{folder / QRELS_FOLDER} has no .tsv file with judgements in it.")
    if split is not None:
        if split not in splits:
            raise InputError(f"{folder / QRELS_FOLDER} has no split '{split}'; {_quoted_list(splits)}.")
        return split
    if _PREFERRED_SPLIT in splits:
        return _PREFERRED_SPLIT
    if len(splits) > 1:
        raise InputError(f"Choose a split of {folder} with --split; {_quoted_list(splits)}.")
    return splits[0]


def _quoted_list(splits: Sequence[str]) -> str:
    return f"it has {', '.join(splits)}"


EVALUATION_FOLDER: Final = ".evaluation"


@dataclass(frozen=True, slots=True)
class IndexedCorpus:
    """A corpus's collection, and the documents of the file that could not be taken in."""

    collection: Collection
    failures: tuple[Failure, ...]


def index_corpus(
    data_dir: Path,
    folder: Path,
    settings: CollectionSettings,
    encoder: Callable[[], Encoder],
    listener: Callable[[IngestEvent], None],
    *,
    fresh: bool = False,
) -> IndexedCorpus:
    """The collection of a BEIR folder's corpus, ingested now if it was not before, or not to the end.

    `fresh` ingests it anew, as is right when ragcli itself has come to read or cut texts in another way. Raises
    InputError when nothing of the corpus could be taken in, KeyboardInterrupt when the ingest was stopped.
    """
    from ragcli.collection import Collection, ingest_jsonl

    place = data_dir / EVALUATION_FOLDER
    name = corpus_collection_name(folder, settings)
    done = place / f"{name}.json"
    try:
        collection = Collection.open(place, name)
        if fresh:
            done.unlink(missing_ok=True)
            collection.delete()
            collection = Collection.create(place, name, settings)
        failures = _read_failures(done)
        if failures is not None:
            return IndexedCorpus(collection, failures)
    except MissingCollection:
        collection = Collection.create(place, name, settings)
    corpus = folder / CORPUS_FILE
    with corpus.open("rb") as stream:
        report = ingest_jsonl(collection, stream, encoder, listener=listener)
    if report.interrupted:
        raise KeyboardInterrupt
    if collection.info().documents == 0:
        reasons = f" ({report.failures[0].source}: {report.failures[0].reason})" if report.failures else ""
        raise InputError(f"{corpus} has no document that could be taken in{reasons}.")
    record = {
        "corpus": str(corpus.resolve()),
        "failures": [[failure.source, failure.reason] for failure in report.failures],
    }
    write_output_file(done, json.dumps(record, indent=1) + "\n")
    return IndexedCorpus(collection, report.failures)


def corpus_collection_name(folder: Path, settings: CollectionSettings) -> str:
    """The name of a corpus's collection: the folder's, and a digest of all that the collection depends on."""
    from ragcli.collection import STORE_FORMAT

    # What another version of ragcli made may be cut and stored otherwise, and is left to that version.
    key = json.dumps([corpus_sha256(folder / CORPUS_FILE), asdict(settings), STORE_FORMAT, __version__], sort_keys=True)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-._")[:40] or "corpus"
    return f"{stem}-{hashlib.blake2b(key.encode(), digest_size=6).hexdigest()}"


def _read_failures(path: Path) -> tuple[Failure, ...] | None:
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
        return tuple(Failure(str(source), str(reason)) for source, reason in record["failures"])
    except (OSError, ValueError, KeyError, TypeError):
        return None

"""Collections with a part of their documents left out, and questions of which it is known what becomes of them.

A BEIR corpus is ingested whole, once. A reduced one is a copy without the documents that a random third of the
claims cite; no claim of that third can be answered from it, however near it comes. The word index of a copy is
built anew, because one that documents were deleted from still counts them in its statistics, which would give away
that they were there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ragcli.collection import Collection, IngestOptions, ingest, reindex
from ragcli.models import Encoder, load_encoder
from ragcli.types import CollectionSettings

HERE = Path(__file__).parent
Qrels = Mapping[str, frozenset[str]]
_BLANKS = {
    "thing": "things",
    "other": "things",
    "quantity": "quantities",
    "state": "states",
    "method": "methods",
}


@dataclass(frozen=True, slots=True)
class Beir:
    """A BEIR folder: its questions by id, and for each split the relevant documents of each question."""

    folder: Path
    questions: Mapping[str, str]

    def qrels(self, split: str) -> Qrels:
        """The documents with a grade above 0, by question, in the order of the file."""
        found: dict[str, set[str]] = {}
        for line in (self.folder / "qrels" / f"{split}.tsv").read_text("utf-8").splitlines()[1:]:
            question, document, grade = line.split("\t")
            if int(grade) > 0:
                found.setdefault(question, set()).add(document)
        return {question: frozenset(documents) for question, documents in found.items()}


@dataclass(frozen=True, slots=True)
class Reduction:
    """Which claims lose their documents, which documents those are, and which claims keep one at least."""

    lost: tuple[str, ...]
    removed: frozenset[str]
    kept: tuple[str, ...]


def read_beir(folder: Path) -> Beir:
    """The questions of a BEIR folder."""
    lines = (folder / "queries.jsonl").read_text("utf-8").splitlines()
    return Beir(folder, {record["_id"]: record["text"] for record in map(json.loads, lines)})


def off_topic(name: str) -> list[str]:
    """Fluent questions and statements on everything but medicine: the list `fit` or the list `test`."""
    return (HERE / "off_topic" / f"{name}.txt").read_text("utf-8").split("\n")[:-1]


def technical(count: int, seed: int) -> list[str]:
    """Made-up research questions from other sciences: long, dry and full of terms, as claims of medicine are."""
    words = json.loads((HERE / "off_topic" / "technical.json").read_text("utf-8"))
    random = Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        chosen = {name: random.choice(words[plural]) for name, plural in _BLANKS.items()}
        made[random.choice(words["forms"]).format(**chosen)] = None
    return list(made)


def reduction(qrels: Qrels, seed: int) -> Reduction:
    """A random third of the claims loses its documents. What is left without any by that counts nowhere."""
    claims = sorted(qrels)
    lost = tuple(sorted(Random(seed).sample(claims, len(claims) // 3)))
    removed = frozenset(document for claim in lost for document in qrels[claim])
    kept = tuple(claim for claim in claims if claim not in set(lost) and qrels[claim] - removed)
    return Reduction(lost, removed, kept)


def families(qrels: Qrels) -> dict[str, int]:
    """A number for each claim, the same for claims that cite a document in common.

    Many claims come in pairs, one the negation of the other, citing the same paper. A model must not be tried on the
    one after it was fitted to the other.
    """
    number: dict[str, int] = {}
    claims_of: dict[str, list[str]] = {}
    for claim, documents in qrels.items():
        for document in documents:
            claims_of.setdefault(document, []).append(claim)
    for first in qrels:
        if first in number:
            continue
        family = len(set(number.values()))
        waiting = [first]
        while waiting:
            claim = waiting.pop()
            if claim not in number:
                number[claim] = family
                waiting += [other for document in qrels[claim] for other in claims_of[document]]
    return number


class Corpora:
    """Collections of one corpus under a folder for work."""

    def __init__(self, beir: Beir, work: Path) -> None:
        self._beir = beir
        self._data = work / "data"
        self._file = work / "corpus.jsonl"
        self._encoder: Encoder | None = None

    def whole(self) -> Collection:
        """The whole corpus, ingested if it is not there yet."""
        name = self._beir.folder.name
        if (self._data / name).exists():
            return Collection.open(self._data, name)
        collection = Collection.create(self._data, name, CollectionSettings())
        self._write(())
        ingest(collection, [self._file], self._model, IngestOptions())
        return collection

    def without(self, removed: Iterable[str], name: str) -> Collection:
        """A copy of the whole without some documents."""
        whole = self.whole()
        target = self._data / name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(whole.path, target)
        collection = Collection.open(self._data, name)
        self._write(removed)
        ingest(collection, [self._file], self._model, IngestOptions())
        reindex(collection, collection.settings, self._model)
        return collection

    def _write(self, removed: Iterable[str]) -> None:
        gone = set(removed)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with (self._beir.folder / "corpus.jsonl").open("rb") as lines, self._file.open("wb") as kept:
            kept.writelines(line for line in lines if json.loads(line)["_id"] not in gone)

    def _model(self) -> Encoder:
        if self._encoder is None:
            self._encoder = load_encoder(CollectionSettings().encoder)
        return self._encoder


def labels(name: str, questions: Sequence[str]) -> list[tuple[str, str]]:
    """(id, text) of questions that have no ids of their own."""
    return [(f"{name}-{at}", text) for at, text in enumerate(questions, 1)]

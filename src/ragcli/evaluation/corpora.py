"""A BEIR corpus as a collection, made once and kept.

Encoding a corpus takes minutes and the corpus does not change, so its collection is named for what the file
holds and how it is cut and encoded, and any later run finds it. These collections lie in a folder of their own
in the data directory, `.evaluation`, where `ragcli collections` does not list them;
`ragcli collections --data-dir <data directory>/.evaluation` does, and deletes them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragcli._version import __version__
from ragcli.errors import InputError, MissingCollection
from ragcli.evaluation.beir import CORPUS, corpus_digest
from ragcli.evaluation.lines import write_whole
from ragcli.records import CollectionSettings, Failure

if TYPE_CHECKING:
    from ragcli.collection import Collection, IngestEvent
    from ragcli.models import Encoder

FOLDER: Final = ".evaluation"


@dataclass(frozen=True, slots=True)
class Corpus:
    """A corpus's collection, and the documents of the file that could not be taken in."""

    collection: Collection
    failures: tuple[Failure, ...]


def corpus_collection(
    data_dir: Path,
    folder: Path,
    settings: CollectionSettings,
    encoder: Callable[[], Encoder],
    listener: Callable[[IngestEvent], None],
    *,
    fresh: bool = False,
) -> Corpus:
    """The collection of a BEIR folder's corpus, ingested now if it was not before, or not to the end.

    `fresh` ingests it anew, as is right when ragcli itself has come to read or cut texts in another way. Raises
    InputError when nothing of the corpus could be taken in, KeyboardInterrupt when the ingest was stopped.
    """
    from ragcli.collection import Collection, ingest_jsonl

    place = data_dir / FOLDER
    name = corpus_name(folder, settings)
    done = place / f"{name}.json"
    try:
        collection = Collection.open(place, name)
        if fresh:
            done.unlink(missing_ok=True)
            collection.delete()
            collection = Collection.create(place, name, settings)
        failures = _read_failures(done)
        if failures is not None:
            return Corpus(collection, failures)
    except MissingCollection:
        collection = Collection.create(place, name, settings)
    corpus = folder / CORPUS
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
    write_whole(done, json.dumps(record, indent=1) + "\n")
    return Corpus(collection, report.failures)


def corpus_name(folder: Path, settings: CollectionSettings) -> str:
    """The name of a corpus's collection: the folder's, and a digest of all that the collection depends on."""
    from ragcli.collection.schema import FORMAT

    # What another version of ragcli made may be cut and stored otherwise, and is left to that version.
    key = json.dumps([corpus_digest(folder / CORPUS), asdict(settings), FORMAT, __version__], sort_keys=True)
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", folder.resolve().name).strip("-._")[:40] or "corpus"
    return f"{stem}-{hashlib.blake2b(key.encode(), digest_size=6).hexdigest()}"


def _read_failures(path: Path) -> tuple[Failure, ...] | None:
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
        return tuple(Failure(str(source), str(reason)) for source, reason in record["failures"])
    except (OSError, ValueError, KeyError, TypeError):
        return None

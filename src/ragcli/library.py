"""The public library: each thing that ragcli does as one call, for programs.

    from ragcli import ask, check, grep, ingest, query

    ingest(["papers"], "reading")
    hits = query("how are leaders elected", "reading").hits

A collection is named by its handle (`Collection`), by its folder, or by its name in `data_dir`, which is by default
the folder that the command line uses where no configuration names another: `RAGCLI_DATA_DIR`, else the platform's.
Without collections, all that lie there are searched. A program that asks often opens a `Searcher` once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragcli.collection import Collection, list_collections
from ragcli.errors import MissingCollection
from ragcli.retrieval.exact_search import GrepRequest
from ragcli.retrieval.exact_search import grep as grep_collections
from ragcli.retrieval.request import QueryRequest

if TYPE_CHECKING:
    from ragcli.collection import IngestOptions, IngestReport
    from ragcli.grounding import AskResult, Preset, SufficiencyJudge
    from ragcli.grounding.answers import AnswerWriter
    from ragcli.grounding.check.claim_check import CheckedSentence
    from ragcli.grounding.faithfulness.claims import FaithfulnessJudge
    from ragcli.models import Encoder, TextReranker
    from ragcli.retrieval.request import QueryResult
    from ragcli.types import CollectionSettings, GrepHit, Notify

CollectionLike = Collection | Path | str
"""A collection's handle, its folder, or its name in the data folder."""


def ingest(
    paths: Sequence[str | Path],
    collection: CollectionLike = "default",
    *,
    data_dir: str | Path | None = None,
    settings: CollectionSettings | None = None,
    encoder: Encoder | None = None,
    options: IngestOptions | None = None,
    notify: Notify | None = None,
) -> IngestReport:
    """Bring a collection up to date with files and folders; it is made if it is not there.

    `settings` are those of a collection that is made. `encoder` is used in place of the one that the settings name.
    The report says what was added, changed and could not be read. Raises InputError for a path that is not there,
    CollectionBusy when another process writes, ModelUnavailable when the encoder is not on this machine and cannot be
    fetched.
    """
    from ragcli.collection import IngestOptions
    from ragcli.collection import ingest as ingest_paths
    from ragcli.models import load_encoder

    target = _open_or_create(collection, data_dir, settings, notify)
    name = target.settings.encoder

    def opened_encoder() -> Encoder:
        return encoder if encoder is not None else load_encoder(name, bulk=True, notify=notify)

    return ingest_paths(target, [Path(path).expanduser() for path in paths], opened_encoder, options or IngestOptions())


def query(
    question: str | QueryRequest,
    collections: CollectionLike | Sequence[CollectionLike] | None = None,
    *,
    data_dir: str | Path | None = None,
    encoder: Encoder | None = None,
    reranker: TextReranker | None = None,
    notify: Notify | None = None,
) -> QueryResult:
    """The passages that answer a question, best first; a `QueryRequest` has all the options.

    `encoder` and `reranker` are the caller's own, see `Searcher`. Raises MissingCollection, ModelUnavailable, and
    UsageError for a request that makes no sense.
    """
    from ragcli.retrieval.searcher import Searcher

    request = QueryRequest(question) if isinstance(question, str) else question
    opened = _open_all(collections, data_dir, notify)
    with Searcher(opened, encoder=encoder, reranker=reranker, notify=notify) as searcher:
        return searcher.query(request)


def grep(
    pattern: str | GrepRequest,
    collections: CollectionLike | Sequence[CollectionLike] | None = None,
    *,
    data_dir: str | Path | None = None,
    notify: Notify | None = None,
) -> tuple[GrepHit, ...]:
    """The places where a phrase stands, in order of collection, source and place; loads no model and no array.

    A `GrepRequest` has all the options. Raises UsageError for a pattern that is empty or no regular expression,
    InputError for one that takes too long.
    """
    request = GrepRequest(pattern) if isinstance(pattern, str) else pattern
    return grep_collections(_open_all(collections, data_dir, notify), request)


def ask(
    question: str | QueryRequest,
    collections: CollectionLike | Sequence[CollectionLike] | None = None,
    *,
    data_dir: str | Path | None = None,
    judge: SufficiencyJudge | str = "calibrated",
    preset: Preset = "balanced",
    writer: AnswerWriter | None = None,
    encoder: Encoder | None = None,
    reranker: TextReranker | None = None,
    notify: Notify | None = None,
) -> AskResult:
    """Whether the collections answer a question, and what they say: the verdict with its evidence.

    `judge` is a judge or the name of one (`calibrated`, `heuristic`, `plugin:NAME`), `preset` how much evidence it
    takes. Once the question has passed, `writer` writes the answer; without one it is the passages' own sentences.
    Errors as for `query`.
    """
    from ragcli.grounding import open_judge
    from ragcli.grounding.ask import ask as ask_searcher
    from ragcli.grounding.extractive_answer import extract_writer
    from ragcli.retrieval.searcher import Searcher

    request = QueryRequest(question) if isinstance(question, str) else question
    opened = _open_all(collections, data_dir, notify)
    judging = open_judge(judge, opened) if isinstance(judge, str) else judge
    with Searcher(opened, encoder=encoder, reranker=reranker, notify=notify) as searcher:
        writers = [writer if writer is not None else extract_writer(searcher)]
        return ask_searcher(searcher, request, judge=judging, preset=preset, writers=writers)


def check(
    draft: str,
    collections: CollectionLike | Sequence[CollectionLike] | None = None,
    *,
    data_dir: str | Path | None = None,
    judge: FaithfulnessJudge | str = "semantic",
    encoder: Encoder | None = None,
    notify: Notify | None = None,
) -> tuple[CheckedSentence, ...]:
    """Each sentence of a draft (its text, as markdown or LaTeX) that claims something, held against what it cites.

    `judge` is a judge or the name of one (`semantic`, `heuristic`, `plugin:NAME`). Errors as for `query`.
    """
    from ragcli.grounding.check.claim_check import check_draft
    from ragcli.grounding.check.draft_parser import read_draft
    from ragcli.grounding.judge_registry import open_faithfulness_judge
    from ragcli.retrieval.searcher import Searcher

    with Searcher(_open_all(collections, data_dir, notify), encoder=encoder, notify=notify) as searcher:
        judging = open_faithfulness_judge(judge, searcher=searcher) if isinstance(judge, str) else judge
        return tuple(check_draft(searcher, read_draft(draft), judging, notify=notify))


def _folder_of_collections(data_dir: str | Path | None) -> Path:
    from ragcli.config import Config, resolve_data_dir

    return resolve_data_dir(Path(data_dir) if data_dir is not None else None, Config())


def _place(collection: Path | str, data_dir: str | Path | None) -> tuple[Path, str]:
    """The data folder and the name of a collection that is named by its folder or its name."""
    if isinstance(collection, Path) or "/" in collection:
        folder = Path(collection).expanduser().absolute()
        return folder.parent, folder.name
    return _folder_of_collections(data_dir), collection


def _open(collection: CollectionLike, data_dir: str | Path | None, notify: Callable[[str], None] | None) -> Collection:
    if isinstance(collection, Collection):
        return collection
    return Collection.open(*_place(collection, data_dir), notify=notify)


def _open_or_create(
    collection: CollectionLike,
    data_dir: str | Path | None,
    settings: CollectionSettings | None,
    notify: Callable[[str], None] | None,
) -> Collection:
    try:
        return _open(collection, data_dir, notify)
    except MissingCollection:
        if isinstance(collection, Collection):
            raise
        return Collection.create(*_place(collection, data_dir), settings)


def _open_all(
    collections: CollectionLike | Sequence[CollectionLike] | None,
    data_dir: str | Path | None,
    notify: Callable[[str], None] | None,
) -> list[Collection]:
    if collections is None:
        folder = _folder_of_collections(data_dir)
        names: Sequence[CollectionLike] = list_collections(folder)
        if not names:
            raise MissingCollection(f"There is no collection in {folder} yet; `ragcli ingest PATH` makes one.")
        return [_open(name, folder, notify) for name in names]
    if isinstance(collections, (Collection, Path, str)):
        collections = [collections]
    return [_open(each, data_dir, notify) for each in collections]

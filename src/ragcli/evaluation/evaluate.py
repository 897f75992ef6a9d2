"""From an evaluation set and a collection to a comparison: the whole of an evaluation on one page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ragcli.errors import MissingCollection
from ragcli.evaluation.comparison import Cost, Result, score_run
from ragcli.evaluation.judgements import EvaluationSet, Level, Qrels, Run, Topic
from ragcli.evaluation.load import first_few, is_known, match_items
from ragcli.evaluation.running import DEPTH, PipelineRun, Progress, run_pipeline
from ragcli.evaluation.specs import PipelineSpec

if TYPE_CHECKING:
    from ragcli.collection import Collection, Snapshot
    from ragcli.retrieval.techniques import ModelInUse


@dataclass(frozen=True, slots=True)
class Evaluated:
    """An evaluation set as the collection knows it, and each pipeline's result on it."""

    given: EvaluationSet
    results: tuple[Result, ...]


def evaluate(
    collection: Collection,
    given: EvaluationSet,
    specs: Sequence[PipelineSpec],
    measures: Sequence[str],
    *,
    level: Level | None = None,
    depth: int = DEPTH,
    engine: Literal["auto", "onnx", "torch"] = "auto",
    notify: Callable[[str], None] | None = None,
    progress: Progress | None = None,
    model: ModelInUse | None = None,
) -> Evaluated:
    """Run the pipelines over the topics and score what they give; `model` is for query techniques that ask one.

    Raises InputError when the judged ids are not of this collection.
    """
    from ragcli.evaluation.costs import index_bytes, model_bytes
    from ragcli.retrieval.query import Searcher

    with collection.snapshot() as snapshot:
        matched, judged_names = match_items(given, _SnapshotItems(snapshot), level)
        names = _all_names(snapshot, judged_names)
        results = []
        notes: list[str] = []
        with Searcher([collection], engine=engine, notify=notify) as searcher:
            for spec in specs:
                done = run_pipeline(
                    searcher,
                    spec,
                    matched.topics,
                    level=matched.level,
                    names=names,
                    depth=depth,
                    progress=progress,
                    model=model,
                )
                notes += done.notes
                cost = _cost(
                    done,
                    index_bytes(snapshot, spec.pipeline, done.reranker),
                    model_bytes(snapshot.settings.encoder, spec.pipeline, done.reranker, engine=engine),
                )
                results.append(score_run(done.run, matched, measures, cost=cost, reranker=done.reranker))
    return Evaluated(replace(matched, notes=(*matched.notes, *notes)), tuple(results))


def unknown_items(snapshot: Snapshot, qrels: Qrels) -> tuple[str, ...]:
    """The judged items that the collection does not have, neither as document nor as chunk."""
    items = _SnapshotItems(snapshot)
    return tuple(name for name in sorted(qrels.items()) if not is_known(name, items))


def given_by_qrels(qrels: Qrels, runs: Sequence[Run], topics: Sequence[Topic] = ()) -> EvaluationSet:
    """An evaluation set for runs from elsewhere: all that is judged takes part, its words known or not.

    A judged query that a run lacks counts with nothing found; one that is not judged is left out.
    """
    words = {topic.query_id: topic for topic in topics}
    unjudged = [
        query
        for query in dict.fromkeys(query for run in runs for query in run.rankings)
        if query not in qrels.judgements
    ]
    return EvaluationSet(
        name="runs",
        format="run",
        level="document",
        topics=tuple(words.get(query, Topic(query, "")) for query in qrels.query_ids),
        qrels=qrels,
        unjudged=tuple(words.get(query, Topic(query, "")) for query in unjudged),
        notes=missing_notes(qrels, runs),
    )


def with_missing_notes(given: EvaluationSet, runs: Sequence[Run]) -> EvaluationSet:
    """The evaluation set with a note for each run that lacks judged queries."""
    return replace(given, notes=(*given.notes, *missing_notes(given.qrels, runs)))


def missing_notes(qrels: Qrels, runs: Sequence[Run]) -> tuple[str, ...]:
    """A sentence for each run that has nothing for some judged query."""
    notes = []
    for run in runs:
        missing = [query for query in qrels.query_ids if not run.rankings.get(query)]
        if missing:
            notes.append(
                f"{run.name} has nothing for {len(missing)} judged queries, which count as 0 ({first_few(missing)})."
            )
    return tuple(notes)


def _all_names(snapshot: Snapshot, judged: Mapping[str, str]) -> Mapping[str, str]:
    """What each document is called: where the qrels go by sources, those not judged are called by theirs too."""
    if 2 * sum(name != document for document, name in judged.items()) <= len(judged):
        return judged
    return {row.document_id: row.source for row in snapshot.documents()} | dict(judged)


def _cost(done: PipelineRun, index: int, models: int) -> Cost | None:
    if done.latency is None:
        return None
    return Cost(done.latency.p50, done.latency.p95, done.latency.queries, index, models)


class _SnapshotItems:
    """A snapshot's documents and chunks, as the matching of ids asks for them."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def document(self, name: str) -> str | None:
        try:
            return self._snapshot.document(name).document_id
        except MissingCollection:
            return None

    def chunk(self, name: str) -> str | None:
        chunk = self._snapshot.find_chunk(name)
        return chunk.document_id if chunk is not None else None

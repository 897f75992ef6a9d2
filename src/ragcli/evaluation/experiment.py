"""Run an evaluation: match qrels to a collection, run and score pipelines, measure sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ragcli.engines import open_reader
from ragcli.errors import MissingCollection
from ragcli.evaluation.dataset_loader import is_known_item, list_first, match_items
from ragcli.evaluation.pipeline_runner import MODEL_FAILURES, RUN_DEPTH, PipelineRun, Progress, run_pipeline
from ragcli.evaluation.pipeline_spec import PipelineSpec
from ragcli.evaluation.run_comparison import RunCost, RunResult, score_run
from ragcli.evaluation.topics_qrels_runs import EvaluationSet, Level, Qrels, Run, Topic
from ragcli.retrieval.pipelines import PIPELINES

if TYPE_CHECKING:
    from ragcli.collection import Collection
    from ragcli.engines import CollectionReader
    from ragcli.llm.chat_model import LanguageModel


def index_bytes(reader: CollectionReader, pipeline: str, reranker: str | None) -> int:
    """Bytes of the structures that a pipeline reads, over and above the texts themselves."""
    parts = reader.structure_bytes()
    chosen = PIPELINES[pipeline]
    stages = (chosen.plain,) if reranker is None and chosen.plain is not None else chosen.stages
    return sum(parts[stage] for stage in stages) + (parts["late"] if reranker == "late" else 0)


def model_bytes(encoder: str, pipeline: str, reranker: str | None, *, engine: str = "auto") -> int:
    """Bytes of the weights a pipeline loads, as its engine keeps them; 0 for one that needs none."""
    chosen = PIPELINES[pipeline]
    stages = (chosen.plain,) if reranker is None and chosen.plain is not None else chosen.stages
    names = {encoder} if "dense" in stages or reranker == "late" else set()
    if reranker not in (None, "late"):
        names.add(str(reranker))
    return sum(_weight_bytes(name, engine) for name in sorted(names))


def _weight_bytes(name: str, engine: str) -> int:
    from ragcli.models import find_model
    from ragcli.models.model_inventory import exports
    from ragcli.models.model_lookup import file_sha256

    found = find_model(name)
    if found is None:
        return 0
    made = []
    if engine != "torch":
        fingerprint = file_sha256(found.weights)
        made = [export.size for export in exports() if export.fingerprint == fingerprint]
    return made[0] if made else _bytes_on_disk(found.weights)


def _bytes_on_disk(path: Path) -> int:
    if path.is_dir():
        return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    return path.stat().st_size if path.is_file() else 0


@dataclass(frozen=True, slots=True)
class ExperimentResult:
    """An evaluation set as the collection knows it, and each pipeline's result on it."""

    given: EvaluationSet
    results: tuple[RunResult, ...]


def run_experiment(
    collection: Collection,
    given: EvaluationSet,
    specs: Sequence[PipelineSpec],
    measures: Sequence[str],
    *,
    level: Level | None = None,
    depth: int = RUN_DEPTH,
    engine: Literal["auto", "onnx", "torch"] = "auto",
    notify: Callable[[str], None] | None = None,
    progress: Progress | None = None,
    model: LanguageModel | None = None,
    prompts: Path | None = None,
) -> ExperimentResult:
    """Run the pipelines over the topics and score what they give.

    `model` is for query techniques that ask one, with the user's own `prompts`.

    Raises InputError when the judged ids are not of this collection.
    """
    from ragcli.llm.chat_model import CircuitBreaker
    from ragcli.retrieval.searcher import Searcher

    steady = CircuitBreaker(model, MODEL_FAILURES) if model is not None else None
    with open_reader(collection) as reader:
        matched, judged_names = match_items(given, _CollectionItems(reader), level)
        names = _document_names(reader, judged_names)
        results = []
        notes: list[str] = []
        with Searcher([reader], engine=engine, notify=notify, language_model=steady, prompts=prompts) as searcher:
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
                cost = _run_cost(
                    done,
                    index_bytes(reader, spec.pipeline, done.reranker),
                    model_bytes(reader.settings.encoder, spec.pipeline, done.reranker, engine=engine),
                )
                results.append(score_run(done.run, matched, measures, cost=cost, reranker=done.reranker))
    return ExperimentResult(replace(matched, notes=(*matched.notes, *notes)), tuple(results))


def unknown_items(reader: CollectionReader, qrels: Qrels) -> tuple[str, ...]:
    """The judged items that the collection does not have, neither as document nor as chunk."""
    items = _CollectionItems(reader)
    return tuple(name for name in sorted(qrels.items()) if not is_known_item(name, items))


def evaluation_set_from_qrels(qrels: Qrels, runs: Sequence[Run], topics: Sequence[Topic] = ()) -> EvaluationSet:
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
                f"{run.name} has nothing for {len(missing)} judged queries, which count as 0 ({list_first(missing)})."
            )
    return tuple(notes)


def _document_names(reader: CollectionReader, judged: Mapping[str, str]) -> Mapping[str, str]:
    """What each document is called: where the qrels go by sources, those not judged are called by theirs too."""
    if 2 * sum(name != document for document, name in judged.items()) <= len(judged):
        return judged
    return {row.document_id: row.source for row in reader.documents()} | dict(judged)


def _run_cost(done: PipelineRun, index: int, models: int) -> RunCost | None:
    if done.latency is None:
        return None
    return RunCost(done.latency.p50, done.latency.p95, done.latency.queries, index, models)


class _CollectionItems:
    """A collection's documents and chunks, as the matching of ids asks for them."""

    def __init__(self, reader: CollectionReader) -> None:
        self._reader = reader

    def document(self, name: str) -> str | None:
        try:
            return self._reader.document(name).document_id
        except MissingCollection:
            return None

    def chunk(self, name: str) -> str | None:
        chunk = self._reader.find_chunk(name)
        return chunk.document_id if chunk is not None else None

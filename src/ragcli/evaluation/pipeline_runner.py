"""Run pipelines over topics, timing queries and ranking in depth.

Cost and quality are two passes. The first asks each topic as a person would (`query`, top 5) with the models loaded,
one after the other, and times each. The second ranks in depth, which no person waits for, with the pipeline's own
pool, so that what is measured at rank 1 is what people get at rank 1. A technique's plan is made once for each
question and serves both passes, so that a language model is asked as often as a person's query would ask it; what it
took and where it failed is told with the figures.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ragcli.evaluation.pipeline_spec import PipelineSpec
from ragcli.evaluation.topics_qrels_runs import Level, RankedItem, Run, Topic, best_first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ragcli.retrieval.request import DeepRanking, QueryRequest, QueryResult
    from ragcli.retrieval.searcher import Searcher
    from ragcli.retrieval.techniques import QueryPlan, TechniqueModel


# One question may be too much for a model; after so many in a row it is taken to be away.
_FAILURES: Final = 3


class PipelineQuerier:
    """Puts topics to a searcher as one pipeline does."""

    def __init__(self, searcher: Searcher, spec: PipelineSpec, in_use: TechniqueModel | None = None) -> None:
        self._searcher = searcher
        self._spec = spec
        self._notes = _FailureNotes()
        self._model = in_use.model if in_use is not None else None
        self._before = getattr(self._model, "spent", None)
        if spec.techniques:
            from ragcli.llm.chat_model import CircuitBreaker
            from ragcli.retrieval.expansion.query_plan import NO_LANGUAGE_MODEL
            from ragcli.retrieval.expansion.query_rewriting import technique_functions

            steady = CircuitBreaker(self._model, _FAILURES) if self._model is not None else None
            prompts = in_use.prompts if in_use is not None else None
            self._steps = technique_functions(spec.techniques, steady, prompts=prompts)
            self._lacking = spec.techniques.need_a_model if self._model is None else ()
            self._why_not = (in_use.why_not if in_use is not None else "") or NO_LANGUAGE_MODEL

    def ask(self, topic: Topic, top: int, *, timed: bool = True) -> Callable[[int, int], DeepRanking]:
        """Do what answers a person, and say how to rank in depth: down to so many chunks or documents.

        Unless it is `timed`, only what the ranking needs is done.
        """
        request = self._spec.request(topic.text, top)
        if not self._spec.techniques:
            if timed:
                self._searcher.query(request)
            return lambda chunks, documents: self._searcher.ranking(request, chunks=chunks, documents=documents)
        from ragcli.retrieval.expansion.query_plan import deep_ranking, run_plan

        planned = self._plan(request, topic)
        self._notes.count(run_plan(self._searcher, planned, self._steps).plan if timed else planned)
        return lambda chunks, documents: deep_ranking(self._searcher, planned, chunks=chunks, documents=documents)

    def query(self, topic: Topic, top: int) -> QueryResult:
        """What a person gets for the question."""
        request = self._spec.request(topic.text, top)
        if not self._spec.techniques:
            return self._searcher.query(request)
        from ragcli.retrieval.expansion.query_plan import run_plan

        return run_plan(self._searcher, self._plan(request, topic), self._steps).result

    def _plan(self, request: QueryRequest, topic: Topic) -> QueryPlan:
        from ragcli.retrieval.expansion.query_plan import plan_queries

        return plan_queries(
            self._searcher, request, self._steps, topic.history, lacking=self._lacking, why=self._why_not
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about this pipeline's language model."""
        return tuple(f"{self._spec.label}: {each}" for each in (*self._spending(), *self._notes.sentences()))

    def _spending(self) -> Iterator[str]:
        after, before = getattr(self._model, "spent", None), self._before
        if not self._spec.techniques or self._model is None or after is None or before is None or after == before:
            return
        asked, known = after.calls - before.calls, after.cached - before.cached
        cost = f", at a cost of {after.cost - before.cost:.4f}" if after.cost > before.cost else ""
        yield (
            f"{self._model.name} was asked {asked:,} times ({after.tokens - before.tokens:,} tokens{cost}); "
            f"{known:,} answers came from the cache."
        )


@dataclass(slots=True)
class _FailureNotes:
    """In how many questions which techniques failed."""

    questions: int = 0
    failed: Counter[tuple[str, ...]] = field(default_factory=Counter)
    why: str = ""

    def count(self, planned: QueryPlan) -> None:
        self.questions += 1
        if planned.failed:
            self.failed[planned.failed] += 1
            self.why = self.why or planned.why

    def sentences(self) -> Iterator[str]:
        for options, number in self.failed.items():
            yield (
                f"{number} of {self.questions} questions were asked without {', '.join(options)}, as a query would be. "
                f"{self.why}"
            )


TIMED_TOP: Final = 5
RUN_DEPTH: Final = 100

Progress = Callable[[str, int, int], None]
"""Told after each query: the pipeline, queries done, queries in all."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of a query: the median and the 95th percentile over `queries`."""

    p50: float
    p95: float
    queries: int


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """What a pipeline gave, by which reranker, and how long a query took; None if that was not asked for.

    `notes` are sentences about it that belong under its figures.
    """

    run: Run
    reranker: str | None
    latency: Latency | None
    notes: tuple[str, ...] = ()


def run_pipeline(
    searcher: Searcher,
    spec: PipelineSpec,
    topics: Sequence[Topic],
    *,
    level: Level,
    names: Mapping[str, str],
    depth: int = RUN_DEPTH,
    timed: bool = True,
    progress: Progress | None = None,
    model: TechniqueModel | None = None,
) -> PipelineRun:
    """Run one pipeline over the topics, `depth` documents or chunks deep.

    `names` are the names that documents go by in the qrels, where those are not their ids. `model` is for query
    techniques that ask one.
    """
    asker = PipelineQuerier(searcher, spec, model)
    seconds: list[float] = []
    rankings: dict[str, tuple[RankedItem, ...]] = {}
    reranker = None
    if timed and topics:
        # The first query pays for loading models and touching files; nobody's second query does.
        searcher.query(spec.request(topics[0].text, TIMED_TOP))
    for done, topic in enumerate(topics, 1):
        started = time.perf_counter()
        ranking = asker.ask(topic, TIMED_TOP, timed=timed)
        seconds.append(time.perf_counter() - started)
        found = ranking(depth if level == "chunk" else 0, depth if level == "document" else 0)
        reranker = found.reranker
        # Best chunk per document: a document stands where the first of its chunks does.
        rankings[topic.query_id] = best_first(
            (
                chunk.chunk_id if level == "chunk" else names.get(chunk.document_id, chunk.document_id),
                chunk.score,
            )
            for chunk in found.chunks
        )[:depth]
        if progress is not None:
            progress(spec.label, done, len(topics))
    return PipelineRun(
        Run(spec.label, rankings), reranker, latency_percentiles(seconds) if timed else None, asker.notes
    )


def latency_percentiles(seconds: Sequence[float]) -> Latency | None:
    """Median and 95th percentile, by nearest rank, in milliseconds; None without a measurement."""
    if not seconds:
        return None
    ordered = sorted(seconds)

    def rank(share: float) -> float:
        return 1000 * ordered[max(math.ceil(share * len(ordered)), 1) - 1]

    return Latency(rank(0.50), rank(0.95), len(ordered))

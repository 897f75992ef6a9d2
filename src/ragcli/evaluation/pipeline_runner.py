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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragcli.evaluation.pipeline_spec import PipelineSpec
from ragcli.evaluation.topics_qrels_runs import Level, RankedItem, Run, Topic, best_first

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ragcli.llm.chat_model import LanguageModel
    from ragcli.retrieval.request import QueryPlan
    from ragcli.retrieval.searcher import Searcher


MODEL_FAILURES: Final = 3
"""One question may be too much for a language model; after so many failures in a row it is taken to be away."""


class _ModelNotes:
    """In how many questions which techniques failed, and what the language model was asked."""

    def __init__(self, model: LanguageModel | None) -> None:
        self._model = model
        self._before = getattr(model, "spent", None)
        self._questions = 0
        self._failed: Counter[tuple[str, ...]] = Counter()
        self._why = ""

    def count(self, plan: QueryPlan) -> None:
        self._questions += 1
        if plan.failed:
            self._failed[plan.failed] += 1
            self._why = self._why or plan.why

    def sentences(self) -> Iterator[str]:
        after, before = getattr(self._model, "spent", None), self._before
        if self._questions and self._model is not None and after is not None and before not in (None, after):
            asked, known = after.calls - before.calls, after.cached - before.cached
            cost = f", at a cost of {after.cost - before.cost:.4f}" if after.cost > before.cost else ""
            yield (
                f"{self._model.name} was asked {asked:,} times ({after.tokens - before.tokens:,} tokens{cost}); "
                f"{known:,} answers came from the cache."
            )
        for options, number in self._failed.items():
            yield (
                f"{number} of {self._questions} questions were asked without {', '.join(options)}, "
                f"as a query would be. {self._why}"
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
    model: LanguageModel | None = None,
) -> PipelineRun:
    """Run one pipeline over the topics, `depth` documents or chunks deep.

    `names` are the names that documents go by in the qrels, where those are not their ids. `model` is the searcher's
    language model, whose cost is told.
    """
    notes = _ModelNotes(model)
    seconds: list[float] = []
    rankings: dict[str, tuple[RankedItem, ...]] = {}
    reranker = None
    if timed and topics:
        # The first query pays for loading models and touching files; nobody's second query does.
        searcher.query(spec.request(topics[0].text, TIMED_TOP).without_techniques())
    for done, topic in enumerate(topics, 1):
        started = time.perf_counter()
        request = spec.request(topic.text, TIMED_TOP, topic.history)
        plan = searcher.query(request).plan if timed else searcher.plan(request) if request.techniques else None
        seconds.append(time.perf_counter() - started)
        if plan is not None:
            notes.count(plan)
        found = searcher.ranking(
            request,
            plan=plan,
            chunks=depth if level == "chunk" else 0,
            documents=depth if level == "document" else 0,
        )
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
        Run(spec.label, rankings),
        reranker,
        latency_percentiles(seconds) if timed else None,
        tuple(f"{spec.label}: {each}" for each in notes.sentences()),
    )


def latency_percentiles(seconds: Sequence[float]) -> Latency | None:
    """Median and 95th percentile, by nearest rank, in milliseconds; None without a measurement."""
    if not seconds:
        return None
    ordered = sorted(seconds)

    def rank(share: float) -> float:
        return 1000 * ordered[max(math.ceil(share * len(ordered)), 1) - 1]

    return Latency(rank(0.50), rank(0.95), len(ordered))

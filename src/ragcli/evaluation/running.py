"""Pipelines put to work on the topics of an evaluation: their runs, and what each query costs.

Cost and quality are two passes. The first asks each topic as a person would (`query`, top 5) with the models
loaded, one after the other, and takes the time of each. The second ranks in depth, which no person waits for,
with the pipeline's own pool, so that what is measured at rank 1 is what people get at rank 1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragcli.evaluation.asking import Asker
from ragcli.evaluation.judgements import Level, RankedItem, Run, Topic, best_first
from ragcli.evaluation.specs import PipelineSpec

if TYPE_CHECKING:
    from ragcli.retrieval.query import Searcher
    from ragcli.retrieval.techniques import ModelInUse

TOP_TIMED: Final = 5
DEPTH: Final = 100

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
    depth: int = DEPTH,
    timed: bool = True,
    progress: Progress | None = None,
    model: ModelInUse | None = None,
) -> PipelineRun:
    """Run one pipeline over the topics, `depth` documents or chunks deep.

    `names` are the names that documents go by in the qrels, where those are not their ids. `model` is for query
    techniques that ask one.
    """
    asker = Asker(searcher, spec, model)
    seconds: list[float] = []
    rankings: dict[str, tuple[RankedItem, ...]] = {}
    reranker = None
    if timed and topics:
        # The first query pays for loading models and touching files; nobody's second query does.
        searcher.query(spec.request(topics[0].text, TOP_TIMED))
    for done, topic in enumerate(topics, 1):
        started = time.perf_counter()
        ranking = asker.ask(topic, TOP_TIMED, timed=timed)
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
    return PipelineRun(Run(spec.label, rankings), reranker, latency_of(seconds) if timed else None, asker.notes)


def latency_of(seconds: Sequence[float]) -> Latency | None:
    """Median and 95th percentile, by nearest rank, in milliseconds; None without a measurement."""
    if not seconds:
        return None
    ordered = sorted(seconds)

    def rank(share: float) -> float:
        return 1000 * ordered[max(math.ceil(share * len(ordered)), 1) - 1]

    return Latency(rank(0.50), rank(0.95), len(ordered))

"""Named pipelines: which first stages fill the candidate pool and how it is ranked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from ragcli.errors import UsageError
from ragcli.types import NO_ENCODER

Stage = Literal["bm25", "tfidf", "dense"]

# A cross-encoder has read question and passage together, and knows more than each of the other stages.
CROSS_ENCODER_WEIGHT: Final = 1.5


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`final` says who decides: the weighted `fusion` of all stages, or the `reranker` alone.

    `plain` is the stage whose own order stands when nothing reranks; None means the fusion of the stages.
    `weights` are the stages' in the fusion; `feedback` is the weight of `ragcli.retrieval.final_score` after it, 0
    for none. `titles` is how much a word in a title or heading counts in the BM25 stage, against 1 in the text.
    """

    stages: tuple[Stage, ...]
    pool: int
    final: Literal["fusion", "reranker"]
    plain: Stage | None
    reranks: bool
    weights: Mapping[str, float] = field(default_factory=dict)
    feedback: float = 0.0
    titles: float = 0.0


PIPELINES: Final[Mapping[str, Pipeline]] = {
    "classic": Pipeline(("tfidf", "dense"), 20, "reranker", "tfidf", reranks=True),
    "hybrid": Pipeline(
        ("bm25", "dense"),
        40,
        "fusion",
        None,
        reranks=True,
        weights={"bm25": 1.0, "dense": 1.0, "rerank": 1.0, "window": 0.5},
        feedback=0.6,
        titles=0.2,
    ),
    "bm25": Pipeline(("bm25",), 30, "reranker", "bm25", reranks=False),
    "tfidf": Pipeline(("tfidf",), 30, "reranker", "tfidf", reranks=False),
    "dense": Pipeline(("dense",), 30, "reranker", "dense", reranks=False),
}


def stages_of(pipeline: Pipeline, reranker: str | None, *, encoder: str) -> tuple[Stage, ...]:
    """The first stages that run. UsageError if none can, for want of vectors."""
    # The seed's order without reranking is TF-IDF alone, so nothing else need run.
    stages = (pipeline.plain,) if reranker is None and pipeline.plain is not None else pipeline.stages
    if encoder == NO_ENCODER:
        stages = tuple(stage for stage in stages if stage != "dense")
    if not stages:
        raise UsageError("The dense pipeline needs vectors, and this collection was made without an encoder.")
    return stages

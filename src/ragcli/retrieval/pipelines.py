"""The pipelines by name: which first stages fill the pool, and how the pool is put in order.

A pipeline is a value, not a class: the search reads it and does what it says. `classic` is pool-then-rerank
with the reranker's word final (Nogueira and Cho 2019, arXiv:1901.04085). `hybrid` lets the reranker vote
beside the first stages instead, because on public collections the sum of z-scores beats the late-interaction
reranker alone on both (scripts/bench/QUALITY.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Stage = Literal["bm25", "tfidf", "dense"]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """`final` says who decides: the weighted `fusion` of all stages, or the `reranker` alone.

    `plain` is the stage whose own order stands when nothing reranks; None means the fusion of the stages.
    """

    stages: tuple[Stage, ...]
    pool: int
    final: Literal["fusion", "reranker"]
    plain: Stage | None
    reranks: bool
    weights: Mapping[str, float] = field(default_factory=dict)


PIPELINES: Final[Mapping[str, Pipeline]] = {
    "classic": Pipeline(("tfidf", "dense"), 20, "reranker", "tfidf", reranks=True),
    "hybrid": Pipeline(
        ("bm25", "dense"), 30, "fusion", None, reranks=True, weights={"bm25": 0.7, "dense": 1.5, "rerank": 1.0}
    ),
    "bm25": Pipeline(("bm25",), 30, "reranker", "bm25", reranks=False),
    "tfidf": Pipeline(("tfidf",), 30, "reranker", "tfidf", reranks=False),
    "dense": Pipeline(("dense",), 30, "reranker", "dense", reranks=False),
}

"""The last word on a pool: every stage's scores fused, then feedback from the best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ragcli.retrieval.candidates import Pool, StageScores, pool_documents, pool_vectors
from ragcli.retrieval.feedback import feedback_scores
from ragcli.retrieval.fusion import convex, min_max, reciprocal_ranks, weighted_sum, z_scores
from ragcli.retrieval.pipelines import CROSS_ENCODER_WEIGHT, Pipeline

if TYPE_CHECKING:
    from ragcli.collection import Snapshot
    from ragcli.retrieval.request import QueryRequest


def fuse(
    snapshots: Sequence[Snapshot], pool: Pool, pipeline: Pipeline, request: QueryRequest, reranker: str | None
) -> StageScores:
    """One score per candidate, float64 (n,). The feedback's own scores are added to `pool.scores`."""
    weights = {**pipeline.weights}
    if reranker not in (None, "late"):
        weights["rerank"] = CROSS_ENCODER_WEIGHT
    for stage in ("bm25", "dense", "rerank", "window"):
        asked = getattr(request, stage)
        weights |= {stage: asked} if asked is not None else {}
    fused = _fused(pool.scores, weights, request)
    share = pipeline.feedback if request.feedback is None else request.feedback
    if not share or "dense" not in pool.scores or len(pool) < 2:
        return fused
    standard = z_scores(fused)
    likeness = feedback_scores(standard, pool_vectors(snapshots, pool), pool_documents(snapshots, pool))
    pool.scores["feedback"] = likeness
    final: StageScores = standard + share * z_scores(likeness)
    return final


def _fused(scores: dict[str, StageScores], weights: dict[str, float], request: QueryRequest) -> StageScores:
    if request.fusion == "rrf":
        return reciprocal_ranks(scores, weights, request.rrf_k)
    if request.fusion == "minmax":
        total: StageScores = np.sum([weights.get(name, 1.0) * min_max(each) for name, each in scores.items()], axis=0)
        return total
    if request.fusion == "convex" and "bm25" in scores and "dense" in scores:
        return convex(scores["bm25"], scores["dense"], request.alpha)
    return weighted_sum(scores, weights)

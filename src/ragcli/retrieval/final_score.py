"""The final score of a pool: stage scores fused, pseudo-relevance feedback, recency decay."""

from __future__ import annotations

import time
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.retrieval.fusion import (
    ScoreArray,
    convex_combination,
    min_max,
    reciprocal_rank_fusion,
    weighted_sum,
    z_scores,
)
from ragcli.retrieval.pipelines import CROSS_ENCODER_WEIGHT, Pipeline
from ragcli.retrieval.stages import CandidatePool, StageScores, pool_documents, pool_vectors

if TYPE_CHECKING:
    from ragcli.engines import CollectionReader
    from ragcli.models import FloatArray
    from ragcli.retrieval.request import QueryRequest


def final_scores(
    readers: Sequence[CollectionReader],
    pool: CandidatePool,
    pipeline: Pipeline,
    request: QueryRequest,
    reranker: str | None,
) -> StageScores:
    """One score per candidate, float64 (n,). The feedback's own scores are added to `pool.scores`."""
    weights = {**pipeline.weights}
    if reranker not in (None, "late"):
        weights["rerank"] = CROSS_ENCODER_WEIGHT
    for stage in ("bm25", "dense", "rerank", "window"):
        asked = getattr(request, stage)
        weights |= {stage: asked} if asked is not None else {}
    fused = _fused_scores(pool.scores, weights, request)
    share = pipeline.feedback if request.feedback is None else request.feedback
    if not share or "dense" not in pool.scores or len(pool) < 2:
        return fused
    standard = z_scores(fused)
    likeness = feedback_scores(standard, pool_vectors(readers, pool), pool_documents(readers, pool))
    pool.scores["feedback"] = likeness
    final: StageScores = standard + share * z_scores(likeness)
    return final


def _fused_scores(scores: dict[str, StageScores], weights: dict[str, float], request: QueryRequest) -> StageScores:
    if request.fusion == "rrf":
        return reciprocal_rank_fusion(scores, weights, request.rrf_k)
    if request.fusion == "minmax":
        total: StageScores = np.sum([weights.get(name, 1.0) * min_max(each) for name, each in scores.items()], axis=0)
        return total
    if request.fusion == "convex" and "bm25" in scores and "dense" in scores:
        return convex_combination(scores["bm25"], scores["dense"], request.alpha)
    return weighted_sum(scores, weights)


FEEDBACK_DOCUMENTS: Final = 5
FEEDBACK_SHARPNESS: Final = 4.0


def feedback_scores(fused: ScoreArray, vectors: FloatArray, documents: Sequence[Hashable]) -> ScoreArray:
    """Likeness (n,) of each candidate to the best ones.

    `fused` (n,) are z-scores, `vectors` (n, d) unit rows, `documents` says which document each candidate is from.
    """
    leaders: dict[Hashable, int] = {}
    for place in np.argsort(-fused, kind="stable").tolist():
        leaders.setdefault(documents[place], place)
        if len(leaders) == FEEDBACK_DOCUMENTS:
            break
    places = list(leaders.values())
    if not places:
        return np.zeros(0)
    weights = np.exp(FEEDBACK_SHARPNESS * (fused[places] - fused[places[0]]))
    likeness: ScoreArray = (vectors @ vectors[places].T) @ (weights / weights.sum())
    return likeness


_DAY: Final = 86_400.0


def recency_scores(
    readers: Sequence[CollectionReader], pool: CandidatePool, half_life: float, *, now: float | None = None
) -> StageScores:
    """0.5 to the power of each candidate's age in half-lives (days), (n,): 1 today or later; NaN without a date."""
    moment = time.time() if now is None else now
    found = np.full(len(pool), np.nan)
    for owner in dict.fromkeys(pool.owners.tolist()):
        mine = np.flatnonzero(pool.owners == owner)
        dates = readers[owner].dates(pool.numbers[mine].tolist())
        for place in mine.tolist():
            date = dates.get(int(pool.numbers[place]))
            if date is not None:
                found[place] = 0.5 ** (max(moment - date, 0.0) / _DAY / half_life)
    return found


def blend_recency(scores: StageScores, decays: StageScores, share: float) -> StageScores:
    """(1 - share) x scores, scaled to 0..1, + share x decay (n,); a document without a date gets nothing for it."""
    blend: StageScores = (1.0 - share) * min_max(scores) + share * np.nan_to_num(decays)
    return blend

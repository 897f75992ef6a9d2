"""Ways to make one ranking out of several.

Score fusion compares how far a candidate stands out in each list, so it needs every list's score for every
candidate of the pool; rank fusion needs only orders, so it is what remains when scores live on scales that
cannot be compared. All functions take arrays of one score per candidate, in the same order of candidates,
with NaN where a list has no score for that one, and give one fused score per candidate, higher is better.

Sources: RRF is Cormack, Clarke and Buettcher, SIGIR 2009. Z-score and min-max fusion of scores: Montague and
Aslam, CIKM 2001. Convex combination: Bruch, Gai and Ingber, TOIS 2023 (arXiv:2210.11934).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]

RRF_K: Final = 60


def z_scores(scores: npt.ArrayLike) -> Scores:
    """Scores minus their mean, over their standard deviation; all zero where they do not vary.

    A missing score (NaN) counts as the lowest one present: the list did not find that candidate.
    """
    filled = _fill_missing(scores)
    if filled.size == 0:
        return filled
    spread = float(filled.std())
    # Below this the differences are rounding noise of float32 scores and must not be blown up.
    if not np.isfinite(spread) or spread <= 1e-6 * max(1.0, float(np.abs(filled).max())):
        return np.zeros_like(filled)
    standard: Scores = (filled - filled.mean()) / spread
    return standard


def min_max(scores: npt.ArrayLike) -> Scores:
    """Scores mapped onto [0, 1]; all zero where they do not vary. A missing score becomes 0."""
    filled = _fill_missing(scores)
    if filled.size == 0:
        return filled
    low, high = float(filled.min()), float(filled.max())
    return np.zeros_like(filled) if high <= low else (filled - low) / (high - low)


def weighted_sum(lists: Mapping[str, npt.ArrayLike], weights: Mapping[str, float]) -> Scores:
    """The sum of each list's z-scores times its weight (1 where no weight is named)."""
    parts = [weights.get(name, 1.0) * z_scores(scores) for name, scores in lists.items()]
    return np.sum(parts, axis=0) if parts else np.zeros(0)


def convex(sparse: npt.ArrayLike, dense: npt.ArrayLike, alpha: float = 0.5) -> Scores:
    """alpha x dense + (1 - alpha) x sparse, each min-max scaled. alpha 0 is sparse alone, 1 dense alone.

    Raises ValueError when alpha is outside [0, 1].
    """
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha}")
    return alpha * min_max(dense) + (1.0 - alpha) * min_max(sparse)


def reciprocal_ranks(
    lists: Mapping[str, npt.ArrayLike], weights: Mapping[str, float] | None = None, k: int = RRF_K
) -> Scores:
    """Reciprocal rank fusion: the sum over lists of weight / (k + rank), ranks from 1; missing adds nothing."""
    total: Scores | None = None
    for name, scores in lists.items():
        values = np.asarray(scores, dtype=np.float64)
        present = ~np.isnan(values)
        order = np.argsort(-values[present], kind="stable")
        ranks = np.empty(order.size, dtype=np.float64)
        ranks[order] = np.arange(1, order.size + 1)
        part = np.zeros_like(values)
        part[present] = (weights or {}).get(name, 1.0) / (k + ranks)
        total = part if total is None else total + part
    return total if total is not None else np.zeros(0)


def union(rankings: Sequence[Sequence[int]], depth: int) -> list[int]:
    """The distinct members of each ranking's first `depth`, in order of first appearance."""
    return list(dict.fromkeys(member for ranking in rankings for member in ranking[:depth]))


def _fill_missing(scores: npt.ArrayLike) -> Scores:
    values = np.array(scores, dtype=np.float64)
    missing = np.isnan(values)
    if missing.any():
        values[missing] = values[~missing].min() if not missing.all() else 0.0
    return values

"""Features of a candidate pool that tell whether it answers its question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.retrieval.fusion import z_scores

if TYPE_CHECKING:
    import numpy.typing as npt

    from ragcli.grounding.sufficiency.pool_statistics import IntArray, PoolStatistics, StatisticArray, VectorStatistics

    Truths = npt.NDArray[np.bool_]

HALVES: Final = 40
_GAINS: Final = (0.3, 0.45, 0.6)
_QUANTILES: Final = (0.1, 0.25, 0.5)
_LIMIT: Final = 2.2
"""The most that BM25 gives a term, in units of its idf: k1 + 1 with tantivy's k1 of 1.2."""
_WINDOW: Final = 0.5


def features_of(pool: PoolStatistics) -> dict[str, float]:
    """The features of a pool with at least one candidate, by name."""
    documents, chunk_of = np.unique(pool.documents, return_inverse=True)
    best = _Best(chunk_of, len(documents))
    reachable = max(float(pool.rarity.sum()) * _LIMIT, 1e-9)
    bm25 = best(pool.bm25 / reachable)
    found = {**_standing("bm25", bm25), "documents": float(np.log1p(len(documents)))}
    if pool.vectors is None:
        top = int(np.argmax(bm25))
        return found | _words(pool, chunk_of, len(documents), top)
    vectors = pool.vectors
    lists = {
        "bm25": bm25,
        "dense": best(_gain(vectors.dense, vectors.dense_noise[0])),
        "late": best(_gain(vectors.late, vectors.late_noise[0])),
        "window": best(_gain(vectors.window, vectors.late_noise[0])),
    }
    fused = best(
        z_scores(pool.bm25) + z_scores(vectors.dense) + z_scores(vectors.late) + _WINDOW * z_scores(vectors.window)
    )
    top = int(np.argmax(fused))
    for name in ("dense", "late", "window"):
        found |= _standing(name, lists[name])
    found |= _standing("fused", fused)
    found["dense_above"] = float((best(vectors.dense).max() - vectors.dense_noise[0]) / vectors.dense_noise[1])
    found["late_above"] = float((best(vectors.late).max() - vectors.late_noise[0]) / vectors.late_noise[1])
    found["agreement"] = float(sum(int(np.argmax(scores)) == top for scores in lists.values()))
    found |= _tokens(vectors, chunk_of, len(documents), lists, top)
    return found | _words(pool, chunk_of, len(documents), top)


class _Best:
    """The best value of each document from those of its chunks."""

    def __init__(self, document_of: IntArray, count: int) -> None:
        self._document_of = document_of
        self._count = count

    def __call__(self, values: StatisticArray) -> StatisticArray:
        best = np.full(self._count, -np.inf)
        np.maximum.at(best, self._document_of, values)
        return best


def _standing(name: str, scores: StatisticArray) -> dict[str, float]:
    """How high the best of some scores is and how far it stands out."""
    falling = np.sort(scores)[::-1]
    first, rest = float(falling[0]), falling[1:]

    def ahead(start: int, stop: int) -> float:
        part = rest[start:stop]
        return first - float(part.mean() if len(part) else falling[-1])

    return {
        f"{name}_top": first,
        f"{name}_ahead": ahead(0, 1),
        f"{name}_ahead5": ahead(0, 4),
        f"{name}_ahead15": ahead(4, 14),
        f"{name}_steep": ahead(0, 1) / (first - float(falling[-1]) + 1e-6),
    }


def _tokens(
    vectors: VectorStatistics, document_of: IntArray, count: int, lists: dict[str, StatisticArray], top: int
) -> dict[str, float]:
    """How well the best document covers the question's tokens, against all documents together."""
    weights = vectors.weights
    best = np.full((count, len(weights)), -np.inf)
    np.maximum.at(best, document_of, _gain(vectors.matches, vectors.noise))
    mine, together = best[top], best.max(axis=0)
    others = np.delete(best, top, axis=0)
    found = {f"covered{round(100 * gain)}": float(weights @ (mine > gain)) for gain in _GAINS}
    order = np.argsort(mine)
    mass = np.cumsum(weights[order])
    for share in _QUANTILES:
        at = min(int(np.searchsorted(mass, share)), len(mine) - 1)
        found[f"match{round(100 * share)}"] = float(mine[order][at])
    rare = weights >= np.quantile(weights, 0.6)
    found["rare"] = float(mine[rare].mean())
    found["rarest"] = float(mine[rare].min())
    found["alone"] = float(weights @ mine) / max(float(weights @ together), 1e-6)
    found["beats"] = float(weights @ (mine >= (others.max(axis=0) if len(others) else mine)))
    found["length"] = float(np.log1p(len(weights)))
    found["rarity"] = vectors.rarity
    return found | _steadiness(best, weights, lists, top)


def _steadiness(
    best: StatisticArray, weights: StatisticArray, lists: dict[str, StatisticArray], top: int
) -> dict[str, float]:
    """How often half of the question's tokens alone put the same document first."""
    # The same halves for every question of a length, so that the same pool always measures the same.
    drawn = np.random.default_rng(len(weights)).random((HALVES, len(weights))) < 0.5
    sums = (drawn * weights) @ best.T
    spread = sums.std(axis=1, keepdims=True) + 1e-9
    whole = int(np.argmax(best @ weights))
    with_others = np.argmax(sums / spread + z_scores(lists["dense"]) + z_scores(lists["bm25"]), axis=1)
    counts = np.bincount(with_others, minlength=len(best))
    return {
        "steady": float((np.argmax(sums, axis=1) == whole).mean()),
        "steady_all": float(counts.max() / HALVES),
        "steady_top": float(counts[top] / HALVES),
    }


def _words(pool: PoolStatistics, document_of: IntArray, count: int, top: int) -> dict[str, float]:
    """How many of the question's terms the best document has, against all documents together."""
    total = float(pool.rarity.sum())
    if not total:
        return {"words": 0.0, "words_missing": 0.0, "words_alone": 0.0, "words_unknown": 1.0, "words_best": 0.0}
    there = np.zeros((count, len(pool.rarity)), dtype=bool)
    np.logical_or.at(there, document_of, pool.words)
    shares = there @ (pool.rarity / total)
    together = float(there.any(axis=0) @ pool.rarity) / total
    return {
        "words": float(shares[top]),
        "words_best": float(shares.max()),
        "words_missing": float((pool.rarity * ~there[top]).max()),
        "words_alone": float(shares[top]) / max(together, 1e-6),
        "words_unknown": float(pool.rarity @ (pool.common == 0)) / total,
    }


def _gain(values: StatisticArray, noise: StatisticArray | float) -> StatisticArray:
    gained: StatisticArray = (values - noise) / np.maximum(1.0 - np.asarray(noise), 1e-3)
    return gained

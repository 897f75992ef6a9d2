"""The last order over what several sources brought: by rank, never by raw score.

A BM25 score of 12 and a cosine of 0.7 say nothing about each other, and neither do two encoders' cosines. So scores
order the results within one source, and between sources only ranks count (reciprocal rank fusion; Cormack, Clarke
and Buettcher, SIGIR 2009). Results of one source alone keep their scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

from ragcli.agent.roles import Reranker
from ragcli.agent.values import Result, result_key
from ragcli.errors import UsageError

RRF_K = 60
Identity = Callable[[Result], Hashable] | str | None


def score_reranker(results: Sequence[Result]) -> list[Result]:
    """By raw score, each result once, at its best. Sound only where all sources share one scale of scores.

    A result that several queries or rounds brought is kept with its highest score. Equal ids in two sources remain
    two results. Among equal scores the order they came in stands.
    """
    best: dict[object, Result] = {}
    for hit in results:
        key = result_key(hit)
        if key not in best or _order(hit) > _order(best[key]):
            best[key] = hit
    return sorted(best.values(), key=_order, reverse=True)


def rrf_reranker(results: Sequence[Result]) -> list[Result]:
    """By reciprocal rank over the results' sources (`Hit.origin`), each source's own order by its raw scores.

    A fused result has the fused score as `score` and the one it came with as `source_score`. Where there is one
    source only, or none is named, this is `score_reranker`: nothing is rescaled that need not be.
    """
    return _by_rank(results, rrf_k=RRF_K, weights={}, identity=None)


def make_rrf_reranker(
    *, rrf_k: int = RRF_K, weights: Mapping[str, float] | None = None, identity: Identity = None
) -> Reranker:
    """`rrf_reranker` with other settings.

    `weights` says how much a source's ranks count, by its name, 1 where not named; names of sources that brought
    nothing are no error. `identity` makes one result of those that several sources have: "path" (the same passage
    of the same file; "pointer" means this too), "content" (the same text), or a function from a result to a key,
    where None or "" means that it is like no other. Without it nothing is merged across sources.

    Raises UsageError for an unknown identity, a negative weight, or an `rrf_k` below 1.
    """
    if rrf_k < 1:
        raise UsageError(f"rrf_k must be at least 1, not {rrf_k}.")
    for name, weight in (weights or {}).items():
        if not (math.isfinite(weight) and weight >= 0):
            raise UsageError(f"The weight of '{name}' must be a number that is not negative, not {weight}.")
    key = _identity(identity)

    def reranker(results: Sequence[Result]) -> list[Result]:
        return _by_rank(results, rrf_k=rrf_k, weights=weights or {}, identity=key)

    return reranker


def fair_share(results: Sequence[Result], limit: int) -> list[Result]:
    """At most `limit` results, the best of each source in turn, as they are.

    So a source that answers last is not cut off by one that answers first, and no score is compared with another
    source's. A result that came twice takes one place.
    """
    queues = [score_reranker(group) for group in _by_origin(results).values()]
    depth = max((len(queue) for queue in queues), default=0)
    dealt = [queue[place] for place in range(depth) for queue in queues if place < len(queue)]
    return dealt[: max(limit, 0)]


def with_own_scores(ranked: Sequence[Result], results: Sequence[Result]) -> list[Result]:
    """`ranked`, an order of `results`, with the scores that they came with.

    Scores of a merging hold for that order only; what is to be merged again needs those of its source.
    """
    own = {result_key(hit): hit for hit in score_reranker(results)}
    return [own.get(result_key(hit), hit) for hit in ranked]


def _by_rank(
    results: Sequence[Result],
    *,
    rrf_k: int,
    weights: Mapping[str, float],
    identity: Callable[[Result], Hashable] | None,
) -> list[Result]:
    ranked = [_distinct(score_reranker(group), identity) for group in _by_origin(results).values()]
    if len(ranked) <= 1:
        return ranked[0] if ranked else []
    fused: dict[Hashable, float] = {}
    best: dict[Hashable, tuple[int, int, Result]] = {}
    for place, group in enumerate(ranked):
        for rank, hit in enumerate(group, 1):
            key = _key(hit, identity)
            fused[key] = fused.get(key, 0.0) + weights.get(hit.origin or "", 1.0) / (rrf_k + rank)
            if key not in best or (rank, place) < best[key][:2]:
                best[key] = rank, place, hit
    # Among equals the better rank in its own source decides, then the order in which the sources came.
    order = sorted(fused, key=lambda key: (-fused[key], *best[key][:2]))
    return [_fused(best[key][2], fused[key]) for key in order]


def _fused(hit: Result, score: float) -> Result:
    # What was merged before keeps the score it had then: that is the one of its own scale.
    original = hit.score if hit.source_score is None else hit.source_score
    return replace(hit, score=score, score_type="fused", source_score=original)


def _by_origin(results: Sequence[Result]) -> dict[str | None, list[Result]]:
    groups: dict[str | None, list[Result]] = {}
    for hit in results:
        groups.setdefault(hit.origin, []).append(hit)
    return groups


def _distinct(hits: Sequence[Result], identity: Callable[[Result], Hashable] | None) -> list[Result]:
    first: dict[Hashable, Result] = {}
    for hit in hits:
        first.setdefault(_key(hit, identity), hit)
    return list(first.values())


def _key(hit: Result, identity: Callable[[Result], Hashable] | None) -> Hashable:
    return (identity(hit) if identity is not None else None) or result_key(hit)


def _identity(identity: Identity) -> Callable[[Result], Hashable] | None:
    match identity:
        case None:
            return None
        case "path" | "pointer":
            return lambda hit: (hit.chunk.path, hit.chunk.start, hit.chunk.end) if hit.chunk.path else None
        case "content":
            return lambda hit: blake2b(hit.chunk.text.encode("utf-8", "replace"), digest_size=16).digest()
        case str():
            raise UsageError(f"There is no identity '{identity}'; it is path, content, or a function.")
        case _:
            return identity


def _order(hit: Result) -> float:
    return hit.score if not math.isnan(hit.score) else -math.inf

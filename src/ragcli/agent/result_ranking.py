"""Merge results of several sources by rank, and select the few to return."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final

from ragcli.agent.data_model import Result, result_key
from ragcli.agent.roles import Reranker
from ragcli.errors import UsageError

AGENT_RRF_K = 60
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
    return _by_rank(results, rrf_k=AGENT_RRF_K, weights={}, identity=None)


def make_rrf_reranker(
    *, rrf_k: int = AGENT_RRF_K, weights: Mapping[str, float] | None = None, identity: Identity = None
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


def round_robin_by_source(results: Sequence[Result], limit: int) -> list[Result]:
    """At most `limit` results, the best of each source in turn, as they are.

    So a source that answers last is not cut off by one that answers first, and no score is compared with another
    source's. A result that came twice takes one place.
    """
    queues = [score_reranker(group) for group in _by_origin(results).values()]
    depth = max((len(queue) for queue in queues), default=0)
    dealt = [queue[place] for place in range(depth) for queue in queues if place < len(queue)]
    return dealt[: max(limit, 0)]


def with_source_scores(ranked: Sequence[Result], results: Sequence[Result]) -> list[Result]:
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


Selector = Callable[[Sequence[Result]], Sequence[Result]]

MAX_SELECTED: Final = 3
RELATIVE_THRESHOLD: Final = 0.9
GAP_RATIO: Final = 0.5
STRATEGIES: Final = ("conservative", "top_k", "abs_threshold", "rel_threshold", "score_gap")


@dataclass(frozen=True, slots=True)
class Selection:
    """What was committed to, best first, out of which candidates.

    `reason` names the rule that ended it, beginning with "abstain:" where nothing was committed to; `signals` are
    the numbers it was decided by.
    """

    selected: tuple[Result, ...]
    candidates: tuple[Result, ...]
    reason: str
    signals: Mapping[str, Any] = field(default_factory=dict)

    @property
    def abstained(self) -> bool:
        """Whether nothing was committed to."""
        return not self.selected

    @property
    def selected_ids(self) -> list[str]:
        """The chunk ids, best first."""
        return [hit.chunk.chunk_id for hit in self.selected]

    @property
    def sufficient(self) -> bool:
        """A hint, not a verdict: something was committed to."""
        return not self.abstained


def select(
    hits: Sequence[Result],
    *,
    strategy: str | Selector = "conservative",
    max_k: int = MAX_SELECTED,
    rel: float = RELATIVE_THRESHOLD,
    gap_ratio: float = GAP_RATIO,
    min_score: float | None = None,
) -> Selection:
    """Commit to some of `hits`, which are best first; never to more than `max_k`.

    "conservative": the best, then each while its score is at least `rel` times the best one's; nothing where even
    the best is below `min_score`. "rel_threshold": all within `rel` of the best. "score_gap": up to the first whose
    score is below `gap_ratio` times the one before it. "abs_threshold": all from `min_score` on. "top_k": the first
    `max_k`. Where the best score is not positive, ratios mean nothing, and the first two keep the best alone. Or a
    function of your own from hits to some of them.

    Raises UsageError for an unknown strategy, or "abs_threshold" without a `min_score`.
    """
    top = hits[0].score if hits else None
    signals: dict[str, Any] = {"n_candidates": len(hits), "top_score": top}
    if callable(strategy):
        chosen, reason = list(strategy(hits)), getattr(strategy, "__name__", "custom")
    elif strategy == "conservative":
        chosen, reason = _conservative(hits, max_k, rel, min_score)
    else:
        chosen, reason = _named(strategy, hits, rel, gap_ratio, min_score), strategy
    if len(chosen) > max_k:
        chosen, reason = chosen[:max_k], "max_k"
    if not chosen and not reason.startswith("abstain:"):
        reason = f"abstain:{reason}"
    if min_score is not None:
        signals["min_score"] = min_score
    signals["n_selected"] = len(chosen)
    signals["min_ratio"] = chosen[-1].score / top if chosen and top is not None and top > 0 else None
    return Selection(tuple(chosen), tuple(hits), reason, signals)


def _conservative(hits: Sequence[Result], max_k: int, rel: float, min_score: float | None) -> tuple[list[Result], str]:
    if not hits:
        return [], "abstain:no_candidates"
    if min_score is not None and hits[0].score < min_score:
        return [], "abstain:below_floor"
    near = _near(hits, rel)
    if len(near) > max_k:
        return near[:max_k], "max_k"
    if hits[0].score <= 0:
        return near, "nonpositive_top"
    return near, "rel_threshold" if len(near) < len(hits) else "exhausted" if len(hits) > 1 else "single"


def _named(
    strategy: str, hits: Sequence[Result], rel: float, gap_ratio: float, min_score: float | None
) -> list[Result]:
    match strategy:
        case "top_k":
            return list(hits)
        case "abs_threshold":
            if min_score is None:
                raise UsageError("The strategy abs_threshold needs a min_score.")
            return [hit for hit in hits if hit.score >= min_score]
        case "rel_threshold":
            return _near(hits, rel)
        case "score_gap":
            return _before_gap(hits, gap_ratio)
    raise UsageError(f"There is no selection strategy '{strategy}'; choose one of {', '.join(STRATEGIES)}.")


def _near(hits: Sequence[Result], rel: float) -> list[Result]:
    """The leading hits within `rel` of the first one's score."""
    if not hits or hits[0].score <= 0:
        return list(hits[:1])
    far = next((place for place, hit in enumerate(hits) if hit.score < rel * hits[0].score), len(hits))
    return list(hits[:far])


def _before_gap(hits: Sequence[Result], ratio: float) -> list[Result]:
    for place in range(1, len(hits)):
        before = hits[place - 1].score
        if before <= 0 or hits[place].score < ratio * before:
            return list(hits[:place])
    return list(hits)

"""From a ranking to the few results to act on, without a model.

More candidates bring more that misleads, so the default commits to little: the best result, and those whose scores
come close to its own, three at most. Scores are compared with each other and never with a fixed number, which
would mean another thing for every collection and pipeline; so nothing here can say "none of these", unless it is
given a floor that somebody has measured for just these scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ragcli.agent.values import Result
from ragcli.errors import UsageError

Selector = Callable[[Sequence[Result]], Sequence[Result]]

MAX_K: Final = 3
REL: Final = 0.9
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
    max_k: int = MAX_K,
    rel: float = REL,
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

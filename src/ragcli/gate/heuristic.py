"""A judge that weighs five plain features by hand-set weights, as the gate of rerankgate 0.2.0 does.

Nothing in it is fitted, so it is the yardstick for the one that is. Its evidence is its own: BM25 and dense ranks
are fused by reciprocal rank, the pool is reordered by half the fused score, 0.3 of the share of the question's words
that a passage has and 0.2 for a pair of neighbouring words, and the first ten passages are looked at.

Its features: the best passage's score so made; the share of the question's words that the ten have between them; how
far the best is ahead of the second; how much the first three have in common (Jaccard, in pairs); and, for the
explanation only, how many passages score 0.2 or more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.gate.explaining import explain
from ragcli.gate.pool import plain_request
from ragcli.gate.values import Decision
from ragcli.retrieval.common_words import content_words
from ragcli.retrieval.fusion import reciprocal_ranks

if TYPE_CHECKING:
    from ragcli.gate.evidence import Evidence
    from ragcli.gate.pool import Scores
    from ragcli.gate.values import Preset, Reason
    from ragcli.retrieval.hits import Ranked

DEPTH: Final = 100
PASSAGES: Final = 10
WEIGHTS: Final = {"top_score": 0.35, "coverage": 0.30, "margin": 0.20, "support": 0.15}
# The score to reach, and the least coverage, whatever the score.
THRESHOLDS: Final[dict[Preset, tuple[float, float]]] = {
    "strict": (0.70, 0.35),
    "balanced": (0.55, 0.25),
    "lenient": (0.40, 0.15),
}
LEAST_TOP: Final = 0.10
_LITTLE: Final = 0.05
_DEEP: Final = 0.2

_WORD: Final = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class HeuristicJudge:
    """The hand-set weights. A score is their sum and no probability."""

    name: str = "heuristic"

    def judge(self, evidence: Evidence, preset: Preset = "balanced") -> Decision:
        """See `Judge`."""
        threshold, least_coverage = THRESHOLDS[preset]
        passages = _reordered(evidence)[:PASSAGES]
        features = _features(evidence.question, passages)
        score = sum(weight * features[name] for name, weight in WEIGHTS.items()) if passages else 0.0
        reasons: list[Reason] = []
        if not passages:
            reasons.append("NO_EVIDENCE")
        else:
            if features["top_score"] < LEAST_TOP:
                reasons.append("LOW_TOP_SCORE")
            if features["coverage"] < least_coverage:
                reasons.append("LOW_COVERAGE")
        passed = score >= threshold and not reasons
        if passages and not passed:
            if features["margin"] < _LITTLE:
                reasons.append("NO_MARGIN")
            if features["support"] < _LITTLE and features["depth"] >= 2:
                reasons.append("NO_CONSENSUS")
            # Below the threshold without any one thing amiss: what counts most was not enough.
            reasons = reasons or ["LOW_TOP_SCORE"]
        chosen: tuple[Reason, ...] = ("PASS",) if passed else tuple(reasons)
        return Decision(passed, score, threshold, chosen, explain(chosen, evidence), features, self.name)


def _reordered(evidence: Evidence) -> list[tuple[float, str]]:
    """(score, text) of the fused candidates, best first."""
    found = [
        candidate
        for ranked, _ in evidence.searcher.ranked(plain_request(evidence.request, evidence.question, depth=DEPTH))
        for candidate in _fused(ranked)
    ]
    if not found:
        return []
    words = content_words(evidence.question)
    pairs = [" ".join(pair) for pair in pairwise(words)]
    most = max(score for score, _ in found)
    scored = []
    for fused, text in found:
        there = set(_words(text))
        coverage = len(there & set(words)) / len(set(words)) if words else 0.0
        flat = text.lower()
        phrase = 1.0 if any(pair in flat for pair in pairs) else 0.0
        scored.append((0.5 * fused / most + 0.3 * coverage + 0.2 * phrase, text))
    return sorted(scored, key=lambda each: -each[0])


def _fused(ranked: Ranked) -> Iterator[tuple[float, str]]:
    pool = ranked.pool
    lists: dict[str, Scores] = {}
    for stage in ("bm25", "dense"):
        if stage in pool.scores:
            scores = np.array(pool.scores[stage], np.float64)
            beyond = np.argsort(-scores, kind="stable")[DEPTH:]
            scores[beyond] = np.nan
            if stage == "bm25":
                scores[scores <= 0] = np.nan
            lists[stage] = scores
    fused = reciprocal_ranks(lists)
    for owner, snapshot in enumerate(ranked.snapshots):
        mine = np.flatnonzero((pool.owners == owner) & (fused > 0))
        chunks = snapshot.live_chunks(pool.numbers[mine].tolist())
        for place in mine.tolist():
            yield float(fused[place]), chunks[int(pool.numbers[place])].text


def _features(question: str, passages: Sequence[tuple[float, str]]) -> dict[str, float]:
    asked = set(content_words(question))
    scores = [score for score, _ in passages]
    together = {word for _, text in passages for word in _words(text)}
    ahead = max(0.0, (scores[0] - scores[1]) / scores[0]) if len(scores) > 1 and scores[0] > 0 else 0.0
    first = [set(content_words(text)) for _, text in passages[:3]]
    shared = [len(one & other) / len(one | other) if one | other else 0.0 for one, other in combinations(first, 2)]
    return {
        "top_score": min(1.0, scores[0]) if scores else 0.0,
        "coverage": len(asked & together) / len(asked) if asked else 0.0,
        "margin": ahead,
        "support": sum(shared) / len(shared) if shared else 0.0,
        "depth": float(sum(score >= _DEEP for score in scores)),
    }


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())

"""Heuristic sufficiency judge: five features with hand-set weights (rerankgate 0.2.0)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.grounding.sufficiency.evidence import Decision, explain
from ragcli.grounding.sufficiency.pool_statistics import canonical_request
from ragcli.retrieval.fusion import reciprocal_rank_fusion
from ragcli.retrieval.rerank import chunk_texts
from ragcli.text.stop_words import content_words

if TYPE_CHECKING:
    from ragcli.grounding.sufficiency.evidence import Evidence, Preset, ReasonCode
    from ragcli.grounding.sufficiency.pool_statistics import StatisticArray
    from ragcli.retrieval.stages import RankedPool

HEURISTIC_DEPTH: Final = 100
HEURISTIC_PASSAGES: Final = 10
HEURISTIC_WEIGHTS: Final = {"top_score": 0.35, "coverage": 0.30, "margin": 0.20, "support": 0.15}
# The score to reach, and the least coverage, whatever the score.
HEURISTIC_THRESHOLDS: Final[dict[Preset, tuple[float, float]]] = {
    "strict": (0.70, 0.35),
    "balanced": (0.55, 0.25),
    "lenient": (0.40, 0.15),
}
MIN_TOP_SCORE: Final = 0.10
_LITTLE: Final = 0.05
_DEEP: Final = 0.2

_WORD: Final = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class HeuristicJudge:
    """The hand-set weights. A score is their sum and no probability."""

    name: str = "heuristic"

    def judge(self, evidence: Evidence, preset: Preset = "balanced") -> Decision:
        """See `Judge`."""
        threshold, least_coverage = HEURISTIC_THRESHOLDS[preset]
        passages = _reordered(evidence)[:HEURISTIC_PASSAGES]
        features = _features(evidence.question, passages)
        score = sum(weight * features[name] for name, weight in HEURISTIC_WEIGHTS.items()) if passages else 0.0
        reasons: list[ReasonCode] = []
        if not passages:
            reasons.append("NO_EVIDENCE")
        else:
            if features["top_score"] < MIN_TOP_SCORE:
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
        chosen: tuple[ReasonCode, ...] = ("PASS",) if passed else tuple(reasons)
        return Decision(passed, score, threshold, chosen, explain(chosen, evidence), features, self.name)


def _reordered(evidence: Evidence) -> list[tuple[float, str]]:
    """(score, text) of the fused candidates, best first."""
    found = [
        candidate
        for ranked, _ in evidence.searcher.ranked(
            canonical_request(evidence.request, evidence.question, depth=HEURISTIC_DEPTH)
        )
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


def _fused(ranked: RankedPool) -> Iterator[tuple[float, str]]:
    pool = ranked.pool
    lists: dict[str, StatisticArray] = {}
    for stage in ("bm25", "dense"):
        if stage in pool.scores:
            scores = np.array(pool.scores[stage], np.float64)
            beyond = np.argsort(-scores, kind="stable")[HEURISTIC_DEPTH:]
            scores[beyond] = np.nan
            if stage == "bm25":
                scores[scores <= 0] = np.nan
            lists[stage] = scores
    fused = reciprocal_rank_fusion(lists)
    for owner, reader in enumerate(ranked.readers):
        mine = np.flatnonzero((pool.owners == owner) & (fused > 0))
        texts = chunk_texts(reader, pool.numbers[mine].tolist())
        yield from zip(fused[mine].tolist(), texts, strict=True)


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

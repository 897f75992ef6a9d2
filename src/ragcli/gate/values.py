"""What a judge says: enough or not, how sure, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Reason = Literal["PASS", "LOW_TOP_SCORE", "LOW_COVERAGE", "NO_MARGIN", "NO_CONSENSUS", "NO_EVIDENCE"]
Verdict = Literal["answerable", "insufficient", "needs_review"]
Preset = Literal["strict", "balanced", "lenient"]
JudgeName = Literal["calibrated", "heuristic"]

PRESETS: Final[tuple[Preset, ...]] = ("strict", "balanced", "lenient")
JUDGES: Final[tuple[JudgeName, ...]] = ("calibrated", "heuristic")


@dataclass(frozen=True, slots=True)
class Decision:
    """A judge's word on whether the evidence suffices to answer a question.

    It passes when `score` (0 to 1; a calibrated judge's is a probability) reaches `threshold` and nothing else
    forbids it. `reasons` is `("PASS",)` or says what was missing, the weightiest first; `explanation` says the same
    in a sentence. `features` are the numbers that it was judged by.
    """

    passed: bool
    score: float
    threshold: float
    reasons: tuple[Reason, ...]
    explanation: str
    features: Mapping[str, float]
    judge: str

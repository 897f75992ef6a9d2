"""Reasons in a person's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ragcli.gate.evidence import Evidence
    from ragcli.gate.values import Reason

_SAID: Final[dict[Reason, str]] = {
    "PASS": "The passages found are enough to answer from.",
    "LOW_TOP_SCORE": "Not even the best passage is close to the question.",
    "LOW_COVERAGE": "No passage speaks of all that the question asks about.",
    "NO_MARGIN": "The best passage is no better than the ones after it, as when a subject is near and the fact is not.",
    "NO_CONSENSUS": "Words and meaning point to different passages.",
    "NO_EVIDENCE": "Nothing at all was found.",
}


def explain(reasons: Sequence[Reason], evidence: Evidence) -> str:
    """The reasons as sentences, with the best passage's source where there is one."""
    said = " ".join(_SAID[reason] for reason in reasons)
    if reasons[0] in ("PASS", "NO_EVIDENCE") or not evidence.hits:
        return said
    return f"{said} The nearest is in {evidence.hits[0].chunk.source}."

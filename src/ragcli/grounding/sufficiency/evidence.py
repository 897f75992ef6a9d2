"""Input and output of the sufficiency judges: evidence, decision, reasons, the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, Protocol

from ragcli.types import NO_ENCODER

ReasonCode = Literal["PASS", "LOW_TOP_SCORE", "LOW_COVERAGE", "NO_MARGIN", "NO_CONSENSUS", "NO_EVIDENCE"]
AnswerVerdict = Literal["answerable", "insufficient", "needs_review"]
Preset = Literal["strict", "balanced", "lenient"]
SufficiencyJudgeName = Literal["calibrated", "heuristic"]

PRESETS: Final[tuple[Preset, ...]] = ("strict", "balanced", "lenient")
SUFFICIENCY_JUDGES: Final[tuple[SufficiencyJudgeName, ...]] = ("calibrated", "heuristic")


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
    reasons: tuple[ReasonCode, ...]
    explanation: str
    features: Mapping[str, float]
    judge: str


_EXPLANATIONS: Final[dict[ReasonCode, str]] = {
    "PASS": "The passages found are enough to answer from.",
    "LOW_TOP_SCORE": "Not even the best passage is close to the question.",
    "LOW_COVERAGE": "No passage speaks of all that the question asks about.",
    "NO_MARGIN": "The best passage is no better than the ones after it, as when a subject is near and the fact is not.",
    "NO_CONSENSUS": "Words and meaning point to different passages.",
    "NO_EVIDENCE": "Nothing at all was found.",
}


def explain(reasons: Sequence[ReasonCode], evidence: Evidence) -> str:
    """The reasons as sentences, with the best passage's source where there is one."""
    said = " ".join(_EXPLANATIONS[reason] for reason in reasons)
    if reasons[0] in ("PASS", "NO_EVIDENCE") or not evidence.hits:
        return said
    return f"{said} The nearest is in {evidence.hits[0].chunk.source}."


if TYPE_CHECKING:
    from ragcli.grounding.sufficiency.pool_statistics import PoolStatistics
    from ragcli.retrieval.request import QueryRequest, QueryResult
    from ragcli.retrieval.searcher import Searcher
    from ragcli.types import Hit


class Evidence:
    """A question and what was found for it. What is more is read when a judge asks, so the searcher must be open."""

    def __init__(self, searcher: Searcher, request: QueryRequest, question: str, result: QueryResult) -> None:
        self.searcher = searcher
        self.request = request
        self.question = question
        self.result = result

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What is shown to the user, best first."""
        return self.result.hits

    @cached_property
    def pools(self) -> tuple[PoolStatistics, ...]:
        """The candidates with all that tells how well they fit the question, one pool for each encoder."""
        from ragcli.grounding.sufficiency.pool_statistics import measure_pools

        return measure_pools(self.searcher, self.request, self.question, self.hits)

    @property
    def alone(self) -> bool:
        """Is there but one passage in all that is searched, so that nothing can be compared with it?"""
        return sum(each.chunk_count for each in self.searcher.readers) == 1

    @property
    def degraded(self) -> str | None:
        """What the judge has to do without, in a sentence; None when nothing is missing."""
        bare = [each.name for each in self.searcher.readers if each.settings.encoder == NO_ENCODER and each.chunk_count]
        if self.alone:
            return "There is only one passage, with nothing to compare it with; it is judged by shared words."
        if not bare:
            return None
        return f"Without an encoder, {', '.join(bare)} {'is' if len(bare) == 1 else 'are'} judged by words alone."


class SufficiencyJudge(Protocol):
    """Anything that says whether evidence suffices."""

    @property
    def name(self) -> str:
        """How people choose it, and what traces call it."""
        ...

    def judge(self, evidence: Evidence, preset: Preset = "balanced") -> Decision:
        """Whether the evidence suffices to answer its question; `strict` asks for more, `lenient` for less."""
        ...


def gather_evidence(
    searcher: Searcher, request: QueryRequest, *, question: str | None = None, result: QueryResult | None = None
) -> Evidence:
    """The evidence for one question, to be judged while the searcher is open.

    `question` is what was asked, where `request` holds a rewriting of it. `result` is what was found for the
    request, where that was not by a plain query.
    """
    found = result if result is not None else searcher.query(request)
    return Evidence(searcher, request, question if question is not None else request.text, found)

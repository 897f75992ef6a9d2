"""Claims, their supporting passages, and the faithfulness judge protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

if TYPE_CHECKING:
    from ragcli.types import StoredChunk


FaithfulnessName = Literal["semantic", "heuristic", "llm"]
FAITHFULNESS_JUDGES: Final[tuple[FaithfulnessName, ...]] = ("semantic", "heuristic", "llm")


@dataclass(frozen=True, slots=True)
class EvidencePassage:
    """A text that may support a sentence. `about` is what stands over it: the document's title, the heading."""

    text: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, its citations taken out, and the passages that should support it."""

    text: str
    passages: tuple[EvidencePassage, ...]


@dataclass(frozen=True, slots=True)
class Support:
    """What a judge says of one claim.

    `score` is from 0 to 1; `missing` are words of the claim that the passages do not say, the weightiest first. The
    best passage is the claim's `passages[passage]`, and in it the characters `start` to `end`; None where there is
    none.
    """

    claim: str
    supported: bool
    score: float
    missing: tuple[str, ...] = ()
    passage: int | None = None
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Faithfulness:
    """What a judge says of a text, sentence by sentence."""

    sentences: tuple[Support, ...]
    judge: str

    @property
    def unsupported(self) -> tuple[Support, ...]:
        """The sentences that the passages do not support, in order."""
        return tuple(each for each in self.sentences if not each.supported)

    @property
    def score(self) -> float:
        """The mean of the sentences' scores; 1 for a text that claims nothing."""
        scores = [each.score for each in self.sentences]
        return sum(scores) / len(scores) if scores else 1.0


class FaithfulnessJudge(Protocol):
    """Anything that holds claims against their passages."""

    @property
    def name(self) -> str:
        """How people choose it, and what traces call it."""
        ...

    def judge(self, claims: Sequence[Claim]) -> tuple[Support, ...]:
        """One verdict a claim, in order. A judge that asks a language model may raise LanguageModelError."""
        ...


def check_faithfulness(claims: Sequence[Claim], judge: FaithfulnessJudge) -> Faithfulness:
    """Let a judge go over the claims."""
    return Faithfulness(judge.judge(claims), judge.name)


def passage_of(chunk: StoredChunk) -> EvidencePassage:
    """A chunk as a passage, with its title and heading over it."""
    return EvidencePassage(chunk.text, " › ".join(part for part in (chunk.title, chunk.heading) if part))

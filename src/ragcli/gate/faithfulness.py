"""Whether the passages that a sentence rests on say what it says.

A search finds what is near; an answer may still turn a number round, drop a "not", or put one name in another's
place. So each sentence is held against the passages it cites, and what they do not say is named. Three judges:
`semantic` (the default; see `ragcli.gate.semantic`), `heuristic` (shared words, as simple as can be), and `llm`, a
language model with a prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol

from ragcli.errors import UsageError
from ragcli.gate.citations import without_citations

if TYPE_CHECKING:
    from ragcli.gate.answers import Answer
    from ragcli.llm.protocols import LanguageModel
    from ragcli.records import Hit, StoredChunk
    from ragcli.retrieval.query import Searcher

FaithfulnessName = Literal["semantic", "heuristic", "llm"]
FAITHFULNESS_JUDGES: Final[tuple[FaithfulnessName, ...]] = ("semantic", "heuristic", "llm")


@dataclass(frozen=True, slots=True)
class Passage:
    """A text that may support a sentence. `about` is what stands over it: the document's title, the heading."""

    text: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, its citations taken out, and the passages that should support it."""

    text: str
    passages: tuple[Passage, ...]


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


def open_faithfulness_judge(
    name: str = "semantic",
    *,
    searcher: Searcher | None = None,
    model: LanguageModel | None = None,
    prompt: str | None = None,
) -> FaithfulnessJudge:
    """The judge of that name.

    `semantic` takes its encoder, and how rare words are, from the searcher's collections; without one, or where they
    have no encoder, it goes by words alone. `llm` needs a model, and takes a prompt in place of the one that comes
    with ragcli. Raises UsageError.
    """
    if name == "heuristic":
        from ragcli.gate.overlap import OverlapJudge

        return OverlapJudge()
    if name == "semantic":
        from ragcli.gate.semantic import SemanticJudge, vectors_of

        return SemanticJudge(vectors_of(searcher) if searcher is not None else None)
    if name == "llm":
        if model is None:
            raise UsageError("The faithfulness judge 'llm' needs a language model.")
        from ragcli.gate.judged import PromptedJudge

        return PromptedJudge(model, prompt)
    raise UsageError(f"There is no faithfulness judge '{name}'; choose one of {', '.join(FAITHFULNESS_JUDGES)}.")


def check_faithfulness(claims: Sequence[Claim], judge: FaithfulnessJudge) -> Faithfulness:
    """Let a judge go over the claims."""
    return Faithfulness(judge.judge(claims), judge.name)


def answer_faithfulness(answer: Answer, hits: Sequence[Hit], judge: FaithfulnessJudge) -> Faithfulness:
    """Hold each sentence of an answer that claims something against the hits it cites, or else against all of them."""
    from ragcli.gate.drafts import without_markup

    passages = {hit.rank: passage_of(hit.chunk) for hit in hits}
    claims = []
    for sentence in answer.sentences:
        if sentence.claims:
            cited = tuple(passages[number] for number in sentence.citations if number in passages)
            said = without_citations(sentence.text)
            claims.append(Claim(without_markup(said) or said, cited or tuple(passages.values())))
    return check_faithfulness(claims, judge)


def passage_of(chunk: StoredChunk) -> Passage:
    """A chunk as a passage, with its title and heading over it."""
    return Passage(chunk.text, " › ".join(part for part in (chunk.title, chunk.heading) if part))

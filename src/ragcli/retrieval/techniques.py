"""Query techniques (expansion, rewriting, HyDE, decomposition, compression) as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ragcli.errors import UsageError
from ragcli.llm.chat_model import Message
from ragcli.retrieval.pipelines import PIPELINES

if TYPE_CHECKING:
    from pathlib import Path

    from ragcli.llm.chat_model import LanguageModel
    from ragcli.retrieval.request import QueryRequest, QueryResult, StageTime
    from ragcli.types import Hit

EXPANSIONS: Final = ("rm3", "llm")
COMPRESSIONS: Final = ("extractive", "llm")
MAX_HYPOTHETICAL_PASSAGES: Final = 8
"""Hypothetical passages that may be asked for; the paper takes as many."""


@dataclass(frozen=True, slots=True)
class KeptSpan:
    """A sentence of a passage that was kept: where it stands in the chunk's text, and on which pages."""

    start: int
    end: int
    page: int | None = None
    page_end: int | None = None


@dataclass(frozen=True, slots=True)
class Techniques:
    """Which techniques a question is asked by; the default is none.

    `expand` adds to the question: words of its best passages to the BM25 stage (`rm3`), or other ways to put it,
    asked beside it (`llm`). `rewrite` makes it stand alone, with what was said before in `history`. `hyde` is the
    number of passages that a language model imagines as answers, for the dense stage to look for. `decompose` takes
    it apart into questions that are asked one by one. `compress` cuts the passages found to the sentences that
    answer: those the reranker prefers (`extractive`), or those a language model picks (`llm`).
    """

    expand: Literal["rm3", "llm"] | None = None
    rewrite: bool = False
    history: tuple[Message, ...] = ()
    hyde: int = 0
    decompose: bool = False
    compress: Literal["extractive", "llm"] | None = None

    def __post_init__(self) -> None:
        for name, value, choices in (
            ("expand", self.expand, EXPANSIONS),
            ("compress", self.compress, COMPRESSIONS),
        ):
            if value is not None and value not in choices:
                raise UsageError(f"--{name} takes {' or '.join(choices)}, not '{value}'.")
        if not 0 <= self.hyde <= MAX_HYPOTHETICAL_PASSAGES:
            raise UsageError(
                f"--hyde takes a number of passages from 1 to {MAX_HYPOTHETICAL_PASSAGES}, not {self.hyde}."
            )
        if self.history and not self.rewrite:
            raise UsageError("A history is for --rewrite, which makes a question stand alone; give both.")

    def __bool__(self) -> bool:
        return self != Techniques()

    @property
    def ask_a_model(self) -> tuple[str, ...]:
        """Those among them that a language model is for, as options. Without one, `decompose` goes by rule."""
        wanted = {
            "--rewrite": self.rewrite,
            "--decompose": self.decompose,
            "--expand llm": self.expand == "llm",
            "--hyde": self.hyde > 0,
            "--compress llm": self.compress == "llm",
        }
        return tuple(option for option, there in wanted.items() if there)

    @property
    def need_a_model(self) -> tuple[str, ...]:
        """Those that can do nothing without a language model, as options."""
        return tuple(option for option in self.ask_a_model if option != "--decompose")

    def check(self, request: QueryRequest) -> None:
        """Raise UsageError for a technique that can have no effect in the request's pipeline."""
        if self and request.like is not None:
            raise UsageError("Query techniques are for a question; passages like another are found without them.")
        stages = PIPELINES[request.pipeline].stages
        if self.expand == "rm3" and "bm25" not in stages:
            raise UsageError(f"--expand rm3 adds words to the BM25 stage, and '{request.pipeline}' has none.")
        if self.hyde and "dense" not in stages:
            raise UsageError(f"--hyde is for the dense stage, and '{request.pipeline}' has none.")


@dataclass(frozen=True, slots=True)
class TechniqueModel:
    """The language model that techniques ask, if there is one; else `why_not`. `prompts` is a user's own folder."""

    model: LanguageModel | None = None
    prompts: Path | None = None
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class SubQuery:
    """One query that is asked: for which `part` of the question, and how much its ranking counts in the merging."""

    request: QueryRequest
    part: int = 0
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """How a question is asked.

    `request` is as it came in. `question` stands alone; `parts` are the questions it was taken apart into, itself
    where it was not. `queries` are asked, the part itself before the other ways to put it. `failed` are the
    techniques, by their options, that a language model could not do, and `why`. `times` is what planning took.
    """

    request: QueryRequest
    question: str
    parts: tuple[str, ...]
    queries: tuple[SubQuery, ...]
    failed: tuple[str, ...] = ()
    why: str = ""
    times: tuple[StageTime, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence or two on what failed, or nothing."""
        if not self.failed:
            return ()
        instead = [option for option in self.failed if option in _INSTEAD]
        if len(self.parts) < 2 and "--decompose" in instead:
            instead.remove("--decompose")
        said = [self.why]
        if without := [option for option in self.failed if option not in instead]:
            said.append(f"The question was asked without {_listed(without)}.")
        return (" ".join([*said, *(_INSTEAD[option] for option in instead)]),)


_INSTEAD: Final = {
    "--decompose": "The question was taken apart by its words alone.",
    "--compress llm": "The passages were shortened by the reranker.",
}


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


@dataclass(frozen=True, slots=True)
class SubQuestionHits:
    """What was found for one part of a question: its hits, by their rank in the whole."""

    question: str
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class TechniqueResult:
    """What a search by techniques found, and how it was asked.

    `result` is the merged ranking; where several queries were asked, a hit's `score` is what its places in them
    come to, and its `source_score` the score that it had in one of them, as are its other scores.
    `plan` is what was asked. `groups` has the hits of each part of a question that was taken apart, else
    nothing. `kept` says, hit by hit, which stretches of the chunk's text are left in the hit's; it is empty where
    nothing was compressed, and so is a hit's in which there was nothing to leave out.
    """

    result: QueryResult
    plan: QueryPlan
    groups: tuple[SubQuestionHits, ...] = ()
    kept: tuple[tuple[KeptSpan, ...], ...] = ()

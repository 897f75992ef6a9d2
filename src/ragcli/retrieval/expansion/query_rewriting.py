"""Techniques as protocols, and their language-model versions: rewrite, paraphrase, HyDE."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from ragcli.errors import LanguageModelError
from ragcli.llm.chat_model import LanguageModel, Message
from ragcli.retrieval.compression import CharacterSpans, Compressor
from ragcli.retrieval.expansion.decomposition import MAX_SUBQUESTIONS, split_question
from ragcli.retrieval.request import MAX_QUESTION_CHARS

if TYPE_CHECKING:
    from ragcli.retrieval.request import QueryRequest, QueryResult
    from ragcli.retrieval.search_session import SearchSession
    from ragcli.types import StoredChunk


PARAPHRASES: Final = 3
"""Other ways to ask a question that a language model is asked for."""

# Questions longer than that are no questions any more, and a conversation leans on its last turns.
_LONGEST_REWRITTEN: Final = 2000
_HISTORY_TURNS: Final = 12
_HISTORY_CHARACTERS: Final = 6000
# From several sides, so that the passages differ: what was measured, how it works, what is known.
_ANGLES: Final = (
    "from the part that reports results and numbers",
    "from the part that explains how it works",
    "from an introduction to the subject",
    "from the abstract",
)
_ANGLE_OF_ONE: Final = "from any part"
_TEMPERATURE: Final = 0.7


class Rewriter(Protocol):
    """Makes a question of a conversation stand alone."""

    def __call__(self, question: str, history: Sequence[Message]) -> str:
        """The question in full."""
        ...


class Decomposer(Protocol):
    """Takes a question apart."""

    def __call__(self, question: str) -> Sequence[str]:
        """The questions in it; itself where it is one."""
        ...


class Paraphraser(Protocol):
    """Finds other ways to put a question."""

    def __call__(self, question: str) -> Sequence[str]:
        """Other questions that ask the same."""
        ...


class RelevanceFeedback(Protocol):
    """Finds words to add to a question in what it has found."""

    def __call__(self, session: SearchSession, request: QueryRequest, result: QueryResult) -> QueryRequest:
        """The request with the words in it; the request itself where there are none."""
        ...


class PassageWriter(Protocol):
    """Imagines passages that would answer a question."""

    def __call__(self, question: str, count: int) -> Sequence[str]:
        """So many passages."""
        ...


@dataclass(frozen=True, slots=True)
class TechniqueFunctions:
    """What does the techniques of a search, each None where it is not used.

    `rewrite` and `decompose` come first; then each question is asked with `vary`, `imagine` and `feedback`; last, if
    what is shown is to be compressed, `compress` does it, or for what that finds no sentence in, and where it is
    None, the reranker.
    """

    rewrite: Rewriter | None = None
    decompose: Decomposer | None = None
    vary: Paraphraser | None = None
    feedback: RelevanceFeedback | None = None
    imagine: PassageWriter | None = None
    compress: Compressor | None = None


def technique_functions(
    request: QueryRequest, model: LanguageModel | None = None, *, prompts: Path | None = None
) -> TechniqueFunctions:
    """What does the techniques that the request names.

    `model` is asked by those that need one, with the user's `prompts` where there are some; without it they are left
    out, but for taking a question apart, which then goes by rule.
    """
    from ragcli.retrieval.expansion.rm3 import expand_request, rm3_expansion

    asked = _LlmTechniques(model, prompts) if model is not None else None
    return TechniqueFunctions(
        rewrite=asked.rewrite if request.rewrite and asked is not None else None,
        decompose=None if not request.decompose else split_question if asked is None else asked.decompose,
        vary=asked.vary if request.expand == "llm" and asked is not None else None,
        feedback=(lambda session, question, result: expand_request(question, rm3_expansion(session, question, result)))
        if request.expand == "rm3"
        else None,
        imagine=asked.imagine if request.hyde and asked is not None else None,
        compress=asked.compress if request.compress == "llm" and asked is not None else None,
    )


@dataclass(frozen=True, slots=True)
class _LlmTechniques:
    """The techniques that ask a language model, with its prompts."""

    model: LanguageModel
    prompts: Path | None

    def rewrite(self, question: str, history: Sequence[Message]) -> str:
        from ragcli.llm.reply_parsing import strip_thinking

        reply = strip_thinking(
            self._ask("rewrite", {"question": question, "history": _conversation_text(history)}, 200)
        )
        lines = [line.strip() for line in reply.splitlines() if line.strip()]
        rewritten = lines[0].strip("\"'“”` ") if lines else ""
        if not rewritten or len(lines) > 3 or len(rewritten) > _LONGEST_REWRITTEN:
            raise LanguageModelError("The language model was asked for one question and wrote something else.")
        return rewritten

    def decompose(self, question: str) -> Sequence[str]:
        reply = self._ask("decompose", {"question": question, "count": str(MAX_SUBQUESTIONS)}, 400)
        return _questions(reply, "questions")[:MAX_SUBQUESTIONS]

    def vary(self, question: str) -> Sequence[str]:
        reply = self._ask("expand", {"question": question, "count": str(PARAPHRASES)}, 400)
        others = [each for each in _questions(reply, "queries") if each.casefold() != question.strip().casefold()]
        return others[:PARAPHRASES]

    def imagine(self, question: str, count: int) -> Sequence[str]:
        from ragcli.llm.reply_parsing import strip_thinking

        passages = []
        for number in range(count):
            angle = _ANGLE_OF_ONE if count == 1 else _ANGLES[number % len(_ANGLES)]
            warmth = 0.0 if count == 1 else _TEMPERATURE
            reply = self._ask("hyde", {"question": question, "angle": angle}, 300, temperature=warmth)
            passage = " ".join(strip_thinking(reply).split())
            if not any(map(str.isalnum, passage)):
                raise LanguageModelError("The language model was asked for a passage and wrote no word.")
            passages.append(passage)
        return passages

    def compress(self, question: str, chunks: Sequence[StoredChunk]) -> Sequence[CharacterSpans]:
        from ragcli.llm.reply_parsing import parse_json_object
        from ragcli.retrieval.compression import spans_of_sentences

        kept = []
        for chunk in chunks:
            reply = self._ask("compress", {"question": question, "passage": chunk.text}, 800)
            sentences = parse_json_object(reply).get("sentences")
            if not isinstance(sentences, list):
                raise LanguageModelError('The language model was asked for a list of "sentences" and gave none.')
            kept.append(spans_of_sentences(chunk.text, [each for each in sentences if isinstance(each, str)]))
        return kept

    def _ask(self, prompt: str, values: dict[str, str], length: int, *, temperature: float = 0.0) -> str:
        from ragcli.llm.prompts import fill, load_prompt

        text = fill(load_prompt(prompt, self.prompts), values)
        return self.model.complete([Message("user", text)], max_tokens=length, temperature=temperature)


def _questions(reply: str, key: str) -> list[str]:
    """The questions in a reply, each once."""
    from ragcli.llm.reply_parsing import parse_string_list

    texts = [each[:MAX_QUESTION_CHARS] for each in parse_string_list(reply, key)]
    return list({text.casefold(): text for text in texts}.values())


def _conversation_text(history: Sequence[Message]) -> str:
    """The last turns as a person would write them down."""
    turns = [f"{turn.role}: {' '.join(turn.text.split())}" for turn in history[-_HISTORY_TURNS:]]
    text = "\n".join(turns)
    return text[-_HISTORY_CHARACTERS:] if text else "(none)"

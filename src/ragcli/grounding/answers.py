"""Answers written by a language model with [n] citations, and their faithfulness check."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragcli.errors import LanguageModelError
from ragcli.grounding.faithfulness.claims import Claim, Faithfulness, FaithfulnessJudge, check_faithfulness, passage_of
from ragcli.text.sentences import sentence_spans

if TYPE_CHECKING:
    from ragcli.grounding.ask import AskResult
    from ragcli.llm.chat_model import LanguageModel
    from ragcli.types import Hit

LONGEST_ANSWER: Final = 700
"""Tokens of an answer."""
MAX_PASSAGE_CHARS: Final = 24_000
"""Characters of all passages together that a model is shown; what comes after them is left out."""


@dataclass(frozen=True, slots=True)
class AnswerQuote:
    """Where a sentence stands word for word: its chunk, the (start, end) there, and the page if there are pages."""

    chunk_id: str
    start: int
    end: int
    page: int | None


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer and what it rests on.

    `by` is the model's name, or "extract". `passages` of the hits were there to be cited; `removed` counts the
    citations that named none of them and were taken out of `text`. `quotes` are the places of the sentences of an
    extract, one each; what a model has written has none.
    """

    text: str
    by: str
    passages: int
    removed: int = 0
    quotes: tuple[AnswerQuote, ...] = ()
    sentences: tuple[CitedSentence, ...] = ()

    @property
    def uncited(self) -> tuple[str, ...]:
        """The sentences that claim something and cite nothing."""
        return tuple(each.text for each in self.sentences if each.claims and not each.citations)

    @property
    def cited(self) -> tuple[int, ...]:
        """The numbers of the passages cited, ascending."""
        return tuple(sorted({number for each in self.sentences for number in each.citations}))


def write_answer(
    question: str,
    hits: Sequence[Hit],
    model: LanguageModel,
    *,
    prompt: str | None = None,
    on_text: Callable[[str], None] | None = None,
) -> Answer:
    """Let the model answer from the hits' passages.

    `prompt` stands in for the one that comes with ragcli: a text with the placeholders `$question` and `$passages`.
    `on_text` gets the answer's parts as they come, bad citations already taken out. Raises LanguageModelError when
    the model gives no answer.
    """
    from ragcli.llm.chat_model import Message
    from ragcli.llm.prompts import fill, load_prompt

    shown = _that_fit(hits)
    template = prompt if prompt is not None else load_prompt("answer")
    text = fill(template, {"question": " ".join(question.split()), "passages": "\n\n".join(map(_numbered, shown))})
    sieve = CitationFilter(len(shown))
    parts: list[str] = []

    def hear(part: str) -> None:
        if kept := sieve.feed(part):
            parts.append(kept)
            if on_text is not None:
                on_text(kept)

    whole = model.complete([Message("user", text)], max_tokens=LONGEST_ANSWER, on_text=hear if on_text else None)
    if on_text is None:
        parts.append(sieve.feed(whole))
    parts.append(sieve.rest())
    if on_text is not None and parts[-1].strip():
        on_text(parts[-1].rstrip())
    written = "".join(parts).strip()
    if not has_content(written):
        only = "nothing but citations" if written or sieve.removed else "an empty answer"
        raise LanguageModelError(f"The language model {model.name} wrote {only}.")
    return Answer(written, model.name, len(shown), sieve.removed, sentences=cited_sentences(written))


def model_writer(
    model: LanguageModel, *, prompt: str | None = None, on_text: Callable[[str], None] | None = None
) -> AnswerWriter:
    """`write_answer` as a writer for `ragcli.grounding.ask`; where nothing was found, it writes nothing."""
    return lambda result: (
        write_answer(result.question, result.hits, model, prompt=prompt, on_text=on_text) if result.hits else None
    )


def _that_fit(hits: Sequence[Hit]) -> list[Hit]:
    shown: list[Hit] = []
    room = MAX_PASSAGE_CHARS
    for hit in hits:
        room -= len(hit.chunk.text)
        if room < 0 and shown:
            break
        shown.append(hit)
    return shown


def _numbered(hit: Hit) -> str:
    chunk = hit.chunk
    pages = "" if chunk.page_start is None else f", page {chunk.page_start}"
    where = " - ".join(" ".join(part.split()) for part in (chunk.title or chunk.source, chunk.heading) if part)
    return f"[{hit.rank}] {where}{pages}\n{without_references(chunk.text).strip()}"


# "[Passage 2]", "[#2]", "[2, p. 3]" and "[2†L5]" mean the passage as "[2]" does.
_ONE: Final = (
    r"(?:(?:passages?|sources?|evidence|documents?|references?|refs?\.?)\s*:?\s*)?[#^]?\d+(?:\s*[–-]\s*\d+)?"
    r"(?:(?:\s*,)?\s*(?:pp?\.|pages?)\s*\d+(?:\s*[–-]\s*\d+)?|†[^\[\],;]*)?"
)
_CITATION: Final = re.compile(rf"\[\s*({_ONE}(?:\s*(?:[,;]|and|&)\s*{_ONE})*)\s*\]", re.IGNORECASE)
_CITED: Final = re.compile(rf"\s*(?:{_CITATION.pattern})", re.IGNORECASE)
_WITHIN: Final = re.compile(r"(?:pp?\.|pages?)\s*\d+(?:\s*[–-]\s*\d+)?|†[^\[\],;]*", re.IGNORECASE)
_RANGE: Final = re.compile(r"(\d+)(?:\s*[–-]\s*(\d+))?")
_BRACKETS: Final = str.maketrans("【】［］", "[][]")
_LONGEST: Final = 80
_OWN_REFERENCE: Final = re.compile(r"\s?\[\d{1,3}(?:\s*[,;–-]\s*\d{1,3})*\]")
_ALPHANUMERIC: Final = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """A sentence of an answer, and the numbers of the passages that it cites."""

    text: str
    citations: tuple[int, ...]

    @property
    def claims(self) -> bool:
        """Does it say something that wants a citation? A heading, or words that lead to a list, do not."""
        return not (self.text.startswith("#") or self.text.endswith(":")) and has_content(self.text)


class CitationFilter:
    """Takes citations that name none of `count` passages out of a text that comes in parts."""

    def __init__(self, count: int) -> None:
        self.removed = 0
        self._count = count
        self._held = ""

    def feed(self, part: str) -> str:
        """What can be shown now; the beginning of what may be a citation waits for the rest of it."""
        self._held += part.translate(_BRACKETS)
        shown = ""
        while self._held:
            opening = self._held.find("[")
            if opening < 0:
                kept = self._held.rstrip()
                shown, self._held = shown + kept, self._held[len(kept) :]
                break
            # Blanks before a citation go with it when it goes.
            before = self._held[:opening].rstrip()
            shown, self._held = shown + before, self._held[len(before) :]
            opening -= len(before)
            closing = self._held.find("]", opening)
            if closing < 0 and len(self._held) - opening < _LONGEST:
                break
            found = _CITATION.fullmatch(self._held, opening, closing + 1) if closing >= 0 else None
            if found is None:
                shown, self._held = shown + self._held[: opening + 1], self._held[opening + 1 :]
                continue
            numbers = self._kept(found[1])
            if numbers:
                shown += self._held[:opening] + f"[{', '.join(map(str, numbers))}]"
            self._held = self._held[closing + 1 :]
        return shown

    def rest(self) -> str:
        """What is left when no more will come."""
        left, self._held = self._held, ""
        return left

    def _kept(self, listed: str) -> list[int]:
        numbers: dict[int, None] = {}
        for low, high in _named(listed):
            known = range(max(low, 1), min(high, self._count) + 1)
            numbers |= dict.fromkeys(known)
            # A range that reaches too far is one slip, not as many as it has numbers.
            if low < 1 or high > self._count or low > high:
                self.removed += 1
        return list(numbers)


def filter_citations(text: str, count: int) -> tuple[str, int]:
    """The text without citations that name none of `count` passages, and how many those were."""
    sieve = CitationFilter(count)
    return (sieve.feed(text) + sieve.rest()).strip(), sieve.removed


def cited_sentences(text: str) -> tuple[CitedSentence, ...]:
    """The sentences of an answer, each with what it cites, by number and in order."""
    sentences = []
    for start, end in sentence_spans(text):
        sentence = text[start:end]
        numbers: dict[int, None] = {}
        for found in _CITATION.finditer(sentence):
            for low, high in _named(found[1]):
                numbers |= dict.fromkeys(range(low, min(high, low + _LONGEST) + 1))
        sentences.append(CitedSentence(sentence, tuple(sorted(numbers))))
    return tuple(sentences)


def has_content(text: str) -> bool:
    """Are there words or numbers beside what is cited?"""
    return _ALPHANUMERIC.search(without_citations(text)) is not None


def without_citations(sentence: str) -> str:
    """A sentence without its [1] and [2, 3], on one line."""
    return " ".join(_CITED.sub("", sentence).split())


def _named(listed: str) -> list[tuple[int, int]]:
    """The first and the last number of each passage or range of them in what stands between the brackets."""
    return [(int(first), int(last or first)) for first, last in _RANGE.findall(_WITHIN.sub("", listed))]


def without_references(passage: str) -> str:
    """A passage without its own [12], which a model would take for a citation of ours."""
    return _OWN_REFERENCE.sub("", passage)


AnswerWriter = Callable[["AskResult"], "Answer | None"]
"""Writes an answer to a result, None where there is nothing to say, or raises LanguageModelError."""


def answer_faithfulness(answer: Answer, hits: Sequence[Hit], judge: FaithfulnessJudge) -> Faithfulness:
    """Hold each sentence of an answer that claims something against the hits it cites, or else against all of them."""
    from ragcli.grounding.check.draft_parser import without_markup

    passages = {hit.rank: passage_of(hit.chunk) for hit in hits}
    claims = []
    for sentence in answer.sentences:
        if sentence.claims:
            cited = tuple(passages[number] for number in sentence.citations if number in passages)
            said = without_citations(sentence.text)
            claims.append(Claim(without_markup(said) or said, cited or tuple(passages.values())))
    return check_faithfulness(claims, judge)

"""An answer written by a language model from the passages found, each sentence citing [n].

The model is shown the passages and nothing else, numbered as the hits are. What it cites beyond them is removed as
the text arrives, and sentences that cite nothing are counted; whether the passages say what the sentences claim is
another question, for `ragcli.gate.faithfulness`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragcli.errors import LanguageModelError
from ragcli.gate.citations import CitationFilter, CitedSentence, cited_sentences, says_something, without_references

if TYPE_CHECKING:
    from ragcli.gate.ask import Writer
    from ragcli.llm.protocols import LanguageModel
    from ragcli.records import Hit

LONGEST_ANSWER: Final = 700
"""Tokens of an answer."""
LONGEST_PASSAGES: Final = 24_000
"""Characters of all passages together that a model is shown; what comes after them is left out."""


@dataclass(frozen=True, slots=True)
class Quote:
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
    quotes: tuple[Quote, ...] = ()
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
    from ragcli.llm.prompts import fill, load_prompt
    from ragcli.llm.protocols import Message

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
    if not says_something(written):
        only = "nothing but citations" if written or sieve.removed else "an empty answer"
        raise LanguageModelError(f"The language model {model.name} wrote {only}.")
    return Answer(written, model.name, len(shown), sieve.removed, sentences=cited_sentences(written))


def model_writer(
    model: LanguageModel, *, prompt: str | None = None, on_text: Callable[[str], None] | None = None
) -> Writer:
    """`write_answer` as a writer for `ragcli.gate.ask`; where nothing was found, there is nothing to write from."""
    return lambda result: (
        write_answer(result.question, result.hits, model, prompt=prompt, on_text=on_text) if result.hits else None
    )


def _that_fit(hits: Sequence[Hit]) -> list[Hit]:
    shown: list[Hit] = []
    room = LONGEST_PASSAGES
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

"""The [n] in an answer: which are kept, and which sentence each belongs to.

A model that is told of five passages will at times cite a seventh. What names no passage is taken out while the
text arrives, before anybody has seen it, and counted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ragcli.retrieval.spans import sentence_spans

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
_SAID: Final = re.compile(r"[^\W_]")


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """A sentence of an answer, and the numbers of the passages that it cites."""

    text: str
    citations: tuple[int, ...]

    @property
    def claims(self) -> bool:
        """Does it say something that wants a citation? A heading, or words that lead to a list, do not."""
        return not (self.text.startswith("#") or self.text.endswith(":")) and says_something(self.text)


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


def checked_citations(text: str, count: int) -> tuple[str, int]:
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


def says_something(text: str) -> bool:
    """Are there words or numbers beside what is cited?"""
    return _SAID.search(without_citations(text)) is not None


def without_citations(sentence: str) -> str:
    """A sentence without its [1] and [2, 3], on one line."""
    return " ".join(_CITED.sub("", sentence).split())


def _named(listed: str) -> list[tuple[int, int]]:
    """The first and the last number of each passage or range of them in what stands between the brackets."""
    return [(int(first), int(last or first)) for first, last in _RANGE.findall(_WITHIN.sub("", listed))]


def without_references(passage: str) -> str:
    """A passage without its own [12], which a model would take for a citation of ours."""
    return _OWN_REFERENCE.sub("", passage)

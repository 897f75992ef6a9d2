"""Snippets: the sentences of a passage that match the query, with its words marked."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ragcli.text.sentences import sentence_spans
from ragcli.text.stop_words import STOP_WORDS

_WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")


@dataclass(frozen=True, slots=True)
class Snippet:
    """`text` to show, `marks` as (start, end) ranges of the question's words in it."""

    text: str
    marks: tuple[tuple[int, int], ...]


def make_snippet(text: str, query: str, limit: int) -> Snippet:
    """The stretch of whole sentences, at most about `limit` characters, that best speaks to the query.

    Sentences cut off are shown by an ellipsis. Never fails: without a matching word it is the passage's start.
    """
    wanted = _stems(query)
    spans = sentence_spans(text)
    if not spans:
        return Snippet("", ())
    found = [_stems(text[start:end]) & wanted for start, end in spans]
    first, last = _best_window(spans, found, limit)
    body = re.sub(r"\s+", " ", text[spans[first][0] : spans[last][1]]).strip()
    if len(body) > limit:
        body = _cut_around(body, wanted, limit)
    else:
        body = ("… " if first > 0 else "") + body + (" …" if last < len(spans) - 1 else "")
    return Snippet(body, mark_words(body, query))


def mark_words(text: str, query: str) -> tuple[tuple[int, int], ...]:
    """Where words of `text` share a stem with a telling word of `query`."""
    wanted = _stems(query)
    stem = _stemmer()
    return tuple(word.span() for word in _WORD.finditer(text) if stem(word.group().lower()) in wanted)


def _best_window(spans: list[tuple[int, int]], found: list[frozenset[str]], limit: int) -> tuple[int, int]:
    best, best_value = (0, 0), -1.0
    for first in range(len(spans)):
        words: set[str] = set()
        hits = 0
        for last in range(first, len(spans)):
            length = spans[last][1] - spans[first][0]
            if length > limit and last > first:
                break
            words |= found[last]
            hits += len(found[last])
            # Distinct words count most, repeats a little; among equals the shorter stretch, then the earlier.
            value = len(words) + 0.1 * hits - 0.2 * length / max(limit, 1) if words else 0.0
            if value > best_value + 1e-9:
                best, best_value = (first, last), value
    first, last = best
    while last + 1 < len(spans) and spans[last + 1][1] - spans[first][0] <= limit:
        last += 1
    return first, last


def _cut_around(body: str, wanted: frozenset[str], limit: int) -> str:
    stem = _stemmer()
    words = list(_WORD.finditer(body))
    at = next((word.start() for word in words if stem(word.group().lower()) in wanted), 0)
    start = max(0, min(at - limit // 4, len(body) - limit))
    if start > 0:
        start = body.find(" ", start) + 1 or start
    end = min(len(body), start + limit)
    if end < len(body):
        end = max(body.rfind(" ", start, end), start + limit // 2)
    return ("… " if start > 0 else "") + body[start:end].strip() + (" …" if end < len(body) else "")


def _stems(text: str) -> frozenset[str]:
    stem = _stemmer()
    words = [word.group().lower() for word in _WORD.finditer(text)]
    telling = [word for word in words if word not in STOP_WORDS]
    return frozenset(map(stem, telling or words))


@lru_cache(maxsize=1)
def _stemmer() -> Callable[[str], str]:
    import Stemmer

    stem: Callable[[str], str] = Stemmer.Stemmer("english").stemWord
    return stem

"""Text analysis for BM25, at ingest and in queries: stems, accents, compounds, CJK bigrams."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ragcli.text.unicode import normalised

if TYPE_CHECKING:
    from tantivy import TextAnalyzer

MAX_QUERY_TERMS: Final = 1024
"""A query's distinct terms beyond this many are left out; no question has so many, a pasted paper may."""

_LONGEST_TERM: Final = 80
_HYPHEN: Final = re.compile("[-‐‑‒–−]")
_FOREIGN: Final = re.compile(r"[^\x00-\x7f]+")
_EASTERN: Final = (
    r"\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u1000-\u103f\u1050-\u109d\u1780-\u17d3"
    r"\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    r"\U00020000-\U0003ffff"
)
_EASTERN_RUN: Final = re.compile(rf"[{_EASTERN}]+")
_VOICING: Final = "\u3099\u309a"
_LEFT_OUT: Final = "\u00ad\u0640\u200b\u200c\u200d\u2060\ufeff"
_CACHED_RUN: Final = 16
_REACH: Final = 64


def tantivy_analyzer() -> TextAnalyzer:
    """tantivy's side of the analysis; it takes what `pretokenize` gives."""
    import tantivy

    return (
        tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
        .filter(tantivy.Filter.remove_long(_LONGEST_TERM))
        .filter(tantivy.Filter.lowercase())
        .filter(tantivy.Filter.ascii_fold())
        .filter(tantivy.Filter.stemmer("english"))
        .build()
    )


def pretokenize(text: str, *, query: bool = False) -> str:
    """The text with accents gone, compounds also run together, and eastern runs as pairs, words apart by spaces.

    A text to index gets the single eastern characters too, so that a query of one character finds it; a query of
    several has only its pairs, which say more.
    """
    if not text.isascii():
        text = _FOREIGN.sub(_stripped_run, text)
        text = _EASTERN_RUN.sub(_bigrams if query else _bigrams_and_unigrams, text)
    together = [before + after for before, after in _around_hyphens(text)]
    return f"{text} {' '.join(together)}" if together else text


def _stripped_run(run: re.Match[str]) -> str:
    return _strip_accents_cached(run[0]) if len(run[0]) <= _CACHED_RUN else _strip_accents(run[0])


@lru_cache(maxsize=4096)
def _strip_accents_cached(run: str) -> str:
    return _strip_accents(run)


def _strip_accents(run: str) -> str:
    """Compatibility forms made plain, and the marks gone that people leave out and that would cut words in two.

    Those are the accents of Latin, Greek and Cyrillic, points of Hebrew and Arabic, tones of Thai, and the viramas of
    Indian scripts, whose vowel signs stay. Japanese voicing stays too.
    """
    apart = normalised("NFKD", run)
    kept = (c for c in apart if c not in _LEFT_OUT and (not unicodedata.combining(c) or c in _VOICING))
    return normalised("NFC", "".join(kept))


def _around_hyphens(text: str) -> Iterator[tuple[str, str]]:
    """The words on both sides of every hyphen inside a compound."""
    for hyphen in _HYPHEN.finditer(text):
        before, after = _word_before(text, hyphen.start()), _word_after(text, hyphen.end())
        if before and after:
            yield before, after


def _word_before(text: str, end: int) -> str:
    start = end
    while start > max(0, end - _REACH) and text[start - 1].isalnum():
        start -= 1
    return text[start:end]


def _word_after(text: str, start: int) -> str:
    end = start
    while end < min(len(text), start + _REACH) and text[end].isalnum():
        end += 1
    return text[start:end]


def _bigrams(run: re.Match[str]) -> str:
    characters = run[0]
    if len(characters) == 1:
        return f" {characters} "
    return f" {' '.join(first + second for first, second in pairwise(characters))} "


def _bigrams_and_unigrams(run: re.Match[str]) -> str:
    return _bigrams(run) + " ".join(run[0]) + " "


def lexical_text(text: str, joins: Sequence[int], start: int) -> str:
    """What to index for a chunk: its text and, at its end, the other reading of every broken word.

    `joins` are the document's (see `ragcli.types.Document`), `start` is where the chunk begins in it. A kept
    hyphen needs nothing here, because every compound is indexed run together too.
    """
    others: list[str] = []
    for join in joins[bisect_left(joins, start + 1) :]:
        position = join - start
        if position >= len(text):
            break
        if _HYPHEN.match(text, position):
            continue
        before, after = _word_before(text, position), _word_after(text, position)
        if before and after:
            others.append(f"{before} {after}")
    return f"{text}\n{' '.join(others)}" if others else text

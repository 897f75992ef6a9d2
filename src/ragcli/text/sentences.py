"""Sentence segmentation: the character ranges of the sentences of a text."""

from __future__ import annotations

import re
from typing import Final

from ragcli.text.stop_words import STOP_WORDS

_END: Final = re.compile(
    r"[.!?…]+[\"'”’»)\]]*(?P<cited>(?:\s*\[[\w\s,;:@^.–-]{1,60}\])*)[\"'”’»]*(?=\s|$)|[。！？]+[”’」』）]*|\n\s*\n"
    r"|\n(?=\s*(?:[-*•]|\d{1,3}[.)])\s)|\s+(?=[•‣▪◦]\s)"
)
_CITED_FIRST: Final = re.compile(r"(?:\[[\w\s,;:@^.–-]{1,60}\]\s*)+[.!?]?(?=\s|$)")
_SMALL_START: Final = re.compile(r"[\"'“‘(\[]*[a-zà-öø-ÿ]")
_LAST_WORD: Final = re.compile(r"([^\s()\[\]]+)\.$")
_ITEM_NUMBER: Final = re.compile(r"\(?(?:\d{1,3}|[a-z])")
_BEGINNINGS: Final = STOP_WORDS | {"also", "although", "but", "each", "finally", "first", "here", "however", "yet"}
_ABBREVIATED: Final = (
    "al approx bros ca cf chap chaps ch col cols corp dept dr ed eds eq eqn eqs esp est etc ex fig figs ff inc jr ltd "
    "mr mrs ms no nos op p pp par pl prof ref refs resp rev sec secs sect sr st suppl tab thm viz vol vols vs i.e e.g "
    "w.r.t u.s u.k ph.d a.m p.m jan feb mar apr jun jul aug sep sept oct nov dec"
)
_ABBREVIATIONS: Final = frozenset(_ABBREVIATED.split())
# Before these, "et al." and the like may well have ended the sentence.
_OFTEN_LAST: Final = frozenset({"al", "etc", "inc", "ltd", "corp", "jr", "sr", "no", "a.m", "p.m", "u.s", "u.k", "p"})
_WORD: Final = re.compile(r"[^\W_]+")

SENTENCE_END: Final = re.compile(r"[.!?…][\"”’')\]]*\s+(?=[^a-z\s])|[。！？][」』”]?")
"""The end of a sentence with the blanks after it, by its own characters alone: what chunks are cut at. It must stay as
it is for the passages of stored collections to stay the same, and can be looked for from any place of a text."""
_SHORT_FORM: Final = re.compile(
    r"(?:\b[A-Z]|\be\.g|\bi\.e|\bal|\bcf|\bFigs?|\bvs|\bEqs?|\bSecs?|\bDr|\bNo|\bpp?|\bvol)\.$"
)


def ends_abbreviation(text: str, stop: int) -> bool:
    """True if `stop`, the place of a match of `SENTENCE_END`, most likely ends a short form and no sentence."""
    return text[stop] == "." and _SHORT_FORM.search(text[max(0, stop - 6) : stop + 1]) is not None


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """The (start, end) of each sentence, in order, without the blanks around it; all but blanks is in one."""
    spans: list[tuple[int, int]] = []
    start = 0
    for end in _END.finditer(text):
        if end.start() < start or not _ends(text, start, end):
            continue
        stop = end.end()
        if following := _CITED_FIRST.match(text, _skip_blanks(text, stop)):
            # "… were elected. [2] The others …": what is cited behind the stop is cited by what stands before it.
            stop = following.end() if "\n\n" not in text[stop : following.start()] else stop
        _add(spans, text, start, stop)
        start = stop
    _add(spans, text, start, len(text))
    return spans


def _ends(text: str, start: int, end: re.Match[str]) -> bool:
    """Does the sentence that began at `start` end here, or is it only a stop?"""
    if not end[0].startswith("."):
        return True
    if _ITEM_NUMBER.fullmatch(text, _skip_blanks(text, start), end.start()):
        return False
    following = _skip_blanks(text, end.end())
    if following < len(text) and "\n\n" not in text[end.end() : following] and _SMALL_START.match(text, following):
        return False
    if end[0][1:].strip():
        return True
    last = _LAST_WORD.search(text, max(0, end.start() - 40), end.start() + 1)
    if last is None:
        return True
    word = last[1].lower().lstrip("“\"'‘")
    if len(word) == 1 and word.isalpha() and last[1].isupper():
        # An initial, as in "J. Doe", unless the word behind it begins sentences, as in "… of vitamin C. The other".
        behind = _WORD.match(text, following)
        return behind is None or behind[0].lower() in _BEGINNINGS
    if word not in _ABBREVIATIONS:
        return True
    return word in _OFTEN_LAST and following < len(text) and text[following].isupper()


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _add(spans: list[tuple[int, int]], text: str, start: int, stop: int) -> None:
    while start < stop and text[start].isspace():
        start += 1
    while stop > start and text[stop - 1].isspace():
        stop -= 1
    if start < stop:
        spans.append((start, stop))

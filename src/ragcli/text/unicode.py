"""Unicode normal forms in linear time, case and accent folding, grapheme boundaries (UAX 29)."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal

NormalForm = Literal["NFC", "NFD", "NFKC", "NFKD"]

MAX_COMBINING_MARKS: Final = 60
_MARK_RUN: Final = re.compile(rf"[^\x00-\u02ff]{{{MAX_COMBINING_MARKS + 1}}}")
"""Where a pile may be: there are no marks before U+0300."""


def normalised(form: NormalForm, text: str) -> str:
    """`unicodedata.normalize(form, text)`, but for piles of more than MAX_COMBINING_MARKS marks, which are cut."""
    if _MARK_RUN.search(text) is None:
        return unicodedata.normalize(form, text)
    parts: list[str] = []
    begun = marks = 0
    for place, character in enumerate(text):
        if character < "\u0300" or unicodedata.category(character)[0] != "M":
            marks = 0
        elif marks == MAX_COMBINING_MARKS:
            parts.append(unicodedata.normalize(form, text[begun:place]))
            begun, marks = place, 1
        else:
            marks += 1
    return "".join(parts) + unicodedata.normalize(form, text[begun:])


MAX_GRAPHEME_LENGTH = 64
"""What is longer than so many code points is cut, whatever it is."""
_MAX_FLAG_RUN = 1_000
_JOINER = "\u200d"
_NON_JOINER = "\u200c"


def is_boundary(text: str, place: int) -> bool:
    """True if `text` may be cut before the character at `place`."""
    if place <= 0 or place >= len(text):
        return True
    before, after = text[place - 1], text[place]
    if before < "\u0300" and after < "\u0300":
        return not (before == "\r" and after == "\n")
    if before in "\r\n" or after in "\r\n":
        return not (before == "\r" and after == "\n")
    if after in (_JOINER, _NON_JOINER) or before == _JOINER:
        return False
    if unicodedata.category(after)[0] == "M":
        return False
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return False
    if _is_regional_indicator(before) and _is_regional_indicator(after):
        first = place - 1
        while first > max(0, place - _MAX_FLAG_RUN) and _is_regional_indicator(text[first - 1]):
            first -= 1
        return (place - first) % 2 == 0
    if "\udc00" <= after <= "\udfff" and "\ud800" <= before <= "\udbff":
        return False
    if "\u1160" <= after <= "\u11ff" or "\ud7b0" <= after <= "\ud7ff":
        return False
    if "\u1100" <= before <= "\u115f" and ("\u1100" <= after <= "\u115f" or "\uac00" <= after <= "\ud7a3"):
        return False
    return not (unicodedata.combining(before) == 9 and unicodedata.category(after) == "Lo")


def boundary_before(text: str, place: int, least: int) -> int:
    """The last boundary at or before `place`, not before `least`; if there is none, the first after `place`."""
    at = place
    while at > least:
        if is_boundary(text, at):
            return at
        at -= 1
    return boundary_after(text, place)


def boundary_after(text: str, place: int) -> int:
    """The first boundary at or after `place`; `place` itself if there is none near."""
    return next((at for at in range(place, place + MAX_GRAPHEME_LENGTH) if is_boundary(text, at)), place)


def _is_regional_indicator(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def fold_case_and_accents(text: str) -> str:
    """The text without case and accents."""
    if text.isascii():
        return text.lower()
    return _COMBINING_MARKS.sub("", normalised("NFKD", normalised("NFKD", text).casefold()))


def letters_and_digits(text: str) -> str:
    """The text in small letters, in compatibility forms, and of it letters and digits alone: no accents, no signs."""
    return "".join(filter(str.isalnum, normalised("NFKD", text.lower())))


_COMBINING_MARKS: Final = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")

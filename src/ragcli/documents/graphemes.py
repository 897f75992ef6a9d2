"""Where a text may be cut without cutting what a reader sees as one character.

The rules are those of Unicode's text segmentation (UAX 29) that a cut can come across: combining marks, joiners,
emoji with skin tones, flags, Hangul letters, and the virama's conjuncts. They need no tables beyond Python's own.

The rules set no limit to what counts as one character: an accent may stand a million times over one letter. No one
reads that as a character, so here one ends after LONGEST code points, and a row of flags is looked back on only so far.
"""

from __future__ import annotations

import unicodedata

LONGEST = 64
"""What is longer than so many code points is cut, whatever it is."""
_LONGEST_FLAGS = 1_000
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
    if _is_flag(before) and _is_flag(after):
        first = place - 1
        while first > max(0, place - _LONGEST_FLAGS) and _is_flag(text[first - 1]):
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
    return next((at for at in range(place, place + LONGEST) if is_boundary(text, at)), place)


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"

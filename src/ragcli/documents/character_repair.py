"""Repair extracted characters: ligatures, TeX glyph codes, detached accents, control characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise

from ragcli.text.characters import SOFT_HYPHEN, replace_surrogates
from ragcli.text.unicode import normalised

_TEX_LIGATURES = {"\x0b": "ff", "\x0c": "fi", "\r": "fl", "\x0e": "ffi", "\x0f": "ffl"}
_TEX_INSIDE = re.compile("[a-z]([\x0b-\x0f])[a-z]")
_TEX_LIGATURE = re.compile("(?<=[A-Za-z])[\x0b-\x0f]|[\x0b-\x0f](?=[a-z])")
_TEX_QUOTE = re.compile(r"\\(?=\w)")
_TEX_CLOSING = re.compile(r"(?<=[\w.,!?)])\"")
_TEX_DASH = re.compile(r"(?<=\w)\{(?=\w)")
_TEX_ACCENT = re.compile("([\x12\x13\x7f])([A-Za-z])")

_PRINTED_LIGATURES = dict(zip("ﬀﬁﬂﬃﬄﬅﬆ", ("ff", "fi", "fl", "ffi", "ffl", "st", "st"), strict=True))
_BULLETS = dict.fromkeys("\uf0b7\uf0a7\uf076\uf0d8\u2023\u25aa\u25cf", "•")
_SPACES = dict.fromkeys(
    "\t\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f", " "
)
_NOTHING = dict.fromkeys("\u200b\ufeff\u2060\u200e\u200f", "")
_TABLE = str.maketrans({**_PRINTED_LIGATURES, **_BULLETS, **_SPACES, **_NOTHING, "\u2011": "-", "\u2010": "-"})
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff\ue000-\uf8ff\U000f0000-\U0010ffff]")
_PRESENTATION = re.compile("[\ufb13-\ufb4f\ufb50-\ufdff\ufe70-\ufefc]")  # Armenian, Hebrew, Arabic ligatures
_BULLET_CODE = re.compile("^[\x07\x0f\x8f](?=\\s*\\S)")
_ACCENT = re.compile("([´¨˝ˇ˘¸˚])([A-Za-zı])|(?<=[A-Za-z])([ˆ˜`])([a-zı])")
_ACCENT_AFTER = re.compile("(?<=[A-Za-z])([A-Za-z])([´¨˝ˇ˘¸˚])(?=[a-z])")
_ACCENT_APART = re.compile("(?<=[A-Za-z]) ([´¨˝ˇ˘˚]) ?([a-zı])(?=[a-z]|\\b)")
_ACCENT_LOST = re.compile(r"(?<=\w) [´¨˝ˇ˘˚](?=[\s,;]|$)")
_COMBINING = {
    "´": "\u0301", "¨": "\u0308", "˝": "\u030b", "ˇ": "\u030c", "˘": "\u0306", "¸": "\u0327", "˚": "\u030a",
    "ˆ": "\u0302", "˜": "\u0303", "`": "\u0300", "\x12": "\u0300", "\x13": "\u0301", "\x7f": "\u0308",
}  # fmt: skip
_NEEDS_NO_REPAIR = re.compile("[ -_a-~\u00ad§×α-ω–—‘’“”•−∂∑√∞]*")
"""Of these characters nothing needs mending; most lines that are not ASCII have no others."""
_UNSETTLED = re.compile("[´¨˝ˇ˘¸˚ˆ˜`]|[.·] ?[.·]")
_LEADERS = re.compile(r"(?:\s?[.·]\s?){5,}")
_SPACE_RUN = re.compile(r"[ \f\v\n]+")


def tex_ligature_codes(texts: Iterable[str]) -> frozenset[str]:
    """The glyph numbers that stand for ligatures in this document; empty for a document that tells its letters."""
    inside: dict[str, int] = {}
    seen: dict[str, int] = {}
    for text in texts:
        if text.isprintable():
            continue
        for code in _TEX_INSIDE.findall(text):
            inside[code] = inside.get(code, 0) + 1
        for code in _TEX_LIGATURES:
            seen[code] = seen.get(code, 0) + text.count(code)
    if sum(inside.values()) < 3:
        return frozenset()
    return frozenset(code for code in _TEX_LIGATURES if 5 * inside.get(code, 0) >= seen[code] > 0)


def repair_line(text: str, tex: frozenset[str] = frozenset()) -> str:
    """One printed line with readable characters and single spaces. A soft hyphen stays where it stands.

    `tex` is what `tex_ligature_codes` found in the document.
    """
    if not tex and ((text.isascii() and text.isprintable()) or _NEEDS_NO_REPAIR.fullmatch(text)):
        return _joined_spaces(text)
    if tex:
        text = _TEX_LIGATURE.sub(lambda found: _ligature(found.group(), tex), text)
        text = _TEX_ACCENT.sub(_composed, text)
        text = _TEX_DASH.sub("–", _TEX_CLOSING.sub("”", _TEX_QUOTE.sub("“", text)))
    text = _BULLET_CODE.sub("•", text)
    cleaned = _repaired(text)
    while cleaned != text and _UNSETTLED.search(cleaned):  # what was mended can bring an accent to its letter
        text, cleaned = cleaned, _repaired(cleaned)
    return cleaned


def _repaired(text: str) -> str:
    text = text.translate(_TABLE)
    text = _CONTROL.sub(" ", text)
    text = replace_surrogates(text)
    text = _PRESENTATION.sub(lambda found: unicodedata.normalize("NFKC", found.group()), text)
    text = _ACCENT_LOST.sub("", _ACCENT_APART.sub(_composed, text))
    text = _ACCENT.sub(_composed, text)
    text = _ACCENT_AFTER.sub(lambda found: _compose(found.group(1), found.group(2), found.group()), text)
    return _joined_spaces(normalised("NFC", text))


def sanitize_text(text: str) -> tuple[str, tuple[int, ...]]:
    """Text that needs no mending but for what can't be stored or searched, and where soft hyphens stood in it.

    Line ends become "\\n", NUL and lone surrogates U+FFFD; soft hyphens go and leave a join. Nothing else changes.
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = replace_surrogates(text).replace("\x00", "\ufffd")
    if SOFT_HYPHEN not in text:
        return text, ()
    parts = text.split(SOFT_HYPHEN)
    joins: list[int] = []
    length = 0
    for part, after in pairwise(parts):
        length += len(part)
        if part[-1:].isalnum() and after[:1].isalnum():
            joins.append(length)
    return "".join(parts), tuple(joins)


def is_readable(text: str) -> bool:
    """False for text that only looks like text: most of its characters have no meaning outside the font."""
    if text.replace(SOFT_HYPHEN, "").isprintable():
        return 2 * text.count("\ufffd") < len(text) - text.count(" ")
    letters = len("".join(text.split()))
    if not letters:
        return False
    lost = len(_CONTROL.findall(text)) + text.count("\ufffd")
    return 2 * lost < letters


def _joined_spaces(text: str) -> str:
    if "  " in text or not text.isprintable():
        text = _SPACE_RUN.sub(" ", text)
    if ". . ." in text or "....." in text:  # a table of contents
        text = _SPACE_RUN.sub(" ", _LEADERS.sub(" … ", text))
    return text.strip()


def _ligature(code: str, tex: frozenset[str]) -> str:
    return _TEX_LIGATURES[code] if code in tex else code


def _composed(found: re.Match[str]) -> str:
    accent, letter = (part for part in found.groups() if part is not None)
    return _compose(letter, accent, found.group())


def _compose(letter: str, accent: str, otherwise: str) -> str:
    letter = "i" if letter == "ı" else letter
    whole = unicodedata.normalize("NFC", letter + _COMBINING[accent])
    return whole if len(whole) == 1 else otherwise

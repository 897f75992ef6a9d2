"""Plain text, whatever its encoding.

A byte order mark is believed; else UTF-8 is taken if the bytes are UTF-8, which other encodings' text almost never
is by chance. Then charset-normalizer guesses. Where Windows-1252 is as good a guess as its best, it is that one, by far
the commonest; it is Latin-1 with quotes and dashes where Latin-1 has nothing.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from pathlib import Path

from ragcli.documents.characters import plain
from ragcli.documents.options import called
from ragcli.errors import DocumentError
from ragcli.records import Document

_MARKS: tuple[tuple[bytes, str], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NO_CHARSETS = ("utf-16", "utf-32", "idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape")
"""Codecs that no text is written in which names them in ASCII."""
_SAMPLE = 200_000
_WESTERN = "cp1252"
_YEAR = re.compile(r"(\d{4})(?:(?:0[1-9]|1[0-2])(?:\d{2}(?:\d{4}|\d{6})?)?)?(?!\d)")
"""A year, alone or followed without a sign by month, day and time."""
_CONTROL = bytes(range(9)) + bytes(range(14, 27)) + bytes(range(28, 32))
"""Bytes that no text in a one-byte encoding has."""


def read_plain(data: bytes, path: Path) -> Document:
    """The text of a file as it stands, in paragraphs as it has them. Raises DocumentError for what isn't text."""
    text, joins = plain(decoded(data, called(path)))
    return Document(text=text, kind="text", joins=joins, warnings=emptiness(text))


def emptiness(text: str) -> tuple[str, ...]:
    """A warning if there is nothing to find in the text."""
    return () if text.strip() else ("is empty",)


def decoded(data: bytes, name: str, *, declared: str | None = None) -> str:
    """The bytes as text, without a byte order mark. `declared` is an encoding that the text itself names."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    if data.startswith(b"%PDF-"):
        raise DocumentError(f"{name} is a PDF by its content; rename it to end in .pdf.")
    wide = _wide(data)
    if wide is not None:
        return data.decode(wide, "replace")
    strange = len(data) - len(data.translate(None, _CONTROL))
    if 50 * strange > len(data):
        raise DocumentError(f"{name} is not text: it has the bytes of a program, a picture or an archive.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    if declared is not None:
        try:
            if not codecs.lookup(declared).name.startswith(_NO_CHARSETS):
                return data.decode(declared)
        except (LookupError, UnicodeError):
            pass
    return data.decode(_guessed(data), "replace")


def _wide(data: bytes) -> str | None:
    """UTF-16 without a mark: mostly ASCII letters, each with a zero byte on the same side."""
    sample = data[:4000]
    if len(sample) < 8 or b"\x00" not in sample:
        return None
    half = len(sample) // 2
    if sample[1::2].count(0) > 0.7 * half and sample[::2].count(0) < 0.05 * half:
        return "utf-16-le"
    if sample[::2].count(0) > 0.7 * half and sample[1::2].count(0) < 0.05 * half:
        return "utf-16-be"
    return None


def _guessed(data: bytes) -> str:
    from charset_normalizer import from_bytes

    guesses = list(from_bytes(data[:_SAMPLE]))
    if not guesses:
        return _WESTERN
    best = guesses[0]
    for guess in guesses:
        if _WESTERN in guess.could_be_from_charset:
            as_good = guess.chaos <= best.chaos + 0.02 and guess.coherence >= best.coherence - 0.05
            return _WESTERN if as_good else best.encoding
    return best.encoding


def year_in(value: object) -> int | None:
    """The year of a date as front matter and web pages write it: 2021, "2021-05-03", 20210503, a date.

    A longer number that begins like a year, as seconds since 1970 do, names none.
    """
    try:
        found = _YEAR.match(str(value))
    except ValueError:  # a number of thousands of digits
        return None
    return int(found[1]) if found is not None and 1500 <= int(found[1]) <= 2200 else None


def listed(value: object) -> list[str]:
    """A list of names or words, given as a list or as text with commas or semicolons."""
    if isinstance(value, str):
        separator = ";" if ";" in value else ","
        return [part.strip() for part in value.split(separator) if part.strip()]
    if isinstance(value, list | tuple):
        return [_name(item) for item in value if _name(item)]
    return [_name(value)] if _name(value) else []


def _name(item: object) -> str:
    if isinstance(item, Mapping):
        item = item.get("name")
    try:
        return "" if item is None else str(item).strip()
    except (ValueError, RecursionError):  # a number of thousands of digits
        return ""

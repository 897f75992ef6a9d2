"""Parse plain text, with detection of its character encoding."""

from __future__ import annotations

import codecs
from pathlib import Path

from ragcli.documents.character_repair import sanitize_text
from ragcli.documents.file_access import display_name
from ragcli.errors import DocumentError
from ragcli.types import Document

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
_CONTROL = bytes(range(9)) + bytes(range(14, 27)) + bytes(range(28, 32))
"""Bytes that no text in a one-byte encoding has."""


def read_plain_text(data: bytes, path: Path) -> Document:
    """The text of a file as it stands, in paragraphs as it has them. Raises DocumentError for what isn't text."""
    text, joins = sanitize_text(decode_text(data, display_name(path)))
    return Document(text=text, kind="text", joins=joins, warnings=empty_text_warnings(text))


def empty_text_warnings(text: str) -> tuple[str, ...]:
    """A warning if there is nothing to find in the text."""
    return () if text.strip() else ("is empty",)


def decode_text(data: bytes, name: str, *, declared: str | None = None) -> str:
    """The bytes as text, without a byte order mark. `declared` is an encoding that the text itself names."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    if data.startswith(b"%PDF-"):
        raise DocumentError(f"{name} is a PDF by its content; rename it to end in .pdf.")
    wide = _utf16_without_bom(data)
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
    return data.decode(_guessed_encoding(data), "replace")


def _utf16_without_bom(data: bytes) -> str | None:
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


def _guessed_encoding(data: bytes) -> str:
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

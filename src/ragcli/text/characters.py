"""Single characters: soft hyphens, lone surrogates, terminal columns; and a text cut with an ellipsis.

Loads nothing but `re`: the command line needs these before anything else.
"""

from __future__ import annotations

import re
from typing import Final

SOFT_HYPHEN: Final = "\u00ad"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def replace_surrogates(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, of the same length: what has any is not text in any encoding."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


def truncate(text: str, most: int) -> str:
    """The text, or as much of its beginning as with an ellipsis makes `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def column_width(character: str) -> int:
    """Columns of one character on a terminal: 0 for one that stands on the one before it, 2 for a wide one, else 1."""
    if character < "\u0300":
        return 1
    import unicodedata

    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1

"""Terminal columns that a character occupies."""

from __future__ import annotations


def column_width(character: str) -> int:
    """Columns of one character: 0 for one that stands on the character before it, 2 for a wide one, else 1."""
    if character < "\u0300":
        return 1
    import unicodedata

    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1

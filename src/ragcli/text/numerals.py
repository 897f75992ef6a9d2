"""Roman numerals."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

_VALUES: Final = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


def roman_value(text: str) -> int:
    """The number that a Roman numeral of I, V, X, L and C, small or capital, stands for. KeyError for other letters."""
    values = [_VALUES[letter] for letter in text.lower()]
    return sum(-value if value < after else value for value, after in pairwise([*values, 0]))

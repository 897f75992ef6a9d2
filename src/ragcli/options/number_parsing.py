"""Read numbers from text that people write: bounded in length, ValueError for what is no number."""

from __future__ import annotations

from math import isnan
from typing import Final

MAX_NUMBER: Final = 2**31 - 1
"""No option means anything by more."""
_MAX_DIGITS: Final = 40


def parse_whole_number(text: str) -> int:
    """The whole number that the text says. Python refuses one of 4,300 digits; no range here has more than 40."""
    if len(text) > _MAX_DIGITS:
        raise ValueError("too many digits")
    return int(text)


def parse_number(text: str) -> float:
    """The number that the text says; "nan" says none."""
    if len(text) > _MAX_DIGITS:
        raise ValueError("too many digits")
    value = float(text)
    if isnan(value):
        raise ValueError("not a number")
    return value

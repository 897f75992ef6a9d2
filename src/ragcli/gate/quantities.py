"""The numbers of a text as values: "1,000" is 1000, "two" is 2, "40 %" is forty per cent, "3 million" is 3000000.

Only so can a claim's numbers be held against a passage's. A number that is part of a name, as in "IL-6" or "p53", is
none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

_SMALL: Final = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
_TENS: Final = "thirty forty fifty sixty seventy eighty ninety"
_WORDS: Final = MappingProxyType(
    {
        **{word: float(value) for value, word in enumerate(_SMALL.split(), 2)},
        **{word: 10.0 * value for value, word in enumerate(_TENS.split(), 3)},
        "twice": 2.0,
        "half": 0.5,
        "hundred": 100.0,
        "dozen": 12.0,
    }
)
_SCALES: Final = MappingProxyType({"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12})
_UNITS_AS_WRITTEN: Final = (
    "%|percent|per cent; ms|millisecond|milliseconds|msec; s|sec|secs|second|seconds; min|mins|minute|minutes; "
    "h|hr|hrs|hour|hours; day|days; week|weeks; month|months; year|years|yr|yrs; us|µs|μs|microsecond|microseconds; "
    "ns|nanosecond|nanoseconds; kg|kilogram|kilograms; g|gram|grams; mg|milligram|milligrams; µg|μg|ug|mcg; "
    "l|liter|liters|litre|litres; ml; m|meter|meters|metre|metres; cm|centimeter|centimeters; "
    "mm|millimeter|millimeters; km|kilometer|kilometers; nm|nanometer|nanometers; µm|μm|um|micrometer|micrometers; "
    "ft|foot|feet; in|inch|inches; mile|miles; b|byte|bytes; bit|bits; kb|kib|kilobyte|kilobytes; "
    "mb|mib|megabyte|megabytes; gb|gib|gigabyte|gigabytes; tb|tib|terabyte|terabytes; "
    "pb|pib|petabyte|petabytes; eb|eib|exabyte|exabytes; kbps; mbps; gbps; decade|decades; century|centuries; "
    "hz|hertz; khz; mhz; ghz; k|kelvin; v|volt|volts; mv; kv; w|watt|watts; mw; kw; ev; kev; mev; gev; "
    "j|joule|joules; kj; pa; kpa; mpa; mol; mmol; µmol|μmol|umol; times|fold|x; dollars|dollar; degrees|degree|°"
)
_UNITS: Final = MappingProxyType(
    {name.strip(): group.split("|")[0].strip() for group in _UNITS_AS_WRITTEN.split(";") for name in group.split("|")}
)
_NUMBER: Final = re.compile(
    r"(?<![^\W_])(?<![^\W\d_][-‐‑])(?:(?<![\w.)\]])[-−+])?"
    r"(?:\d{1,3}(?:[,\u2009\u202f]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\w)\.\d+)(?![\d.]*[^\W\d_]{2,}-?\d)"
)
_WORD_NUMBER: Final = re.compile(rf"(?<![^\W_])(?:{'|'.join(_WORDS)})(?![^\W_])", re.IGNORECASE)
_AFTER: Final = re.compile(r"[\s-]{0,2}(thousand|million|billion|trillion)(?![^\W_])", re.IGNORECASE)
_UNIT: Final = re.compile(r"[\s-]{0,2}(per cent|%|°|[^\W\d_]+)")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number: its value, its unit where that is a known one, how it is written, and where.

    `digits` are the significant digits it is given with, 0 for a number in words.
    """

    value: float
    unit: str | None
    digits: int
    written: str
    start: int
    end: int


def quantities(text: str) -> list[Quantity]:
    """The numbers of a text, in order."""
    found = [_of(text, match, _value(match[0]), _digits(match[0])) for match in _NUMBER.finditer(text)]
    found += [_of(text, match, _WORDS[match[0].lower()], 0) for match in _WORD_NUMBER.finditer(text)]
    return sorted(found, key=lambda each: each.start)


def in_digits(text: str) -> str:
    """The text with its small numbers in words, "two" to "twelve", as digits."""
    return _WORD_NUMBER.sub(lambda found: f"{_WORDS[found[0].lower()]:g}", text)


def same_value(claimed: Quantity, known: Quantity) -> bool:
    """Is the claimed number the known one, or what becomes of it by rounding to two digits or more?"""
    pairs = [(claimed.value, known.value)]
    if (claimed.unit == "%") != (known.unit == "%"):
        share = claimed if claimed.unit != "%" else known
        if abs(share.value) <= 1:
            pairs.append((claimed.value, known.value * 100) if share is known else (claimed.value * 100, known.value))
    for one, other in pairs:
        if abs(one - other) <= 1e-9 * max(abs(one), abs(other), 1e-300):
            return True
        if 2 <= claimed.digits < known.digits and _rounded(other, claimed.digits) == _rounded(one, claimed.digits):
            return True
    return False


def _of(text: str, match: re.Match[str], value: float, digits: int) -> Quantity:
    end = match.end()
    if scale := _AFTER.match(text, end):
        value, end = value * _SCALES[scale[1].lower()], scale.end()
    unit = None
    if (following := _UNIT.match(text, end)) and (unit := _unit(following[1])) is not None:
        end = following.end()
    return Quantity(value, unit, digits, text[match.start() : end], match.start(), end)


def _unit(word: str) -> str | None:
    return _UNITS.get(word) or _UNITS.get(word.lower() if len(word) > 2 else word)


def _value(written: str) -> float:
    return float(re.sub("[,\u2009\u202f]", "", written).replace("−", "-"))


def _digits(written: str) -> int:
    digits = re.sub(r"[^\d]", "", written).lstrip("0")
    return max(len(digits if "." in written else digits.rstrip("0") or digits), 1)


def _rounded(value: float, digits: int) -> str:
    return f"{value:.{digits - 1}e}"

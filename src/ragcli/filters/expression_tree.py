"""Filter expression tree: its nodes, constructors (all_of, any_of, date ranges), and text form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from ragcli.errors import UsageError
from ragcli.text.datetimes import Period, parse_age, parse_period

FilterValue = str | int | float | bool | Period
ComparisonOperator = Literal["=", "!=", "<", "<=", ">", ">="]

KEYWORDS: Final = frozenset({"and", "or", "not", "in", "exists", "true", "false", "like", "matches"})
BARE_KEY: Final = re.compile(r"[^\W\d]\w*")
"""A key that is written as it is; any other stands in backticks."""


@dataclass(frozen=True, slots=True)
class Compare:
    """One of the key's values stands so to `value`; with "!=", the key has values and none of them equals it."""

    key: str
    operator: ComparisonOperator
    value: FilterValue


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of the key's values equals one of `values`; if `negated`, the key has values and none of them does."""

    key: str
    values: tuple[FilterValue, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Match:
    """One of the key's texts holds the pattern ("~"), is like it with % and _, or has a match of the expression."""

    key: str
    operator: Literal["~", "like", "matches"]
    pattern: str


@dataclass(frozen=True, slots=True)
class Exists:
    """The key has a value."""

    key: str


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Filter


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold; without parts, every document is kept."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """One of the parts holds; without parts, none is."""

    parts: tuple[Filter, ...]


Filter = Compare | OneOf | Match | Exists | Not | And | Or


def to_sqlite_number(number: float) -> int | float:
    """The number as it can be compared with those of a store, whose whole numbers have 64 bits."""
    return float(number) if isinstance(number, int) and not -(2**63) <= number < 2**63 else number


def all_of(*filters: Filter | None) -> Filter:
    """A filter that holds where all of these do; None stands for no condition."""
    parts = tuple(
        part for each in filters if each is not None for part in (each.parts if type(each) is And else (each,))
    )
    return parts[0] if len(parts) == 1 else And(parts)


def any_of(*filters: Filter) -> Filter:
    """A filter that holds where one of these does."""
    parts = tuple(part for each in filters for part in (each.parts if type(each) is Or else (each,)))
    return parts[0] if len(parts) == 1 else Or(parts)


def keys_of(condition: Filter) -> Iterator[str]:
    """Every key the filter asks for, as often as it does."""
    match condition:
        case Not(part):
            yield from keys_of(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from keys_of(part)
        case Compare(key) | OneOf(key) | Match(key) | Exists(key):
            yield key


def where_text(condition: Filter) -> str:
    """The filter as an expression."""
    match condition:
        case And(parts):
            return " and ".join(_inner(part) for part in parts) if parts else "true"
        case Or(parts):
            return " or ".join(_inner(part) for part in parts) if parts else "false"
        case Not(part):
            return f"not {_inner(part)}"
        case Exists(key):
            return f"exists {key_text(key)}"
        case OneOf(key, values, negated):
            return f"{key_text(key)} {'not in' if negated else 'in'} [{', '.join(map(value_text, values))}]"
        case Match(key, operator, pattern):
            return f"{key_text(key)} {operator} {value_text(pattern)}"
        case Compare(key, operator, value):
            return f"{key_text(key)} {operator} {value_text(value)}"


def _inner(part: Filter) -> str:
    text = where_text(part)
    return f"({text})" if isinstance(part, And | Or) and len(part.parts) > 1 else text


def key_text(key: str) -> str:
    """The key as an expression has it."""
    if BARE_KEY.fullmatch(key) and key.lower() not in KEYWORDS:
        return key
    return _quoted(key, "`")


def value_text(value: FilterValue) -> str:
    """The value as an expression has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value, '"')
    return value.text if isinstance(value, Period) else repr(value)


def _quoted(text: str, quote: str) -> str:
    return quote + text.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote


_HAS_DATE = Compare("date", ">=", Period("0001-01-01", -62_135_596_800, -62_135_510_400))
_HAS_YEAR = Compare("year", ">=", 1)


def date_range_filter(
    *, since: str | None = None, until: str | None = None, now: datetime | None = None
) -> Filter | None:
    """Documents from `since` on and up to the end of `until`, each a date or how long before `now` (90d, 6m, 2y).

    None if neither is given. UsageError if one says no time, or they leave none between them.
    """
    if since is None and until is None:
        return None
    now = now or datetime.now(UTC)
    first = None if since is None else _parse_date_option("--since", since, now)
    last = None if until is None else _parse_date_option("--until", until, now)
    if first is not None and last is not None and first.start >= last.stop:
        raise UsageError(f"There is no time from {first.text} to {last.text}; --since is the earlier of the two.")
    return any_of(
        all_of(_HAS_DATE, _between("date", first, last)),
        all_of(Not(_HAS_DATE), _HAS_YEAR, _years(first, last)),
        all_of(Not(_HAS_DATE), Not(_HAS_YEAR), _between("modified", first, last)),
    )


def _between(key: str, first: Period | None, last: Period | None) -> Filter:
    return all_of(Compare(key, ">=", first) if first else None, Compare(key, "<=", last) if last else None)


def _years(first: Period | None, last: Period | None) -> Filter:
    return all_of(
        Compare("year", ">=", _year_of(first.start)) if first else None,
        Compare("year", "<=", _year_of(last.stop - 1)) if last else None,
    )


def _year_of(second: int) -> int:
    # Not as it is written: with a time zone, that may be another year's.
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)).year


def _parse_date_option(option: str, text: str, now: datetime) -> Period:
    found = parse_period(text.strip()) or parse_age(text, now)
    if found is None:
        raise UsageError(
            f"{option} takes a date (2024, 2024-05, 2024-05-01, 2024-05-01T10:00) or an age (12h, 90d, 6w, 6m, 2y),"
            f" not '{text}'."
        )
    return found

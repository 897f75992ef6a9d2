"""What a filter means, in plain Python: the reference that the SQL of a collection is held to.

A key has the values that its document gives it: none, one, or the items of a list. A condition on a key holds when
one of the values meets it, so it never holds for a document without the key; `!=` and `not in` take the key to be
there too. `not` turns any condition round, so `not year = 2017` also keeps documents without a year, and
`year != 2017` doesn't. There is no third truth value.

Values of different types neither equal nor order one another, and nothing is converted, with these exceptions: a
number of four digits and a text that reads as a date are that date when they meet one. Texts are compared by code
points, and whole numbers exactly. `~`, `like` and `matches` look at texts and at dates as they are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import TYPE_CHECKING, TypeVar

from ragcli.dates import date_text, seconds_of, typed_text
from ragcli.filters.patterns import matcher
from ragcli.filters.periods import Period, read_period, year_period
from ragcli.filters.tree import And, Compare, Exists, Filter, Match, Not, OneOf, Or

if TYPE_CHECKING:
    from ragcli.filters.tree import Comparison, Value
    from ragcli.records import Metadata, MetadataValue

Scalar = str | float | bool | date
_Ordered = TypeVar("_Ordered", str, float)


def matches(condition: Filter, metadata: Metadata) -> bool:
    """Does a document with this metadata meet the filter?"""
    match condition:
        case And(parts):
            return all(matches(part, metadata) for part in parts)
        case Or(parts):
            return any(matches(part, metadata) for part in parts)
        case Not(part):
            return not matches(part, metadata)
        case Exists(key):
            return any(True for _ in _values(metadata, key))
        case Compare(key, operator, wanted):
            return _one_stands(list(_values(metadata, key)), operator, wanted)
        case OneOf(key, wanted_values, negated):
            found = list(_values(metadata, key))
            equal = any(stands(value, "=", wanted) for value in found for wanted in wanted_values)
            return bool(found) and not equal if negated else equal
        case Match(key):
            test = matcher(condition)
            return any(test(text) for value in _values(metadata, key) if (text := _shown(value)) is not None)


def _values(metadata: Metadata, key: str) -> Iterator[Scalar]:
    value: MetadataValue | None = metadata.get(key)
    if isinstance(value, list):
        yield from value
    elif isinstance(value, str):
        yield typed_text(key, value)
    elif value is not None:
        yield value


def _one_stands(found: list[Scalar], operator: Comparison, wanted: Value) -> bool:
    if operator == "!=":
        return bool(found) and not any(stands(value, "=", wanted) for value in found)
    return any(stands(value, operator, wanted) for value in found)


def stands(value: Scalar, operator: Comparison, wanted: Value) -> bool:
    """Does one value stand so to another? `operator` is any but "!="."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return operator == "=" and value is wanted
    if isinstance(value, date):
        period = as_period(wanted)
        return period is not None and _in_time(seconds_of(value), operator, period)
    if isinstance(value, str):
        return isinstance(wanted, str) and _ordered(value, operator, wanted)
    return isinstance(wanted, int | float) and _ordered(value, operator, wanted)


def as_period(wanted: Value) -> Period | None:
    """The time that a value means when it meets a date, or None."""
    if isinstance(wanted, Period):
        return wanted
    if isinstance(wanted, str):
        return read_period(wanted)
    return None if isinstance(wanted, bool) else year_period(wanted)


def _in_time(second: int, operator: Comparison, period: Period) -> bool:
    match operator:
        case "=":
            return period.start <= second < period.stop
        case "<":
            return second < period.start
        case "<=":
            return second < period.stop
        case ">":
            return second >= period.stop
        case _:
            return second >= period.start


def _ordered(value: _Ordered, operator: Comparison, wanted: _Ordered) -> bool:
    match operator:
        case "=":
            return value == wanted
        case "<":
            return value < wanted
        case "<=":
            return value <= wanted
        case ">":
            return value > wanted
        case _:
            return value >= wanted


def _shown(value: Scalar) -> str | None:
    if isinstance(value, str):
        return value
    return date_text(value) if isinstance(value, date) else None

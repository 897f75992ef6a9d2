"""Evaluate a filter on a document's metadata: reference semantics, text and pattern matching."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ragcli.filters.expression_tree import And, Compare, Exists, Filter, Match, Not, OneOf, Or
from ragcli.text.datetimes import Period, date_text, epoch_seconds, parse_metadata_text, parse_period, year_period
from ragcli.text.re2_patterns import compile_re2
from ragcli.text.unicode import fold_case_and_accents

if TYPE_CHECKING:
    from ragcli.filters.expression_tree import ComparisonOperator, FilterValue, Match
    from ragcli.types import Metadata, MetadataValue


_LIKE_PART: Final = re.compile(r"\\(.)|(%)|(_)|([^\\%_]+|\\)", re.DOTALL)
_LARGEST_PROGRAM: Final = 8 << 20


def compile_match(condition: Match) -> Callable[[str], bool]:
    """The test that a match makes of a text. ValueError, saying what is wrong, for a bad regular expression."""
    if condition.operator == "~":
        needle = fold_case_and_accents(condition.pattern)
        return lambda text: needle in fold_case_and_accents(text)
    if condition.operator == "like":
        compiled = _compile_re2(_like_to_regex(fold_case_and_accents(condition.pattern)))
        return lambda text: compiled.fullmatch(_utf8(fold_case_and_accents(text))) is not None
    compiled = _compile_re2(condition.pattern)
    return lambda text: compiled.search(_utf8(text)) is not None


def _like_to_regex(pattern: str) -> str:
    import re2

    parts = []
    for escaped, many, one, plain in _LIKE_PART.findall(pattern):
        parts.append("(?s:.*)" if many else "(?s:.)" if one else re2.escape(escaped or plain))
    return "".join(parts)


@lru_cache(maxsize=64)
def _compile_re2(pattern: str) -> Any:
    return compile_re2(_utf8(pattern), max_memory=_LARGEST_PROGRAM)


def _utf8(text: str) -> bytes:
    """For RE2, which reads UTF-8 and would count offsets that nobody asks for when given a str."""
    return text.encode("utf-8", "replace")


ScalarValue = str | float | bool | date
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
            return any(True for _ in _values_of_key(metadata, key))
        case Compare(key, operator, wanted):
            return _any_value_satisfies(list(_values_of_key(metadata, key)), operator, wanted)
        case OneOf(key, wanted_values, negated):
            found = list(_values_of_key(metadata, key))
            equal = any(value_satisfies(value, "=", wanted) for value in found for wanted in wanted_values)
            return bool(found) and not equal if negated else equal
        case Match(key):
            test = compile_match(condition)
            return any(
                test(text) for value in _values_of_key(metadata, key) if (text := _value_text(value)) is not None
            )


def _values_of_key(metadata: Metadata, key: str) -> Iterator[ScalarValue]:
    value: MetadataValue | None = metadata.get(key)
    if isinstance(value, list):
        yield from value
    elif isinstance(value, str):
        yield parse_metadata_text(key, value)
    elif value is not None:
        yield value


def _any_value_satisfies(found: list[ScalarValue], operator: ComparisonOperator, wanted: FilterValue) -> bool:
    if operator == "!=":
        return bool(found) and not any(value_satisfies(value, "=", wanted) for value in found)
    return any(value_satisfies(value, operator, wanted) for value in found)


def value_satisfies(value: ScalarValue, operator: ComparisonOperator, wanted: FilterValue) -> bool:
    """Does one value stand so to another? `operator` is any but "!="."""
    if isinstance(value, bool) or isinstance(wanted, bool):
        return operator == "=" and value is wanted
    if isinstance(value, date):
        period = as_period(wanted)
        return period is not None and _satisfies_period(epoch_seconds(value), operator, period)
    if isinstance(value, str):
        return isinstance(wanted, str) and _ordered(value, operator, wanted)
    return isinstance(wanted, int | float) and _ordered(value, operator, wanted)


def as_period(wanted: FilterValue) -> Period | None:
    """The time that a value means when it meets a date, or None."""
    if isinstance(wanted, Period):
        return wanted
    if isinstance(wanted, str):
        return parse_period(wanted)
    return None if isinstance(wanted, bool) else year_period(wanted)


def _satisfies_period(second: int, operator: ComparisonOperator, period: Period) -> bool:
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


def _ordered(value: _Ordered, operator: ComparisonOperator, wanted: _Ordered) -> bool:
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


def _value_text(value: ScalarValue) -> str | None:
    if isinstance(value, str):
        return value
    return date_text(value) if isinstance(value, date) else None

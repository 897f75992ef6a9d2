"""Parse filters in operator form, as `{"year": {"$gte": 2017}}`, from mappings or JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from types import MappingProxyType
from typing import Any, Final

from ragcli.errors import FilterError
from ragcli.filters.expression_parser import MAX_EXPRESSION_CHARS, MAX_NESTING
from ragcli.filters.expression_tree import (
    Compare,
    ComparisonOperator,
    Exists,
    Filter,
    FilterValue,
    Match,
    Not,
    OneOf,
    all_of,
    any_of,
    to_sqlite_number,
)
from ragcli.filters.predicate_evaluation import compile_match
from ragcli.text.datetimes import period_of_date
from ragcli.text.suggestions import closest_name

_COMPARISONS: Final[Mapping[str, ComparisonOperator]] = MappingProxyType(
    {"$eq": "=", "$ne": "!=", "$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
)
_COMBINATORS: Final[Mapping[str, Callable[..., Filter]]] = MappingProxyType(
    {"$and": all_of, "$or": any_of, "$nor": lambda *parts: Not(any_of(*parts))}
)
_OPERATORS: Final = (*_COMPARISONS, "$in", "$nin", "$exists", "$contains", "$like", "$regex", "$not")
_MAX_CONDITIONS: Final = 10_000
_LONGEST_JSON: Final = 1_000_000
_LONGEST_PLACE: Final = 60


def parse_operators(mapping: Mapping[str, Any]) -> Filter:
    """The filter that a mapping says. FilterError, which names the place in it, if it says none."""
    return _OperatorParser().filter(mapping, (), 0)


def parse_filter_json(text: str) -> Filter:
    """The same from JSON. FilterError, with a caret where it stops to be JSON."""
    import json

    if len(text) > _LONGEST_JSON:
        raise FilterError(f"The filter has {len(text):,} characters, and {_LONGEST_JSON:,} is the most that is read.")
    try:
        mapping = json.loads(text, object_pairs_hook=_reject_duplicate_keys)
    except json.JSONDecodeError as error:
        said = error.msg[:1].lower() + error.msg[1:]
        raise FilterError(f"The filter is no JSON: {said}.", expression=text, at=error.pos) from None
    except (RecursionError, ValueError) as error:
        said = "it is too deep" if isinstance(error, RecursionError) else str(error)
        raise FilterError(f"The filter is no JSON that can be read: {said}.") from None
    return parse_operators(mapping)


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise FilterError(f'The filter says "{key}" twice in one object, of which JSON keeps one; use "$and".')
        found[key] = value
    return found


JsonPath = tuple[str | int, ...]


class _OperatorParser:
    """Reads one mapping, counting its conditions."""

    def __init__(self) -> None:
        self._count = 0

    def filter(self, mapping: object, place: JsonPath, depth: int) -> Filter:
        if not isinstance(mapping, Mapping):
            raise _operator_error(place, f"an object of keys and conditions is needed, not {_kind(mapping)}")
        self._enter(place, depth)
        return all_of(*(self._entry(key, value, (*place, key), depth) for key, value in mapping.items()))

    def _enter(self, place: JsonPath, depth: int) -> None:
        self._count += 1
        if depth > MAX_NESTING or self._count > _MAX_CONDITIONS:
            what = (
                f"more than {MAX_NESTING} conditions in one another"
                if depth > MAX_NESTING
                else f"more than {_MAX_CONDITIONS:,} conditions"
            )
            raise _operator_error(place, f"there are {what}")

    def _entry(self, key: object, value: object, place: JsonPath, depth: int) -> Filter:
        if not isinstance(key, str) or not key:
            raise _operator_error(place, "keys are texts that are not empty")
        if key in _COMBINATORS:
            if not isinstance(value, Sequence) or isinstance(value, str):
                raise _operator_error(place, f"a list of filters is needed, not {_kind(value)}")
            if not value:
                raise _operator_error(place, "the list of filters is empty")
            return _COMBINATORS[key](*(self.filter(each, (*place, at), depth + 1) for at, each in enumerate(value)))
        if key == "$not":
            return Not(self.filter(value, place, depth + 1))
        if key.startswith("$"):
            raise _operator_error(place, f"there is no operator {key} here{_nearest(key, (*_COMBINATORS, '$not'))}")
        return self._conditions(key, value, place, depth)

    def _conditions(self, key: str, value: object, place: JsonPath, depth: int) -> Filter:
        self._enter(place, depth)
        if not isinstance(value, Mapping):
            return Compare(key, "=", _value(value, place))
        if not value:
            raise _operator_error(place, "there is no condition")
        return all_of(*(self._condition(key, name, each, (*place, name), depth) for name, each in value.items()))

    def _condition(self, key: str, name: object, value: object, place: JsonPath, depth: int) -> Filter:
        if not isinstance(name, str) or name not in _OPERATORS:
            raise _operator_error(place, f"there is no operator {name}{_nearest(str(name), _OPERATORS)}")
        if name in _COMPARISONS:
            found = _value(value, place)
            if isinstance(found, bool) and name not in ("$eq", "$ne"):
                raise _operator_error(place, "true and false are not before or after anything")
            return Compare(key, _COMPARISONS[name], found)
        if name in ("$in", "$nin"):
            if not isinstance(value, Sequence | set | frozenset) or isinstance(value, str | bytes):
                raise _operator_error(place, f"a list of values is needed, not {_kind(value)}")
            values = tuple(_value(each, (*place, at)) for at, each in enumerate(value))
            return OneOf(key, values, negated=name == "$nin")
        if name == "$exists":
            if not isinstance(value, bool):
                raise _operator_error(place, f"true or false is needed, not {_kind(value)}")
            return Exists(key) if value else Not(Exists(key))
        if name == "$not":
            if not isinstance(value, Mapping):
                raise _operator_error(place, f"an object of conditions is needed, not {_kind(value)}")
            return Not(self._conditions(key, value, place, depth + 1))
        return _match(key, name, value, place)


def _match(key: str, name: str, value: object, place: JsonPath) -> Filter:
    if not isinstance(value, str):
        raise _operator_error(place, f"a text is needed, not {_kind(value)}")
    if len(value) > MAX_EXPRESSION_CHARS:
        raise _operator_error(place, f"a text of {len(value):,} characters is too long")
    found = Match(key, "~" if name == "$contains" else "like" if name == "$like" else "matches", value)
    try:
        compile_match(found)
    except ValueError as error:
        raise _operator_error(place, f"this is no regular expression: {error}") from None
    return found


def _value(value: object, place: JsonPath) -> FilterValue:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        try:
            if math.isfinite(float(value)):
                return to_sqlite_number(value)
        except OverflowError:
            pass
        raise _operator_error(place, "there is no such number")
    if isinstance(value, date):
        return period_of_date(value)
    if value is None:
        raise _operator_error(place, 'null is no value; `{"$exists": false}` finds what has none')
    hint = '; `{"$in": […]}` finds what has one of several' if isinstance(value, Sequence) else ""
    raise _operator_error(place, f"a text, number, date, true or false is needed, not {_kind(value)}{hint}")


def _nearest(name: str, known: Sequence[str]) -> str:
    near = closest_name(name, known, cutoff=0.5)
    return f"; did you mean {near}?" if near else f"; there are {', '.join(known)}"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, str):
        return "a text"
    return "a number" if isinstance(value, int | float) else "a list" if isinstance(value, Sequence) else "this"


def _operator_error(place: JsonPath, what: str) -> FilterError:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")
    path = path if len(path) <= _LONGEST_PLACE else f"…{path[-_LONGEST_PLACE:]}"
    end = "" if what.endswith("?") else "."
    return FilterError(f"The filter cannot be read{f' at {path}' if path else ''}: {what}{end}")

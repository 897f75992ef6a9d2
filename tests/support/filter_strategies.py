"""Random metadata and random filters over them, for hypothesis.

Keys and values are few, so that filters meet documents often, and of every type, so that they also meet the wrong one.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from random import Random
from typing import Any

from hypothesis import strategies as st

from ragcli.filters import Compare, Exists, Filter, FilterValue, Match, Not, OneOf, all_of, any_of
from ragcli.filters.expression_tree import ComparisonOperator
from ragcli.text.datetimes import Period, parse_period, period_of_date
from ragcli.types import Metadata

KEYS = ("a", "b", "my key", "and", "größe`")
TEXTS = ("", "a", "A", "ä", "ab", "b%", "Zürich", "2024", "2024-05-01", "2024-05", "a\0b", 'q"\\', "名前", "true", "1")
NUMBERS: tuple[int | float, ...] = (0, 1, -1, 2.5, 2017, 2024, 2**53 + 1, 2**53, 1e300, -0.5, 2**63 - 1, 0.1)
DAYS = (date(2024, 5, 1), date(2024, 5, 31), date(2023, 12, 31), date(1, 1, 1), date(9999, 12, 31))
MOMENTS = (datetime(2024, 5, 1, 10, 30, tzinfo=UTC), datetime(2024, 5, 1, tzinfo=UTC))
WRITTEN = ("2024-05", "2024-05-01", "2024-05-01T10:30", "2024-05-01T10:30:00+02:00", "0001-01", "9999-12-31")
EXPRESSIONS = ("^a", "b", r"\d+", "(?i)ä", "", "Z.r")

texts = st.sampled_from(TEXTS) | st.text(max_size=3)
numbers = st.sampled_from(NUMBERS) | st.integers(-3, 3) | st.floats(allow_nan=False, allow_infinity=False)
keys = st.sampled_from(KEYS)


def _period(text: str) -> Period:
    found = parse_period(text)
    assert found is not None
    return found


def many_metadata(count: int, seed: int = 0) -> list[Metadata]:
    """Metadata of so many documents, the same for a seed, that have most of what filters ask for."""
    chosen = Random(seed)

    def value() -> Any:
        kind = chosen.randrange(5)
        if kind == 0:
            return chosen.choice(DAYS + MOMENTS)
        if kind == 1:
            return [chosen.choice(TEXTS) for _ in range(chosen.randrange(4))]
        return chosen.choice((TEXTS, NUMBERS, (True, False))[kind - 2])

    return [{key: value() for key in KEYS if chosen.random() < 0.6} for _ in range(count)]


def metadata() -> st.SearchStrategy[Metadata]:
    """What a document may be said to be."""
    value: st.SearchStrategy[Any] = st.one_of(
        texts, numbers, st.booleans(), st.sampled_from(DAYS + MOMENTS), st.lists(texts, max_size=3)
    )
    return st.dictionaries(keys, value, max_size=5)


def values() -> st.SearchStrategy[FilterValue]:
    """What a filter may compare with."""
    periods = st.sampled_from(WRITTEN).map(_period) | st.sampled_from(DAYS + MOMENTS).map(period_of_date)
    return st.one_of(texts, numbers, st.booleans(), periods)


def comparisons() -> Iterator[Filter]:
    """Every comparison of one key with every value that there is here."""
    periods = [*map(_period, WRITTEN), *map(period_of_date, DAYS + MOMENTS)]
    for value in (*TEXTS, *NUMBERS, *periods, True, False):
        yield OneOf(KEYS[0], (value, "other"))
        orders: tuple[ComparisonOperator, ...] = () if isinstance(value, bool) else ("<", "<=", ">", ">=")
        for operator in ("=", "!=", *orders):
            yield Compare(KEYS[0], operator, value)


def filters() -> st.SearchStrategy[Filter]:
    """Filters of some depth, in the form that reading gives."""
    in_order = st.one_of(texts, numbers, st.sampled_from(WRITTEN).map(_period))
    one: st.SearchStrategy[Any] = st.one_of(
        st.builds(Compare, keys, st.sampled_from(["=", "!="]), values()),
        st.builds(Compare, keys, st.sampled_from(["<", "<=", ">", ">="]), in_order),
        st.builds(OneOf, keys, st.lists(values(), max_size=4).map(tuple), st.booleans()),
        st.builds(Match, keys, st.sampled_from(["~", "like"]), texts),
        st.builds(Match, keys, st.just("matches"), st.sampled_from(EXPRESSIONS)),
        st.builds(Exists, keys),
    )
    return st.recursive(
        one,
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, max_size=4).map(lambda parts: all_of(*parts)),
            st.lists(inner, max_size=4).map(lambda parts: any_of(*parts)),
        ),
        max_leaves=8,
    )

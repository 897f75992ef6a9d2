"""Conditions on documents' metadata: read from an expression or from the operator form, written, and applied.

`parse_where('year >= 2017 and author ~ "Temme"')` and `parse_operators({"year": {"$gte": 2017}})` give a `Filter`, a
frozen value. What it means is said once, in plain Python, by `matches`; a collection turns it into SQL that means the
same (`ragcli.collection.read.metadata_filter`).
"""

from __future__ import annotations

from ragcli.filters.expression_parser import parse_where
from ragcli.filters.expression_tree import (
    And,
    Compare,
    Exists,
    Filter,
    FilterValue,
    Match,
    Not,
    OneOf,
    Or,
    all_of,
    any_of,
    date_range_filter,
    keys_of,
    where_text,
)
from ragcli.filters.operator_parser import parse_filter_json, parse_operators
from ragcli.filters.predicate_evaluation import matches
from ragcli.text.datetimes import Period

__all__ = [
    "And",
    "Compare",
    "Exists",
    "Filter",
    "FilterValue",
    "Match",
    "Not",
    "OneOf",
    "Or",
    "Period",
    "all_of",
    "any_of",
    "date_range_filter",
    "keys_of",
    "matches",
    "parse_filter_json",
    "parse_operators",
    "parse_where",
    "where_text",
]

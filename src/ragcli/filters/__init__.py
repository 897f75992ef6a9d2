"""Conditions on documents' metadata: read from an expression or from the operator form, written, and applied.

`parse_where('year >= 2017 and author ~ "Temme"')` and `parse_operators({"year": {"$gte": 2017}})` give a `Filter`, a
frozen value. What it means is said once, in plain Python, by `matches`; a collection turns it into SQL that means the
same (`ragcli.collection.filtering`).
"""

from __future__ import annotations

from ragcli.filters.expressions import parse_where
from ragcli.filters.meaning import matches
from ragcli.filters.operators import parse_filter_json, parse_operators
from ragcli.filters.periods import Period
from ragcli.filters.time import dated
from ragcli.filters.tree import (
    And,
    Compare,
    Exists,
    Filter,
    Match,
    Not,
    OneOf,
    Or,
    Value,
    all_of,
    any_of,
    keys_of,
    where_text,
)

__all__ = [
    "And",
    "Compare",
    "Exists",
    "Filter",
    "Match",
    "Not",
    "OneOf",
    "Or",
    "Period",
    "Value",
    "all_of",
    "any_of",
    "dated",
    "keys_of",
    "matches",
    "parse_filter_json",
    "parse_operators",
    "parse_where",
    "where_text",
]

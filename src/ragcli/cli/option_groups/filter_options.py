"""Metadata filter options (`--where`, `--filter`, `--since`, `--until`) and the filter they make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragcli.cli.terminal import note, without_surrogates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.collection import Collection
    from ragcli.filters import Filter
    from ragcli.options import OptionValues


def filter_from(values: OptionValues) -> Filter | None:
    """The filter that the options make; None if none was given. FilterError or UsageError if one cannot be read."""
    if not values.stated.keys() & {"where", "filter", "since", "until"}:
        return None
    from ragcli.filters import all_of, date_range_filter

    return all_of(*_conditions(values), date_range_filter(since=values.since, until=values.until))


def note_unknown_keys(collections: Sequence[Collection], values: OptionValues) -> None:
    """Tell of the keys in a filter that no document has in any of the collections: they are most often misspelt."""
    if not values.stated.keys() & {"where", "filter"}:
        return
    from ragcli.engines import open_reader
    from ragcli.filters import all_of

    condition = all_of(*_conditions(values))
    unknown: set[str] | None = None
    known: dict[str, None] = {}
    for each in collections:
        with open_reader(each) as reader:
            missing, there = reader.unknown_keys(condition)
        unknown = set(missing) if unknown is None else unknown.intersection(missing)
        known |= dict.fromkeys(there)
    for key in sorted(unknown or ()):
        note(f"no document has the key '{key}'; {_suggestion(key, list(known))}")


def _conditions(values: OptionValues) -> list[Filter]:
    from ragcli.filters import parse_filter_json, parse_where

    found = [parse_where(without_surrogates(text)) for text in values.where or ()]
    text = values.filter
    return found if text is None else [*found, parse_filter_json(without_surrogates(text))]


def _suggestion(key: str, known: Sequence[str]) -> str:
    from ragcli.text.suggestions import closest_name

    if near := closest_name(key, known):
        return f"did you mean '{near}'?"
    return "`ragcli documents --fields` lists those there are."

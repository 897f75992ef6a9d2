"""Metadata filter options (`--where`, `--filter`, `--since`, `--until`) and the filter they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.terminal import note, without_surrogates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.collection import Collection
    from ragcli.filters import Filter

Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="FILTER",
        help="Keep to documents whose metadata say so, as in 'year >= 2017 and tag in [\"noise\"]'; "
        "may be repeated, and then all must hold.",
    ),
]
FilterJson = Annotated[
    str | None,
    typer.Option("--filter", metavar="JSON", help='The same in the operator form, as in \'{"year": {"$gte": 2017}}\'.'),
]
Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Keep to documents from then on: 2024, 2024-05-01, 90d, 6m, 2y."),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Keep to documents up to then, the day or year included.")
]


def filter_from(
    where: Sequence[str] | None, filter_json: str | None, since: str | None, until: str | None
) -> Filter | None:
    """The filter that these options make; None if none was given. FilterError or UsageError if one cannot be read."""
    if not where and filter_json is None and since is None and until is None:
        return None
    from ragcli.filters import all_of, date_range_filter

    return all_of(*_conditions(where, filter_json), date_range_filter(since=since, until=until))


def note_unknown_keys(collections: Sequence[Collection], where: Sequence[str] | None, filter_json: str | None) -> None:
    """Tell of the keys in a filter that no document has in any of the collections: they are most often misspelt."""
    if not where and filter_json is None:
        return
    from ragcli.engines import open_reader
    from ragcli.filters import all_of

    condition = all_of(*_conditions(where, filter_json))
    unknown: set[str] | None = None
    known: dict[str, None] = {}
    for each in collections:
        with open_reader(each) as reader:
            missing, there = reader.unknown_keys(condition)
        unknown = set(missing) if unknown is None else unknown.intersection(missing)
        known |= dict.fromkeys(there)
    for key in sorted(unknown or ()):
        note(f"no document has the key '{key}'; {_suggestion(key, list(known))}")


def _conditions(where: Sequence[str] | None, filter_json: str | None) -> list[Filter]:
    from ragcli.filters import parse_filter_json, parse_where

    found = [parse_where(without_surrogates(text)) for text in where or ()]
    return found if filter_json is None else [*found, parse_filter_json(without_surrogates(filter_json))]


def _suggestion(key: str, known: Sequence[str]) -> str:
    from ragcli.text.suggestions import closest_name

    if near := closest_name(key, known):
        return f"did you mean '{near}'?"
    return "`ragcli documents --fields` lists those there are."

"""How what was found is arranged: the options that `query` and `ask` share, and what they make of a request."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ragcli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.cli.options import Surroundings

_KEY: Final = re.compile(r"\w[\w.-]{0,63}")

Weights = Annotated[
    list[str] | None,
    typer.Option("--weight", metavar="NAME=W", help="Let a collection count W times as much; may be repeated."),
]
Diversity = Annotated[
    str | None,
    typer.Option(
        "--diversity",
        metavar="mmr=X",
        help="Prefer hits unlike those before them: maximal marginal relevance, X from 0 (no matter) to 1.",
    ),
]
Recency = Annotated[
    float | None,
    typer.Option("--recency", metavar="X", help="How much a document's newness counts, from 0 to 1 (0)."),
]
HalfLife = Annotated[
    str | None,
    typer.Option("--half-life", metavar="AGE", help="The age at which newness is half gone: 90d, 6m, 2y (365d)."),
]
IdentityKey = Annotated[
    str | None,
    typer.Option(
        "--identity",
        metavar="content|path|none|KEY",
        help="What makes documents of several collections the same, KEY being one of their metadata (content).",
    ),
]
KeepDuplicates = Annotated[
    bool, typer.Option("--keep-duplicates", help="Show passages also that say the same as one before them.")
]
Grouped = Annotated[
    bool, typer.Option("--group", help="Show each document once, with its other passages under the best one.")
]
Like = Annotated[
    str | None,
    typer.Option("--like", metavar="ID|FILE", help="In place of TEXT: find what is like this chunk, document or file."),
]


def arrangement(
    here: Surroundings,
    *,
    weight: Sequence[str] | None = None,
    diversity: str | None = None,
    recency: float | None = None,
    half_life: str | None = None,
    identity: str | None = None,
    keep_duplicates: bool = False,
    group: bool = False,
) -> dict[str, Any]:
    """The fields of a request that these options set, the configuration filling in what was not given."""
    defaults = here.config.query
    recency = recency if recency is not None else defaults.recency
    if half_life is not None and recency is None:
        raise UsageError("--half-life says how fast newness is lost; give --recency, how much it counts, as well.")
    half_life = half_life if half_life is not None else defaults.half_life
    asked: dict[str, Any] = {
        "weights": _weights(weight or ()),
        "diversity": _diversity(diversity) if diversity is not None else defaults.diversity,
        "recency": recency,
        "identity": _identity(identity) if identity is not None else None,
        "half_life": _days(half_life) if half_life is not None else None,
        "keep_duplicates": keep_duplicates,
        "group": group,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _weights(given: Sequence[str]) -> tuple[tuple[str, float], ...]:
    weights: dict[str, float] = {}
    for each in given:
        name, equals, value = each.rpartition("=")
        try:
            weight = float(value)
        except ValueError:
            weight = -1.0
        if not equals or not name or weight < 0:
            raise UsageError(f"--weight takes a collection and a number, like papers=2, not '{each}'.")
        if name in weights:
            raise UsageError(f"--weight gives '{name}' twice.")
        weights[name] = weight
    return tuple(weights.items())


def _diversity(text: str) -> float:
    way, equals, value = text.rpartition("=")
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if way not in ("", "mmr") or (equals and not way) or not 0.0 <= share <= 1.0:
        raise UsageError(f"--diversity takes mmr=X with X from 0 to 1, not '{text}'.")
    return share


def _days(text: str) -> float:
    from ragcli.filters.periods import read_days

    days = read_days(text)
    if not days:
        raise UsageError(f"A half-life is an age such as 12h, 90d, 6w, 6m or 2y, not '{text}'.")
    return days


def _identity(text: str) -> str:
    if text in ("content", "path", "none"):
        return text
    from difflib import get_close_matches

    near = get_close_matches(text, ("content", "path", "none"), n=1, cutoff=0.75)
    if near or not _KEY.fullmatch(text):
        hint = f"; did you mean {near[0]}?" if near else "."
        raise UsageError(f"--identity takes content, path, none, or a key of the metadata, not '{text}'{hint}")
    return text

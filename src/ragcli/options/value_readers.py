"""Read the values of options that are more than a number or a choice: weights, ages, identities.

Each raises ValueError for a text that says no such value, or OptionError where there is more to say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ragcli.options.number_parsing import MAX_NUMBER, parse_number
from ragcli.options.option_error import OptionError

IDENTITIES: Final = ("content", "path", "none")
FUSION_STAGES: Final = ("bm25", "dense", "rerank", "window")
_METADATA_KEY: Final = re.compile(r"\w[\w.-]{0,63}")


def parse_weight(text: str) -> tuple[str, float]:
    """(name, weight) of a text such as "papers=2"; the weight is 0 or more."""
    name, equals, value = text.rpartition("=")
    weight = parse_number(value)
    if not equals or not name or not 0 <= weight <= MAX_NUMBER:
        raise ValueError(text)
    return name, weight


def parse_collection_weights(texts: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """Weights of collections, such as ["papers=2", "notes=0.5"], each named once."""
    weights = _weights(texts)
    if twice := _named_twice(weights):
        raise OptionError("{weights} gives '{name}' twice.", name=twice)
    return weights


def parse_stage_weights(text: str) -> dict[str, float]:
    """Weights of stages in the fusion, such as "bm25=0.7,dense=1.5"."""
    weights = _weights([piece.strip() for piece in text.split(",")])
    if any(name not in FUSION_STAGES for name, _ in weights):
        raise ValueError(text)
    if twice := _named_twice(weights):
        raise OptionError("{stage_weights} gives '{name}' twice.", name=twice)
    return dict(weights)


def _weights(texts: Sequence[str]) -> tuple[tuple[str, float], ...]:
    return tuple(map(parse_weight, texts))


def _named_twice(weights: Sequence[tuple[str, float]]) -> str:
    names = [name for name, _ in weights]
    return next((name for name in names if names.count(name) > 1), "")


def parse_diversity(text: str) -> float:
    """The share of novelty in "mmr=0.3", or 0.3 alone."""
    way, equals, value = text.rpartition("=")
    if way not in ("", "mmr") or (equals and not way):
        raise ValueError(text)
    return parse_number(value)


def parse_half_life(text: str) -> float:
    """Days of an age such as "12h", "90d" or "2y"; a number alone is days."""
    from ragcli.text.datetimes import parse_days

    days = parse_days(text)
    if not days:
        raise ValueError(text)
    return days


def parse_identity(text: str) -> str:
    """`content`, `path`, `none`, or a key of metadata that is unlikely to be one of these misspelt."""
    if text in IDENTITIES:
        return text
    from ragcli.text.suggestions import closest_name

    if near := closest_name(text, IDENTITIES, cutoff=0.75):
        raise OptionError(
            "{identity} takes content, path, none, or a key of the metadata, not '{given}'; did you mean {near}?",
            given=text,
            near=near,
        )
    if not _METADATA_KEY.fullmatch(text):
        raise ValueError(text)
    return text

"""The name that a misspelt one is nearest to ("did you mean …?")."""

from __future__ import annotations

from collections.abc import Iterable


def closest_name(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The known name most like `name`, whatever their case; None if none has a similarity of `cutoff` (0 to 1).

    Similarity is difflib's ratio, twice the matching characters over all (Ratcliff and Obershelp 1988).
    """
    import difflib

    by_name: dict[str, str] = {}
    for each in known:
        by_name.setdefault(each.lower(), each)
    near = difflib.get_close_matches(name.lower(), by_name, n=1, cutoff=cutoff)
    return by_name[near[0]] if near else None

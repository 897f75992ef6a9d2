"""On which line of a TOML file a key stands.

The standard library's reader keeps no positions, and scanning for `key =` by hand gets dotted keys, inline
tables, comments and multi-line strings wrong sooner or later. So the reader itself is asked: of the lines that
spell the key's last part, the right one is the first after which the shortest prefix of the file that parses
has the key. That costs a few parses of a small file, and only when there is an error to report. A large file made
to cost many is given up on: the key's name alone then says where to look.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

_MOST_PARSED: Final = 2_000_000
"""Characters that may be parsed for one line's number: half a second or two."""


def line_of(text: str, keys: Sequence[str]) -> int | None:
    """The line, counted from 1, where the key at the path `keys` stands in `text`, which must parse.

    None if no line spells the key as it reads, which takes escapes inside a quoted key, or if it takes too long.
    """
    prefixes = _Prefixes(text)
    spelling = [number for number, line in enumerate(prefixes.lines, 1) if keys[-1] in line]
    # A longer prefix has every key that a shorter one has.
    try:
        place = bisect_left(spelling, True, key=lambda number: _has(prefixes.shortest(number), keys))
    except _TooMuch:
        return None
    return spelling[place] if place < len(spelling) else None


class _TooMuch(Exception):
    """More was parsed than is worth it."""


class _Prefixes:
    """The first lines of a text, parsed."""

    def __init__(self, text: str) -> None:
        self.lines = [f"{line}\n" for line in text.split("\n")]
        self._parsed = 0

    def shortest(self, at_least: int) -> Mapping[str, object]:
        """The shortest prefix of so many lines or more that parses. Raises _TooMuch."""
        import tomllib

        for count in range(at_least, len(self.lines) + 1):
            prefix = "".join(self.lines[:count])
            self._parsed += len(prefix)
            if self._parsed > _MOST_PARSED:
                raise _TooMuch
            try:
                return tomllib.loads(prefix)
            except ValueError:
                continue
        return {}


def _has(tree: object, keys: Sequence[str]) -> bool:
    for key in keys:
        if not isinstance(tree, dict) or key not in tree:
            return False
        tree = tree[key]
    return True

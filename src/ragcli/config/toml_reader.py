"""Parse untrusted TOML in bounded time, and locate the line of a key.

The standard library takes the square of the parts of a dotted key: a megabyte of `a.a.a…` keeps it busy for hours, so
a key of many parts is refused first. It also keeps no positions: of the lines that spell a key's last part, the right
one is the first after which the shortest prefix of the file that parses has the key. That is bounded too, and done
only to report an error.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final

_MAX_KEY_PARTS: Final = 100
_TOML_TOKEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\w-]+|[ \t]+|.', re.DOTALL
)


def parse_toml(text: str) -> dict[str, Any]:
    """What `tomllib.loads` makes of the text; its errors, and TOMLDecodeError for a key of too many parts."""
    import tomllib

    if text.count(".") >= _MAX_KEY_PARTS:
        at = _overlong_key(text)
        if at is not None:
            line = text.count("\n", 0, at) + 1
            raise tomllib.TOMLDecodeError(f"A key has more than {_MAX_KEY_PARTS} parts (at line {line})")
    return tomllib.loads(text)


def _overlong_key(text: str) -> int | None:
    """Where a key has too many parts, if one does. What is within quotes is one part, or a value."""
    parts = 1
    for token in _TOML_TOKEN.finditer(text):
        word = token.group()
        if word == ".":
            parts += 1
            if parts > _MAX_KEY_PARTS:
                return token.start()
        elif not (word[0] in "\"' \t-_" or word[0].isalnum()):
            parts = 1
    return None


_MAX_PARSED_CHARS: Final = 2_000_000
"""Characters that may be parsed for one line's number: half a second or two."""


def line_of_key(text: str, keys: Sequence[str]) -> int | None:
    """The line, counted from 1, where the key at the path `keys` stands in `text`, which must parse.

    None if no line spells the key as it reads, which takes escapes inside a quoted key, or if it takes too long.
    """
    prefixes = _ParsedPrefixes(text)
    spelling = [number for number, line in enumerate(prefixes.lines, 1) if keys[-1] in line]
    # A longer prefix has every key that a shorter one has.
    try:
        place = bisect_left(spelling, True, key=lambda number: _has_key(prefixes.shortest(number), keys))
    except _ParseBudgetExceeded:
        return None
    return spelling[place] if place < len(spelling) else None


class _ParseBudgetExceeded(Exception):
    """More was parsed than is worth it."""


class _ParsedPrefixes:
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
            if self._parsed > _MAX_PARSED_CHARS:
                raise _ParseBudgetExceeded
            try:
                return tomllib.loads(prefix)
            except ValueError:
                continue
        return {}


def _has_key(tree: object, keys: Sequence[str]) -> bool:
    for key in keys:
        if not isinstance(tree, dict) or key not in tree:
            return False
        tree = tree[key]
    return True

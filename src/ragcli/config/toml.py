"""TOML from strangers' hands, in time that its length bounds.

The standard library takes the square of the parts of a dotted key to read it: a megabyte of `a.a.a…` keeps it busy for
hours. No file means more than a few parts, so one with many is refused before it is read.
"""

from __future__ import annotations

import re
from typing import Any, Final

_MOST_PARTS: Final = 100
_TOKEN: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[\w-]+|[ \t]+|.', re.DOTALL
)


def parse_toml(text: str) -> dict[str, Any]:
    """What `tomllib.loads` makes of the text; its errors, and TOMLDecodeError for a key of too many parts."""
    import tomllib

    if text.count(".") >= _MOST_PARTS:
        at = _long_key(text)
        if at is not None:
            line = text.count("\n", 0, at) + 1
            raise tomllib.TOMLDecodeError(f"A key has more than {_MOST_PARTS} parts (at line {line})")
    return tomllib.loads(text)


def _long_key(text: str) -> int | None:
    """Where a key has too many parts, if one does. What is within quotes is one part, or a value."""
    parts = 1
    for token in _TOKEN.finditer(text):
        word = token.group()
        if word == ".":
            parts += 1
            if parts > _MOST_PARTS:
                return token.start()
        elif not (word[0] in "\"' \t-_" or word[0].isalnum()):
            parts = 1
    return None

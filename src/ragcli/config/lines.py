"""On which line of a TOML file a key stands.

The standard library's reader keeps no positions, and scanning for `key =` by hand gets dotted keys, inline
tables, comments and multi-line strings wrong sooner or later. So the reader itself is asked: of the lines that
spell the key's last part, the right one is the first after which the shortest prefix of the file that parses
has the key. That costs a few parses of a small file, and only when there is an error to report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def line_of(text: str, keys: Sequence[str]) -> int | None:
    """The line, counted from 1, where the key at the path `keys` stands in `text`, which must parse.

    None if no line spells the key as it reads, which takes escapes inside a quoted key.
    """
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        if keys[-1] in line and _has(_shortest_parsing_prefix(lines, number), keys):
            return number
    return None


def _shortest_parsing_prefix(lines: Sequence[str], at_least: int) -> Mapping[str, object]:
    import tomllib

    for count in range(at_least, len(lines) + 1):
        try:
            return tomllib.loads("".join(lines[:count]))
        except tomllib.TOMLDecodeError:
            continue
    return {}


def _has(tree: object, keys: Sequence[str]) -> bool:
    for key in keys:
        if not isinstance(tree, dict) or key not in tree:
            return False
        tree = tree[key]
    return True

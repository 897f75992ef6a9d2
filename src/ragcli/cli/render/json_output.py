"""Write JSON to stdout that every strict reader accepts, whatever a document holds.

Lone surrogates, which some PDFs and file names yield, are not text; each becomes U+FFFD, one for one, which keeps
offsets right. NaN and infinity, which JSON lacks, become null. Control and invisible characters are written as
escapes.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING, Final

from ragcli.cli.terminal import write
from ragcli.text.characters import replace_surrogates

if TYPE_CHECKING:
    pass


_NEEDS_ESCAPE: Final = re.compile(
    "[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


def to_json(value: object, *, indent: int | None = 2) -> str:
    """`value` as JSON text that every strict reader takes."""
    text = json.dumps(_json_value(value), ensure_ascii=not _stdout_is_unicode(), allow_nan=False, indent=indent)
    # Beyond U+FFFF the escape is a pair, which the module writes as it should be.
    return _NEEDS_ESCAPE.sub(lambda found: json.dumps(found.group())[1:-1], text)


def write_json(value: object) -> None:
    """Write one JSON value to stdout."""
    write(to_json(value) + "\n")


def write_json_lines(values: Iterable[object]) -> None:
    """Write JSON values to stdout, one a line."""
    for value in values:
        write(to_json(value, indent=None) + "\n")


def _json_value(value: object) -> object:
    match value:
        case str():
            return replace_surrogates(value)
        case bool() | int() | None:
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {replace_surrogates(str(key)): _json_value(item) for key, item in value.items()}
        case date():
            return value.isoformat()
        case Iterable():
            return [_json_value(item) for item in value]
        case _:
            return replace_surrogates(str(value))


def _stdout_is_unicode() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "").startswith("utf")

"""Document metadata in two forms: as given, and as a typed side table that filters can use.

The JSON in `documents.metadata` is what is shown. The table `metadata` has one row per value, a list one row per
item, with an index over (key, text) and (key, number), so a condition on metadata selects documents before
anything is ranked.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ragcli.collection.texts import clean
from ragcli.records import Metadata, MetadataValue

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?")
_LARGEST: Final = 2**63


def clean_metadata(metadata: Metadata) -> dict[str, MetadataValue]:
    """What can be stored and printed: no lone surrogates, no numbers that JSON does not have."""
    return {clean(str(key)): _clean_value(value) for key, value in metadata.items()}


def _clean_value(value: Any) -> MetadataValue:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -_LARGEST <= value < _LARGEST else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [clean(str(item)) for item in value]
    return clean(str(value))


def write_metadata(connection: sqlite3.Connection, number: int, metadata: Mapping[str, MetadataValue]) -> None:
    """Fill the side table for document `number`; the metadata must be clean."""
    connection.executemany(
        "INSERT INTO metadata (document, key, position, type, text, number) VALUES (?, ?, ?, ?, ?, ?)",
        ((number, *row) for row in metadata_rows(metadata)),
    )


def metadata_rows(metadata: Mapping[str, MetadataValue]) -> Iterator[tuple[str, int, str, str | None, float | None]]:
    """(key, position, type, text, number) for every value; types are text, date, number, boolean and item."""
    for key, value in metadata.items():
        if isinstance(value, bool):
            yield key, 0, "boolean", None, float(value)
        elif isinstance(value, (int, float)):
            yield key, 0, "number", None, float(value)
        elif isinstance(value, list):
            for position, item in enumerate(value):
                yield key, position, "item", item, None
        else:
            yield key, 0, "date" if _DATE.fullmatch(value) else "text", value, None

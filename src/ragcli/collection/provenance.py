"""Where chunks come from, and from when: what tells the same passage in two collections, and an old one from a new.

A few columns of the store for some chunks at once. Reading the chunks themselves costs ten times as much.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ragcli.dates import seconds_of


@dataclass(frozen=True, slots=True)
class Provenance:
    """A chunk's place: the hash of its document's whole text, the stretch of it, and the document's path and record.

    `path` is as the system knows it; `record` is None where the file is one document.
    """

    text: bytes
    start: int
    stop: int
    path: bytes
    record: str | None


_PLACES: Final = (
    "SELECT c.number, l.seal, c.start, c.stop, f.path, d.record_id FROM json_each(?) j"
    " CROSS JOIN chunks c ON c.number = j.value JOIN documents d ON d.number = c.document"
    " JOIN files f ON f.number = d.file JOIN layouts l ON l.document = d.number"
)
_DATES: Final = (
    "SELECT c.number, m.key, m.number FROM json_each(?) j CROSS JOIN chunks c ON c.number = j.value"
    " JOIN metadata m ON m.document = c.document AND m.position = 0"
    " AND (m.key IN ('date', 'modified') AND m.type = 'date' OR m.key = 'year' AND m.type = 'number')"
)


_SAME_TEXT: Final = (
    "SELECT c.number, c.start, c.stop FROM documents d JOIN layouts l ON l.document = d.number AND l.seal = ?"
    " JOIN chunks c ON c.document = d.number WHERE d.characters = ?"
)


def provenance(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, Provenance]:
    """Where each chunk comes from; chunks that are not there are left out."""
    rows = connection.execute(_PLACES, (json.dumps(list(numbers)),))
    return {number: Provenance(*place) for number, *place in rows}


def same_text(connection: sqlite3.Connection, text: bytes, characters: int) -> list[tuple[int, int, int]]:
    """The chunks of documents whose whole text has that hash and length: each one's number and stretch.

    The length is looked at first: there is no index over the hashes, which are hardly ever asked for.
    """
    return connection.execute(_SAME_TEXT, (text, characters)).fetchall()


def dates(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, float]:
    """When each chunk's document is from, in seconds since 1970; those of which nothing is known are left out.

    That is its `date`, in want of one the last moment of its `year`, in want of both the time its file was last
    modified.
    """
    found: dict[int, dict[str, float]] = {}
    for number, key, value in connection.execute(_DATES, (json.dumps(list(numbers)),)):
        found.setdefault(number, {})[key] = value
    moments = {number: _moment(keys) for number, keys in found.items()}
    return {number: moment for number, moment in moments.items() if moment is not None}


def _moment(keys: dict[str, float]) -> float | None:
    year = keys.get("year")
    if "date" not in keys and year is not None and 1 <= year <= 9998:
        return seconds_of(datetime(int(year) + 1, 1, 1, tzinfo=UTC)) - 1
    return keys.get("date", keys.get("modified"))

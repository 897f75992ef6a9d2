"""Dates as metadata have them: read from text, written as text, put in order.

A text that is a whole ISO 8601 date is a date, wherever it comes from: JSON has no other way to say one, and a
person who writes `date: 2024-05-01` in any of the places that metadata come from means the same. A time without a
zone is taken as UTC, and all times are kept in UTC and to the second, so that one moment has one form.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

_ISO: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?\s?(?:Z|[+-]\d{2}(?::?\d{2})?)?)?", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)


def parse_date(text: str) -> date | None:
    """The date, or the moment in UTC (a datetime), that the whole text says in ISO 8601; None if it says none."""
    # Looked at for every text of every hit's metadata: most are told apart by one character.
    if text[4:5] != "-" or _ISO.fullmatch(text) is None:
        return None
    try:
        if len(text) == 10:
            return date.fromisoformat(text)
        return utc(datetime.fromisoformat(text.replace(" ", "T", 1).replace(" ", "")))
    except (ValueError, OverflowError):  # the 31st of June
        return None


def utc(moment: datetime) -> datetime:
    """The moment in UTC, to the second; without a zone it is taken as UTC already. OverflowError beyond year 9999."""
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.replace(microsecond=0)


def date_text(value: date) -> str:
    """The date as stored and shown: 2024-05-01, or 2024-05-01T10:00:00+00:00 for a moment."""
    return value.isoformat()


def seconds_of(value: date) -> int:
    """Seconds since 1970 in UTC, by which dates and moments are put in order; a date is its first moment."""
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)
    return (moment - _EPOCH) // _SECOND


ALWAYS_TEXT: Final = frozenset({"title", "path", "file", "suffix", "kind", "doi", "arxiv"})
"""Keys of metadata under which a text is never a date, whatever it looks like."""


def typed_text(key: str, text: str) -> str | date:
    """A text under a key of metadata as its value: a date if it says one."""
    found = parse_date(text)
    return text if found is None or key in ALWAYS_TEXT else found

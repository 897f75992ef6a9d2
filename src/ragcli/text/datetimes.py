"""Dates, periods and ages as text: parsed, formatted, ordered; all in UTC."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

_ISO_8601: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?\s?(?:Z|[+-]\d{2}(?::?\d{2})?)?)?", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)


def parse_date(text: str) -> date | None:
    """The date, or the moment in UTC (a datetime), that the whole text says in ISO 8601; None if it says none."""
    # Looked at for every text of every hit's metadata: most are told apart by one character.
    if text[4:5] != "-" or _ISO_8601.fullmatch(text) is None:
        return None
    try:
        if len(text) == 10:
            return date.fromisoformat(text)
        return to_utc(datetime.fromisoformat(text.replace(" ", "T", 1).replace(" ", "")))
    except (ValueError, OverflowError):  # the 31st of June
        return None


def to_utc(moment: datetime) -> datetime:
    """The moment in UTC, to the second; without a zone it is taken as UTC already. OverflowError beyond year 9999."""
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment.replace(microsecond=0)


def date_text(value: date) -> str:
    """The date as stored and shown: 2024-05-01, or 2024-05-01T10:00:00+00:00 for a moment."""
    return value.isoformat()


def epoch_seconds(value: date) -> int:
    """Seconds since 1970 in UTC, by which dates and moments are put in order; a date is its first moment."""
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)
    return (moment - _EPOCH) // _SECOND


TEXT_ONLY_KEYS: Final = frozenset({"title", "path", "file", "suffix", "kind", "doi", "arxiv"})
"""Keys of metadata under which a text is never a date, whatever it looks like."""


def parse_metadata_text(key: str, text: str) -> str | date:
    """A text under a key of metadata as its value: a date if it says one."""
    found = parse_date(text)
    return text if found is None or key in TEXT_ONLY_KEYS else found


_MONTH: Final = re.compile(r"(\d{4})(?:-(\d{2}))?", re.ASCII)
_AGE_PATTERN: Final = re.compile(r"(\d{1,6})\s*([hdwmy])", re.ASCII)
_WITH_SECONDS: Final = re.compile(r".{10}[T ]\d{2}:\d{2}:\d{2}", re.ASCII)
_DURATION: Final = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*([hdwmy]?)", re.ASCII)
_HOURS: Final = {"h": 1, "d": 24, "w": 7 * 24}
_MONTHS: Final = {"m": 1, "y": 12}
_DAYS_OF_MONTH: Final = 365.25 / 12
_SECONDS_PER_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class Period:
    """From second `start` to before second `stop` since 1970, in UTC; `text` is how it was written."""

    text: str
    start: int
    stop: int


def parse_period(text: str) -> Period | None:
    """The time that the whole text names: 2024, 2024-05, 2024-05-01, 2024-05-01T10:00 or to the second; else None."""
    if found := _MONTH.fullmatch(text):
        return _year_or_month(text, int(found[1]), int(found[2]) if found[2] else None)
    moment = parse_date(text)
    return (
        None
        if moment is None
        else Period(text, epoch_seconds(moment), epoch_seconds(moment) + _seconds_named(text, moment))
    )


def year_period(year: float) -> Period | None:
    """The year of that number, if it is one of four digits."""
    return parse_period(str(int(year))) if 1000 <= year <= 9999 and year == int(year) else None


def period_of_date(value: date) -> Period:
    """The day, or the second, that a date or a datetime says."""
    if isinstance(value, datetime):
        value = to_utc(value)
    text = date_text(value)
    return Period(text, epoch_seconds(value), epoch_seconds(value) + _seconds_named(text, value))


def parse_age(text: str, now: datetime) -> Period | None:
    """The second so long before `now` as the text says: 12h, 90d, 6w, 6m or 2y, of which months and years are those of
    the calendar; None if it says no such thing, or a time before the year 1.
    """
    found = _AGE_PATTERN.fullmatch(text.strip().lower())
    if found is None:
        return None
    count, unit = int(found[1]), found[2]
    now = to_utc(now)
    try:
        if unit in _HOURS:
            return period_of_date(now - timedelta(hours=count * _HOURS[unit]))
        return period_of_date(_months_before(now, count * _MONTHS[unit]))
    except (ValueError, OverflowError):
        return None


def parse_days(text: str) -> float | None:
    """The days that an age has, written as for `parse_age` or as a number of days, a part of one too; months and years
    are of mean length. None if the text says no such thing.
    """
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        return None
    count, unit = float(found[1]), found[2] or "d"
    return count * _HOURS[unit] / 24 if unit in _HOURS else count * _MONTHS[unit] * _DAYS_OF_MONTH


def _months_before(now: datetime, months: int) -> datetime:
    year, month = divmod(now.year * 12 + now.month - 1 - months, 12)
    # The last day of a shorter month, where there is no such day.
    days = (_first_of_month(year, month + 1) - _first_of_month(year, month)) // _SECONDS_PER_DAY
    return now.replace(year=year, month=month + 1, day=min(now.day, days))


def _year_or_month(text: str, year: int, month: int | None) -> Period | None:
    if year < 1 or (month is not None and not 1 <= month <= 12):
        return None
    first = 0 if month is None else month - 1
    return Period(text, _first_of_month(year, first), _first_of_month(year, 12 if month is None else month))


def _first_of_month(year: int, month: int) -> int:
    """The first second of a month, counted from 0. Month 12 is the next January, also after the last year there is."""
    if month == 12:
        return epoch_seconds(date(year, 12, 31)) + _SECONDS_PER_DAY
    return epoch_seconds(date(year, month + 1, 1))


def _seconds_named(text: str, moment: date) -> int:
    if not isinstance(moment, datetime):
        return _SECONDS_PER_DAY
    return 1 if _WITH_SECONDS.match(text) else 60

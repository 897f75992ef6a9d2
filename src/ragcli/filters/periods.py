"""Stretches of time as filters name them: a year, a month, a day, a moment, or how long ago.

A date in a filter stands for all of the time it names. `date = 2024-05` is any moment of that May, `date > 2024-05`
is June or later, and `date <= 2024-05` is the end of May or before. A document's own date is one moment, the first of
its day where it has no time. All of it is UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from ragcli.dates import date_text, parse_date, seconds_of, utc

_MONTH: Final = re.compile(r"(\d{4})(?:-(\d{2}))?", re.ASCII)
_AGE: Final = re.compile(r"(\d{1,6})\s*([hdwmy])", re.ASCII)
_WITH_SECONDS: Final = re.compile(r".{10}[T ]\d{2}:\d{2}:\d{2}", re.ASCII)
_LENGTH: Final = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*([hdwmy]?)", re.ASCII)
_HOURS: Final = {"h": 1, "d": 24, "w": 7 * 24}
_MONTHS: Final = {"m": 1, "y": 12}
_DAYS_OF_MONTH: Final = 365.25 / 12
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class Period:
    """From second `start` to before second `stop` since 1970, in UTC; `text` is how it was written."""

    text: str
    start: int
    stop: int


def read_period(text: str) -> Period | None:
    """The time that the whole text names: 2024, 2024-05, 2024-05-01, 2024-05-01T10:00 or to the second; else None."""
    if found := _MONTH.fullmatch(text):
        return _year_or_month(text, int(found[1]), int(found[2]) if found[2] else None)
    moment = parse_date(text)
    return None if moment is None else Period(text, seconds_of(moment), seconds_of(moment) + _length(text, moment))


def year_period(year: float) -> Period | None:
    """The year of that number, if it is one of four digits."""
    return read_period(str(int(year))) if 1000 <= year <= 9999 and year == int(year) else None


def period_of(value: date) -> Period:
    """The day, or the second, that a date or a datetime says."""
    if isinstance(value, datetime):
        value = utc(value)
    text = date_text(value)
    return Period(text, seconds_of(value), seconds_of(value) + _length(text, value))


def read_age(text: str, now: datetime) -> Period | None:
    """The second so long before `now` as the text says: 12h, 90d, 6w, 6m or 2y, of which months and years are those of
    the calendar; None if it says no such thing, or a time before the year 1.
    """
    found = _AGE.fullmatch(text.strip().lower())
    if found is None:
        return None
    count, unit = int(found[1]), found[2]
    now = utc(now)
    try:
        if unit in _HOURS:
            return period_of(now - timedelta(hours=count * _HOURS[unit]))
        return period_of(_months_before(now, count * _MONTHS[unit]))
    except (ValueError, OverflowError):
        return None


def read_days(text: str) -> float | None:
    """The days that an age has, written as for `read_age` or as a number of days, a part of one too; months and years
    are of mean length. None if the text says no such thing.
    """
    found = _LENGTH.fullmatch(text.strip().lower())
    if found is None:
        return None
    count, unit = float(found[1]), found[2] or "d"
    return count * _HOURS[unit] / 24 if unit in _HOURS else count * _MONTHS[unit] * _DAYS_OF_MONTH


def _months_before(now: datetime, months: int) -> datetime:
    year, month = divmod(now.year * 12 + now.month - 1 - months, 12)
    # The last day of a shorter month, where there is no such day.
    days = (_first_of_month(year, month + 1) - _first_of_month(year, month)) // _DAY
    return now.replace(year=year, month=month + 1, day=min(now.day, days))


def _year_or_month(text: str, year: int, month: int | None) -> Period | None:
    if year < 1 or (month is not None and not 1 <= month <= 12):
        return None
    first = 0 if month is None else month - 1
    return Period(text, _first_of_month(year, first), _first_of_month(year, 12 if month is None else month))


def _first_of_month(year: int, month: int) -> int:
    """The first second of a month, counted from 0. Month 12 is the next January, also after the last year there is."""
    if month == 12:
        return seconds_of(date(year, 12, 31)) + _DAY
    return seconds_of(date(year, month + 1, 1))


def _length(text: str, moment: date) -> int:
    if not isinstance(moment, datetime):
        return _DAY
    return 1 if _WITH_SECONDS.match(text) else 60

"""--since and --until: conditions on when a document is from.

That is its `date`, in want of one its `year`, and in want of both the time its file was last modified. A year counts
as soon as a part of it lies between the two, because the rest is not known.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ragcli.errors import UsageError
from ragcli.filters.periods import Period, read_age, read_period
from ragcli.filters.tree import Compare, Filter, Not, all_of, any_of

_DATED = Compare("date", ">=", Period("0001-01-01", -62_135_596_800, -62_135_510_400))
_IN_A_YEAR = Compare("year", ">=", 1)


def dated(*, since: str | None = None, until: str | None = None, now: datetime | None = None) -> Filter | None:
    """Documents from `since` on and up to the end of `until`, each a date or how long before `now` (90d, 6m, 2y).

    None if neither is given. UsageError if one says no time, or they leave none between them.
    """
    if since is None and until is None:
        return None
    now = now or datetime.now(UTC)
    first = None if since is None else _read("--since", since, now)
    last = None if until is None else _read("--until", until, now)
    if first is not None and last is not None and first.start >= last.stop:
        raise UsageError(f"There is no time from {first.text} to {last.text}; --since is the earlier of the two.")
    return any_of(
        all_of(_DATED, _between("date", first, last)),
        all_of(Not(_DATED), _IN_A_YEAR, _years(first, last)),
        all_of(Not(_DATED), Not(_IN_A_YEAR), _between("modified", first, last)),
    )


def _between(key: str, first: Period | None, last: Period | None) -> Filter:
    return all_of(Compare(key, ">=", first) if first else None, Compare(key, "<=", last) if last else None)


def _years(first: Period | None, last: Period | None) -> Filter:
    return all_of(
        Compare("year", ">=", _year_of(first.start)) if first else None,
        Compare("year", "<=", _year_of(last.stop - 1)) if last else None,
    )


def _year_of(second: int) -> int:
    # Not as it is written: with a time zone, that may be another year's.
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=second)).year


def _read(option: str, text: str, now: datetime) -> Period:
    found = read_period(text.strip()) or read_age(text, now)
    if found is None:
        raise UsageError(
            f"{option} takes a date (2024, 2024-05, 2024-05-01, 2024-05-01T10:00) or an age (12h, 90d, 6w, 6m, 2y),"
            f" not '{text}'."
        )
    return found

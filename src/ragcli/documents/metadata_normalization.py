"""Normalize document metadata: canonical key names, typed values, key=value assignments."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Final

from ragcli.documents.character_repair import sanitize_text
from ragcli.errors import UsageError
from ragcli.text.datetimes import TEXT_ONLY_KEYS, parse_date, to_utc
from ragcli.text.identifiers import bare_identifier
from ragcli.types import MetadataValue

LIST_KEY_ALIASES: Final[Mapping[str, str]] = {
    "author": "author",
    "authors": "author",
    "tag": "tag",
    "tags": "tag",
    "keyword": "keywords",
    "keywords": "keywords",
}
"""Names under which there is always a list, and the one they come under."""

_IDENTIFIER_ALIASES: Final = {"doi": "doi", "arxiv": "arxiv", "arxiv_id": "arxiv", "eprint": "arxiv"}
_MONTH: Final = re.compile(r"\d{4}-\d{2}", re.ASCII)
_LONGEST_KEY: Final = 200
_LONGEST_LIST: Final = 10_000


def typed_metadata(given: Mapping[str, object]) -> dict[str, MetadataValue]:
    """Names and values as metadata; the title, which a document has apart, is left out."""
    out: dict[str, MetadataValue] = {}
    for key, value in given.items():
        own = single_line(key)[:_LONGEST_KEY]
        name = own.lower()
        if name in ("", "title") or value is None:
            continue
        if name in LIST_KEY_ALIASES:
            one = LIST_KEY_ALIASES[name]
            out[one] = [*_texts(out.get(one)), *_lines(split_list(value))]
        elif name in ("date", "year", "published") and (year := parse_year(value)) is not None:
            out["year"] = year
            if name == "date" and (day := _day(value)) is not None:
                out["date"] = day
        elif name in _IDENTIFIER_ALIASES and isinstance(value, str):
            out[_IDENTIFIER_ALIASES[name]] = bare_identifier(single_line(value))
        else:
            known = metadata_value(value, dated=name not in TEXT_ONLY_KEYS)
            if known is not None:
                out[own] = known
    return out


def metadata_value(value: object, *, dated: bool = True) -> MetadataValue | None:
    """A value as metadata can hold it; None for nothing and for a number that is none. `dated` finds dates in texts."""
    if isinstance(value, str):
        text = sanitize_text(value)[0]
        return (parse_date(text) if dated else None) or text
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else single_line(value) or None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dt.date):
        return _date(value)
    if isinstance(value, dt.time):
        return value.isoformat()
    if isinstance(value, set | frozenset):  # YAML has them; a set of texts has another order in every process
        value = sorted(value, key=single_line)
    if isinstance(value, list) and all(isinstance(item, str | int | float | dt.date) for item in value):
        return [_item(item) for item in value[:_LONGEST_LIST]]
    try:
        return None if value is None else sanitize_text(json.dumps(value, ensure_ascii=False, default=_as_json))[0]
    except (ValueError, RecursionError, TypeError):
        return None


def parse_assignments(texts: Iterable[str]) -> dict[str, MetadataValue | None]:
    """What `key=value` texts say: the value typed, None for a key that has none. A key given twice has a list.

    A value is a boolean, a number or a date if it looks like one, a list or a quoted text if it is written as JSON,
    and else a text. Raises UsageError for what is no `key=value`.
    """
    found: dict[str, list[object]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        name = single_line(key)
        if not equals or not name or len(name) > _LONGEST_KEY:
            raise UsageError(f"'{text}' is no key=value; write for example --meta team=theory.")
        found.setdefault(name, []).append(_assigned(value.strip(), text))
    out: dict[str, MetadataValue | None] = {}
    for name, values in found.items():
        if any(value is None for value in values) and len(values) > 1:
            raise UsageError(f"'{name}' is given with a value and without; give one of them.")
        if values == [None]:
            out[_canonical_key(name)] = None
            continue
        whole = values[0] if len(values) == 1 else [item for value in values for item in _spread(value)]
        out |= external_metadata({name: whole})
    return out


def external_metadata(given: Mapping[str, object]) -> dict[str, MetadataValue | None]:
    """What is said of a document from outside it: `typed_metadata` with a title, and None where null is said."""
    out: dict[str, MetadataValue | None] = dict(typed_metadata(given))
    for key, value in given.items():
        name = single_line(key)
        if name.lower() == "title" and isinstance(value, str):
            out["title"] = single_line(value) or None
        elif value is None and name:
            out[_canonical_key(name)] = None
    return out


def _canonical_key(name: str) -> str:
    return LIST_KEY_ALIASES.get(name.lower()) or _IDENTIFIER_ALIASES.get(name.lower()) or name


def syntax_error_reason(error: Exception) -> str:
    """What is wrong with text that is no YAML, TOML or JSON, for a person: nothing about Python's own limits."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if "set_int_max_str_digits" in str(error):
        return "it has a number that is too long"
    return single_line(error)[:120] or type(error).__name__


def single_line(value: object) -> str:
    """A value as one line of text; nothing for a number of thousands of digits, which Python doesn't write out."""
    try:
        return " ".join(sanitize_text(str(value))[0].split())
    except (ValueError, RecursionError):
        return ""


def _as_json(value: object) -> object:
    return sorted(map(single_line, value)) if isinstance(value, set | frozenset) else str(value)


def _item(value: object) -> str:
    """An item of a list as its text; true and false as every way to say them writes them, and not as Python does."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return sanitize_text(value)[0] if isinstance(value, str) else single_line(value)


def _day(value: object) -> dt.date | None:
    """The date that a date says; a month is its first day, and a year alone is none."""
    if isinstance(value, str):
        text = value.strip().replace("/", "-")
        value = f"{text}-01" if _MONTH.fullmatch(text) else text
    known = metadata_value(value)
    return known if isinstance(known, dt.date) else None


def _date(value: dt.date) -> MetadataValue:
    if not isinstance(value, dt.datetime):
        return value
    try:
        return to_utc(value)
    except OverflowError:
        return value.isoformat()


def _assigned(value: str, whole: str) -> object:
    if not value:
        return None
    if value[0] in '["':
        try:
            told = json.loads(value)
        except (ValueError, RecursionError):
            raise UsageError(f"'{whole}': what begins with {value[0]} is read as JSON, and this is none.") from None
        return told  # a list, or a text that is one even if it looks like a number
    if value in ("true", "false"):
        return value == "true"
    for kind in (int, float):
        try:
            number = kind(value)
        except ValueError:
            continue
        if math.isfinite(number) and not value.startswith(("+", "_")) and "_" not in value:
            return number
    return value


def _spread(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _lines(values: list[str]) -> list[str]:
    return [line for value in values if (line := single_line(value))]


def _texts(value: MetadataValue | None) -> list[str]:
    return value if isinstance(value, list) else []


def parse_year(value: object) -> int | None:
    """The year of a date as front matter and web pages write it: 2021, "2021-05-03", 20210503, a date.

    A longer number that begins like a year, as seconds since 1970 do, names none.
    """
    try:
        found = _YEAR.match(str(value))
    except ValueError:  # a number of thousands of digits
        return None
    return int(found[1]) if found is not None and 1500 <= int(found[1]) <= 2200 else None


def split_list(value: object) -> list[str]:
    """A list of names or words, given as a list or as text with commas or semicolons."""
    if isinstance(value, str):
        separator = ";" if ";" in value else ","
        return [part.strip() for part in value.split(separator) if part.strip()]
    return [text for item in (value if isinstance(value, list | tuple) else [value]) if (text := _list_item_text(item))]


def _list_item_text(item: object) -> str:
    if isinstance(item, Mapping):
        item = item.get("name")
    try:
        return "" if item is None else str(item).strip()
    except (ValueError, RecursionError):  # a number of thousands of digits
        return ""


_YEAR = re.compile(r"(\d{4})(?:(?:0[1-9]|1[0-2])(?:\d{2}(?:\d{4}|\d{6})?)?)?(?!\d)")
"""A year, alone or followed without a sign by month, day and time."""

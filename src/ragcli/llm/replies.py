"""Reading what was asked for as JSON out of what a language model wrote.

Models wrap JSON in fences, talk before and after it, think aloud, and leave a comma too many. What can be read
beyond doubt is read; the rest is `LanguageModelError`, and whoever asked goes on without the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from ragcli.errors import LanguageModelError

_THOUGHTS: Final = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_SPARE_COMMA: Final = re.compile(r",(\s*[}\]])")
_ITEM: Final = re.compile(r"^[ \t]*(?:\d{1,2}[.)]|[-*•])[ \t]+(\S.*)$", re.MULTILINE)
_LONGEST: Final = 200_000


def without_thoughts(text: str) -> str:
    """The text less the thinking that some models put before their answer."""
    return _THOUGHTS.sub("", text, count=1).strip()


def one_line(text: str) -> str:
    """What a model wrote as one line that can be sent, stored and shown: JSON lets it say halves of characters."""
    return " ".join(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").split())


def json_object(text: str) -> dict[str, Any]:
    """The first JSON object in a reply. Raises LanguageModelError when there is none."""
    for value in _values(text, "{"):
        if isinstance(value, dict):
            return value
    raise LanguageModelError(f"The language model was asked for JSON and wrote: {_shown(text)}")


def json_strings(text: str, key: str) -> list[str]:
    """The texts listed under `key` in a reply, blank ones left out.

    A bare list of texts does as well, of each entry that is an object its first text, and where there is no JSON the
    lines of a list with numbers or bullets: what small models write. Raises LanguageModelError when there is no such
    list, or nothing in it.
    """
    for opening in "{[":
        for value in _values(text, opening):
            listed = value.get(key) if isinstance(value, dict) else value
            if isinstance(listed, str):
                listed = [listed]
            if isinstance(listed, list):
                texts = [one_line(each) for each in map(_text, listed) if any(map(str.isalnum, each))]
                if texts:
                    return texts
    if "{" not in text:
        lines = (one_line(found[1]).strip("*") for found in _ITEM.finditer(without_thoughts(text[:_LONGEST])))
        if texts := [line for line in lines if any(map(str.isalnum, line))]:
            return texts
    raise LanguageModelError(f'The language model was asked for a list of "{key}" and wrote: {_shown(text)}')


def _text(entry: Any) -> str:
    if isinstance(entry, dict):
        return next((value for value in entry.values() if isinstance(value, str)), "")
    return entry if isinstance(entry, str) else ""


def _values(text: str, opening: str) -> Iterator[Any]:
    """The JSON values that begin with `opening`, in their order; what lies inside one is not looked at again."""
    text = without_thoughts(text[:_LONGEST])
    decoder = json.JSONDecoder()
    for source in dict.fromkeys((text, _SPARE_COMMA.sub(r"\1", text))):
        at = source.find(opening)
        tries = 0
        while at >= 0 and tries < 20:
            tries += 1
            try:
                value, end = decoder.raw_decode(source, at)
            except (ValueError, RecursionError):
                end = at + 1
            else:
                yield value
            at = source.find(opening, end)


def _shown(text: str) -> str:
    words = " ".join(text.split())
    return (words if len(words) <= 120 else words[:120] + "…") or "nothing."

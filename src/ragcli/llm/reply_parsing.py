"""Collect streamed replies, remove thinking, and parse the JSON they contain.

Models wrap JSON in fences, talk before and after it, think aloud, and leave a comma too many. What can be read beyond
doubt is read; the rest is `LanguageModelError`, and whoever asked goes on without the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from ragcli.errors import LanguageModelError

_TRAILING_COMMA: Final = re.compile(r",(\s*[}\]])")
_LIST_ITEM_LINE: Final = re.compile(r"^[ \t]*(?:\d{1,2}[.)]|[-*•])[ \t]+(\S.*)$", re.MULTILINE)
_MAX_PARSED_CHARS: Final = 200_000


def strip_thinking(text: str) -> str:
    """The text less the thinking that some models put before their answer; "" for a thought that never ends."""
    thinking_filter = ThinkingFilter()
    return (thinking_filter.feed(text) + thinking_filter.rest()).strip()


def fold_to_line(text: str) -> str:
    """What a model wrote as one line that can be sent, stored and shown: JSON lets it say halves of characters."""
    return " ".join(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").split())


def parse_json_object(text: str) -> dict[str, Any]:
    """The first JSON object in a reply. Raises LanguageModelError when there is none."""
    for value in _json_values(text, "{"):
        if isinstance(value, dict):
            return value
    raise LanguageModelError(f"The language model was asked for JSON and wrote: {_reply_excerpt(text)}")


def parse_string_list(text: str, key: str) -> list[str]:
    """The texts listed under `key` in a reply, blank ones left out.

    A bare list of texts does as well, of each entry that is an object its first text, and where there is no JSON the
    lines of a list with numbers or bullets: what small models write. Raises LanguageModelError when there is no such
    list, or nothing in it.
    """
    for opening in "{[":
        for value in _json_values(text, opening):
            listed = value.get(key) if isinstance(value, dict) else value
            if isinstance(listed, str):
                listed = [listed]
            if isinstance(listed, list):
                texts = [fold_to_line(each) for each in map(_entry_text, listed) if any(map(str.isalnum, each))]
                if texts:
                    return texts
    if "{" not in text:
        lines = (
            fold_to_line(found[1]).strip("*")
            for found in _LIST_ITEM_LINE.finditer(strip_thinking(text[:_MAX_PARSED_CHARS]))
        )
        if texts := [line for line in lines if any(map(str.isalnum, line))]:
            return texts
    raise LanguageModelError(f'The language model was asked for a list of "{key}" and wrote: {_reply_excerpt(text)}')


def _entry_text(entry: Any) -> str:
    if isinstance(entry, dict):
        return next((value for value in entry.values() if isinstance(value, str)), "")
    return entry if isinstance(entry, str) else ""


def _json_values(text: str, opening: str) -> Iterator[Any]:
    """The JSON values that begin with `opening`, in their order; what lies inside one is not looked at again."""
    text = strip_thinking(text[:_MAX_PARSED_CHARS])
    decoder = json.JSONDecoder()
    for source in dict.fromkeys((text, _TRAILING_COMMA.sub(r"\1", text))):
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


def _reply_excerpt(text: str) -> str:
    words = " ".join(text.split())
    return (words if len(words) <= 120 else words[:120] + "…") or "nothing."


_THINKING_TAGS: Final = ("<think>", "<thinking>")
_MAX_STREAM_CHARS: Final = 1_000_000
_MAX_TOKEN_COUNT: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer, and the tokens it took where the server said so."""

    text: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


def collect_stream(stream: Iterable[Any], on_text: Callable[[str], None]) -> Completion:
    """The whole of a streamed answer, each part told as it comes.

    Raises LanguageModelError for a stream that ends before the answer does.
    """
    thinking_filter = ThinkingFilter()
    parts: list[str] = []
    length, finished, usage = 0, False, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices[:1]:
            finished = finished or choice.finish_reason is not None
            length += len(choice.delta.content or "")
            if said := thinking_filter.feed(choice.delta.content or ""):
                parts.append(said)
                on_text(said)
        if length > _MAX_STREAM_CHARS:
            raise LanguageModelError("its answer has no end")
    if said := thinking_filter.rest():
        parts.append(said)
        on_text(said)
    if not finished:
        raise LanguageModelError("its answer broke off")
    return with_token_counts("".join(parts).strip(), usage)


def with_token_counts(text: str, usage: object) -> Completion:
    """The answer with what the server says it took; what is no number of tokens is not said."""

    def tokens(name: str) -> int | None:
        count = getattr(usage, name, None)
        return count if type(count) is int and 0 <= count <= _MAX_TOKEN_COUNT else None

    return Completion(text, tokens("prompt_tokens"), tokens("completion_tokens"))


class ThinkingFilter:
    """Takes an answer part by part, and gives it back less the thinking that some models put before it."""

    def __init__(self) -> None:
        self._held = ""
        self._begun = False

    def feed(self, text: str) -> str:
        """What can be said of the answer with this part."""
        if self._begun:
            return text
        self._held += text
        start = self._held.lstrip()
        if not any(tag.startswith(start) or start.startswith(tag) for tag in _THINKING_TAGS):
            return self._begin(self._held)
        for tag in _THINKING_TAGS:
            end = f"</{tag[1:]}"
            if start.startswith(tag) and end in start:
                after = start.split(end, 1)[1].lstrip()
                return self._begin(after) if after else ""
        return ""

    def rest(self) -> str:
        """What is left when the last part has come: nothing of a thought that never ended."""
        held, self._held = self._held, ""
        start = held.lstrip()
        return "" if self._begun or start.startswith(_THINKING_TAGS) else held

    def _begin(self, text: str) -> str:
        self._begun, self._held = True, ""
        return text

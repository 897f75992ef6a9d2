"""An answer that comes in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from ragcli.errors import LanguageModelError

_OPENING: Final = ("<think>", "<thinking>")
_LONGEST: Final = 1_000_000
_MOST_TOKENS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, and the tokens it took where the server said so."""

    text: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


def collect(stream: Iterable[Any], on_text: Callable[[str], None]) -> Reply:
    """The whole of a streamed answer, each part told as it comes.

    Raises LanguageModelError for a stream that ends before the answer does.
    """
    thoughtless = Thoughtless()
    parts: list[str] = []
    length, finished, usage = 0, False, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices[:1]:
            finished = finished or choice.finish_reason is not None
            length += len(choice.delta.content or "")
            if said := thoughtless.feed(choice.delta.content or ""):
                parts.append(said)
                on_text(said)
        if length > _LONGEST:
            raise LanguageModelError("its answer has no end")
    if said := thoughtless.rest():
        parts.append(said)
        on_text(said)
    if not finished:
        raise LanguageModelError("its answer broke off")
    return counted("".join(parts).strip(), usage)


def counted(text: str, usage: object) -> Reply:
    """The answer with what the server says it took; what is no number of tokens is not said."""

    def tokens(name: str) -> int | None:
        count = getattr(usage, name, None)
        return count if type(count) is int and 0 <= count <= _MOST_TOKENS else None

    return Reply(text, tokens("prompt_tokens"), tokens("completion_tokens"))


class Thoughtless:
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
        if not any(tag.startswith(start) or start.startswith(tag) for tag in _OPENING):
            return self._begin(self._held)
        for tag in _OPENING:
            end = f"</{tag[1:]}"
            if start.startswith(tag) and end in start:
                after = start.split(end, 1)[1].lstrip()
                return self._begin(after) if after else ""
        return ""

    def rest(self) -> str:
        """What is left when the last part has come: nothing of a thought that never ended."""
        held, self._held = self._held, ""
        start = held.lstrip()
        return "" if self._begun or start.startswith(_OPENING) else held

    def _begin(self, text: str) -> str:
        self._begun, self._held = True, ""
        return text

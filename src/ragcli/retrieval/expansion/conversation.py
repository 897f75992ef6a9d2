"""Read a conversation history (JSON, JSONL or text) for conversational query rewriting."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from ragcli.errors import InputError
from ragcli.llm.chat_model import Message

_LARGEST: Final = 1 << 20
_MOST: Final = 200
_Role = Literal["system", "user", "assistant"]
_SPEAKERS: Final[Mapping[str, _Role]] = {
    "user": "user",
    "human": "user",
    "you": "user",
    "me": "user",
    "q": "user",
    "question": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "a": "assistant",
    "answer": "assistant",
    "system": "system",
}
# A name at a line's start: plain, bold or a heading of Markdown, the colon inside the bold or after it.
_TURN: Final = re.compile(
    rf"^[ \t]*(?:#{{1,6}}[ \t]*|[-*][ \t]+)?(?:\*\*|__)?({'|'.join(_SPEAKERS)})(?:\*\*|__)?[ \t]*:(?:\*\*|__)?[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)


def read_history(file: Path) -> tuple[Message, ...]:
    """The turns of the conversation in a file, oldest first; of a long one the last 200.

    Raises InputError, which names the file and the line or turn, when it is no conversation.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(_LARGEST + 1)
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror or error}).") from error
    if len(content) > _LARGEST:
        raise InputError(f"{file}: is over a megabyte, which no conversation needs that a question leans on.")
    text = content.decode("utf-8-sig", "replace").strip()
    if text.startswith("["):
        turns = _turns(_list(file, text), lambda number: f"{file}, turn {number}")
    elif text.startswith("{"):
        turns = _turns(_lines(file, text), lambda number: f"{file}, line {number}")
    else:
        turns = _told(file, text)
    return tuple(turns[-_MOST:])


def _list(file: Path, text: str) -> Iterable[tuple[int, Any]]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: begins like a JSON list and is none ({error}).") from error
    return enumerate(value, 1)


def _lines(file: Path, text: str) -> Iterable[tuple[int, Any]]:
    # A file may also be one object with the list in it, as exports of chats are.
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        whole = None
    if isinstance(whole, dict) and isinstance(whole.get("messages"), list):
        yield from enumerate(whole["messages"], 1)
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{file}, line {number}: is no JSON ({error}).") from error


def turns_of(value: object) -> tuple[Message, ...] | None:
    """The turns in a list of objects with role and content; None where it is something else."""
    if not isinstance(value, list):
        return None
    turns = [_turn(each) for each in value]
    return None if None in turns else tuple(turn for turn in turns if turn is not None and turn.text)


def _turns(values: Iterable[tuple[int, Any]], where: Callable[[int], str]) -> list[Message]:
    turns = []
    for number, value in values:
        turn = _turn(value)
        if turn is None:
            raise InputError(
                f'{where(number)}: is no turn of a conversation, which is {{"role": "user", "content": "…"}} '
                "with the role user or assistant."
            )
        if turn.text:
            turns.append(turn)
    return turns


def _turn(value: object) -> Message | None:
    role, said = (value.get("role"), value.get("content")) if isinstance(value, dict) else (None, None)
    speaker = _SPEAKERS.get(role.lower()) if isinstance(role, str) else None
    if isinstance(said, list):  # parts, of which a text is one kind
        said = "\n".join(part["text"] for part in said if isinstance(part, dict) and isinstance(part.get("text"), str))
    return Message(speaker, said.strip()) if speaker is not None and isinstance(said, str) else None


def _told(file: Path, text: str) -> list[Message]:
    marks = list(_TURN.finditer(text))
    if not marks and text:
        raise InputError(
            f"{file}: is no conversation: write it as a JSON list or JSON lines of role and content, or as text "
            "with `user:` and `assistant:` at the start of each turn."
        )
    turns = []
    ends = [*(mark.start() for mark in marks), len(text)][1:]
    for mark, end in zip(marks, ends, strict=True):
        said = text[mark.end() : end].strip()
        if said:
            turns.append(Message(_SPEAKERS[mark[1].lower()], said))
    return turns

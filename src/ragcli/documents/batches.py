"""The lines of a JSONL stream in batches, as large as a reader takes them at once.

A stream gives what it has, so that a record that comes through a pipe is taken in when it comes and not when many
have. No line is ever held that is longer than one may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from ragcli.documents.limits import LONGEST_LINE

_BYTES: Final = 1 << 20
_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines that follow one another; `first` is the first one's number, from 1."""

    first: int
    lines: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Overlong:
    """A line that was passed over, and how many bytes it has."""

    number: int
    size: int


@runtime_checkable
class Stream(Protocol):
    """Bytes as they come: `read1` gives some as soon as there are any, none at the end."""

    def read1(self, size: int, /) -> bytes: ...


def batches(lines: Iterable[bytes] | Stream) -> Iterator[Batch | Overlong]:
    """All lines in order. What can be read as a stream is; else each item is a line."""
    pieces = _of_stream(lines) if isinstance(lines, Stream) else _of_lines(lines)
    number = 1
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        if waiting and (not isinstance(piece, bytes) or len(waiting) == _MOST or size + len(piece) > _BYTES):
            yield Batch(number, tuple(waiting))
            number += len(waiting)
            waiting, size = [], 0
        if isinstance(piece, bytes):
            waiting.append(piece)
            size += len(piece)
        elif piece is not None:
            yield Overlong(number, piece)
            number += 1
    if waiting:
        yield Batch(number, tuple(waiting))


_Piece = bytes | int | None
"""A line; or the size of one that is too long; or None where more has to be waited for."""


def _of_lines(lines: Iterable[bytes]) -> Iterator[_Piece]:
    for line in lines:
        yield line if len(line) <= LONGEST_LINE else len(line)


def _of_stream(stream: Stream) -> Iterator[_Piece]:
    parts: list[bytes] = []
    size = 0
    while block := stream.read1(_BYTES):
        start = 0
        while (end := block.find(b"\n", start) + 1) > 0:
            size += end - start
            if size <= LONGEST_LINE:
                yield b"".join((*parts, block[start:end]))
            else:
                yield size
            parts, size, start = [], 0, end
        size += len(block) - start
        if size <= LONGEST_LINE:
            parts.append(block[start:])
        else:
            parts = []
        yield None
    if size:
        yield b"".join(parts) if size <= LONGEST_LINE else size

"""Parse JSONL corpora, one document a line (as BEIR has them), in batches of lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from ragcli.documents.character_repair import sanitize_text
from ragcli.documents.metadata_normalization import syntax_error_reason, typed_metadata
from ragcli.documents.parse_options import MAX_LINE_BYTES, apply_size_limits
from ragcli.errors import DocumentError
from ragcli.types import Document, Failure, MetadataValue

_BATCH_BYTES: Final = 1 << 20
_BATCH_LINES: Final = 1000


@dataclass(frozen=True, slots=True)
class LineBatch:
    """Lines that follow one another; `first` is the first one's number, from 1."""

    first: int
    lines: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class OversizedLine:
    """A line that was passed over, and how many bytes it has."""

    number: int
    size: int


@runtime_checkable
class ByteStream(Protocol):
    """Bytes as they come: `read1` gives some as soon as there are any, none at the end."""

    def read1(self, size: int, /) -> bytes: ...


def line_batches(lines: Iterable[bytes] | ByteStream) -> Iterator[LineBatch | OversizedLine]:
    """All lines in order. What can be read as a stream is; else each item is a line."""
    pieces = _of_stream(lines) if isinstance(lines, ByteStream) else _of_lines(lines)
    number = 1
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        if waiting and (
            not isinstance(piece, bytes) or len(waiting) == _BATCH_LINES or size + len(piece) > _BATCH_BYTES
        ):
            yield LineBatch(number, tuple(waiting))
            number += len(waiting)
            waiting, size = [], 0
        if isinstance(piece, bytes):
            waiting.append(piece)
            size += len(piece)
        elif piece is not None:
            yield OversizedLine(number, piece)
            number += 1
    if waiting:
        yield LineBatch(number, tuple(waiting))


_LineOrSize = bytes | int | None
"""A line; or the size of one that is too long; or None where more has to be waited for."""


def _of_lines(lines: Iterable[bytes]) -> Iterator[_LineOrSize]:
    for line in lines:
        yield line if len(line) <= MAX_LINE_BYTES else len(line)


def _of_stream(stream: ByteStream) -> Iterator[_LineOrSize]:
    parts: list[bytes] = []
    size = 0
    while block := stream.read1(_BATCH_BYTES):
        start = 0
        while (end := block.find(b"\n", start) + 1) > 0:
            size += end - start
            if size <= MAX_LINE_BYTES:
                yield b"".join((*parts, block[start:end]))
            else:
                yield size
            parts, size, start = [], 0, end
        size += len(block) - start
        if size <= MAX_LINE_BYTES:
            parts.append(block[start:])
        else:
            parts = []
        yield None
    if size:
        yield b"".join(parts) if size <= MAX_LINE_BYTES else size


_RESERVED_KEYS = frozenset({"id", "_id", "text", "title", "metadata"})


def read_jsonl(lines: Iterable[bytes], name: str) -> Iterator[Document | Failure]:
    """Each line's document, or a Failure naming `name` and the line's number, from 1. Blank lines are nothing.

    A line is an object with `text`, and maybe `id` or `_id`, `title`, and whatever else, which becomes metadata. A
    record without an id gets "NAME:LINE". The document's text is the title, a blank line, and the text.
    """
    for _, item in parse_numbered_lines(lines, name, 1):
        yield item


def parse_numbered_lines(lines: Iterable[bytes], name: str, first: int) -> Iterator[tuple[int, Document | Failure]]:
    """The same with each line's number; `first` is that of the first line given."""
    for number, line in enumerate(lines, start=first):
        if number == 1 and line.startswith(b"\xef\xbb\xbf"):
            line = line[3:]
        if line.strip():
            yield number, _document(line, name, number)


def _document(line: bytes, name: str, number: int) -> Document | Failure:
    where = f"{name}:{number}"
    try:
        record = json.loads(line.decode("utf-8").rstrip(" \t\r\n"))
    except UnicodeDecodeError as error:
        return Failure(where, f"{name}, line {number}: byte {error.start + 1} is not UTF-8.")
    except (ValueError, RecursionError) as error:
        return Failure(where, f"{name}, line {number} cannot be read as JSON: {syntax_error_reason(error)}.")
    if not isinstance(record, dict):
        return Failure(where, f"{name}, line {number} is not a JSON object.")
    text, title = record.get("text"), record.get("title")
    if text is None and not title:
        return Failure(where, f'{name}, line {number} has no "text".')
    if not isinstance(text, str | None) or not isinstance(title, str | None):
        return Failure(where, f'{name}, line {number}: "text" and "title" must be strings.')
    clean_title = " ".join(sanitize_text(title or "")[0].split())
    whole, joins = sanitize_text(f"{clean_title}\n\n{text or ''}" if clean_title else text or "")
    if not whole.strip():
        return Failure(where, f"{name}, line {number} has no text.")
    document = Document(
        text=whole.rstrip() if not text else whole,
        kind="jsonl",
        record_id=_record_id(record, where),
        title=clean_title or None,
        metadata=_record_metadata(record),
        joins=joins,
    )
    try:
        return apply_size_limits(document, f"{name}, line {number}")
    except DocumentError as error:
        return Failure(where, str(error))


def _record_id(record: Mapping[str, object], otherwise: str) -> str:
    for key in ("id", "_id"):
        value = record.get(key)
        if isinstance(value, str) and value.strip():
            return sanitize_text(value)[0]
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return otherwise


def _record_metadata(record: Mapping[str, object]) -> Mapping[str, MetadataValue]:
    """The record's other fields; those of an inner "metadata" object count as the record's own."""
    inner = record.get("metadata")
    fields: dict[str, object] = dict(inner) if isinstance(inner, dict) else {}
    if inner is not None and not isinstance(inner, dict):
        fields["metadata"] = inner
    fields.update({key: value for key, value in record.items() if key not in _RESERVED_KEYS})
    return typed_metadata(fields)

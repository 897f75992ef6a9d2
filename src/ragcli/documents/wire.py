"""What goes between a process and its readers: a header and a body in JSON, each with its length before it.

JSON, because a reader may have been taken over by the document it reads. It can then lie about a text, but it can't
make the process that takes its answer run anything.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import IO, Any, Final

from ragcli.dates import date_text, typed_text
from ragcli.records import Document, Failure, Heading, MetadataValue, PageSpan

_LENGTHS: Final = struct.Struct("<QQ")
Header = Mapping[str, Any]


class TooLargeError(Exception):
    """What arrives is larger than it may be."""


def write_frame(stream: IO[bytes], header: Header, body: bytes = b"") -> None:
    """Send one request or answer."""
    head = json.dumps(header).encode("ascii")
    stream.write(_LENGTHS.pack(len(head), len(body)) + head)
    stream.write(body)
    stream.flush()


def read_frame(stream: IO[bytes], most: int) -> tuple[Header, bytes] | None:
    """The next request or answer, None at the stream's end. Raises TooLargeError for more than `most` bytes."""
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    head, body = _LENGTHS.unpack(lengths)
    if head + body > most:
        raise TooLargeError
    header, content = stream.read(head), stream.read(body)
    if len(header) < head or len(content) < body:
        return None
    return json.loads(header), content


def packed(items: Iterable[Document | Failure]) -> bytes:
    """Documents and failures as the body of an answer."""
    fields = [_fields(item) for item in items]
    return json.dumps(fields, ensure_ascii=False, default=_dated).encode("utf-8", "surrogatepass")


def unpacked(body: bytes) -> list[Document | Failure]:
    """The documents and failures in an answer."""
    return [_item(fields) for fields in json.loads(body.decode("utf-8", "surrogatepass"))]


def _dated(value: object) -> str:
    if isinstance(value, date):
        return date_text(value)
    raise TypeError


def _typed(metadata: Mapping[str, Any]) -> dict[str, MetadataValue]:
    return {key: typed_text(key, value) if isinstance(value, str) else value for key, value in metadata.items()}


def _fields(item: Document | Failure) -> Sequence[Any]:
    if isinstance(item, Failure):
        return (item.source, item.reason)
    return (
        item.text,
        item.kind,
        item.record_id,
        item.title,
        dict(item.metadata),
        [(page.number, page.label, page.start, page.end) for page in item.pages],
        [(heading.level, heading.title, heading.start) for heading in item.headings],
        item.joins,
        item.spans,
        item.warnings,
    )


def _item(fields: Sequence[Any]) -> Document | Failure:
    if len(fields) == 2:
        return Failure(*fields)
    text, kind, record_id, title, metadata, pages, headings, joins, spans, warnings = fields
    return Document(
        text=text,
        kind=kind,
        record_id=record_id,
        title=title,
        metadata=_typed(metadata),
        pages=tuple(PageSpan(*page) for page in pages),
        headings=tuple(Heading(*heading) for heading in headings),
        joins=tuple(joins),
        spans=tuple((start, end) for start, end in spans),
        warnings=tuple(warnings),
    )

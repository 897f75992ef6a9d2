"""Frames between the pool and its processes: length-prefixed header and body in JSON."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import date
from typing import IO, Any, Final

from ragcli.text.datetimes import date_text, parse_metadata_text
from ragcli.types import Document, Failure, Heading, MetadataValue, PageSpan

_FRAME_PREFIX: Final = struct.Struct("<QQ")
FrameHeader = Mapping[str, Any]


class FrameTooLargeError(Exception):
    """What arrives is larger than it may be."""


def write_frame(stream: IO[bytes], header: FrameHeader, body: bytes = b"") -> None:
    """Send one request or answer."""
    head = json.dumps(header).encode("ascii")
    stream.write(_FRAME_PREFIX.pack(len(head), len(body)) + head)
    stream.write(body)
    stream.flush()


def read_frame(stream: IO[bytes], most: int) -> tuple[FrameHeader, bytes] | None:
    """The next request or answer, None at the stream's end. Raises FrameTooLargeError for more than `most` bytes."""
    lengths = stream.read(_FRAME_PREFIX.size)
    if len(lengths) < _FRAME_PREFIX.size:
        return None
    head, body = _FRAME_PREFIX.unpack(lengths)
    if head + body > most:
        raise FrameTooLargeError
    header, content = stream.read(head), stream.read(body)
    if len(header) < head or len(content) < body:
        return None
    return json.loads(header), content


def encode_documents(items: Iterable[Document | Failure]) -> bytes:
    """Documents and failures as the body of an answer."""
    values = [_field_values(item) for item in items]
    return json.dumps(values, ensure_ascii=False, default=_json_default).encode("utf-8", "surrogatepass")


def decode_documents(body: bytes) -> list[Document | Failure]:
    """The documents and failures in an answer."""
    return [_document_or_failure(values) for values in json.loads(body.decode("utf-8", "surrogatepass"))]


def _field_values(item: Document | Failure | PageSpan | Heading) -> list[Any]:
    return [getattr(item, each.name) for each in fields(item)]


def _json_default(value: object) -> Any:
    if isinstance(value, date):
        return date_text(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, PageSpan | Heading):
        return _field_values(value)
    raise TypeError


def _typed_values(metadata: Mapping[str, Any]) -> dict[str, MetadataValue]:
    return {
        key: parse_metadata_text(key, value) if isinstance(value, str) else value for key, value in metadata.items()
    }


def _document_or_failure(values: Sequence[Any]) -> Document | Failure:
    if len(values) == 2:
        return Failure(*values)
    text, kind, record_id, title, metadata, pages, headings, joins, spans, warnings = values
    return Document(
        text=text,
        kind=kind,
        record_id=record_id,
        title=title,
        metadata=_typed_values(metadata),
        pages=tuple(PageSpan(*page) for page in pages),
        headings=tuple(Heading(*heading) for heading in headings),
        joins=tuple(joins),
        spans=tuple((start, end) for start, end in spans),
        warnings=tuple(warnings),
    )

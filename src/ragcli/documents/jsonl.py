"""JSONL corpora: one document a line, as BEIR and its like give them.

A corpus can be larger than memory, so lines are read as they are needed. One bad line says where it is and why, and
costs nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

from ragcli.documents.characters import plain
from ragcli.documents.limits import within_limits
from ragcli.documents.metadata import typed_metadata, unreadable
from ragcli.errors import DocumentError
from ragcli.records import Document, Failure, MetadataValue

_OWN = frozenset({"id", "_id", "text", "title", "metadata"})


def read_jsonl(lines: Iterable[bytes], name: str) -> Iterator[Document | Failure]:
    """Each line's document, or a Failure naming `name` and the line's number, from 1. Blank lines are nothing.

    A line is an object with `text`, and maybe `id` or `_id`, `title`, and whatever else, which becomes metadata. A
    record without an id gets "NAME:LINE". The document's text is the title, a blank line, and the text.
    """
    for _, item in numbered_records(lines, name, 1):
        yield item


def numbered_records(lines: Iterable[bytes], name: str, first: int) -> Iterator[tuple[int, Document | Failure]]:
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
        return Failure(where, f"{name}, line {number} cannot be read as JSON: {unreadable(error)}.")
    if not isinstance(record, dict):
        return Failure(where, f"{name}, line {number} is not a JSON object.")
    text, title = record.get("text"), record.get("title")
    if text is None and not title:
        return Failure(where, f'{name}, line {number} has no "text".')
    if not isinstance(text, str | None) or not isinstance(title, str | None):
        return Failure(where, f'{name}, line {number}: "text" and "title" must be strings.')
    clean_title = " ".join(plain(title or "")[0].split())
    whole, joins = plain(f"{clean_title}\n\n{text or ''}" if clean_title else text or "")
    if not whole.strip():
        return Failure(where, f"{name}, line {number} has no text.")
    document = Document(
        text=whole.rstrip() if not text else whole,
        kind="jsonl",
        record_id=_identity(record, where),
        title=clean_title or None,
        metadata=_metadata(record),
        joins=joins,
    )
    try:
        return within_limits(document, f"{name}, line {number}")
    except DocumentError as error:
        return Failure(where, str(error))


def _identity(record: Mapping[str, object], otherwise: str) -> str:
    for key in ("id", "_id"):
        value = record.get(key)
        if isinstance(value, str) and value.strip():
            return plain(value)[0]
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return otherwise


def _metadata(record: Mapping[str, object]) -> Mapping[str, MetadataValue]:
    """The record's other fields; those of an inner "metadata" object count as the record's own."""
    inner = record.get("metadata")
    fields: dict[str, object] = dict(inner) if isinstance(inner, dict) else {}
    if inner is not None and not isinstance(inner, dict):
        fields["metadata"] = inner
    fields.update({key: value for key, value in record.items() if key not in _OWN})
    return typed_metadata(fields)

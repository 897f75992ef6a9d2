"""A document's text and layout in the store and back.

Texts are kept in pieces of `PIECE` characters. A chunk reads the pieces it touches and slices; a whole document
is its pieces in order. SQLite's text is UTF-8, which has no lone surrogates: each becomes U+FFFD on the way in,
one character for one, so every offset stays right.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ragcli.collection.schema import PIECE
from ragcli.collection.seals import frame_seal, text_seal
from ragcli.errors import CollectionError
from ragcli.records import Document, Heading, PageSpan

_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with lone surrogates replaced, of the same length."""
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def write_text(connection: sqlite3.Connection, number: int, document: Document) -> None:
    """Store text, layout and squeezed form of document `number`. The text must be clean."""
    from ragcli.index.folding import squeeze

    text = document.text
    connection.executemany(
        "INSERT INTO pieces (document, piece, text) VALUES (?, ?, ?)",
        ((number, at // PIECE, text[at : at + PIECE]) for at in range(0, len(text), PIECE)),
    )
    connection.execute("INSERT INTO squeezed (document, text) VALUES (?, ?)", (number, squeeze(text)))
    layout = encode_layout(document)
    connection.execute(
        "INSERT INTO layouts (document, pages, headings, spans, joins, seal, frame) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (number, *layout, text_seal(text), frame_seal(number, *layout)),
    )


def checked_text(connection: sqlite3.Connection, number: int, seal: bytes) -> str:
    """The whole text of a document. CollectionError if it is not what was stored."""
    text = read_text(connection, number)
    if text_seal(text) != seal:
        raise CollectionError(f"The text of document {number} is damaged; `ragcli collections verify` says more.")
    return text


def check_frame(number: int, layout: tuple[str, str, str, bytes], frame: bytes) -> None:
    """CollectionError if a document's pages, headings, spans and joins are not what was stored."""
    if frame_seal(number, *layout) != frame:
        raise CollectionError(f"The pages of document {number} are damaged; `ragcli collections verify` says more.")


def encode_layout(document: Document) -> tuple[str, str, str, bytes]:
    """Pages, headings, spans as JSON and joins as little-endian 32-bit integers."""
    pages = [[page.number, clean_or_none(page.label), page.start, page.end] for page in document.pages]
    headings = [[heading.level, clean(heading.title), heading.start] for heading in document.headings]
    return to_json(pages), to_json(headings), to_json(document.spans), pack_integers(document.joins)


def read_text(connection: sqlite3.Connection, number: int) -> str:
    """The whole text of a document."""
    rows = connection.execute("SELECT text FROM pieces WHERE document = ? ORDER BY piece", (number,))
    return "".join(text for (text,) in rows)


def read_slice(connection: sqlite3.Connection, number: int, start: int, stop: int) -> str:
    """Characters `start` to `stop` of a document's text."""
    first = start // PIECE
    rows = connection.execute(
        "SELECT text FROM pieces WHERE document = ? AND piece BETWEEN ? AND ? ORDER BY piece",
        (number, first, max(start, stop - 1) // PIECE),
    )
    return "".join(text for (text,) in rows)[start - first * PIECE : stop - first * PIECE]


def read_document(connection: sqlite3.Connection, number: int) -> Document:
    """The document as its reader gave it, without parsing its file again. CollectionError if it is damaged."""
    row = connection.execute(
        "SELECT d.kind, d.record_id, d.title, d.layers, d.warnings, l.pages, l.headings, l.spans, l.joins, l.seal,"
        " l.frame FROM documents d JOIN layouts l ON l.document = d.number WHERE d.number = ?",
        (number,),
    ).fetchone()
    if row is None:
        raise CollectionError(f"Document {number} is missing from the store; `ragcli collections verify` says more.")
    kind, record_id, title, layers, warnings, pages, headings, spans, joins, seal, frame = row
    check_frame(number, (pages, headings, spans, joins), frame)
    from ragcli.collection.metadata import decode_layers

    try:
        return Document(
            text=checked_text(connection, number, seal),
            kind=kind,
            record_id=record_id,
            title=title,
            metadata=decode_layers(layers).read,
            pages=decode_pages(pages),
            headings=tuple(Heading(*heading) for heading in json.loads(headings)),
            joins=unpack_integers(joins),
            spans=tuple((start, end) for start, end in json.loads(spans)),
            warnings=tuple(json.loads(warnings)),
        )
    except (ValueError, TypeError) as error:
        raise CollectionError(f"Document {number} is damaged in the store ({error}).") from error


def decode_pages(text: str) -> tuple[PageSpan, ...]:
    """Pages from their stored form."""
    return tuple(PageSpan(*page) for page in json.loads(text))


def pack_integers(values: Iterable[int]) -> bytes:
    """Unsigned 32-bit integers, little-endian. No numpy: exact search reads them."""
    packed = array("I", values)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def unpack_integers(data: bytes) -> tuple[int, ...]:
    """Inverse of `pack_integers`."""
    unpacked = array("I")
    unpacked.frombytes(data)
    if sys.byteorder == "big":
        unpacked.byteswap()
    return tuple(unpacked)


def to_json(value: Sequence[Any] | dict[str, Any]) -> str:
    """Compact JSON; equal values give equal text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def clean_or_none(text: str | None) -> str | None:
    """`clean` for what may be missing."""
    return None if text is None else clean(text)

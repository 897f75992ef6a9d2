"""Document texts and page layouts in the store: fixed-length text pieces, slices, pages.

Texts are kept in pieces of fixed length; a chunk reads the pieces it touches and slices. SQLite's text is UTF-8,
which has no lone surrogates: each becomes U+FFFD on the way in, one character for one, so every offset stays right.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ragcli.collection.store.row_hash import check_row, hash_row, hash_text
from ragcli.collection.store.schema import TEXT_PIECE_CHARACTERS
from ragcli.errors import CollectionError
from ragcli.text.characters import replace_surrogates
from ragcli.types import Document, PageSpan


def write_text(connection: sqlite3.Connection, number: int, document: Document) -> None:
    """Store text, layout and folded text of document `number`. The text must be clean."""
    from ragcli.text.text_folding import squeeze

    text = document.text
    connection.executemany(
        "INSERT INTO text_pieces (document, piece, text) VALUES (?, ?, ?)",
        (
            (number, at // TEXT_PIECE_CHARACTERS, text[at : at + TEXT_PIECE_CHARACTERS])
            for at in range(0, len(text), TEXT_PIECE_CHARACTERS)
        ),
    )
    folded = (number, squeeze(text))
    connection.execute(
        "INSERT INTO folded_text (document, text, row_hash) VALUES (?, ?, ?)", (*folded, hash_row(folded))
    )
    layout = (number, *encode_layout(document), hash_text(text))
    connection.execute(
        "INSERT INTO layouts (document, pages, headings, spans, joins, text_hash, row_hash)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*layout, hash_row(layout)),
    )


def verified_text(connection: sqlite3.Connection, number: int, text_hash: bytes) -> str:
    """The whole text of a document. CollectionError if it is not what was stored."""
    text = read_text(connection, number)
    if hash_text(text) != text_hash:
        raise CollectionError(f"The text of document {number} is damaged; `ragcli collections verify` says more.")
    return text


LAYOUT_COLUMNS: Final = "l.pages, l.headings, l.spans, l.joins, l.text_hash, l.row_hash"


def check_layout(number: int, layout: Sequence[Any]) -> None:
    """CollectionError if what the columns of `LAYOUT_COLUMNS` hold of a document is not what was stored."""
    *columns, row_hash = layout
    check_row((number, *columns), row_hash, f"The layout of document {number}")


def encode_layout(document: Document) -> tuple[str, str, str, bytes]:
    """Pages, headings, spans as JSON and joins as little-endian 32-bit integers."""
    pages = [[page.number, replace_surrogates_or_none(page.label), page.start, page.end] for page in document.pages]
    headings = [[heading.level, replace_surrogates(heading.title), heading.start] for heading in document.headings]
    return to_json(pages), to_json(headings), to_json(document.spans), pack_integers(document.joins)


def read_text(connection: sqlite3.Connection, number: int) -> str:
    """The whole text of a document."""
    rows = connection.execute("SELECT text FROM text_pieces WHERE document = ? ORDER BY piece", (number,))
    return "".join(text for (text,) in rows)


def read_slice(connection: sqlite3.Connection, number: int, start: int, stop: int) -> str:
    """Characters `start` to `stop` of a document's text."""
    first = start // TEXT_PIECE_CHARACTERS
    rows = connection.execute(
        "SELECT text FROM text_pieces WHERE document = ? AND piece BETWEEN ? AND ? ORDER BY piece",
        (number, first, max(start, stop - 1) // TEXT_PIECE_CHARACTERS),
    )
    return "".join(text for (text,) in rows)[
        start - first * TEXT_PIECE_CHARACTERS : stop - first * TEXT_PIECE_CHARACTERS
    ]


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


def replace_surrogates_or_none(text: str | None) -> str | None:
    """`replace_surrogates` for what may be missing."""
    return None if text is None else replace_surrogates(text)


def document_pages(connection: sqlite3.Connection, document_id: str) -> tuple[PageSpan, ...]:
    """Where the pages of a document stand in its text; none for an unknown document. CollectionError if damaged."""
    row = connection.execute(
        f"SELECT d.number, {LAYOUT_COLUMNS}"  # noqa: S608
        " FROM documents d JOIN layouts l ON l.document = d.number WHERE d.id = ?",
        (document_id,),
    ).fetchone()
    if row is None:
        return ()
    number, *layout = row
    check_layout(number, layout)
    return decode_pages(layout[0])

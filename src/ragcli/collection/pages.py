"""Which page of its document a place in a chunk is on; a chunk itself only knows its first and its last."""

from __future__ import annotations

import sqlite3

from ragcli.collection.texts import check_frame, decode_pages
from ragcli.records import PageSpan


def document_pages(connection: sqlite3.Connection, document_id: str) -> tuple[PageSpan, ...]:
    """Where the pages of a document stand in its text; none for an unknown document. CollectionError if damaged."""
    row = connection.execute(
        "SELECT d.number, l.pages, l.headings, l.spans, l.joins, l.frame"
        " FROM documents d JOIN layouts l ON l.document = d.number WHERE d.id = ?",
        (document_id,),
    ).fetchone()
    if row is None:
        return ()
    number, pages, headings, spans, joins, frame = row
    check_frame(number, (pages, headings, spans, joins), frame)
    return decode_pages(pages)

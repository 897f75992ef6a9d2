"""How much one document may be: what no reader may give more of, whatever the document makes it do.

Time and memory are limited in the worker processes (see `reader`). These are the limits on what comes out: a text
that is unpacked from a small file can be as large as the machine, and a heading of a million characters would stand
before each of a thousand chunks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ragcli.errors import DocumentError
from ragcli.records import Document, Heading

LONGEST_TEXT: Final = 64_000_000
"""Characters in a document's text: some 25,000 printed pages."""
LONGEST_LINE: Final = 64 << 20
"""Bytes in a line of a JSONL file."""
LARGEST_ANSWER: Final = 1 << 30
"""Bytes that a worker process may answer with."""
LONGEST_TITLE: Final = 300
"""Characters of a title or heading; the text keeps all of it."""


def within_limits(document: Document, name: str) -> Document:
    """The document, its title and headings cut to a length that can stand before a passage.

    Raises DocumentError if its text is longer than any document's.
    """
    if len(document.text) > LONGEST_TEXT:
        raise DocumentError(
            f"{name} has {len(document.text):,} characters of text, and one document may have {LONGEST_TEXT:,}; "
            "split it."
        )
    if len(document.title or "") > LONGEST_TITLE:
        document = replace(document, title=_cut(document.title or ""))
    if any(len(heading.title) > LONGEST_TITLE for heading in document.headings):
        headings = (Heading(each.level, _cut(each.title), each.start) for each in document.headings)
        document = replace(document, headings=tuple(headings))
    return document


def _cut(title: str) -> str:
    return title if len(title) <= LONGEST_TITLE else f"{title[: LONGEST_TITLE - 1]}…"

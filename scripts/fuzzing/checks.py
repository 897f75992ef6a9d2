"""What every reader promises of every document, whatever bytes it was given.

"No exception" is the least of it: an offset beyond the text, headings out of order or half a surrogate pair do their
damage much later, in a chunk, a page number or a JSON file. So the promises are written down here, once, for the
fuzzer and for the tests that keep its findings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import date
from itertools import pairwise

from ragcli.documents import chunk_document
from ragcli.text.datetimes import date_text, parse_date
from ragcli.text.text_folding import fold
from ragcli.text.unicode import MAX_GRAPHEME_LENGTH
from ragcli.types import Document

_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST_FOLDED = 3_000
_LONGEST_TWICE = 500
_SIZES = ((1200, 200), (60, 12))


class Broken(AssertionError):
    """A promise that was not kept. Its text names the promise and not the input: so findings can be told apart."""


def holds(kept: object, promise: str) -> None:
    """Raises Broken with the promise unless it was kept."""
    if not kept:
        raise Broken(promise)


def check_words(text: str, what: str) -> None:
    """Text that can be stored and printed: Unicode without halves of characters, and without NUL."""
    holds(_SURROGATE.search(text) is None, f"{what} has no lone surrogate")
    holds("\x00" not in text, f"{what} has no NUL")


def check_document(document: Document) -> None:
    """Raises Broken for what no reader may give."""
    text, size = document.text, len(document.text)
    check_words(text, "the text")
    holds("\r" not in text, "line ends are \\n")
    holds(document.title is None or document.title.strip(), "a title has words or is None")
    for what, words in (("the title", document.title), ("the record's id", document.record_id)):
        if words is not None:
            check_words(words, what)
    for warning in document.warnings:
        check_words(warning, "a warning")
    holds(_ascending(document.joins), "joins ascend")
    holds(all(0 <= join < size for join in document.joins), "joins lie in the text")
    starts = [heading.start for heading in document.headings]
    holds(starts == sorted(starts), "headings stand in the order of the text")
    holds(all(0 <= start < max(size, 1) for start in starts), "headings lie in the text")
    for heading in document.headings:
        check_words(heading.title, "a heading")
        holds(heading.level >= 1, "a heading's level counts from 1")
        holds(heading.title.strip() and "\n" not in heading.title, "a heading is one line of words")
    for start, end in document.spans:
        holds(0 <= start <= end <= size, "spans lie in the text")
    holds(all(before[1] <= after[0] for before, after in pairwise(document.spans)), "spans follow one another")
    _check_pages(document)
    _check_metadata(document)
    check_chunks(document)
    if size <= _LONGEST_FOLDED:
        fold(text, document.joins)


def check_chunks(document: Document, sizes: Sequence[tuple[int, int]] = _SIZES) -> None:
    """Raises Broken unless chunks of the document cover it in order, are small enough, and never differ."""
    text = document.text
    for size, overlap in sizes:
        chunks = chunk_document(document, size=size, overlap=overlap)
        if len(text) <= _LONGEST_TWICE:
            holds(chunks == chunk_document(document, size=size, overlap=overlap), "chunks are the same every time")
        if not text.strip():
            holds(chunks == (), "a blank text has no chunks")
            continue
        holds(chunks[0].start == 0 and chunks[-1].end == len(text), "chunks reach from end to end")
        holds([chunk.ordinal for chunk in chunks] == list(range(len(chunks))), "chunks are numbered in order")
        for before, after in pairwise(chunks):
            holds(before.start < after.start <= before.end < after.end, "chunks follow one another without a hole")
            holds(before.end - after.start <= overlap, "chunks overlap by no more than they may")
        for chunk in chunks:
            passage = text[chunk.start : chunk.end].strip()
            holds(passage, "no chunk is blank")
            holds(len(passage) <= size + MAX_GRAPHEME_LENGTH, "chunks are small enough")
            if document.pages:
                holds(chunk.page_start is not None and chunk.page_end is not None, "a chunk knows its pages")
                holds(
                    1 <= (chunk.page_start or 0) <= (chunk.page_end or 0) <= len(document.pages),
                    "a chunk's pages are the document's",
                )


def _check_pages(document: Document) -> None:
    pages = document.pages
    if not pages:
        holds(document.kind != "pdf", "a PDF has pages")
        return
    holds([page.number for page in pages] == list(range(1, len(pages) + 1)), "pages are numbered from 1")
    holds(pages[0].start == 0 and pages[-1].end == len(document.text), "pages reach from end to end")
    holds(all(page.start <= page.end for page in pages), "a page ends after it starts")
    holds(all(before.end == after.start for before, after in pairwise(pages)), "pages follow without a hole")
    for page in pages:
        if page.label is not None:
            check_words(page.label, "a page's label")


def _check_metadata(document: Document) -> None:
    for key, value in document.metadata.items():
        check_words(key, "a metadata key")
        items = value if isinstance(value, list) else [value]
        holds(all(isinstance(item, str | int | float | date) for item in items), "metadata has plain values")
        holds(not isinstance(value, list) or all(isinstance(item, str) for item in value), "metadata lists hold text")
        for item in items:
            if isinstance(item, str):
                check_words(item, "a metadata value")
            elif isinstance(item, date):
                holds(parse_date(date_text(item)) == item, "a date is the one that its text says")
            elif not isinstance(item, float):
                holds(abs(item) < 1 << 63, "numbers fit a database")
    try:
        json.dumps(dict(document.metadata), allow_nan=False, default=date_text)
    except (AttributeError, TypeError, ValueError):
        raise Broken("metadata can be written as JSON") from None


def _ascending(places: Sequence[int]) -> bool:
    return all(before < after for before, after in pairwise(places))

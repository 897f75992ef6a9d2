"""Cut a document into overlapping chunks at section, paragraph, sentence or word boundaries."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Literal

from ragcli.errors import UsageError
from ragcli.text.sentences import SENTENCE_END, ends_abbreviation
from ragcli.text.unicode import boundary_after, boundary_before, is_boundary
from ragcli.types import Chunk, Document, Heading, PageSpan

CHUNKER_VERSION = "1"
"""Raised when the same document is cut into other chunks; collections record it."""
MIN_CHUNK_CHARS = 50
_NEAR = 0.6
"""A chunk is at least this full before a paragraph's or sentence's end may close it."""
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_LINE = re.compile(r"\n\s*")
_SPACE = re.compile(r"\s+")
_BLANK = re.compile(r"\s*")
_DEEPEST = 8
"""Headings in a path; one of hundreds would be longer than what it heads."""


def check_sizes(size: int, overlap: int) -> None:
    """Raises UsageError for sizes that make no chunks."""
    if size < MIN_CHUNK_CHARS:
        raise UsageError(f"A chunk size of {size} is too small; it must be at least {MIN_CHUNK_CHARS} characters.")
    if not 0 <= overlap < size:
        raise UsageError(
            f"An overlap of {overlap} does not fit a chunk size of {size}; it must be smaller, and not below 0."
        )


def chunk_document(document: Document, *, size: int = 1200, overlap: int = 200) -> tuple[Chunk, ...]:
    """The document's chunks in order; together they cover every character. A blank document has none.

    Raises UsageError if `size` is under 50 or `overlap` is not smaller than `size`.
    """
    check_sizes(size, overlap)
    text = document.text
    if not text.strip():
        return ()
    sections = [heading.start for heading in document.headings]
    fences = sorted(span for span in document.spans if span[0] < span[1])
    above = _above(document.headings)
    chunks: list[Chunk] = []
    start = 0
    fresh = 0
    while True:
        end = _end(text, start, fresh, size, overlap, sections, fences)
        chunks.append(_chunk(document, above, len(chunks), start, end, fresh))
        if end >= len(text):
            return tuple(chunks)
        start, fresh = _start(text, start, end, overlap, sections, fences), end


def embedding_text(
    text: str, *, title: str | None, heading: str | None, context: Literal["none", "title", "heading"]
) -> str:
    """The text that a chunk's vector is made from: the passage, and before it what the passage is part of."""
    parts: list[str] = []
    if context != "none" and title:
        parts.append(title)
    if context == "heading" and heading and heading != title:
        parts.append(heading.removeprefix(f"{title} › ") if title else heading)
    head = " › ".join(parts)
    return text if not head or text.lstrip().startswith(head) else f"{head}\n\n{text}"


def _end(
    text: str,
    start: int,
    fresh: int,
    size: int,
    overlap: int,
    sections: Sequence[int],
    fences: Sequence[tuple[int, int]],
) -> int:
    """Where the chunk that begins at `start` ends. It must have something after `fresh`, the end of the one before."""
    total = len(text)
    start = _blank_from(text, start)
    if _length(text, start, total, size) <= size:
        return total
    limit = start + size
    least = max(fresh + 1, start + int(size * _NEAR))
    left = total - start
    if left < 2 * size - overlap:  # two chunks are left: share, so that the last is no scrap
        limit = min(limit, start + max((left + overlap) // 2 + size // 10, least - start + 1))
        least = min(least, max(fresh + 1, start + (left + overlap) // 2 - size // 5))
    fence = _fence_at(fences, limit)
    if fence is not None and fence[1] - fence[0] <= size and fence[0] > fresh and text[fresh : fence[0]].strip():
        limit = fence[0]
        least = min(least, limit)
        return _absorbed(text, limit)
    section = bisect_right(sections, limit) - 1
    if section >= 0 and sections[section] >= least:
        return sections[section]
    for pattern in (_PARAGRAPH, SENTENCE_END, _LINE, _SPACE):
        cut = _last(pattern, text, least, limit, fences)
        if cut is not None:
            return cut
    return _absorbed(text, boundary_before(text, limit, max(fresh, start)))


def _length(text: str, start: int, end: int, size: int) -> int:
    """The length of text[start:end] without blank space at its end, looked at no farther than matters."""
    if end - start <= size:
        return end - start
    return size if _blank_from(text, start + size) == end else end - start


def _blank_from(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    return found.end() if found else place


def _absorbed(text: str, place: int) -> int:
    """The place, moved past blank space, which belongs to the chunk that it ends; a mark keeps its own."""
    place = boundary_after(text, place)
    end = _blank_from(text, place)
    return end if end == place or is_boundary(text, end) else end - 1


def _last(pattern: re.Pattern[str], text: str, least: int, limit: int, fences: Sequence[tuple[int, int]]) -> int | None:
    """The end of the pattern's last match that begins in [least, limit], outside of fences if one is."""
    inside: int | None = None
    for found in reversed(list(pattern.finditer(text, least, min(limit + 1, len(text))))):
        if not is_boundary(text, found.start()) or (pattern is SENTENCE_END and ends_abbreviation(text, found.start())):
            continue
        if pattern is _PARAGRAPH and _headlike(text, found.start()):
            continue
        end = _absorbed(text, found.end())
        if _fence_at(fences, end) is None:
            return end
        inside = end if inside is None else inside
    return inside


def _headlike(text: str, end: int) -> bool:
    """True if the paragraph that ends here is so short and open that it most likely heads the next."""
    start = text.rfind("\n", max(0, end - 80), end)
    return start >= 0 and text[end - 1] not in '.!?:;)”"…' and text[start - 1 : start + 1] == "\n\n"


def _fence_at(fences: Sequence[tuple[int, int]], place: int) -> tuple[int, int] | None:
    """The fence with `place` strictly inside."""
    index = bisect_left(fences, (place, 0)) - 1
    return fences[index] if index >= 0 and fences[index][0] < place < fences[index][1] else None


def _start(
    text: str, start: int, end: int, overlap: int, sections: Sequence[int], fences: Sequence[tuple[int, int]]
) -> int:
    """Where the next chunk begins: within the overlap, but not in the section before nor inside a fence."""
    if overlap == 0:
        return end
    earliest = max(end - overlap, start + 1)
    section = bisect_right(sections, end) - 1
    if section >= 0 and sections[section] > earliest:
        return sections[section]
    place = None
    for found in SENTENCE_END.finditer(text, max(earliest - 4, start + 1), max(earliest, end - overlap // 3)):
        if found.end() >= earliest and not ends_abbreviation(text, found.start()):
            place = found.end()
            break
    if place is None:
        space = _SPACE.search(text, earliest - 1, end)
        place = space.end() if space else boundary_after(text, earliest)
    fence = _fence_at(fences, place)
    if fence is not None:
        place = end if fence[1] >= end else _blank_from(text, fence[1])
    place = min(place, end)
    return place if is_boundary(text, place) else min(boundary_after(text, place), end)


def _chunk(document: Document, above: Sequence[int], ordinal: int, start: int, end: int, fresh: int) -> Chunk:
    text = document.text
    first = _blank_from(text, start)
    last = end - 1
    while last > first and text[last].isspace() and end - last < 2000:
        last -= 1
    return Chunk(
        ordinal,
        start,
        end,
        page_at(document.pages, min(first, end - 1)),
        page_at(document.pages, last),
        _heading(document.headings, above, _blank_from(text, max(start, min(fresh, end - 1)))),
    )


def _above(headings: Sequence[Heading]) -> list[int]:
    """The number of the heading that each stands under, -1 for none: the last one before it that is less deep."""
    above: list[int] = []
    still_open: list[int] = []
    for number, heading in enumerate(headings):
        while still_open and headings[still_open[-1]].level >= heading.level:
            still_open.pop()
        above.append(still_open[-1] if still_open else -1)
        still_open.append(number)
    return above


def _heading(headings: Sequence[Heading], above: Sequence[int], place: int) -> str | None:
    """The path of headings in force at `place`: each deeper than the one before."""
    number = bisect_right(headings, place, key=lambda heading: heading.start) - 1
    path: list[str] = []
    while number >= 0 and len(path) < _DEEPEST:
        path.append(headings[number].title)
        number = above[number]
    return " › ".join(reversed(path)) if path else None


def page_at(spans: Sequence[PageSpan], offset: int) -> int | None:
    """The number of the page that has the character at `offset`."""
    if not spans:
        return None
    index = bisect_right(spans, offset, key=lambda span: span.start) - 1
    while index > 0 and spans[index].end <= spans[index].start:  # a page without text
        index -= 1
    return spans[max(index, 0)].number

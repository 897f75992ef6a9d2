"""Lines become running text: words whole, paragraphs apart, every character's page known."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ragcli.documents.characters import clean_line, old_tex
from ragcli.documents.hyphens import keeps_hyphen, vocabulary
from ragcli.documents.interruptions import PARAGRAPH, SPACE, Row, continued
from ragcli.documents.lines import SOFT_HYPHEN, Line, PageLines
from ragcli.documents.spacing import Spacing
from ragcli.records import PageSpan

_HARD_HYPHEN = re.compile(r"\w-$")


class Placed(NamedTuple):
    """A line and where it stands in the text. `begins` says that a paragraph starts with it."""

    line: Line
    page: int
    start: int
    end: int
    begins: bool


@dataclass(frozen=True, slots=True)
class Flow:
    """The running text, its pages and joins, and where each line went."""

    text: str
    pages: tuple[PageSpan, ...]
    joins: tuple[int, ...]
    lines: tuple[Placed, ...]


def run_together(pages: Sequence[PageLines], body: float) -> Flow:
    """The pages' lines as one text. `body` is the size of most letters."""
    rows = _cleaned(pages)
    spacing = Spacing(rows, [page.placed for page in pages])
    separators = spacing.separators()
    order = continued(rows, separators, body)
    if order is not None:
        rows, separators = spacing.reordered(order, separators)
    breaks = [row.line.broken for row in rows]
    known = vocabulary(zip((row.line.text for row in rows), [False, *breaks], breaks, strict=False))
    out: list[str] = []
    placed: list[Placed] = []
    joins: list[int] = []
    starts: dict[int, int] = {}
    length = 0
    for number, ((line, page), separator, broken) in enumerate(zip(rows, separators, breaks, strict=True)):
        words, after = line.text, separators[number + 1] if number + 1 < len(rows) else ""
        joined = kept = False
        if broken:
            words = words.rstrip(SOFT_HYPHEN)
            following = rows[number + 1].line.text if after else ""
            joined = after == SPACE and following[:1].isalnum()
            kept = not joined or keeps_hyphen(words, following, known)
        if SOFT_HYPHEN in words:
            words, inner = _without_soft(words, length)
            joins += inner
        start = length
        if page not in starts:
            starts[page] = start
        if kept:
            words += "-"
        length += len(words)
        placed.append(Placed(line, page, start, length, separator == PARAGRAPH or number == 0))
        out.append(words)
        if joined:
            joins.append(length - 1 if kept else length)
        elif after:
            out.append(after)
            length += len(after)
    return Flow("".join(out), _spans(pages, starts, length), tuple(joins), tuple(placed))


def _cleaned(pages: Sequence[PageLines]) -> list[Row]:
    tex = old_tex(line.text for page in pages for line in page.lines)
    rows: list[Row] = []
    for index, page in enumerate(pages):
        for line in page.lines:
            text = clean_line(line.text, tex)
            if text.endswith("-") and _HARD_HYPHEN.search(text[-2:]):
                text = text[:-1] + SOFT_HYPHEN
            if text and text != SOFT_HYPHEN:
                rows.append(Row(_with_text(line, text), index))
    return rows


def _with_text(line: Line, text: str) -> Line:
    if text == line.text:
        return line
    return Line(text, line.x0, line.x1, line.baseline, line.size, line.bold)


def _without_soft(words: str, offset: int) -> tuple[str, list[int]]:
    """Soft hyphens inside a line go; each leaves a join."""
    joins: list[int] = []
    parts = words.split(SOFT_HYPHEN)
    for part in parts[:-1]:
        offset += len(part)
        if not joins or joins[-1] != offset:
            joins.append(offset)
    return "".join(parts), joins


def _spans(pages: Sequence[PageLines], starts: dict[int, int], length: int) -> tuple[PageSpan, ...]:
    spans: list[PageSpan] = []
    end = length
    for index in range(len(pages) - 1, -1, -1):
        start = starts.get(index, end)
        spans.append(PageSpan(index + 1, pages[index].label, start, end))
        end = start
    spans.reverse()
    if spans and spans[0].start != 0:
        spans[0] = PageSpan(1, spans[0].label, 0, spans[0].end)
    return tuple(spans)


def page_at(spans: Sequence[PageSpan], offset: int) -> int | None:
    """The number of the page that has the character at `offset`."""
    if not spans:
        return None
    index = bisect_right(spans, offset, key=lambda span: span.start) - 1
    while index > 0 and spans[index].end <= spans[index].start:  # a page without text
        index -= 1
    return spans[max(index, 0)].number

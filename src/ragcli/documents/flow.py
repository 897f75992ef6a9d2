"""Lines become running text: words whole, paragraphs apart, every character's page known.

Between two lines stands a space, a line break or a paragraph break. A printed page doesn't say which; the distance
to the line above, the indent, and whether the next word would still have fitted on the line do. A line that ends
early without need is the end of something: of a paragraph, a line of code, a row of a table. Over a column's or a
page's end the sentence decides, so that it isn't torn.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from ragcli.documents.characters import clean_line, old_tex
from ragcli.documents.hyphens import keeps_hyphen, vocabulary
from ragcli.documents.interruptions import BREAK, CAPTION, PARAGRAPH, SENTENCE_END, SPACE, Row, continued
from ragcli.documents.lines import SOFT_HYPHEN, Line, PageLines, median_size
from ragcli.records import PageSpan

_ITEM = re.compile(r"^(?:[•◦▪‣·∙*–—]\s|\[\w{1,8}\]\s|\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)]\s)")
_POINTS_ON = re.compile(r"\b(?:in|see|of|and|by|from|to|with|on|or|cf\.|e\.g\.,?)$|[(,]$", re.IGNORECASE)
_HARD_HYPHEN = re.compile(r"\w-$")
_REACH = 6
"""Lines before and after that are asked where the column's edges are."""


@dataclass(frozen=True, slots=True)
class Placed:
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


def run_together(pages: Sequence[PageLines]) -> Flow:
    """The pages' lines as one text. The page of the character at `i` is the last one with `start <= i`."""
    rows = _cleaned(pages)
    separators = _separators(rows, pages)
    order = continued(rows, separators, median_size(pages))
    if order is not None:
        rows = [rows[number] for number in order]
        separators = _separators(rows, pages)
    known = vocabulary(
        (row.line.text, number > 0 and rows[number - 1].line.broken, row.line.broken) for number, row in enumerate(rows)
    )
    out: list[str] = []
    placed: list[Placed] = []
    joins: list[int] = []
    starts: dict[int, int] = {}
    length = 0
    for number, (row, separator) in enumerate(zip(rows, separators, strict=True)):
        words = row.line.text.rstrip(SOFT_HYPHEN)
        broken = row.line.broken
        following = rows[number + 1].line.text if number + 1 < len(rows) else ""
        joined = broken and separators[number + 1 : number + 2] == [SPACE] and following[:1].isalnum()
        kept = broken and (not joined or keeps_hyphen(words, following, known))
        words, inner = _without_soft(words, length)
        joins += inner
        start = length
        starts.setdefault(row.page, start)
        if kept:
            words += "-"
        length += len(words)
        if joined:
            joins.append(length - 1 if kept else length)
        placed.append(Placed(row.line, row.page, start, length, separator == PARAGRAPH or number == 0))
        out.append(words)
        if number + 1 < len(rows) and not joined:
            out.append(separators[number + 1])
            length += len(separators[number + 1])
    return Flow("".join(out), _spans(pages, starts, length), tuple(joins), tuple(placed))


def _cleaned(pages: Sequence[PageLines]) -> list[Row]:
    tex = old_tex(line.text for page in pages for line in page.lines)
    rows: list[Row] = []
    for index, page in enumerate(pages):
        for line in page.lines:
            text = clean_line(line.text, tex)
            if _HARD_HYPHEN.search(text):
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
    if SOFT_HYPHEN not in words:
        return words, []
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


def _separators(rows: Sequence[Row], pages: Sequence[PageLines]) -> list[str]:
    """What stands before each row; nothing counts before the first."""
    if not rows:
        return []
    pitch = _pitches(rows, len(pages))
    edges = [
        _edge(rows, number) if pages[row.page].placed else _Edge(0.0, 0.0, flush=False)
        for number, row in enumerate(rows)
    ]
    out = [PARAGRAPH]
    for number in range(1, len(rows)):
        before, row = rows[number - 1], rows[number]
        if not pages[row.page].placed or not pages[before.page].placed:
            out.append(_unplaced(before.line, row.line))
            continue
        if CAPTION.match(row.line.text) and not _POINTS_ON.search(before.line.text):
            out.append(PARAGRAPH)
            continue
        following = rows[number + 1] if number + 1 < len(rows) else None
        after = following.line if following is not None and following.page == row.page else None
        began = out[number - 1] == PARAGRAPH
        below = (
            before.page == row.page
            and row.line.baseline < before.line.baseline - 0.2 * row.line.size
            and row.line.x0 < before.line.x1
            and before.line.x0 < row.line.x1
        )
        if below:
            out.append(_below(before.line, row.line, after, pitch[row.page], edges[number - 1], began=began))
        else:
            step = before.line.baseline - row.line.baseline if before.page == row.page else 0.0
            out.append(
                PARAGRAPH
                if step > 1.4 * pitch[row.page]
                else _elsewhere(before.line, row.line, after, edges[number - 1])
            )
    return _listings(rows, out, edges)


def _listings(rows: Sequence[Row], separators: list[str], edges: Sequence[_Edge]) -> list[str]:
    """Breaks every line where most lines around it end early: program text, tables, verse."""
    out = list(separators)
    for number, separator in enumerate(separators):
        if separator != SPACE or edges[number].flush or rows[number - 1].line.broken:
            continue
        around = separators[max(1, number - 3) : number] + separators[number + 1 : number + 4]
        if around and 2 * around.count(BREAK) > len(around) and min(len(rows[number].line.text), 9) > 3:
            out[number] = BREAK
    return out


def _pitches(rows: Sequence[Row], count: int) -> list[float]:
    """Each page's usual distance from line to line."""
    steps: list[list[float]] = [[] for _ in range(count)]
    for before, row in pairwise(rows):
        step = before.line.baseline - row.line.baseline
        if before.page == row.page and 0.7 * row.line.size < step < 3 * row.line.size:
            steps[row.page].append(step)
    everywhere = [step for page in steps for step in page]
    usual = median(everywhere) if everywhere else 12.0
    return [median(page) if len(page) >= 8 else usual for page in steps]


@dataclass(frozen=True, slots=True)
class _Edge:
    left: float
    right: float
    flush: bool


def _edge(rows: Sequence[Row], number: int) -> _Edge:
    """The column's left and right edge at this row, as its neighbours of the same size show them."""
    row = rows[number]
    line, page = row.line, row.page
    low, high = line.x0 - 3.5 * line.size, line.x0 + 3.5 * line.size
    smallest, largest = 0.8 * line.size, 1.25 * line.size
    left = line.x0
    ends: list[float] = []
    for other in rows[max(0, number - _REACH) : number + _REACH + 1]:
        peer = other.line
        if other.page == page and low <= peer.x0 <= high and smallest <= peer.size <= largest:
            ends.append(peer.x1)
            left = min(left, peer.x0)
    ends.sort()
    often = 0
    usual = ends[-1]
    for index, end in enumerate(ends):  # the end that most lines share, to 3 points
        alike = bisect_right(ends, end + 3, index) - index
        if alike > often:
            often, usual = alike, end + 1.5
    flush = often > 2 and often >= 0.4 * len(ends)  # a justified column; a wide caption beside it doesn't widen it
    return _Edge(left, usual if flush else ends[int(0.8 * (len(ends) - 1) + 0.5)], flush)


def _below(
    before: Line,
    line: Line,
    after: Line | None,
    pitch: float,
    edge: _Edge,
    *,
    began: bool,
) -> str:
    """What stands before a line that is printed under the one before it."""
    size = line.size
    step = before.baseline - line.baseline
    tiny = min(len(before.text), len(line.text)) <= 3
    ended = bool(SENTENCE_END.search(before.text))
    early = _ends_early(before, line, edge.right)
    if before.broken and 0.85 * size < before.size < 1.18 * size and step < 2.2 * pitch:
        return SPACE
    if not tiny and not 0.94 * size < before.size < 1.07 * size:
        return PARAGRAPH
    if step > 1.4 * pitch and step > 1.5 * size:
        goes_on = not ended and line.text[:1].islower() and not CAPTION.match(before.text)
        return BREAK if goes_on or tiny else PARAGRAPH
    if tiny:
        return SPACE
    if before.bold != line.bold and early and (before.bold or ended):
        return PARAGRAPH
    indent = 0.7 * size
    if line.x0 > before.x0 + indent and line.x0 < before.x0 + 5 * size:
        if began and not early and not ended:  # the item's own lines hang under its first
            return SPACE
        returns = after is not None and after.baseline < line.baseline and after.x0 < line.x0 - indent
        if (ended or early) and (returns or after is None or early):
            return PARAGRAPH
    if line.x0 < before.x0 - indent and not began and (ended or early):
        return PARAGRAPH
    if _ITEM.match(line.text) and (early or ended):
        return BREAK
    if early:
        return BREAK
    return SPACE


def _elsewhere(before: Line, line: Line, after: Line | None, edge: _Edge) -> str:
    """What stands before a line at the top of another column or page."""
    if not 0.94 * line.size < before.size < 1.07 * line.size:
        return PARAGRAPH
    if before.broken and line.text[:1].islower():
        return SPACE
    ended = bool(SENTENCE_END.search(before.text))
    early = before.x1 < edge.right - 2.5 * before.size
    indented = (
        after is not None
        and line.x0 > after.x0 + 0.7 * line.size
        and line.x0 < after.x0 + 5 * line.size
        and after.baseline < line.baseline
    )
    if ended and (early or indented or line.text[:1].islower()):
        return PARAGRAPH
    if not ended and line.text[:1].islower():
        return SPACE
    if early or before.bold != line.bold or _ITEM.match(line.text):
        return PARAGRAPH
    return SPACE


def _ends_early(before: Line, line: Line, right: float) -> bool:
    """True if the next line's first word would still have fitted at the end of this one."""
    room = right - before.x1
    if room <= 0:
        return False
    word = line.text.split(" ", 1)[0]
    width = (line.x1 - line.x0) / max(len(line.text), 1)
    return room > (len(word) + 1.5) * width * 1.1 + 0.3 * line.size


def _unplaced(before: Line, line: Line) -> str:
    """What stands between two lines of which only the words are known."""
    if not before.text.strip(SOFT_HYPHEN):
        return PARAGRAPH
    short = len(before.text) < 0.6 * max(len(line.text), 45)
    if short and not before.broken and not line.text[:1].islower():
        return PARAGRAPH if SENTENCE_END.search(before.text) else BREAK
    return SPACE

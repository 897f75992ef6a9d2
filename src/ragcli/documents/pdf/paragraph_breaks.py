"""Paragraph detection: separators between lines; footnotes and floats moved out of sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ragcli.documents.pdf.page_model import Line, median
from ragcli.text.characters import SOFT_HYPHEN

SPACE, BREAK, PARAGRAPH = " ", "\n", "\n\n"
CAPTION = re.compile(
    r"^(?:fig(?:ure|\.)|table|algorithm|listing|exhibit|box) ?(?:\d{1,3}|[IVX]{1,5})[a-z]?[:.]", re.IGNORECASE
)
_MAX_INTERRUPTION_LINES = 45
_ENDS = (".", "!", "?", ":", ";", "。", "！", "？")
_CLOSING = "\"”’'])"


class PageLine(NamedTuple):
    """A line with readable characters and the index of its page."""

    line: Line
    page: int


def ends_sentence(text: str) -> bool:
    """True if a sentence, or a clause that can stand for one, ends with the line."""
    return text.rstrip(_CLOSING).endswith(_ENDS)


def reorder_interrupted(rows: Sequence[PageLine], separators: Sequence[str], body: float) -> list[int] | None:
    """The rows' numbers in an order that lets sentences go on; None if they do already."""
    order = list(range(len(rows)))
    changed = False
    number = 0
    while number < len(rows) - 1:
        after = _resumption_of(rows, separators, body, number)
        if after is not None:
            moved = _rows_to_rotate(rows, separators, number, after)
            if moved is not None:
                first, last = moved
                order[first:last] = (
                    [*order[after:last], *order[first:after]]
                    if first > number
                    else [
                        *range(number + 1, after),
                        *range(first, number + 1),
                    ]
                )
                changed = True
                number = max(last, after)
                continue
        number += 1
    return order if changed else None


def _resumption_of(rows: Sequence[PageLine], separators: Sequence[str], body: float, number: int) -> int | None:
    """The row at which the sentence that stops in row `number` goes on, if something stands between."""
    row = rows[number]
    if separators[number + 1] != PARAGRAPH or not _is_body(row, body) or len(row.line.text) < 20 or row.line.bold:
        return None
    if not row.line.broken and (ends_sentence(row.line.text) or not _is_unfinished(row.line.text)):
        return None
    inside = captioned = strange = False
    for after in range(number + 1, min(len(rows), number + _MAX_INTERRUPTION_LINES)):
        following = rows[after]
        begins = separators[after] == PARAGRAPH
        if not _is_body(following, body):
            inside = True
            captioned = captioned or CAPTION.match(following.line.text) is not None
        elif begins and CAPTION.match(following.line.text):
            inside = captioned = True
        elif begins:
            elsewhere = following.page != row.page or following.line.baseline > row.line.baseline
            if following.line.text[:1].islower():
                sure = captioned or (elsewhere and not strange)
                return after if inside and sure else None
            inside = strange = True  # part of a figure in the body's size, if a caption follows
    return None


def _is_body(row: PageLine, body: float) -> bool:
    return abs(row.line.size - body) <= 0.035 * body


def _is_unfinished(text: str) -> bool:
    return text[-1].isalnum() or text[-1] in ",-–—"


def _rows_to_rotate(
    rows: Sequence[PageLine], separators: Sequence[str], number: int, after: int
) -> tuple[int, int] | None:
    """The range of rows to turn: the paragraph before and the piece, or the piece and the paragraph after."""
    page = rows[number + 1].page
    if any(rows[inner].page != page for inner in range(number + 1, after)):
        return None
    first = number
    while first > 0 and separators[first] != PARAGRAPH:
        first -= 1
    if rows[first].page == page:
        return first, after
    last = after + 1
    while last < len(rows) and separators[last] != PARAGRAPH:
        last += 1
    if rows[last - 1].page == page and rows[after].page == page:
        return number + 1, last
    return None


_LIST_ITEM = re.compile(r"^(?:[•◦▪‣·∙*–—]\s|\[\w{1,8}\]\s|\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)]\s)")
_POINTS_ON = re.compile(r"\b(?:in|see|of|and|by|from|to|with|on|or|cf\.|e\.g\.,?)$|[(,]$", re.IGNORECASE)
_NEIGHBOUR_LINES = 6
"""Lines before and after that are asked where the column ends."""
_EDGE_TOLERANCE = 3.0
"""Lines end in the same place if they do to this many points."""


class LineSpacing:
    """Says what stands before each of some rows. `placed` tells of each page whether its lines have positions."""

    def __init__(self, rows: Sequence[PageLine], placed: Sequence[bool]) -> None:
        self._rows = rows
        self._placed = placed
        self._pitch = _line_pitches(rows, len(placed))

    def separators(self) -> list[str]:
        """What stands before each row; what is given for the first counts for nothing."""
        out: list[str] = []
        for number in range(len(self._rows)):
            out.append(self._between(number, began=out[-1] == PARAGRAPH) if out else PARAGRAPH)
        return self._listings(out)

    def reordered(self, order: Sequence[int], separators: Sequence[str]) -> tuple[list[PageLine], list[str]]:
        """The rows in another order, and what then stands before each; most stand where they stood."""
        spacing = LineSpacing([self._rows[number] for number in order], self._placed)
        out = [separators[number] for number in order]
        for place in range(1, len(order)):
            if order[place] != order[place - 1] + 1:
                out[place] = spacing._between(place, began=out[place - 1] == PARAGRAPH)
        return list(spacing._rows), out

    def _between(self, number: int, *, began: bool) -> str:
        """What stands before the row. `began` says that the row before it began a paragraph."""
        (before, page_before), (line, page) = self._rows[number - 1], self._rows[number]
        if not self._placed[page] or not self._placed[page_before]:
            return _separator_without_positions(before, line)
        if CAPTION.match(line.text) and not _POINTS_ON.search(before.text):
            return PARAGRAPH
        if page_before == page:
            step, pitch = before.baseline - line.baseline, self._pitch[page]
            if step > 0.2 * line.size and line.x0 < before.x1 and before.x0 < line.x1:
                return self._below(number, step, pitch, began=began)
            if step > 1.4 * pitch:
                return PARAGRAPH
        return self._elsewhere(number)

    def _after(self, number: int) -> Line | None:
        """The line after the row's on its page, if there is one."""
        rows = self._rows
        return rows[number + 1].line if number + 1 < len(rows) and rows[number + 1].page == rows[number].page else None

    def _below(self, number: int, step: float, pitch: float, *, began: bool) -> str:
        """What stands before a line that is printed under the one before it."""
        before, line = self._rows[number - 1].line, self._rows[number].line
        size = line.size
        if before.broken and 0.85 * size < before.size < 1.18 * size and step < 2.2 * pitch:
            return SPACE
        tiny = min(len(before.text), len(line.text)) <= 3
        if not tiny and not 0.94 * size < before.size < 1.07 * size:
            return PARAGRAPH
        ended = ends_sentence(before.text)
        if step > 1.4 * pitch and step > 1.5 * size:
            goes_on = not ended and line.text[:1].islower() and not CAPTION.match(before.text)
            return BREAK if goes_on or tiny else PARAGRAPH
        if tiny:
            return SPACE
        early = self._ends_early(number)
        if before.bold != line.bold and early and (before.bold or ended):
            return PARAGRAPH
        indent = 0.7 * size
        if before.x0 + indent < line.x0 < before.x0 + 5 * size:
            if began and not early and not ended:  # the item's own lines hang under its first
                return SPACE
            after = self._after(number)
            returns = after is not None and after.baseline < line.baseline and after.x0 < line.x0 - indent
            if (ended or early) and (returns or after is None or early):
                return PARAGRAPH
        if line.x0 < before.x0 - indent and not began and (ended or early):
            return PARAGRAPH
        return BREAK if early or (ended and _LIST_ITEM.match(line.text)) else SPACE

    def _elsewhere(self, number: int) -> str:
        """What stands before a line at the top of another column or page."""
        before, line, after = self._rows[number - 1].line, self._rows[number].line, self._after(number)
        if not 0.94 * line.size < before.size < 1.07 * line.size:
            return PARAGRAPH
        if before.broken and line.text[:1].islower():
            return SPACE
        ended = ends_sentence(before.text)
        if not ended and line.text[:1].islower():
            return SPACE
        early = before.x1 < self._right(number - 1)[0] - 2.5 * before.size
        indented = (
            after is not None
            and after.x0 + 0.7 * line.size < line.x0 < after.x0 + 5 * line.size
            and after.baseline < line.baseline
        )
        if ended and (early or indented or line.text[:1].islower()):
            return PARAGRAPH
        if not ended and (early or before.bold != line.bold or _LIST_ITEM.match(line.text)):
            return PARAGRAPH
        return SPACE

    def _ends_early(self, number: int) -> bool:
        """True if the row's first word would still have fitted at the end of the row before."""
        rows = self._rows
        before, line = rows[number - 1].line, rows[number].line
        if abs(before.x1 - line.x1) <= _EDGE_TOLERANCE:
            others = (rows[max(number - 2, 0)].line, rows[min(number + 1, len(rows) - 1)].line)
            if any(abs(before.x1 - other.x1) <= _EDGE_TOLERANCE and other not in (before, line) for other in others):
                return False  # three lines in a row end in one place: that is the column's edge
        room = self._right(number - 1)[0] - before.x1
        if room <= 0:
            return False
        word = line.text.split(" ", 1)[0]
        width = (line.x1 - line.x0) / max(len(line.text), 1)
        return room > (len(word) + 1.5) * width * 1.1 + 0.3 * line.size

    def _right(self, number: int) -> tuple[float, bool]:
        """Where the column ends at this row, as its neighbours of the same size show it; and if it is set flush."""
        row = self._rows[number]
        line, page = row.line, row.page
        low, high = line.x0 - 3.5 * line.size, line.x0 + 3.5 * line.size
        smallest, largest = 0.8 * line.size, 1.25 * line.size
        around = self._rows[max(0, number - _NEIGHBOUR_LINES) : number + _NEIGHBOUR_LINES + 1]
        ends = [
            other.x1
            for other, where in around
            if where == page and low <= other.x0 <= high and smallest <= other.size <= largest
        ]
        ends.sort()
        often, usual = 0, ends[-1]
        beyond = 0
        for index, end in enumerate(ends):
            if len(ends) - index <= often:
                break
            while beyond < len(ends) and ends[beyond] <= end + _EDGE_TOLERANCE:
                beyond += 1
            if beyond - index > often:
                often, usual = beyond - index, end + _EDGE_TOLERANCE / 2
        if often > 2 and often >= 0.4 * len(ends):  # justified: a wide caption beside it doesn't widen the column
            return usual, True
        return ends[int(0.8 * (len(ends) - 1) + 0.5)], False

    def _listings(self, separators: Sequence[str]) -> list[str]:
        """Breaks every line where most lines around it end early: program text, tables, verse."""
        out = list(separators)
        for number, separator in enumerate(separators):
            if separator != SPACE or self._rows[number - 1].line.broken:
                continue
            around = [*separators[max(1, number - 3) : number], *separators[number + 1 : number + 4]]
            if (
                2 * around.count(BREAK) > len(around)
                and len(self._rows[number].line.text) > 3
                and self._placed[self._rows[number].page]
                and not self._right(number)[1]
            ):
                out[number] = BREAK
        return out


def _line_pitches(rows: Sequence[PageLine], count: int) -> list[float]:
    """Each page's usual distance from line to line."""
    steps: list[list[float]] = [[] for _ in range(count)]
    for before, row in pairwise(rows):
        step = before.line.baseline - row.line.baseline
        if before.page == row.page and 0.7 * row.line.size < step < 3 * row.line.size:
            steps[row.page].append(step)
    everywhere = [step for page in steps for step in page]
    usual = median(everywhere) if everywhere else 12.0
    return [median(page) if len(page) >= 8 else usual for page in steps]


def _separator_without_positions(before: Line, line: Line) -> str:
    """What stands between two lines of which only the words are known."""
    if not before.text.strip(SOFT_HYPHEN):
        return PARAGRAPH
    short = len(before.text) < 0.6 * max(len(line.text), 45)
    if short and not before.broken and not line.text[:1].islower():
        return PARAGRAPH if ends_sentence(before.text) else BREAK
    return SPACE

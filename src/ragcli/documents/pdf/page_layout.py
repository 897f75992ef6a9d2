"""Page layout: join the pieces of a line, order columns, remove running heads and page numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ragcli.documents.pdf.page_model import Line, PageLines, median, median_font_size
from ragcli.text.numerals import roman_value

_FEWEST_LINES = 5
"""Fewer lines than this on either side of a gap are not a column."""


def order_lines(page: PageLines) -> PageLines:
    """The page with its lines whole and in reading order."""
    if not page.placed or not page.lines:
        return page
    lines = _join_line_pieces(page.lines)
    gutter = _alternating_gutter(lines, page.width)
    if gutter is not None:
        lines = _by_columns(lines, gutter)
    return replace(page, lines=tuple(lines))


def _join_line_pieces(lines: Sequence[Line]) -> list[Line]:
    """Pieces that PDFium cut at a superscript or a change of font, put together where they follow one another."""
    out: list[Line] = []
    for line in lines:
        if out:
            before = out[-1]
            size = max(before.size, line.size)
            gap = line.x0 - before.x1
            if (
                abs(before.baseline - line.baseline) < 0.45 * size
                and -0.5 * size < gap < 1.2 * size
                and line.x0 > before.x0
                and not before.broken
            ):
                bigger = before if len(before.text) >= len(line.text) else line
                space = " " if gap > 0.17 * size else ""
                out[-1] = replace(bigger, text=before.text + space + line.text, x0=before.x0, x1=line.x1)
                continue
        out.append(line)
    return out


def _alternating_gutter(lines: Sequence[Line], width: float) -> float | None:
    """Where the gap between two columns is, if the lines jump across it row by row; else None."""
    middle = width / 2
    left = [line for line in lines if (line.x0 + line.x1) / 2 < middle and line.x1 - line.x0 < 0.6 * width]
    right = [line for line in lines if (line.x0 + line.x1) / 2 >= middle and line.x1 - line.x0 < 0.6 * width]
    if min(len(left), len(right)) < _FEWEST_LINES:
        return None
    jumps = sum(
        1
        for before, line in pairwise(lines)
        if before.x1 <= middle + 1 and line.x0 >= before.x1 and abs(before.baseline - line.baseline) < 0.5 * line.size
    )
    if jumps < max(_FEWEST_LINES - 1, 0.3 * min(len(left), len(right))):
        return None
    if min(median(len(line.text) for line in left), median(len(line.text) for line in right)) < 15:
        return None  # a table: short cells, read row by row
    edge_left = sorted(line.x1 for line in left)[int(0.9 * len(left))]
    edge_right = sorted(line.x0 for line in right)[int(0.1 * len(right))]
    return (edge_left + edge_right) / 2 if edge_left < edge_right + 2 else None


def _by_columns(lines: Sequence[Line], gutter: float) -> list[Line]:
    """Lines from top to bottom, left column before right, each stretch between lines that span both by itself."""
    out: list[Line] = []
    left: list[Line] = []
    right: list[Line] = []
    for line in sorted(lines, key=lambda line: (-round(line.baseline, 1), line.x0)):
        if line.x0 < gutter - 2 and line.x1 > gutter + 2:
            out += [*left, *right, line]
            left, right = [], []
        elif line.x1 <= gutter + 2:
            left.append(line)
        else:
            right.append(line)
    return [*out, *left, *right]


_EDGE = 4
"""Lines looked at from either end of a page: heads of two or three lines exist."""
_MARGIN_SHARE = 0.14
"""Part of a page's height, at top and bottom, in which running heads may stand."""
_TITLE = 1.25
"""A line this much larger than the body's is a title."""
_NUMBER = re.compile(
    r"^(?:p(?:age|\.)?\s*)?[-–—\[(|]?\s*(\d{1,4}|[ivxlc]{1,7})\s*[-–—\])|.]?(?:\s*(?:of|/)\s*\d{1,4})?$", re.I
)
_DIGITS = re.compile(r"\d+")
_EDGE_ROMAN = re.compile(r"^[ivxlc]+\s|\s[ivxlc]+$")


def remove_running_heads(pages: Sequence[PageLines]) -> list[PageLines]:
    """The pages without running heads, running feet and page numbers."""
    edges = [_edges(page) for page in pages]
    body = median_font_size(pages)
    gone: list[set[int]] = [set() for _ in pages]
    for side in (0, 1):
        for depth in range(_EDGE):
            changed = _mark_repeated(pages, [edge[side] for edge in edges], gone, body)
            if not changed or depth == _EDGE - 1:
                break
    for page, removed in zip(pages, gone, strict=True):
        # A page that says nothing else is a scan with a stamp, if it shows a picture; else this is its text.
        if not page.may_have_image and len(removed) == len(page.lines):
            removed.clear()
    return [
        replace(page, lines=tuple(line for number, line in enumerate(page.lines) if number not in removed))
        if removed
        else page
        for page, removed in zip(pages, gone, strict=True)
    ]


def _edges(page: PageLines) -> tuple[list[int], list[int]]:
    """Numbers of the lines in the page's top and bottom zone, the outermost first."""
    lines = page.lines
    if not page.placed:
        count = len(lines)
        return list(range(min(2, count))), [count - 1 - number for number in range(min(2, count))]
    order = sorted(range(len(lines)), key=lambda number: -lines[number].baseline)
    top = [n for n in order if lines[n].baseline > (1 - _MARGIN_SHARE) * page.height]
    bottom = [n for n in reversed(order) if lines[n].baseline < _MARGIN_SHARE * page.height]
    return _rows(top, lines), _rows(bottom, lines)


def _rows(numbers: list[int], lines: Sequence[Line]) -> list[int]:
    """The lines of the outermost few rows; a row's pieces count as one."""
    out: list[int] = []
    rows = 0
    last: float | None = None
    for number in numbers:
        if last is None or abs(lines[number].baseline - last) > 0.5 * max(lines[number].size, 1.0):
            rows += 1
            last = lines[number].baseline
        if rows > _EDGE:
            break
        out.append(number)
    return out


def _mark_repeated(pages: Sequence[PageLines], edges: list[list[int]], gone: list[set[int]], body: float) -> bool:
    """Marks running heads and page numbers in the outermost row that is left; True if there were any."""
    rows = [_outermost(page, edge, removed) for page, edge, removed in zip(pages, edges, gone, strict=True)]
    shapes: Counter[tuple[str, int]] = Counter()
    for page, row in zip(pages, rows, strict=True):
        shapes.update({(_digits_masked(page.lines[number].text), _place(page, number)) for number in row})
    counting = _page_numbers(pages, rows)
    changed = False
    for index, (page, row) in enumerate(zip(pages, rows, strict=True)):
        for number in row:
            place = _place(page, number)
            shape = _digits_masked(page.lines[number].text)
            alike = max(shapes[shape, place + shift] for shift in (-1, 0, 1))
            needed: float = _min_repeats(len(pages))
            if page.lines[number].size > _TITLE * body:  # a slide's title, which often says the same
                needed = max(needed, 0.6 * len(pages))
            if (alike >= needed and _may_repeat(shape)) or (index, number) in counting:
                gone[index].add(number)
                changed = True
    return changed


def _outermost(page: PageLines, edge: list[int], removed: set[int]) -> list[int]:
    left = [number for number in edge if number not in removed]
    if not left:
        return []
    if not page.placed:
        return left[:1]
    first = page.lines[left[0]]
    return [n for n in left if abs(page.lines[n].baseline - first.baseline) <= 0.5 * max(first.size, 1.0)]


def _min_repeats(pages: int) -> int:
    """How many pages must say the same. Heads of left and right pages differ, and chapters change them."""
    return 2 if pages <= 4 else 3


def _digits_masked(text: str) -> str:
    """The line with its numbers made alike, so that "12 P. W. Shor" is the same head as "14 P. W. Shor"."""
    return _EDGE_ROMAN.sub("#", _DIGITS.sub("#", text.strip().lower())).strip("# ") or "#"


def _may_repeat(shape: str) -> bool:
    """Numbers alone repeat in tables too; whether they are page numbers is for `_page_numbers` to say."""
    return sum(character.isalpha() for character in shape) >= 3


def _place(page: PageLines, number: int) -> int:
    """The line's height on the page in steps of about 8 points, so that a little shift does no harm."""
    return round(page.lines[number].baseline / 8) if page.placed else 0


def _page_numbers(pages: Sequence[PageLines], rows: list[list[int]]) -> set[tuple[int, int]]:
    """(page, line) of the lines that are nothing but a number, where these rise by one from page to page."""
    values: dict[tuple[int, int], int] = {}
    for index, (page, row) in enumerate(zip(pages, rows, strict=True)):
        for number in row:
            found = _NUMBER.match(page.lines[number].text.strip())
            if found:
                values[index, number] = int(numeral) if (numeral := found.group(1)).isdigit() else roman_value(numeral)
    offsets = Counter(value - index for (index, _), value in values.items())
    needed = 2 if len(pages) > 1 else 1
    kept = {key for key, value in values.items() if offsets[value - key[0]] >= needed}
    if len(pages) == 1:
        return {key for key, value in values.items() if value == 1}
    return kept

"""What is printed on every page and belongs to none: running heads and feet, page numbers.

They would stand in the middle of the sentence that goes on over the page, and in every chunk. But a line lost from
the text is worse than a running head kept, so a line goes only if it is at the very top or bottom of its page and
either says the same (numbers aside) in the same place on other pages, or is nothing but a number that counts along
with the pages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ragcli.documents.lines import Line, PageLines, median_size

_EDGE = 4
"""Lines looked at from either end of a page: heads of two or three lines exist."""
_ZONE = 0.14
"""Part of a page's height, at top and bottom, in which furniture may stand."""
_TITLE = 1.25
"""A line this much larger than the body's is a title."""
_NUMBER = re.compile(
    r"^(?:p(?:age|\.)?\s*)?[-–—\[(|]?\s*(\d{1,4}|[ivxlc]{1,7})\s*[-–—\])|.]?(?:\s*(?:of|/)\s*\d{1,4})?$", re.I
)
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}
_DIGITS = re.compile(r"\d+")
_EDGE_ROMAN = re.compile(r"^[ivxlc]+\s|\s[ivxlc]+$")


def without_furniture(pages: Sequence[PageLines]) -> list[PageLines]:
    """The pages without running heads, running feet and page numbers."""
    edges = [_edges(page) for page in pages]
    body = median_size(pages)
    gone: list[set[int]] = [set() for _ in pages]
    for side in (0, 1):
        for depth in range(_EDGE):
            changed = _strip(pages, [edge[side] for edge in edges], gone, body)
            if not changed or depth == _EDGE - 1:
                break
    for page, removed in zip(pages, gone, strict=True):
        # A page that says nothing else is a scan with a stamp, if it shows a picture; else this is its text.
        if not page.pictured and len(removed) == len(page.lines):
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
    top = [n for n in order if lines[n].baseline > (1 - _ZONE) * page.height]
    bottom = [n for n in reversed(order) if lines[n].baseline < _ZONE * page.height]
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


def _strip(pages: Sequence[PageLines], edges: list[list[int]], gone: list[set[int]], body: float) -> bool:
    """Takes away what is furniture in the outermost row that is left; True if any was."""
    rows = [_outermost(page, edge, removed) for page, edge, removed in zip(pages, edges, gone, strict=True)]
    shapes: Counter[tuple[str, int]] = Counter()
    for page, row in zip(pages, rows, strict=True):
        shapes.update({(_shape(page.lines[number].text), _place(page, number)) for number in row})
    counting = _counting(pages, rows)
    changed = False
    for index, (page, row) in enumerate(zip(pages, rows, strict=True)):
        for number in row:
            place = _place(page, number)
            shape = _shape(page.lines[number].text)
            alike = max(shapes[shape, place + shift] for shift in (-1, 0, 1))
            needed: float = _enough(len(pages))
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


def _enough(pages: int) -> int:
    """How many pages must say the same. Heads of left and right pages differ, and chapters change them."""
    return 2 if pages <= 4 else 3


def _shape(text: str) -> str:
    """The line with its numbers made alike, so that "12 P. W. Shor" is the same head as "14 P. W. Shor"."""
    return _EDGE_ROMAN.sub("#", _DIGITS.sub("#", text.strip().lower())).strip("# ") or "#"


def _may_repeat(shape: str) -> bool:
    """Numbers alone repeat in tables too; whether they are page numbers is for `_counting` to say."""
    return sum(character.isalpha() for character in shape) >= 3


def _place(page: PageLines, number: int) -> int:
    """The line's height on the page in steps of about 8 points, so that a little shift does no harm."""
    return round(page.lines[number].baseline / 8) if page.placed else 0


def _counting(pages: Sequence[PageLines], rows: list[list[int]]) -> set[tuple[int, int]]:
    """(page, line) of the lines that are nothing but a number, where these rise by one from page to page."""
    values: dict[tuple[int, int], int] = {}
    for index, (page, row) in enumerate(zip(pages, rows, strict=True)):
        for number in row:
            found = _NUMBER.match(page.lines[number].text.strip())
            if found:
                values[index, number] = _value(found.group(1))
    offsets = Counter(value - index for (index, _), value in values.items())
    needed = 2 if len(pages) > 1 else 1
    kept = {key for key, value in values.items() if offsets[value - key[0]] >= needed}
    if len(pages) == 1:
        return {key for key, value in values.items() if value == 1}
    return kept


def _value(text: str) -> int:
    if text.isdigit():
        return int(text)
    total = 0
    digits = [_ROMAN[letter] for letter in text.lower()]
    for digit, following in zip(digits, [*digits[1:], 0], strict=True):
        total += -digit if digit < following else digit
    return total

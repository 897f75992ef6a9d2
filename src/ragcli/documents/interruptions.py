"""Footnotes, figures and tables that stand in the middle of a sentence, moved to where it doesn't.

A page's last sentence goes on at the top of the next page, but the page's footnotes stand between. Nothing that a
footnote says is lost if it comes a paragraph earlier or later, and the sentence can be found again. A piece is moved
only within its own page, and only if what comes before it stops in mid-sentence and what comes after goes on in small
letters. A displayed formula is such a piece too, and stays: the sentence goes on right below it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ragcli.documents.lines import Line

SPACE, BREAK, PARAGRAPH = " ", "\n", "\n\n"
CAPTION = re.compile(
    r"^(?:fig(?:ure|\.)|table|algorithm|listing|exhibit|box) ?(?:\d{1,3}|[IVX]{1,5})[a-z]?[:.]", re.IGNORECASE
)
_LONGEST = 45
_ENDS = (".", "!", "?", ":", ";", "。", "！", "？")
_CLOSING = "\"”’'])"


class Row(NamedTuple):
    """A line with readable characters and the index of its page."""

    line: Line
    page: int


def ends_sentence(text: str) -> bool:
    """True if a sentence, or a clause that can stand for one, ends with the line."""
    return text.rstrip(_CLOSING).endswith(_ENDS)


def continued(rows: Sequence[Row], separators: Sequence[str], body: float) -> list[int] | None:
    """The rows' numbers in an order that lets sentences go on; None if they do already."""
    order = list(range(len(rows)))
    changed = False
    number = 0
    while number < len(rows) - 1:
        after = _interruption(rows, separators, body, number)
        if after is not None:
            moved = _moved(rows, separators, number, after)
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


def _interruption(rows: Sequence[Row], separators: Sequence[str], body: float, number: int) -> int | None:
    """The row at which the sentence that stops in row `number` goes on, if something stands between."""
    row = rows[number]
    if separators[number + 1] != PARAGRAPH or not _is_body(row, body) or len(row.line.text) < 20 or row.line.bold:
        return None
    if not row.line.broken and (ends_sentence(row.line.text) or not _goes_on(row.line.text)):
        return None
    inside = captioned = strange = False
    for after in range(number + 1, min(len(rows), number + _LONGEST)):
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


def _is_body(row: Row, body: float) -> bool:
    return abs(row.line.size - body) <= 0.035 * body


def _goes_on(text: str) -> bool:
    return text[-1].isalnum() or text[-1] in ",-–—"


def _moved(rows: Sequence[Row], separators: Sequence[str], number: int, after: int) -> tuple[int, int] | None:
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

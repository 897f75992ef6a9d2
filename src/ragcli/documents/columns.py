"""Lines put right: pieces of one printed line joined, columns read one after the other.

A typesetter writes a page column by column, and that order is kept. Programs that print a page row by row do not;
there the columns alternate line by line, and only then is the order made anew from the positions. Reordering every
page would be simpler, and would break pages that are right: figures with labels, formulas, side notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from ragcli.documents.lines import Line, PageLines, median

_FEWEST_LINES = 5
"""Fewer lines than this on either side of a gap are not a column."""


def settled(page: PageLines) -> PageLines:
    """The page with its lines whole and in reading order."""
    if not page.placed or not page.lines:
        return page
    lines = _joined(page.lines)
    gutter = _alternating_gutter(lines, page.width)
    if gutter is not None:
        lines = by_columns(lines, gutter)
    return replace(page, lines=tuple(lines))


def _joined(lines: Sequence[Line]) -> list[Line]:
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


def by_columns(lines: Sequence[Line], gutter: float) -> list[Line]:
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

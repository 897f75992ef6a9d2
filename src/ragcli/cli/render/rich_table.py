"""Render rows and columns as a Rich table with sanitized cells, and format sizes, times and counts.

Squeezed below what its columns need, Rich drops whole columns and sets others a letter a line; on a screen so narrow
each row becomes a few lines of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragcli.cli.terminal import render, safe_line

if TYPE_CHECKING:
    from datetime import datetime

    from ragcli.cli.terminal import Screen

# Cells that a column may be wrapped to before it is hard to read.
_NARROWEST: Final = 12


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading and how it is set. `whole` columns keep their cells on one line."""

    heading: str
    number: bool = False
    whole: bool = False


def table(screen: Screen, columns: Sequence[Column], rows: Iterable[Sequence[str]], *, title: str | None = None) -> str:
    """A table as text for this screen; row by row where the screen is too narrow for the columns."""
    cells = [[safe_line(cell) for cell in row] for row in rows]
    if _minimum_width(columns, cells) > screen.width:
        return _row_by_row(screen, columns, cells, title)
    from rich import box
    from rich.table import Table
    from rich.text import Text

    built = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, title=title, title_justify="left"
    )
    for column in columns:
        built.add_column(
            column.heading,
            justify="right" if column.number else "left",
            no_wrap=column.whole or column.number,
            overflow="fold",
        )
    for row in cells:
        built.add_row(*map(Text, row))
    return render(screen, built)


def _minimum_width(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> int:
    """Cells a table must have to be read: its whole columns as they are, the others a few words wide."""
    from rich.cells import cell_len

    total = len(columns) - 1
    for number, column in enumerate(columns):
        widest = max((cell_len(cell) for cell in (column.heading, *(row[number] for row in rows))), default=0)
        total += widest if column.whole or column.number else min(widest, _NARROWEST)
    return total


def _row_by_row(screen: Screen, columns: Sequence[Column], rows: Sequence[Sequence[str]], title: str | None) -> str:
    """Each row as its first cell and, below it, a line for every other that says something."""
    from rich.padding import Padding
    from rich.text import Text

    out: list[Text | Padding] = [Text(title)] if title else []
    for row in rows:
        out.append(Text(row[0], overflow="fold"))
        for column, cell in zip(columns[1:], row[1:], strict=True):
            if cell:
                out.append(Padding(Text(f"{column.heading}: {cell}", overflow="fold"), (0, 0, 0, 2)))
    return render(screen, *out)


def size_text(count: int) -> str:
    """Bytes as people say them."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def time_text(moment: datetime | None) -> str:
    """A moment in the person's own time zone, to the minute."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M") if moment is not None else "never"


def counted(count: int, noun: str) -> str:
    """A number with its noun: "1 file", "2,905 files"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"

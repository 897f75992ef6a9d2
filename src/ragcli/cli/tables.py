"""Lists as Rich tables: every cell safe to show, numbers to the right, nothing cut that fits by wrapping."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragcli.cli.terminal import render, safe_line

if TYPE_CHECKING:
    from datetime import datetime

    from ragcli.cli.terminal import Screen


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading and how it is set. `whole` columns keep their cells on one line."""

    heading: str
    number: bool = False
    whole: bool = False


def table(screen: Screen, columns: Sequence[Column], rows: Iterable[Sequence[str]], *, title: str | None = None) -> str:
    """A table as text for this screen."""
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
    for row in rows:
        built.add_row(*(Text(safe_line(cell)) for cell in row))
    return render(screen, built)


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

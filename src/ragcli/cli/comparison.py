"""A comparison on a terminal: the table, cut into blocks where it is too wide, and the queries won and lost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ragcli.cli.terminal import BOLD, DIM, can_animate, render, rich_console, safe_line, wrap

if TYPE_CHECKING:
    from ragcli.cli.terminal import Screen
    from ragcli.evaluation.comparison import Comparison
    from ragcli.evaluation.per_query import Answer
    from ragcli.evaluation.tables import Cell, Table

_GAP = 2
_FILE_WIDTH = 10_000


def table_text(table: Table, screen: Screen) -> str:
    """A table with its notes. Where it is wider than a person's screen, its number columns come in blocks."""
    from rich.cells import cell_len

    widths = [
        max(cell_len(_plain(row[at])) for row in (_heading_row(table), *table.rows))
        for at in range(len(table.headings))
    ]
    names = list(range(table.names))
    taken = sum(widths[at] + _GAP for at in names)
    blocks: list[list[int]] = [[]]
    room = screen.width if screen.interactive else _FILE_WIDTH
    used = taken
    for at in range(table.names, len(widths)):
        if blocks[-1] and used + widths[at] > room:
            blocks.append([])
            used = taken
        blocks[-1].append(at)
        used += widths[at] + _GAP
    shown = [_block(table, names + columns, screen) for columns in blocks]
    notes = "".join(_wrapped(each, screen) for each in table.notes)
    return "\n".join(shown) + ("\n" + notes if notes else "")


def per_query_text(comparison: Comparison, label: str, screen: Screen) -> str:
    """One pipeline's queries, worst first; against the baseline, only those that differ."""
    from ragcli.evaluation.per_query import changes

    measure = comparison.measures[0]
    found = changes(comparison, label, measure)
    differing = [each for each in found if each.difference is None or each.difference != 0]
    lost = sum((each.difference or 0) < 0 for each in differing)
    if comparison.baseline is None:
        heading = f"{label}: {measure} by query, worst first"
    else:
        heading = (
            f"{label} against {comparison.baseline}, {measure} by query, worst first: {len(differing) - lost} won, "
            f"{lost} lost, {len(found) - len(differing)} equal"
        )
    lines = ["", screen.style(safe_line(heading), BOLD)]
    for each in differing:
        change = "" if each.difference is None else f"{each.difference:+.3f}  "
        text = safe_line(each.text) or "(words not known)"
        lines.append(f"{change}{each.answer.value:.3f}  {safe_line(each.query_id)}  {screen.style(text, BOLD)}")
        lines.append(_answer_line(each.answer, screen))
        if each.baseline is not None:
            lines.append(_answer_line(each.baseline, screen))
        if each.relevant:
            lines.append(screen.style(f"    relevant: {_items(each.relevant)}", DIM))
    return "\n".join(lines) + "\n"


@contextmanager
def counting(screen: Screen) -> Iterator[Callable[[str, int, int], None]]:
    """Show on stderr how many queries each pipeline has answered, where a person watches."""
    if not can_animate(sys.stderr):
        yield lambda _label, _done, _total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        console=rich_console(sys.stderr, screen, animated=True),
        transient=True,
        expand=True,
    )
    with progress:
        task = progress.add_task("Loading", total=None)
        yield lambda label, done, total: progress.update(
            task, description=safe_line(label), completed=done, total=total
        )


def _heading_row(table: Table) -> tuple[Cell, ...]:
    from ragcli.evaluation.tables import Cell

    return tuple(Cell(heading) for heading in table.headings)


def _plain(cell: Cell) -> str:
    from ragcli.evaluation.tables import superscript

    return safe_line(cell.text) + superscript(cell.marks)


def _block(table: Table, columns: Sequence[int], screen: Screen) -> str:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    built = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for at in columns:
        built.add_column(
            Text(safe_line(table.headings[at])), justify="left" if at < table.names else "right", overflow="fold"
        )
    for row in table.rows:
        built.add_row(*(Text(_plain(row[at]), style="bold" if row[at].best else "") for at in columns))
    return render(screen if screen.interactive else replace(screen, width=_FILE_WIDTH), built)


def _wrapped(sentence: str, screen: Screen) -> str:
    text = safe_line(sentence)
    width = screen.width if screen.interactive else _FILE_WIDTH
    return "".join(screen.style(text[start:end], DIM) + "\n" for start, end in wrap(text, width))


def _answer_line(answer: Answer, screen: Screen) -> str:
    first = f"rank {answer.first_relevant}" if answer.first_relevant is not None else "not found"
    return screen.style(f"    {safe_line(answer.label)}: {first}; top {_items(answer.top)}", DIM)


def _items(items: Sequence[str]) -> str:
    from ragcli.evaluation.load import first_few

    return first_few(items, show=safe_line) or "nothing"

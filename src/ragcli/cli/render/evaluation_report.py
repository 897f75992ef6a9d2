"""Print an evaluation: comparison, per-query and calibration tables as text, Markdown, LaTeX or JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ragcli.cli.command_context import CommandContext
from ragcli.cli.terminal import BOLD, DIM, render, safe, safe_line, wrap, write
from ragcli.errors import CollectionError

if TYPE_CHECKING:
    from ragcli.cli.terminal import Screen
    from ragcli.collection import Collection
    from ragcli.evaluation.comparison_report import ResultTable, TableCell
    from ragcli.evaluation.gate_evaluation import GateCalibration, GateReport
    from ragcli.evaluation.pipeline_spec import PipelineSpec
    from ragcli.evaluation.run_comparison import QueryRanking, RunComparison


_GAP = 2
_FILE_WIDTH = 10_000


def evaluation_table_text(table: ResultTable, screen: Screen) -> str:
    """A table with its notes. Where it is wider than a person's screen, its number columns come in blocks."""
    from rich.cells import cell_len

    widths = [
        max(cell_len(_cell_text(row[at])) for row in (_heading_row(table), *table.rows))
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
    shown = [_column_block(table, names + columns, screen) for columns in blocks]
    notes = "".join(_wrapped_note(each, screen) for each in table.notes)
    return "\n".join(shown) + ("\n" + notes if notes else "")


def per_query_text(comparison: RunComparison, label: str, screen: Screen) -> str:
    """One pipeline's queries, worst first; against the baseline, only those that differ."""
    from ragcli.evaluation.run_comparison import query_changes

    measure = comparison.measures[0]
    found = query_changes(comparison, label, measure)
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


def _heading_row(table: ResultTable) -> tuple[TableCell, ...]:
    from ragcli.evaluation.comparison_report import TableCell

    return tuple(TableCell(heading) for heading in table.headings)


def _cell_text(cell: TableCell) -> str:
    from ragcli.evaluation.comparison_report import letter_superscript

    return safe_line(cell.text) + letter_superscript(cell.marks)


def _column_block(table: ResultTable, columns: Sequence[int], screen: Screen) -> str:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    built = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for at in columns:
        built.add_column(
            Text(safe_line(table.headings[at])), justify="left" if at < table.names else "right", overflow="fold"
        )
    for row in table.rows:
        built.add_row(*(Text(_cell_text(row[at]), style="bold" if row[at].best else "") for at in columns))
    return render(screen if screen.interactive else replace(screen, width=_FILE_WIDTH), built)


def _wrapped_note(sentence: str, screen: Screen) -> str:
    text = safe_line(sentence)
    width = screen.width if screen.interactive else _FILE_WIDTH
    return "".join(screen.style(text[start:end], DIM) + "\n" for start, end in wrap(text, width))


def _answer_line(answer: QueryRanking, screen: Screen) -> str:
    first = f"rank {answer.first_relevant}" if answer.first_relevant is not None else "not found"
    return screen.style(f"    {safe_line(answer.label)}: {first}; top {_items(answer.top)}", DIM)


def _items(items: Sequence[str]) -> str:
    from ragcli.evaluation.dataset_loader import list_first

    return list_first(items, show=safe_line) or "nothing"


def write_comparison(
    comparison: RunComparison,
    specs: Sequence[PipelineSpec],
    gates: Sequence[GateReport],
    shape: str | None,
    here: CommandContext,
    *,
    per_query: bool,
    p_values: bool,
) -> None:
    from ragcli.evaluation.comparison_report import (
        comparison_table,
        format_latex,
        format_markdown,
        gate_table,
        p_value_table,
    )

    rows = [result.label for result in comparison.results]
    listed = [label for label in rows if label != comparison.baseline] if per_query else None
    if shape == "json":
        from ragcli.cli.render.json_output import write_json
        from ragcli.evaluation.comparison_report import comparison_record

        write_json(comparison_record(comparison, {spec.label: spec for spec in specs}, per_query=listed, gates=gates))
        return
    tables = [comparison_table(comparison)]
    if p_values and comparison.pairs:
        tables.append(p_value_table(comparison))
    if gates:
        tables.append(gate_table(gates))
    if shape is not None:
        spell: Callable[..., str] = format_markdown if shape == "markdown" else format_latex
        write(safe("\n".join(spell(table) for table in tables)))
        return

    for table in tables:
        write(evaluation_table_text(table, here.screen))
    for label in listed or ():
        write(per_query_text(comparison, label, here.screen))


def write_calibration(calibrated: GateCalibration, collection: str, shape: str | None, here: CommandContext) -> None:
    from ragcli.evaluation.comparison_report import gate_table, reliability_table

    if shape == "json":
        from ragcli.cli.render.json_output import write_json

        write_json({"collection": collection, **calibrated.as_json()})
        return
    tables = [
        gate_table([calibrated.before, calibrated.after]),
        reliability_table(calibrated.before.bins or (), calibrated.after.bins or ()),
    ]
    if shape is not None:
        from ragcli.evaluation.comparison_report import format_latex, format_markdown

        spell: Callable[..., str] = format_markdown if shape == "markdown" else format_latex
        write(safe("\n".join(spell(table) for table in tables)))
        return

    for table in tables:
        write(evaluation_table_text(table, here.screen))


def has_calibration(collection: Collection) -> bool:
    """Is there one, whether or not it can be read?"""
    try:
        return collection.calibration() is not None
    except CollectionError:
        return True


def calibration_text(collection: Collection) -> str | None:
    """What a person is told of the collection's own calibration; None where there is none."""
    from ragcli.grounding.sufficiency.calibration_models import decode_calibration

    try:
        stored = collection.calibration()
        if stored is None:
            return None
        learned = decode_calibration(stored.text)
    except CollectionError as error:
        return str(error)
    if learned.encoder != stored.fingerprint:
        return "fitted to another model's vectors, and not used"
    return f"fitted to {learned.questions} questions of its own, {learned.answerable} of them answerable"

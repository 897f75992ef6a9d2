"""A comparison as the table that goes into the paper: pipelines as rows, measures as columns, marks and costs.

The table is made once, as cells, and then spelled for a terminal, for Markdown or for LaTeX. A letter at a value
names a row that this value is significantly better than; the best value of a column is set off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ragcli.evaluation.comparison import Comparison, Result
from ragcli.evaluation.load import first_few

_UNITS: Final = ("B", "KB", "MB", "GB", "TB")
_LATEX: Final[Mapping[str, str]] = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{character: "\\" + character for character in "&%$#_{}"},
    "Δ": r"$\Delta$",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: its text, the letters at it, and whether it is the best of its column."""

    text: str
    marks: str = ""
    best: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Headings, rows, and the sentences that stand below. The first `names` columns are words, the rest numbers."""

    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...]
    names: int = 2


def comparison_table(comparison: Comparison) -> Table:
    """The table of a comparison."""
    several = len(comparison.results) > 1
    costs = any(result.cost for result in comparison.results)
    main = comparison.measures[0]
    headings = ["", "pipeline", *comparison.measures]
    if comparison.baseline is not None:
        headings.append(f"Δ {main}")
    if costs:
        headings += ["p50 ms", "p95 ms", "index", "models"]
    best = {
        measure: max(f"{result.scores.means[measure]:.3f}" for result in comparison.results)
        for measure in comparison.measures
    }
    rows = []
    for result in comparison.results:
        cells = [Cell(comparison.marks[result.label] if several else ""), Cell(_name(result))]
        for measure in comparison.measures:
            marks = "".join(comparison.marks[other] for other in comparison.beaten(result.label, measure))
            text = number(result.scores.means[measure])
            cells.append(Cell(text, marks, best=several and text == best[measure]))
        if comparison.baseline is not None:
            cells.append(Cell(_change(comparison, result.label, main)))
        if costs:
            cells += _costs(result)
        rows.append(tuple(cells))
    return Table(tuple(headings), tuple(rows), _notes(comparison, costs=costs))


def p_value_table(comparison: Comparison) -> Table:
    """Every pair on every measure with its p-values."""
    return Table(
        ("pair", "measure", "difference", "p", "p (Holm)"),
        tuple(
            (
                Cell(f"{pair.first} − {pair.second}"),
                Cell(pair.measure),
                Cell(f"{pair.difference:+.4f}"),
                Cell(_p(pair.p)),
                Cell(_p(pair.p_holm), best=pair.p_holm <= comparison.alpha),
            )
            for pair in comparison.pairs
        ),
        (),
    )


def markdown(table: Table) -> str:
    """The table in GitHub's Markdown."""

    def spell(cell: Cell) -> str:
        text = re.sub(r"([\\|`*_<>\[\]])", r"\\\1", cell.text)
        return (f"**{text}**" if cell.best else text) + (f"<sup>{cell.marks}</sup>" if cell.marks else "")

    lines = [
        "| " + " | ".join(spell(Cell(heading)) for heading in table.headings) + " |",
        "|" + "|".join("---" if at < table.names else "--:" for at in range(len(table.headings))) + "|",
        *("| " + " | ".join(spell(cell) for cell in row) + " |" for row in table.rows),
    ]
    return "\n".join(lines) + "\n" + "".join(f"\n{spell(Cell(each))}\n" for each in table.notes)


def latex(table: Table) -> str:
    """The table as a LaTeX tabular, which needs the package booktabs."""

    def spell(cell: Cell) -> str:
        text = latex_escape(cell.text)
        return (rf"\textbf{{{text}}}" if cell.best else text) + (f"$^{{{cell.marks}}}$" if cell.marks else "")

    def line(cells: Sequence[Cell]) -> str:
        return " & ".join(spell(cell) for cell in cells) + r" \\"

    numbers = len(table.headings) - table.names
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            rf"\begin{{tabular}}{{{'l' * table.names}{'r' * numbers}}}",
            r"\toprule",
            line([Cell(heading) for heading in table.headings]),
            r"\midrule",
            *(line(row) for row in table.rows),
            r"\bottomrule",
            r"\end{tabular}",
            *(f"% {' '.join(each.split())}" for each in table.notes),
            "",
        ]
    )


def latex_escape(text: str) -> str:
    """Text in which LaTeX sees nothing but text."""
    return "".join(_LATEX.get(character, character) for character in text)


def superscript(marks: str) -> str:
    """Letters raised above the line, as far as Unicode has them."""
    return marks.translate(str.maketrans("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"))


def number(value: float) -> str:
    """A measure's value for a table."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.0f}"


def size(count: int) -> str:
    """A number of bytes in words, in decimal units as disks have them."""
    value = float(count)
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError


def _name(result: Result) -> str:
    shown = result.reranker.rsplit("/", 1)[-1] if result.reranker else None
    return result.label if shown is None or f"={shown}" in result.label else f"{result.label} ({shown})"


def _change(comparison: Comparison, label: str, measure: str) -> str:
    change = comparison.change(label, measure)
    if change is None:
        return "–"
    before = comparison.result(comparison.baseline or "").scores.means[measure]
    return f"{change:+.3f}" + (f" ({change / before:+.1%})" if before > 0 else "")


def _costs(result: Result) -> list[Cell]:
    cost = result.cost
    if cost is None:
        return [Cell("–")] * 4
    return [
        Cell(f"{cost.p50:.1f}"),
        Cell(f"{cost.p95:.1f}"),
        Cell(size(cost.index_bytes)),
        Cell(size(cost.model_bytes) if cost.model_bytes else "–"),
    ]


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "<0.0001"


def _notes(comparison: Comparison, *, costs: bool) -> tuple[str, ...]:
    given = comparison.given
    what = f"{given.name}{f', split {given.split}' if given.split else ''}"
    notes = [f"{what}: {len(given.topics)} queries, {given.qrels.count} judgements of {given.level}s."]
    if given.unjudged:
        notes.append(f"Left out: {len(given.unjudged)} queries without judgements.")
    if given.without_topic:
        notes.append(
            f"Left out: {len(given.without_topic)} judged queries of which the text is not known "
            f"({first_few(given.without_topic)})."
        )
    if given.unknown:
        notes.append(f"Judged but not in the collection: {len(given.unknown)} ids ({first_few(given.unknown)}).")
    notes += given.notes
    if comparison.pairs:
        notes.append(
            f"A letter at a value: significantly better than that row (paired randomisation test, two-sided, "
            f"{comparison.permutations:,} permutations, Holm-corrected, p ≤ {comparison.alpha:g})."
        )
    if comparison.baseline is not None:
        notes.append(f"Δ: change against {comparison.baseline}.")
    if costs:
        queries = max(result.cost.queries for result in comparison.results if result.cost)
        notes.append(
            f"Latency: one query at a time, top 5, models loaded, over {queries} queries on this machine. "
            "Index: what the pipeline reads to search, without the texts."
        )
    return tuple(notes)

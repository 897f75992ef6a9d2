"""Format comparisons and gate evaluations as JSON and as terminal, Markdown and LaTeX tables.

A table is made once, as cells, and then spelled for each. A letter at a value names a row that this value is
significantly better than; the best value of a column is set off. Ids in the JSON are documents' or chunks', as
`data.level` says, spelled as in the qrels; `pipeline` is null for a run that came from a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragcli.evaluation.dataset_loader import list_first
from ragcli.evaluation.gate_evaluation import GateReport, ReliabilityBin
from ragcli.evaluation.pipeline_spec import PipelineSpec
from ragcli.evaluation.run_comparison import QueryRanking, RunComparison, RunCost, RunResult, query_changes

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
class TableCell:
    """One cell: its text, the letters at it, and whether it is the best of its column."""

    text: str
    marks: str = ""
    best: bool = False


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Headings, rows, and the sentences that stand below. The first `names` columns are words, the rest numbers."""

    headings: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    notes: tuple[str, ...]
    names: int = 2


def comparison_table(comparison: RunComparison) -> ResultTable:
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
        cells = [TableCell(comparison.marks[result.label] if several else ""), TableCell(_pipeline_cell(result))]
        for measure in comparison.measures:
            marks = "".join(comparison.marks[other] for other in comparison.outperformed(result.label, measure))
            text = format_number(result.scores.means[measure])
            cells.append(TableCell(text, marks, best=several and text == best[measure]))
        if comparison.baseline is not None:
            cells.append(TableCell(_change_cell(comparison, result.label, main)))
        if costs:
            cells += _cost_cells(result)
        rows.append(tuple(cells))
    return ResultTable(tuple(headings), tuple(rows), _table_notes(comparison, costs=costs))


def p_value_table(comparison: RunComparison) -> ResultTable:
    """Every pair on every measure with its p-values."""
    return ResultTable(
        ("pair", "measure", "difference", "p", "p (Holm)"),
        tuple(
            (
                TableCell(f"{pair.first} − {pair.second}"),
                TableCell(pair.measure),
                TableCell(f"{pair.difference:+.4f}"),
                TableCell(_p_value_cell(pair.p)),
                TableCell(_p_value_cell(pair.p_holm), best=pair.p_holm <= comparison.alpha),
            )
            for pair in comparison.pairs
        ),
        (),
    )


def format_markdown(table: ResultTable) -> str:
    """The table in GitHub's Markdown."""

    def spell(cell: TableCell) -> str:
        text = re.sub(r"([\\|`*_<>\[\]])", r"\\\1", cell.text)
        return (f"**{text}**" if cell.best else text) + (f"<sup>{cell.marks}</sup>" if cell.marks else "")

    lines = [
        "| " + " | ".join(spell(TableCell(heading)) for heading in table.headings) + " |",
        "|" + "|".join("---" if at < table.names else "--:" for at in range(len(table.headings))) + "|",
        *("| " + " | ".join(spell(cell) for cell in row) + " |" for row in table.rows),
    ]
    return "\n".join(lines) + "\n" + "".join(f"\n{spell(TableCell(each))}\n" for each in table.notes)


def format_latex(table: ResultTable) -> str:
    """The table as a LaTeX tabular, which needs the package booktabs."""

    def spell(cell: TableCell) -> str:
        text = latex_escape(cell.text)
        return (rf"\textbf{{{text}}}" if cell.best else text) + (f"$^{{{cell.marks}}}$" if cell.marks else "")

    def line(cells: Sequence[TableCell]) -> str:
        return " & ".join(spell(cell) for cell in cells) + r" \\"

    numbers = len(table.headings) - table.names
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            rf"\begin{{tabular}}{{{'l' * table.names}{'r' * numbers}}}",
            r"\toprule",
            line([TableCell(heading) for heading in table.headings]),
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


def letter_superscript(marks: str) -> str:
    """Letters raised above the line, as far as Unicode has them."""
    return marks.translate(str.maketrans("abcdefghijklmnoprstuvwxyz", "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"))


def format_number(value: float) -> str:
    """A measure's value for a table."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.0f}"


def format_size(count: int) -> str:
    """A number of bytes in words, in decimal units as disks have them."""
    value = float(count)
    for unit in _UNITS:
        if value < 1000 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError


def _pipeline_cell(result: RunResult) -> str:
    shown = result.reranker.rsplit("/", 1)[-1] if result.reranker else None
    return result.label if shown is None or f"={shown}" in result.label else f"{result.label} ({shown})"


def _change_cell(comparison: RunComparison, label: str, measure: str) -> str:
    change = comparison.change(label, measure)
    if change is None:
        return "–"
    before = comparison.result(comparison.baseline or "").scores.means[measure]
    return f"{change:+.3f}" + (f" ({change / before:+.1%})" if before > 0 else "")


def _cost_cells(result: RunResult) -> list[TableCell]:
    cost = result.cost
    if cost is None:
        return [TableCell("–")] * 4
    return [
        TableCell(f"{cost.p50:.1f}"),
        TableCell(f"{cost.p95:.1f}"),
        TableCell(format_size(cost.index_bytes)),
        TableCell(format_size(cost.model_bytes) if cost.model_bytes else "–"),
    ]


def _p_value_cell(value: float) -> str:
    return f"{value:.4f}" if value >= 0.0001 else "<0.0001"


def _table_notes(comparison: RunComparison, *, costs: bool) -> tuple[str, ...]:
    given = comparison.given
    what = f"{given.name}{f', split {given.split}' if given.split else ''}"
    notes = [f"{what}: {len(given.topics)} queries, {given.qrels.count} judgements of {given.level}s."]
    if given.unjudged:
        notes.append(f"Left out: {len(given.unjudged)} queries without judgements.")
    if given.without_topic:
        notes.append(
            f"Left out: {len(given.without_topic)} judged queries of which the text is not known "
            f"({list_first(given.without_topic)})."
        )
    if given.unknown:
        notes.append(f"Judged but not in the collection: {len(given.unknown)} ids ({list_first(given.unknown)}).")
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


def gate_table(reports: Sequence[GateReport]) -> ResultTable:
    """One row a judge."""
    rows = []
    for report in reports:
        counts = (
            report.passed_answerable,
            report.passed_unanswerable,
            report.stopped_answerable,
            report.stopped_unanswerable,
        )
        shares = (report.precision, report.recall, report.abstained, report.auc, report.ece)
        rows.append(
            (
                TableCell(report.judge),
                TableCell(f"{report.preset}, from {report.threshold:.2f}"),
                *(TableCell("–" if share is None else f"{share:.3f}") for share in shares),
                *(TableCell(str(count)) for count in counts),
            )
        )
    answerable = reports[0].passed_answerable + reports[0].stopped_answerable
    return ResultTable(
        ("gate", "passes", "precision", "recall", "abstained", "AUC", "ECE", "TP", "FP", "FN", "TN"),
        tuple(rows),
        (
            f"Gate: {reports[0].questions} questions, {answerable} answerable; TP were let through and answerable, TN "
            "stopped and not. ECE: expected calibration error, for probabilities.",
        ),
    )


def reliability_table(before: Sequence[ReliabilityBin], after: Sequence[ReliabilityBin]) -> ResultTable:
    """What was expected of the questions in each tenth of the probability, and what was found, for two gates."""
    rows = [
        (
            TableCell(name),
            TableCell(str(each.count)),
            TableCell(f"{each.expected:.2f}"),
            TableCell(f"{each.found:.2f}"),
        )
        for name, bins in (("shipped", before), ("calibrated", after))
        for each in bins
    ]
    return ResultTable(("gate", "questions", "expected", "answerable"), tuple(rows), (), names=1)


def comparison_record(
    comparison: RunComparison,
    specs: Mapping[str, PipelineSpec],
    *,
    per_query: Sequence[str] | None = None,
    gates: Sequence[GateReport] = (),
) -> dict[str, Any]:
    """The JSON value of a comparison. `specs` are the pipelines by label; `per_query` names the rows to list."""
    given = comparison.given
    topics = (*given.topics, *given.unjudged)
    return {
        "data": {
            "name": given.name,
            "format": given.format,
            "split": given.split,
            "level": given.level,
            "queries": len(given.topics),
            "judgements": given.qrels.count,
            "answerable": {
                word: sum(topic.answerable is value for topic in topics)
                for word, value in (("yes", True), ("no", False), ("unsaid", None))
            },
            "left_out": {"unjudged": len(given.unjudged), "without_topic": list(given.without_topic)},
            "unknown": list(given.unknown),
            "notes": list(given.notes),
        },
        "measures": list(comparison.measures),
        "pipelines": [_result_record(comparison, result, specs.get(result.label)) for result in comparison.results],
        "significance": {
            "test": "paired randomisation, two-sided",
            "correction": "Holm, over all pairs of a measure",
            "permutations": comparison.permutations,
            "alpha": comparison.alpha,
            "pairs": [
                {
                    "measure": pair.measure,
                    "first": pair.first,
                    "second": pair.second,
                    "difference": pair.difference,
                    "p": pair.p,
                    "p_holm": pair.p_holm,
                    "queries": pair.queries,
                }
                for pair in comparison.pairs
            ],
        },
        "baseline": comparison.baseline,
        "gate": [each.as_json() for each in gates] or None,
        "per_query": None if per_query is None else [_query_records(comparison, label) for label in per_query],
    }


def _result_record(comparison: RunComparison, result: RunResult, spec: PipelineSpec | None) -> dict[str, Any]:
    changed = {measure: comparison.change(result.label, measure) for measure in comparison.measures}
    return {
        "label": result.label,
        "letter": comparison.marks[result.label],
        "pipeline": spec.pipeline if spec else None,
        "options": dict(spec.options) if spec else {},
        "reranker": result.reranker,
        "measures": dict(result.scores.means),
        "change": None if None in changed.values() else changed,
        "better_than": {
            measure: list(comparison.outperformed(result.label, measure)) for measure in comparison.measures
        },
        "cost": _cost_record(result.cost),
    }


def _cost_record(cost: RunCost | None) -> dict[str, Any] | None:
    if cost is None:
        return None
    return {
        "latency_ms": {"p50": cost.p50, "p95": cost.p95},
        "queries": cost.queries,
        "index_bytes": cost.index_bytes,
        "model_bytes": cost.model_bytes,
    }


def _query_records(comparison: RunComparison, label: str) -> dict[str, Any]:
    measure = comparison.measures[0]
    return {
        "label": label,
        "measure": measure,
        "queries": [
            {
                "query_id": change.query_id,
                "text": change.text,
                "relevant": list(change.relevant),
                "value": change.answer.value,
                "top": list(change.answer.top),
                "first_relevant": change.answer.first_relevant,
                "baseline": _ranking_record(change.baseline),
                "difference": change.difference,
            }
            for change in query_changes(comparison, label, measure)
        ],
    }


def _ranking_record(answer: QueryRanking | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    return {
        "label": answer.label,
        "value": answer.value,
        "top": list(answer.top),
        "first_relevant": answer.first_relevant,
    }

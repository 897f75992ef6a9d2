"""The gate's figures as tables: what each judge did, and what became of its probabilities."""

from __future__ import annotations

from collections.abc import Sequence

from ragcli.evaluation.gating import Bin, GateReport
from ragcli.evaluation.tables import Cell, Table


def gate_table(reports: Sequence[GateReport]) -> Table:
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
                Cell(report.judge),
                Cell(f"{report.preset}, from {report.threshold:.2f}"),
                *(Cell("–" if share is None else f"{share:.3f}") for share in shares),
                *(Cell(str(count)) for count in counts),
            )
        )
    answerable = reports[0].passed_answerable + reports[0].stopped_answerable
    return Table(
        ("gate", "passes", "precision", "recall", "abstained", "AUC", "ECE", "TP", "FP", "FN", "TN"),
        tuple(rows),
        (
            f"Gate: {reports[0].questions} questions, {answerable} answerable; TP were let through and answerable, TN "
            "stopped and not. ECE: expected calibration error, for probabilities.",
        ),
    )


def reliability_table(before: Sequence[Bin], after: Sequence[Bin]) -> Table:
    """What was expected of the questions in each tenth of the probability, and what was found, for two gates."""
    rows = [
        (
            Cell(name),
            Cell(str(each.count)),
            Cell(f"{each.expected:.2f}"),
            Cell(f"{each.found:.2f}"),
        )
        for name, bins in (("shipped", before), ("calibrated", after))
        for each in bins
    ]
    return Table(("gate", "questions", "expected", "answerable"), tuple(rows), (), names=1)

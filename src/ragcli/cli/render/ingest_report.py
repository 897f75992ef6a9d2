"""Render the report of an ingest or a reindex: summary, failures, warnings."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from ragcli.cli.render.rich_table import Column, counted, table
from ragcli.cli.terminal import note, safe_line, write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.cli.command_context import CommandContext
    from ragcli.collection import IngestReport
    from ragcli.types import Failure


# Every failure is shown; of remarks on documents that were taken in, so many, and the number of the others.
_MOST_WARNINGS: Final = 20


def write_report(report: IngestReport, here: CommandContext, *, idle: str = "nothing to do") -> None:
    """Write the summary to stdout, and failures and remarks to stderr. `idle` is told of a run that took nothing in."""
    write(report_summary(report, idle=idle) + "\n")
    if report.dry_run:
        _write_plan(report)
    _write_failures("Failed", report.failures, here)
    _write_failures("Remarks", report.warnings[:_MOST_WARNINGS], here)
    if len(report.warnings) > _MOST_WARNINGS:
        note(f"{len(report.warnings) - _MOST_WARNINGS} more remarks; --json lists all of them.")
    if report.outdated:
        were = "document was" if report.outdated == 1 else "documents were"
        note(f"{report.outdated:,} {were} read by an older parser; --refresh reads them anew.")
    if report.gone:
        note(f"{counted(len(report.gone), 'document')} no longer on the disk; --prune drops what is gone.")


def report_summary(report: IngestReport, *, idle: str = "nothing to do") -> str:
    """The whole run in one line."""
    parts = [
        f"{len(group)} {word}"
        for group, word in (
            (report.added, "added"),
            (report.changed, "changed"),
            (report.refreshed, "refreshed"),
            (report.moved, "moved"),
            (report.removed, "removed"),
        )
        if group
    ]
    if report.unchanged:
        told = f" ({len(report.described)} described anew)" if report.described else ""
        parts.append(f"{report.unchanged} unchanged{told}")
    if report.failures:
        parts.append(f"{len(report.failures)} failed")
    if skipped := sum(report.skipped.values()):
        kinds = ", ".join(sorted(report.skipped, key=lambda kind: -report.skipped[kind])[:4])
        # A suffix is a file's own, and may hold anything.
        parts.append(f"{skipped} skipped ({safe_line(kinds)})")
    done = ", ".join(parts) or ("nothing taken in" if report.interrupted else idle)
    if report.dry_run:
        return f"{report.collection}: would have {done}."
    pages = f"{counted(report.pages, 'page')}, " if report.pages else ""
    work = f"; {pages}{counted(report.chunks, 'chunk')}" if report.chunks else ""
    rate = f" ({report.embedded / report.seconds:.0f} chunks/s)" if report.embedded and report.seconds > 10 else ""
    halted = ", then interrupted" if report.interrupted else ""
    return f"{report.collection}: {done}{work} in {report.seconds:.1f} s{rate}{halted}."


def _write_plan(report: IngestReport) -> None:
    for word, sources in (
        ("add", report.added),
        ("change", report.changed),
        ("refresh", report.refreshed),
        ("remove", report.removed),
    ):
        for source in sources:
            write(f"  would {word} {safe_line(source)}\n")
    for source in report.described:
        write(f"  would describe {safe_line(source)} anew\n")
    for before, after in report.moved:
        write(f"  would move {safe_line(before)} to {safe_line(after)}\n")


def _write_failures(title: str, failures: Sequence[Failure], here: CommandContext) -> None:
    if failures:
        rows = [(each.source, _without_path(each)) for each in failures]
        sys.stderr.write(table(here.stderr_screen, (Column("Document"), Column("Reason")), rows, title=title))


def _without_path(failure: Failure) -> str:
    """The reason without the path it may begin with: the column before names the document already."""
    path, colon, reason = failure.reason.partition(": ")
    return reason if colon and path.endswith(failure.source.rsplit("/", 1)[-1]) else failure.reason

"""`ragcli eval --calibrate-gate`: fit the gate to labelled questions, keep it, and show how reliable it is.

`--forget-gate` undoes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragcli.cli.gathering import questions_for_collection
from ragcli.cli.terminal import note, safe, write
from ragcli.errors import EXIT_DONE, CollectionError, UsageError

if TYPE_CHECKING:
    from ragcli.cli.gathering import Inputs
    from ragcli.cli.options import Surroundings
    from ragcli.collection import Collection
    from ragcli.evaluation.calibrating import Calibrated
    from ragcli.gate.values import Preset


def calibrate_gate(
    inputs: Inputs,
    asked: Mapping[str, Any],
    preset: Preset,
    shape: str | None,
    plot: Path | None,
    here: Surroundings,
) -> int:
    """Fit, keep, print."""
    from ragcli.cli.comparison import counting
    from ragcli.evaluation.calibrating import calibrate, store
    from ragcli.evaluation.evaluate import unknown_items
    from ragcli.evaluation.gating import gate_questions
    from ragcli.retrieval.query import Searcher

    if plot is not None:
        from ragcli.evaluation.plots import check_plot

        check_plot(plot)
    target, given = questions_for_collection(inputs, asked, here, labels=True)
    with (
        counting(here.side_screen) as progress,
        Searcher([target], engine=here.config.engine, notify=note) as searcher,
    ):
        unknown = unknown_items(searcher.snapshots[0], given.qrels)
        questions = gate_questions((*given.topics, *given.unjudged), given.qrels, unknown)
        calibrated = calibrate(searcher, questions, preset, progress)
    store(target, calibrated)
    note(
        f"the calibration is kept with the collection '{target.name}', and `ragcli ask -c {target.name}` goes by it; "
        f"`ragcli eval -c {target.name} --forget-gate` lets it go."
    )
    if plot is not None:
        from ragcli.evaluation.plots import write_reliability

        write_reliability(plot, (calibrated.before, calibrated.after), given.name)
    _show(calibrated, target.name, shape, here)
    return EXIT_DONE


def forget_gate(name: str | None, here: Surroundings) -> int:
    """Let the collection be judged by the shipped gate again."""
    if name is None:
        raise UsageError("Say with -c which collection's calibration is to be forgotten.")
    target = here.collection(name)
    if has_calibration(target):
        target.store_calibration(None)
        note(f"the shipped gate judges '{name}' again.")
    else:
        note(f"the collection '{name}' has no calibration of its own; nothing was changed.")
    return EXIT_DONE


def has_calibration(collection: Collection) -> bool:
    """Is there one, whether or not it can be read?"""
    try:
        return collection.calibration() is not None
    except CollectionError:
        return True


def calibration_text(collection: Collection) -> str | None:
    """What a person is told of the collection's own calibration; None where there is none."""
    from ragcli.gate.calibration import decode

    try:
        stored = collection.calibration()
        if stored is None:
            return None
        learned = decode(stored.text)
    except CollectionError as error:
        return str(error)
    if learned.encoder != stored.fingerprint:
        return "fitted to another model's vectors, and not used"
    return f"fitted to {learned.questions} questions of its own, {learned.answerable} of them answerable"


def _show(calibrated: Calibrated, collection: str, shape: str | None, here: Surroundings) -> None:
    from ragcli.evaluation.gate_tables import gate_table, reliability_table

    if shape == "--json":
        from ragcli.cli.output import write_json

        write_json({"collection": collection, **calibrated.as_json()})
        return
    tables = [
        gate_table([calibrated.before, calibrated.after]),
        reliability_table(calibrated.before.bins or (), calibrated.after.bins or ()),
    ]
    if shape is not None:
        from ragcli.evaluation.tables import latex, markdown

        spell: Callable[..., str] = markdown if shape == "--markdown" else latex
        write(safe("\n".join(spell(table) for table in tables)))
        return
    from ragcli.cli.comparison import table_text

    for table in tables:
        write(table_text(table, here.screen))

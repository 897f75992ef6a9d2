"""Fitting the gate to a user's own questions, and keeping what it learned with the collection.

What is reported rests on out-of-fold probabilities: each question is judged by a model that has not seen it. The
shipped gate's figures on the same questions stand beside them, so that one sees whether fitting helped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ragcli.evaluation.gating import GateQuestion, GateReport, Progress, gate_report
from ragcli.gate.calibration import Calibration, encode, shipped
from ragcli.gate.features import features_of
from ragcli.gate.fitting import Observation, fit_own
from ragcli.gate.pool import judged_pools

if TYPE_CHECKING:
    from ragcli.collection import Collection
    from ragcli.gate.values import Preset
    from ragcli.retrieval.query import Searcher


@dataclass(frozen=True, slots=True)
class Calibrated:
    """A new calibration with the shipped gate's figures and its own. `without` questions found nothing at all."""

    calibration: Calibration
    before: GateReport
    after: GateReport
    without: int

    def as_json(self) -> dict[str, Any]:
        """The JSON value."""
        return {
            "kind": self.calibration.kind,
            "questions": self.calibration.questions,
            "answerable": self.calibration.answerable,
            "without_candidates": self.without,
            "thresholds": dict(self.calibration.thresholds),
            "before": self.before.as_json(),
            "after": self.after.as_json(),
        }


def calibrate(
    searcher: Searcher,
    questions: Sequence[GateQuestion],
    preset: Preset = "balanced",
    progress: Progress | None = None,
) -> Calibrated:
    """Fit the gate to labelled questions on the one collection that is searched.

    Raises InputError when there are too few questions of either label.
    """
    (snapshot,) = searcher.snapshots
    observations: list[Observation] = []
    for done, question in enumerate(questions, 1):
        observed = _observed(searcher, question, done)
        if observed is not None:
            observations.append(observed)
        if progress is not None:
            progress("calibrating", done, len(questions))
    bare = not snapshot.record.dimension
    base = shipped("words" if bare else "meanings")
    fitted = fit_own(base, observations, encoder=snapshot.record.fingerprint, where="the collection's own questions")
    truth = [each.answerable for each in observations]
    scores = [base.probability(each.features) for each in observations]
    before = _report("shipped", preset, base, scores, truth)
    after = _report("calibrated", preset, fitted.calibration, fitted.probabilities, truth)
    return Calibrated(fitted.calibration, before, after, len(questions) - len(observations))


def store(collection: Collection, calibrated: Calibrated) -> None:
    """Keep the calibration with its collection, where `open_judge` finds it. Raises CollectionBusy."""
    collection.store_calibration(encode(calibrated.calibration))


def _observed(searcher: Searcher, question: GateQuestion, group: int) -> Observation | None:
    from ragcli.retrieval.request import QueryRequest

    pools = [pool for pool in judged_pools(searcher, QueryRequest(question.text), question.text) if len(pool)]
    if not pools:
        return None
    return Observation(features_of(pools[0]), "answerable" if question.answerable else "hard", group)


def _report(
    name: str, preset: Preset, calibration: Calibration, scores: Sequence[float], truth: Sequence[bool]
) -> GateReport:
    threshold = calibration.thresholds[preset]
    passed = (np.asarray(scores) >= threshold).tolist()
    return gate_report(name, preset, threshold, scores, passed, truth)

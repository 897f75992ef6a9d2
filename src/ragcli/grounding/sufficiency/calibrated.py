"""Calibrated sufficiency judge: the probability that the pool answers, by logistic models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ragcli.grounding.sufficiency.calibration_models import Calibration, CalibrationKind, Logistic, default_calibration
from ragcli.grounding.sufficiency.evidence import Decision, explain
from ragcli.grounding.sufficiency.features import features_of
from ragcli.text.stop_words import content_words

if TYPE_CHECKING:
    from ragcli.grounding.sufficiency.evidence import Evidence, Preset, ReasonCode
    from ragcli.grounding.sufficiency.pool_statistics import PoolStatistics

_MOST_REASONS: Final = 2
_ENDS: Final[tuple[tuple[tuple[str, ...], ReasonCode], ...]] = (
    (("_ahead", "_ahead5", "_ahead15", "_steep", "beats"), "NO_MARGIN"),
    (("agreement", "steady", "steady_all", "steady_top"), "NO_CONSENSUS"),
    (("_top", "_above"), "LOW_TOP_SCORE"),
)

_ASKS_NOTHING: Final = "The question has no word that says what it is about."


class CalibratedJudge:
    """Judges by the calibration a collection has of its own, else by the shipped one."""

    name: Final = "calibrated"

    def __init__(self, own: Calibration | None = None) -> None:
        self._own = own
        self._known: dict[CalibrationKind, Calibration] = {} if own is None else {own.kind: own}

    @property
    def own(self) -> Calibration | None:
        """The collection's own calibration, if that is what it judges by."""
        return self._own

    def judge(self, evidence: Evidence, preset: Preset = "balanced") -> Decision:
        """See `Judge`."""
        if not content_words(evidence.question):
            # No such question was among those that the models were fitted to, and what they say of it is chance.
            threshold = self._calibration("vectors").thresholds[preset]
            return Decision(False, 0.0, threshold, ("LOW_COVERAGE",), _ASKS_NOTHING, {}, self.name)
        if evidence.alone:
            from ragcli.grounding.sufficiency.heuristic import HeuristicJudge

            return HeuristicJudge().judge(evidence, preset)
        best: Decision | None = None
        for pool in evidence.pools:
            decision = self._of(pool, evidence, preset)
            if decision is not None and (best is None or decision.score > best.score):
                best = decision
        if best is not None:
            return best
        threshold = self._calibration("vectors").thresholds[preset]
        return Decision(False, 0.0, threshold, ("NO_EVIDENCE",), explain(("NO_EVIDENCE",), evidence), {}, self.name)

    def _of(self, pool: PoolStatistics, evidence: Evidence, preset: Preset) -> Decision | None:
        if not len(pool) or (pool.vectors is None and not pool.bm25.any()):
            return None
        calibration = self._calibration("words" if pool.vectors is None else "vectors")
        features = features_of(pool)
        score, threshold = calibration.probability(features), calibration.thresholds[preset]
        passed = score >= threshold
        reasons: tuple[ReasonCode, ...] = ("PASS",) if passed else _reasons(calibration, features)
        return Decision(passed, score, threshold, reasons, explain(reasons, evidence), features, self.name)

    def _calibration(self, kind: CalibrationKind) -> Calibration:
        if kind not in self._known:
            self._known[kind] = default_calibration(kind)
        return self._known[kind]


def _reasons(calibration: Calibration, features: Mapping[str, float]) -> tuple[ReasonCode, ...]:
    lacks: dict[ReasonCode, float] = {}
    for model in (calibration.topic, calibration.fact):
        # A model that is sure of its yes has nothing to do with the no.
        doubt = 1.0 - model.probability(features)
        for reason, lack in _lacks(model, features).items():
            lacks[reason] = lacks.get(reason, 0.0) + doubt * lack
    ordered = sorted(lacks, key=lambda reason: -lacks[reason])
    return tuple([reason for reason in ordered if lacks[reason] > 0][:_MOST_REASONS]) or tuple(ordered[:1])


def _lacks(model: Logistic, features: Mapping[str, float]) -> dict[ReasonCode, float]:
    """How much each kind of feature takes off the odds, against the mean answerable question."""
    lacks: dict[ReasonCode, float] = {}
    for term in model.terms:
        reason = _reason_of(term.name)
        away = (features.get(term.name, term.centre) - term.centre) / term.scale
        lacks[reason] = lacks.get(reason, 0.0) - term.weight * away
    return lacks


def _reason_of(name: str) -> ReasonCode:
    return next((reason for ends, reason in _ENDS if name.endswith(ends)), "LOW_COVERAGE")

"""Fit a calibration to questions that are known to be answerable or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from ragcli.errors import InputError
from ragcli.grounding.sufficiency.calibration_models import Calibration, CalibrationKind, Logistic, Term
from ragcli.grounding.sufficiency.evidence import Preset

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

Matrix = npt.NDArray[np.float64]
QuestionLabel = Literal["answerable", "hard", "easy"]
"""Easy is a question off the collection's subjects, hard one on them whose answer is missing."""

PASS_RATES: Final[Mapping[Preset, float]] = {"strict": 0.80, "balanced": 0.95, "lenient": 0.99}
FOLDS: Final = 5
MIN_QUESTIONS: Final = 10
"""Questions of each kind, answerable and not, below which nothing is fitted."""
PENALTIES: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
"""scikit-learn's C: the smaller, the nearer the weights stay to nothing."""
OWN_FEATURES: Final = ("words", "words_unknown", "late_top", "dense_top", "bm25_top", "fused_ahead5", "agreement")
"""What a user's own calibration weighs beside the two models; few, because a user's questions are."""
_UNBOUND: Final = 1e6
"""A penalty that is none, for the two numbers of a scale."""
_SEED: Final = 0


@dataclass(frozen=True, slots=True)
class LabelledFeatures:
    """A question's features and what is known of it.

    Questions with the same number for a `group` are in one fold; `sort` names the list that an easy one is from.
    """

    features: Mapping[str, float]
    label: QuestionLabel
    group: int
    sort: str = ""

    @property
    def answerable(self) -> bool:
        """Should the gate let it through?"""
        return self.label == "answerable"


@dataclass(frozen=True, slots=True)
class FittedCalibration:
    """A calibration, and the probability that the others' models gave each observation, in their order."""

    calibration: Calibration
    probabilities: tuple[float, ...]


def fit_default_calibration(
    observations: Sequence[LabelledFeatures], kind: CalibrationKind, **about: Any
) -> FittedCalibration:
    """The two models from questions of all three labels, as they are shipped."""
    features = [each.features for each in observations]
    names = sorted(features[0])
    labels = np.asarray([each.label for each in observations])
    groups = np.asarray([each.group for each in observations])
    sorts = np.asarray([each.sort for each in observations])
    on_topic = labels != "easy"
    asked = _FitTable(features, on_topic, groups, sorts, names)
    topic_penalty = _best_penalty_off_topic(asked)
    near = np.flatnonzero(on_topic)
    fact_penalty = best_penalty([features[at] for at in near], labels[near] == "answerable", groups[near], names)

    def fitted(chosen: npt.NDArray[np.intp]) -> Calibration:
        among = [at for at in chosen if on_topic[at]]
        return Calibration(
            kind=kind,
            topic=_fit_topic(asked.some(chosen), topic_penalty),
            fact=fit_logistic([features[at] for at in among], labels[among] == "answerable", names, fact_penalty),
            thresholds=dict.fromkeys(PASS_RATES, 0.5),
        )

    return _finished(fitted, observations, about)


def fit_collection_calibration(
    base: Calibration, observations: Sequence[LabelledFeatures], **about: Any
) -> FittedCalibration:
    """A calibration to a user's own questions, on top of the models of another.

    Raises InputError when there are fewer than `FEWEST` questions of either kind.
    """
    truth = np.asarray([each.answerable for each in observations], dtype=bool)
    yes, no = int(truth.sum()), int((~truth).sum())
    if min(yes, no) < MIN_QUESTIONS:
        raise InputError(
            f"To calibrate the gate takes at least {MIN_QUESTIONS} questions that the collection can answer and "
            f'{MIN_QUESTIONS} that it cannot ("answerable": false); here are {yes} and {no}.'
        )
    inputs = [base.inputs(each.features) for each in observations]
    groups = np.asarray([each.group for each in observations])
    names = [name for name in ("topic", "fact", *OWN_FEATURES) if name in inputs[0]]
    penalty = best_penalty(inputs, truth, groups, names)

    def fitted(chosen: npt.NDArray[np.intp]) -> Calibration:
        own = fit_logistic([inputs[at] for at in chosen], truth[chosen], names, penalty)
        return replace(base, own=own)

    return _finished(fitted, observations, about)


def fit_logistic(
    features: Sequence[Mapping[str, float]], truth: npt.NDArray[np.bool_], names: Sequence[str], penalty: float
) -> Logistic:
    """One logistic model. Features that never vary are left out."""
    table = _table(features, names)
    centres, scales = table[truth].mean(axis=0), table.std(axis=0)
    varies = scales > 1e-9
    scaled = _standard(table[:, varies], centres[varies], scales[varies])
    model = _regression(penalty).fit(scaled, truth)
    kept = [name for name, there in zip(names, varies, strict=True) if there]
    numbers = zip(kept, centres[varies].tolist(), scales[varies].tolist(), model.coef_[0].tolist(), strict=True)
    return Logistic(tuple(Term(*each) for each in numbers), float(model.intercept_[0]))


def best_penalty(
    features: Sequence[Mapping[str, float]],
    truth: npt.NDArray[np.bool_],
    groups: npt.NDArray[np.int64],
    names: Sequence[str],
) -> float:
    """The penalty with which the folds' models are the least surprised by the fold they have not seen."""

    def expected(penalty: float) -> Matrix:
        told = np.zeros(len(truth))
        for seen, unseen in folds(truth, groups):
            model = fit_logistic([features[at] for at in seen], truth[seen], names, penalty)
            told[unseen] = [model.probability(features[at]) for at in unseen]
        return told

    return _least_surprised(truth, expected)


@dataclass(frozen=True, slots=True)
class _FitTable:
    """Questions as the model of the subject is fitted to them: (n,) of each, and the features it may weigh."""

    features: Sequence[Mapping[str, float]]
    on_topic: npt.NDArray[np.bool_]
    groups: npt.NDArray[np.int64]
    sorts: npt.NDArray[np.str_]
    names: Sequence[str]

    def some(self, chosen: npt.NDArray[np.intp]) -> _FitTable:
        """Those at some places."""
        features = [self.features[at] for at in chosen]
        return _FitTable(features, self.on_topic[chosen], self.groups[chosen], self.sorts[chosen], self.names)

    def fit(self, penalty: float) -> Logistic:
        """The model of all of them."""
        return fit_logistic(self.features, self.on_topic, self.names, penalty)


def _fit_topic(asked: _FitTable, penalty: float) -> Logistic:
    """The model of all sorts, its logits scaled as suits a sort that it has not seen."""
    model = asked.fit(penalty)
    scale = _scale(_cross_validated_logits(asked, penalty), asked.on_topic)
    slope, offset = float(scale.coef_[0][0]), float(scale.intercept_[0])
    terms = tuple(replace(term, weight=term.weight * slope) for term in model.terms)
    return Logistic(terms, model.intercept * slope + offset)


def _best_penalty_off_topic(asked: _FitTable) -> float:
    """The penalty with which the models, put to scale, are the least surprised by sorts they have not seen."""

    def expected(penalty: float) -> Matrix:
        logits = _cross_validated_logits(asked, penalty)
        told: Matrix = _scale(logits, asked.on_topic).predict_proba(logits[:, None])[:, 1]
        return told

    return _least_surprised(asked.on_topic, expected)


def _cross_validated_logits(asked: _FitTable, penalty: float) -> Matrix:
    """What models say that have seen neither the fold of a question on the subject nor the sort of one off it.

    Where there is one sort only, its own folds have to do.
    """
    sorts = np.unique(asked.sorts[~asked.on_topic])
    total, times = np.zeros(len(asked.features)), np.zeros(len(asked.features))
    for left_out in sorts:
        of_this = ~asked.on_topic & (asked.sorts == left_out)
        strange = of_this if len(sorts) > 1 else np.zeros_like(of_this)
        known = np.flatnonzero(~strange)
        for seen, unseen in folds(asked.on_topic[known], asked.groups[known]):
            model = asked.some(known[seen]).fit(penalty)
            others = known[unseen]
            if len(sorts) > 1:
                # An easy question is told by the models that did not see its sort.
                others = others[asked.on_topic[others]]
            told = np.concatenate([others, np.flatnonzero(strange)])
            total[told] += _logits(model, [asked.features[at] for at in told])
            times[told] += 1
    mean: Matrix = total / times
    return mean


def _scale(logits: Matrix, truth: npt.NDArray[np.bool_]) -> LogisticRegression:
    """The slope and the offset that make probabilities of logits."""
    return _regression(_UNBOUND).fit(logits[:, None], truth)


def _least_surprised(truth: npt.NDArray[np.bool_], expected: Callable[[float], Matrix]) -> float:
    """The penalty whose expected probabilities have the least loss."""
    from sklearn.metrics import log_loss

    losses = [
        float(log_loss(truth, np.clip(expected(penalty), 1e-6, 1 - 1e-6), labels=[False, True]))
        for penalty in PENALTIES
    ]
    return PENALTIES[int(np.argmin(losses))]


def folds(
    truth: npt.NDArray[np.bool_], groups: npt.NDArray[np.int64]
) -> list[tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
    """(seen, unseen) places for each fold, both kinds in each, no group in two."""
    from sklearn.model_selection import StratifiedGroupKFold

    splitter = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=_SEED)
    return list(splitter.split(np.zeros((len(truth), 1)), truth, groups))


def thresholds_of(probabilities: Matrix, truth: npt.NDArray[np.bool_]) -> dict[Preset, float]:
    """The probability that each preset asks for."""
    passing = np.sort(probabilities[truth])
    found: dict[Preset, float] = {}
    for preset, share in PASS_RATES.items():
        # So many of the answerable must stay at or above it.
        at = min(int((1.0 - share) * len(passing) + 1e-9), len(passing) - 1)
        found[preset] = float(passing[at])
    return found


def _finished(
    fitted: Callable[[npt.NDArray[np.intp]], Calibration],
    observations: Sequence[LabelledFeatures],
    about: dict[str, Any],
) -> FittedCalibration:
    truth = np.asarray([each.answerable for each in observations], dtype=bool)
    groups = np.asarray([each.group for each in observations])
    expected = np.zeros(len(truth))
    for seen, unseen in folds(truth, groups):
        model = fitted(seen)
        expected[unseen] = [model.probability(observations[at].features) for at in unseen]
    calibration = replace(
        fitted(np.arange(len(truth))),
        thresholds=thresholds_of(expected, truth),
        questions=len(truth),
        answerable=int(truth.sum()),
        **about,
    )
    return FittedCalibration(calibration, tuple(expected.tolist()))


def _table(features: Sequence[Mapping[str, float]], names: Sequence[str]) -> Matrix:
    return np.asarray([[each[name] for name in names] for each in features], dtype=np.float64)


def _logits(model: Logistic, features: Sequence[Mapping[str, float]]) -> Matrix:
    """The logit of each, as `Logistic.logit` gives it to one."""
    centres, scales, weights = (
        np.asarray([getattr(term, part) for term in model.terms]) for part in ("centre", "scale", "weight")
    )
    scaled = _standard(_table(features, [term.name for term in model.terms]), centres, scales)
    logits: Matrix = scaled @ weights + model.intercept
    return logits


def _standard(table: Matrix, centres: Matrix, scales: Matrix) -> Matrix:
    from ragcli.grounding.sufficiency.calibration_models import FEATURE_CLIP

    return np.clip((table - centres) / scales, -FEATURE_CLIP, FEATURE_CLIP)


def _regression(penalty: float) -> LogisticRegression:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=penalty, max_iter=3000)

"""Evaluate a sufficiency gate on answerable and unanswerable questions, and calibrate it.

The label of a question is what its line says (`"answerable"`), else what the qrels say: it can be answered if one of
its relevant items is in the collection, and cannot if all of them are judged and missing. A question of which neither
tells takes no part. Precision is the share of answerable questions among those let through, recall the share of the
answerable ones that are let through. AUC needs no threshold. The expected calibration error (Naeini, Cooper and
Hauskrecht, AAAI 2015) is the mean distance between the probability and the share that came true, over ten bins of
equal width, each weighing as much as it holds. A calibrated gate is reported by out-of-fold probabilities, beside the
shipped gate's figures on the same questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ragcli.evaluation.topics_qrels_runs import Qrels, Topic
from ragcli.grounding.sufficiency.calibration_models import Calibration, default_calibration, encode_calibration
from ragcli.grounding.sufficiency.features import features_of
from ragcli.grounding.sufficiency.fitting import LabelledFeatures, fit_collection_calibration
from ragcli.grounding.sufficiency.pool_statistics import measure_pools

if TYPE_CHECKING:
    from ragcli.collection import Collection
    from ragcli.grounding.sufficiency.evidence import Decision, Preset, SufficiencyJudge
    from ragcli.retrieval.searcher import Searcher


RELIABILITY_BINS: Final = 10

Progress = Callable[[str, int, int], None]
"""Told after each question: the judge, questions done, questions in all."""


@dataclass(frozen=True, slots=True)
class GateQuestion:
    """A question and whether the collection can answer it."""

    query_id: str
    text: str
    answerable: bool


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """The questions whose probability lies in one tenth: how many, its mean, and the share that could be answered."""

    count: int
    expected: float
    found: float


@dataclass(frozen=True, slots=True)
class GateReport:
    """What a judge did with labelled questions. None where a figure has nothing to stand on.

    `passed_answerable` and the three beside it are the confusion matrix; `abstained` is the share of all questions
    that were not let through. `ece` and `bins` are for judges whose scores are probabilities.
    """

    judge: str
    preset: str
    threshold: float
    passed_answerable: int
    passed_unanswerable: int
    stopped_answerable: int
    stopped_unanswerable: int
    precision: float | None
    recall: float | None
    abstained: float
    auc: float | None
    ece: float | None
    bins: tuple[ReliabilityBin, ...] | None

    @property
    def questions(self) -> int:
        """How many there were."""
        return self.passed_answerable + self.passed_unanswerable + self.stopped_answerable + self.stopped_unanswerable

    def as_json(self) -> dict[str, Any]:
        """The JSON value, with the number of questions."""
        return {"questions": self.questions, **asdict(self)}


def gate_questions(topics: Iterable[Topic], qrels: Qrels, unknown: Iterable[str]) -> tuple[GateQuestion, ...]:
    """The topics that have a label; `unknown` are judged items that the collection does not have."""
    missing = frozenset(unknown)
    questions = []
    for topic in topics:
        answerable = topic.answerable
        relevant = qrels.relevant(topic.query_id)
        if answerable is None and relevant:
            answerable = not missing.issuperset(relevant)
        if answerable is not None:
            questions.append(GateQuestion(topic.query_id, topic.text, answerable))
    return tuple(questions)


def judge_questions(
    searcher: Searcher,
    judge: SufficiencyJudge,
    questions: Sequence[GateQuestion],
    preset: Preset = "balanced",
    progress: Progress | None = None,
) -> list[Decision]:
    """The judge's word on each question at its first attempt, without retries."""
    from ragcli.grounding.sufficiency.evidence import Evidence
    from ragcli.retrieval.request import QueryRequest, QueryResult

    found = []
    for done, question in enumerate(questions, 1):
        # The judge has a pool of its own; hits are what people are shown.
        nothing = QueryResult((), (), "hybrid", None)
        evidence = Evidence(searcher, QueryRequest(question.text), question.text, nothing)
        found.append(judge.judge(evidence, preset))
        if progress is not None:
            progress(judge.name, done, len(questions))
    return found


def gate_report(
    judge: str,
    preset: Preset,
    threshold: float,
    scores: Sequence[float],
    passed: Sequence[bool],
    answerable: Sequence[bool],
    *,
    probabilities: bool = True,
) -> GateReport:
    """The figures for scores, decisions and labels in the same order. There must be one question at least."""
    truth, through = np.asarray(answerable, dtype=bool), np.asarray(passed, dtype=bool)
    values = np.asarray(scores, dtype=np.float64)
    counts = [int((one & other).sum()) for one in (through, ~through) for other in (truth, ~truth)]
    bins = reliability_bins(values.tolist(), truth.tolist()) if probabilities else None
    return GateReport(
        judge=judge,
        preset=preset,
        threshold=threshold,
        passed_answerable=counts[0],
        passed_unanswerable=counts[1],
        stopped_answerable=counts[2],
        stopped_unanswerable=counts[3],
        precision=counts[0] / int(through.sum()) if through.any() else None,
        recall=counts[0] / int(truth.sum()) if truth.any() else None,
        abstained=float((~through).mean()),
        auc=area(values.tolist(), truth.tolist()),
        ece=None if bins is None else sum(each.count * abs(each.expected - each.found) for each in bins) / len(truth),
        bins=bins,
    )


def report_from_decisions(
    judge: SufficiencyJudge, preset: Preset, found: Sequence[Decision], questions: Sequence[GateQuestion]
) -> GateReport:
    """The figures for a judge's decisions."""
    return gate_report(
        judge.name,
        preset,
        found[0].threshold,
        [decision.score for decision in found],
        [decision.passed for decision in found],
        [question.answerable for question in questions],
        probabilities=judge.name != "heuristic",
    )


def area(scores: Sequence[float], answerable: Sequence[bool]) -> float | None:
    """The area under the ROC curve, ties counting half; None without questions of both labels."""
    truth = np.asarray(answerable, dtype=bool)
    if truth.all() or not truth.any():
        return None
    values, places = np.unique(np.asarray(scores, dtype=np.float64), return_inverse=True)
    at = np.bincount(places, minlength=len(values))
    # Equal scores share the mean of the ranks they take up.
    ranks = (np.cumsum(at) - (at - 1) / 2)[places]
    yes, no = int(truth.sum()), int((~truth).sum())
    return float((ranks[truth].sum() - yes * (yes + 1) / 2) / (yes * no))


def reliability_bins(scores: Sequence[float], answerable: Sequence[bool]) -> tuple[ReliabilityBin, ...]:
    """What became of the probabilities, a bin for each tenth that has any, in rising order."""
    values, truth = np.asarray(scores, dtype=np.float64), np.asarray(answerable, dtype=np.float64)
    places = np.minimum((values * RELIABILITY_BINS).astype(int), RELIABILITY_BINS - 1)
    return tuple(
        ReliabilityBin(int(mine.sum()), float(values[mine].mean()), float(truth[mine].mean()))
        for mine in (places == at for at in range(RELIABILITY_BINS))
        if mine.any()
    )


@dataclass(frozen=True, slots=True)
class GateCalibration:
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


def fit_gate_calibration(
    searcher: Searcher,
    questions: Sequence[GateQuestion],
    preset: Preset = "balanced",
    progress: Progress | None = None,
) -> GateCalibration:
    """Fit the gate to labelled questions on the one collection that is searched.

    Raises InputError when there are too few questions of either label.
    """
    (reader,) = searcher.readers
    observations: list[LabelledFeatures] = []
    for done, question in enumerate(questions, 1):
        observed = _observation(searcher, question, done)
        if observed is not None:
            observations.append(observed)
        if progress is not None:
            progress("calibrating", done, len(questions))
    bare = not reader.dimension
    base = default_calibration("words" if bare else "vectors")
    fitted = fit_collection_calibration(
        base, observations, encoder=reader.fingerprint, where="the collection's own questions"
    )
    truth = [each.answerable for each in observations]
    scores = [base.probability(each.features) for each in observations]
    before = _out_of_fold_report("shipped", preset, base, scores, truth)
    after = _out_of_fold_report("calibrated", preset, fitted.calibration, fitted.probabilities, truth)
    return GateCalibration(fitted.calibration, before, after, len(questions) - len(observations))


def store_gate_calibration(collection: Collection, calibrated: GateCalibration) -> None:
    """Keep the calibration with its collection, where `open_judge` finds it. Raises CollectionBusy."""
    collection.store_calibration(encode_calibration(calibrated.calibration))


def _observation(searcher: Searcher, question: GateQuestion, group: int) -> LabelledFeatures | None:
    from ragcli.retrieval.request import QueryRequest

    pools = [pool for pool in measure_pools(searcher, QueryRequest(question.text), question.text) if len(pool)]
    if not pools:
        return None
    return LabelledFeatures(features_of(pools[0]), "answerable" if question.answerable else "hard", group)


def _out_of_fold_report(
    name: str, preset: Preset, calibration: Calibration, scores: Sequence[float], truth: Sequence[bool]
) -> GateReport:
    threshold = calibration.thresholds[preset]
    passed = (np.asarray(scores) >= threshold).tolist()
    return gate_report(name, preset, threshold, scores, passed, truth)

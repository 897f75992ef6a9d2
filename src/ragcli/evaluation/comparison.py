"""Runs side by side on one evaluation set: figures, costs, and which differences are more than luck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragcli.errors import UsageError
from ragcli.evaluation.judgements import EvaluationSet, Run
from ragcli.evaluation.measures import Scores, score
from ragcli.evaluation.significance import ALPHA, PERMUTATIONS, PairTest, compare_pairs, letters


@dataclass(frozen=True, slots=True)
class Cost:
    """What a pipeline costs where it was measured.

    Latency is the wall time in milliseconds of one whole query (top 5) by an open searcher with its models
    loaded, queries one after the other: half of them are faster than `p50`, 95 in 100 than `p95`. `index_bytes`
    counts the search structures the pipeline reads, without the texts; `model_bytes` the weights it loads.
    """

    p50: float
    p95: float
    queries: int
    index_bytes: int
    model_bytes: int


@dataclass(frozen=True, slots=True)
class Result:
    """One pipeline, or one run from elsewhere, with its figures."""

    run: Run
    scores: Scores
    cost: Cost | None = None
    reranker: str | None = None

    @property
    def label(self) -> str:
        """The name of the row."""
        return self.run.name


@dataclass(frozen=True, slots=True)
class Comparison:
    """All results on one evaluation set. The first measure is the one that changes and queries are shown by."""

    given: EvaluationSet
    measures: tuple[str, ...]
    results: tuple[Result, ...]
    pairs: tuple[PairTest, ...]
    baseline: str | None
    alpha: float
    permutations: int

    def result(self, label: str) -> Result:
        """The result of that name."""
        return next(result for result in self.results if result.label == label)

    @property
    def marks(self) -> dict[str, str]:
        """The letter of each row."""
        return dict(zip((result.label for result in self.results), letters(len(self.results)), strict=True))

    def beaten(self, label: str, measure: str) -> tuple[str, ...]:
        """The rows that this row is better than on a measure, by more than luck."""
        found = {
            pair.second if pair.first == label else pair.first
            for pair in self.pairs
            if pair.measure == measure
            and pair.p_holm <= self.alpha
            and ((pair.first == label and pair.difference > 0) or (pair.second == label and pair.difference < 0))
        }
        return tuple(result.label for result in self.results if result.label in found)

    def change(self, label: str, measure: str) -> float | None:
        """A row's mean minus the baseline's; None for the baseline itself or where there is none."""
        if self.baseline is None or label == self.baseline:
            return None
        return self.result(label).scores.means[measure] - self.result(self.baseline).scores.means[measure]


def score_run(
    run: Run, given: EvaluationSet, measures: Sequence[str], *, cost: Cost | None = None, reranker: str | None = None
) -> Result:
    """A run with its figures on the evaluation set."""
    return Result(run, score(run, given.qrels, measures), cost, reranker)


def compare(
    given: EvaluationSet,
    measures: Sequence[str],
    results: Sequence[Result],
    *,
    baseline: str | None = None,
    alpha: float = ALPHA,
    permutations: int = PERMUTATIONS,
) -> Comparison:
    """Put results side by side and test every pair on every measure. Raises UsageError for an unknown baseline."""
    labels = [result.label for result in results]
    if baseline is not None and baseline not in labels:
        raise UsageError(f"The baseline '{baseline}' is not among what is compared ({', '.join(labels)}).")
    pairs = tuple(
        pair
        for measure in measures
        for pair in compare_pairs(
            measure, {result.label: result.scores.per_query[measure] for result in results}, permutations=permutations
        )
    )
    return Comparison(given, tuple(measures), tuple(results), pairs, baseline, alpha, permutations)

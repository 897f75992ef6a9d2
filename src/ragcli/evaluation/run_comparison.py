"""Compare runs on one evaluation set: metrics, significance tests and per-query changes.

The paired randomisation test asks how often a difference of means as large as the one seen would come about if, query
by query, it were a coin's toss which system got which score. Smucker, Allan and Carterette (CIKM 2007) compared five
tests on TREC runs and recommend it: it assumes nothing of how scores are distributed. Comparing many pairs finds
"significant" ones by chance, so p-values are corrected by Holm's step-down method (Holm 1979) over all pairs of one
measure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
import numpy.typing as npt

from ragcli.errors import UsageError
from ragcli.evaluation.ir_metrics import MetricScores, score_metrics
from ragcli.evaluation.topics_qrels_runs import EvaluationSet, Run

FloatVector = npt.NDArray[np.float64]

PERMUTATIONS: Final = 100_000
SEED: Final = 20070
ALPHA: Final = 0.05

_BLOCK: Final = 2_000


@dataclass(frozen=True, slots=True)
class PairTest:
    """Two systems on one measure: `difference` is the first's mean minus the second's.

    `p` is two-sided; `p_holm` is corrected for all the pairs of this measure. `queries` took part.
    """

    measure: str
    first: str
    second: str
    difference: float
    p: float
    p_holm: float
    queries: int


def compare_pairs(
    measure: str,
    per_query: Mapping[str, Mapping[str, float]],
    *,
    permutations: int = PERMUTATIONS,
    seed: int = SEED,
) -> tuple[PairTest, ...]:
    """Test every pair of systems on one measure, over the queries that all of them have a value for.

    `per_query` has, for each system, each query's value. The order of the pairs is that of the systems.
    """
    names = list(per_query)
    pairs = list(combinations(range(len(names)), 2))
    if not pairs:
        return ()
    queries = sorted(set.intersection(*(set(values) for values in per_query.values())))
    scores = np.array([[per_query[name][query] for query in queries] for name in names], dtype=np.float64)
    differences = np.stack([scores[first] - scores[second] for first, second in pairs], axis=1)
    p_values = randomisation_test(differences, permutations=permutations, seed=seed)
    corrected = holm_correction(p_values)
    means = differences.mean(axis=0) if queries else np.zeros(len(pairs))
    return tuple(
        PairTest(
            measure, names[first], names[second], float(means[at]), float(p_values[at]), corrected[at], len(queries)
        )
        for at, (first, second) in enumerate(pairs)
    )


def randomisation_test(
    differences: npt.ArrayLike, *, permutations: int = PERMUTATIONS, seed: int = SEED
) -> FloatVector:
    """Two-sided p-values (k,) for k columns of paired differences (queries, k).

    With few queries all 2^n assignments are gone through and p is exact. Else assignments are drawn, and the one
    seen counts as one of them, so that p is never 0 (Phipson and Smyth 2010).
    """
    values = np.asarray(differences, dtype=np.float64)
    count = values.shape[0]
    seen = np.abs(values.sum(axis=0))
    # Sums of the same numbers in another order differ in the last bits; that is not a smaller difference.
    threshold = seen - 1e-9 * np.maximum(np.abs(values).sum(axis=0), 1e-12)
    exact = count < 63 and 2**count <= permutations
    total = 2**count if exact else permutations
    generator = np.random.default_rng(seed)
    as_large = np.zeros(values.shape[1], dtype=np.int64)
    for start in range(0, total, _BLOCK):
        size = min(_BLOCK, total - start)
        if exact:
            numbers = np.arange(start, start + size, dtype=np.int64)
            flips = (numbers[:, None] >> np.arange(count, dtype=np.int64)) & 1
        else:
            flips = generator.integers(0, 2, size=(size, count), dtype=np.int8)
        sums = (1.0 - 2.0 * flips) @ values
        as_large += (np.abs(sums) >= threshold).sum(axis=0)
    return as_large / total if exact else (as_large + 1) / (total + 1)


def holm_correction(p_values: Sequence[float] | FloatVector) -> list[float]:
    """Holm's step-down correction: the smallest of m p-values times m, the next times m-1, never falling."""
    order = np.argsort(np.asarray(p_values), kind="stable").tolist()
    corrected = [0.0] * len(order)
    highest = 0.0
    for place, at in enumerate(order):
        highest = max(highest, min(1.0, float(p_values[at]) * (len(order) - place)))
        corrected[at] = highest
    return corrected


def row_letters(count: int) -> tuple[str, ...]:
    """Marks for `count` rows: a, b, …, z, aa, ab, …"""
    marks = []
    for number in range(count):
        text, rest = "", number + 1
        while rest:
            rest, digit = divmod(rest - 1, 26)
            text = chr(ord("a") + digit) + text
        marks.append(text)
    return tuple(marks)


@dataclass(frozen=True, slots=True)
class RunCost:
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
class RunResult:
    """One pipeline, or one run from elsewhere, with its figures."""

    run: Run
    scores: MetricScores
    cost: RunCost | None = None
    reranker: str | None = None

    @property
    def label(self) -> str:
        """The name of the row."""
        return self.run.name


@dataclass(frozen=True, slots=True)
class RunComparison:
    """All results on one evaluation set. The first measure is the one that changes and queries are shown by."""

    given: EvaluationSet
    measures: tuple[str, ...]
    results: tuple[RunResult, ...]
    pairs: tuple[PairTest, ...]
    baseline: str | None
    alpha: float
    permutations: int

    def result(self, label: str) -> RunResult:
        """The result of that name."""
        return next(result for result in self.results if result.label == label)

    @property
    def marks(self) -> dict[str, str]:
        """The letter of each row."""
        return dict(zip((result.label for result in self.results), row_letters(len(self.results)), strict=True))

    def outperformed(self, label: str, measure: str) -> tuple[str, ...]:
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
    run: Run, given: EvaluationSet, measures: Sequence[str], *, cost: RunCost | None = None, reranker: str | None = None
) -> RunResult:
    """A run with its figures on the evaluation set."""
    return RunResult(run, score_metrics(run, given.qrels, measures), cost, reranker)


def compare_runs(
    given: EvaluationSet,
    measures: Sequence[str],
    results: Sequence[RunResult],
    *,
    baseline: str | None = None,
    alpha: float = ALPHA,
    permutations: int = PERMUTATIONS,
) -> RunComparison:
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
    return RunComparison(given, tuple(measures), tuple(results), pairs, baseline, alpha, permutations)


MAX_SHOWN_ITEMS: Final = 3


@dataclass(frozen=True, slots=True)
class QueryRanking:
    """What one system gave for a query: the value of the measure, its first items, and the rank of the first
    relevant one, None where it gave none."""

    label: str
    value: float
    top: tuple[str, ...]
    first_relevant: int | None


@dataclass(frozen=True, slots=True)
class QueryChange:
    """One query in one pipeline and in the baseline. Without a baseline `difference` is None."""

    query_id: str
    text: str
    relevant: tuple[str, ...]
    answer: QueryRanking
    baseline: QueryRanking | None

    @property
    def difference(self) -> float | None:
        """The pipeline's value minus the baseline's."""
        return None if self.baseline is None else self.answer.value - self.baseline.value


def query_changes(comparison: RunComparison, label: str, measure: str) -> tuple[QueryChange, ...]:
    """Every judged query of one pipeline, worst first: by the change against the baseline, then by the value."""
    result = comparison.result(label)
    base = None if comparison.baseline in (None, label) else comparison.result(comparison.baseline or "")
    found = []
    for topic in comparison.given.topics:
        value = result.scores.per_query[measure].get(topic.query_id)
        if value is None:
            continue
        relevant = comparison.given.qrels.relevant(topic.query_id)
        found.append(
            QueryChange(
                topic.query_id,
                topic.text,
                relevant,
                _query_ranking(result.run, topic.query_id, value, relevant),
                _query_ranking(
                    base.run, topic.query_id, base.scores.per_query[measure].get(topic.query_id, 0.0), relevant
                )
                if base is not None
                else None,
            )
        )
    return tuple(sorted(found, key=lambda each: (each.difference or 0.0, each.answer.value, each.query_id)))


def _query_ranking(run: Run, query_id: str, value: float, relevant: Collection[str]) -> QueryRanking:
    items = run.items(query_id)
    first = next((rank for rank, item in enumerate(items, 1) if item in relevant), None)
    return QueryRanking(run.name, value, items[:MAX_SHOWN_ITEMS], first)

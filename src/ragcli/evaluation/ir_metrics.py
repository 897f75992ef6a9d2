"""Compute retrieval metrics with ir-measures.

ir-measures (MacAvaney, Macdonald and Ounis, ECIR 2022) calls trec_eval's own code where that has the metric. A judged
query for which a run has nothing counts with 0, as ir-measures does and `trec_eval -c` does.
"""

from __future__ import annotations

import contextlib
import io
import math
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragcli.errors import InputError, MissingExtra, UsageError
from ragcli.evaluation.topics_qrels_runs import Qrels, Run
from ragcli.evaluation.trec_format import encode_id

DEFAULT_MEASURES: Final = ("nDCG@10", "R@1", "R@3", "R@5", "R@10", "R@100", "RR@10", "AP", "P@5")

# trec_eval knows no grade below 0; "not relevant, and worse" is not relevant to it.
_LOWEST_GRADE: Final = 0

# What ir-measures and the programs behind it raise where they have no way to compute something.
_FAILURES: Final = (ValueError, TypeError, KeyError, RuntimeError, OSError, subprocess.SubprocessError)


@dataclass(frozen=True, slots=True)
class MetricScores:
    """A run's figures: the mean of each measure, and each query's own value.

    `per_query` has a value for every judged query, but for the few measures that are not defined for all.
    """

    means: Mapping[str, float]
    per_query: Mapping[str, Mapping[str, float]]


def check_measures(names: Sequence[str]) -> tuple[str, ...]:
    """The measures under the names that ir-measures gives them, each once.

    Takes ir-measures' names (`nDCG@10`, `R(rel=2)@5`) and trec_eval's (`ndcg_cut.10`, `map`). Raises UsageError
    for a name that neither knows, and MissingExtra for a measure whose library is not installed.
    """
    found = [measure for name in names for measure in _parse_metric(name)]
    return tuple(dict.fromkeys(str(measure) for measure in found))


def deepest_cutoff(measures: Sequence[str]) -> int:
    """The greatest cut-off among the measures; 0 where none has one."""
    import ir_measures

    cutoffs = [ir_measures.parse_measure(name).params.get("cutoff") for name in measures]
    return max((cutoff for cutoff in cutoffs if isinstance(cutoff, int)), default=0)


def score_metrics(run: Run, qrels: Qrels, measures: Sequence[str]) -> MetricScores:
    """Score a run. `measures` are names that `check_measures` gave."""
    import ir_measures

    parsed = {ir_measures.parse_measure(name): name for name in measures}
    # Some measures are computed by programs that want numbers for query ids and read files split at spaces.
    numbers = {query: str(number) for number, query in enumerate(qrels.judgements, 1)}
    queries = {number: query for query, number in numbers.items()}
    judgements = {
        numbers[query]: {encode_id(item): max(grade, _LOWEST_GRADE) for item, grade in items.items()}
        for query, items in qrels.judgements.items()
    }
    rankings = {
        numbers[query]: {encode_id(ranked.item): ranked.score for ranked in ranking}
        for query, ranking in run.rankings.items()
        if query in numbers and ranking
    }
    per_query: dict[str, dict[str, float]] = {name: {} for name in measures}
    totals = {measure: measure.aggregator() for measure in parsed}
    try:
        for metric in ir_measures.iter_calc(list(parsed), judgements, rankings):
            totals[metric.measure].add(metric.value)
            per_query[parsed[metric.measure]][queries[metric.query_id]] = float(metric.value)
    except (*_FAILURES, AssertionError) as error:
        raise InputError(
            f"ir-measures cannot compute {', '.join(measures)} on these judgements ({_error_reason(error)})."
        ) from None
    means = {name: float(totals[measure].result()) for measure, name in parsed.items()}
    return MetricScores(
        means, {name: {query: values[query] for query in sorted(values)} for name, values in per_query.items()}
    )


def recall_curve(run: Run, qrels: Qrels, depths: Sequence[int]) -> dict[int, float]:
    """Mean recall of a run at each depth."""
    names = {depth: f"R@{depth}" for depth in depths}
    means = score_metrics(run, qrels, list(names.values())).means
    return {depth: means[name] for depth, name in names.items()}


def _parse_metric(name: str) -> list[Any]:
    import ir_measures

    try:
        measures = [ir_measures.parse_measure(name)]
    except (NameError, ValueError, TypeError):
        measures = _parse_trec_metric(name)
    for measure in measures:
        _check_metric(name, measure)
    return measures


def _parse_trec_metric(name: str) -> list[Any]:
    import ir_measures

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            measures: list[Any] = ir_measures.parse_trec_measure(name)
    except Exception:  # the parser fails on odd names in ways of its own
        measures = []
    if not measures:
        raise UsageError(
            f"There is no measure '{name}'; ir-measures' names are taken, such as nDCG@10, R@5, RR@10, AP, P@5, "
            "Success@1, Bpref or R(rel=2)@10."
        )
    return measures


def _check_metric(name: str, measure: Any) -> None:
    import ir_measures

    try:
        measure.validate_params()
        # A trial on one judgement: ir-measures says only when it computes that it has no way to.
        value = measure.calc_aggregate({"1": {"d": 1}}, {"1": {"d": 1.0}})
    except AssertionError as error:
        detail = str(error).replace("=<object object at ", "=<").partition("=<")[0]
        raise UsageError(
            f"The measure '{name}' lacks a parameter, or has a wrong one ({detail}); write it like nDCG@10 or "
            "R(rel=2)@5."
        ) from None
    except _FAILURES as error:
        missing = [
            extra for extra in ("pyndeval", "cwl-eval", "ranx", "trectools") if f"ir-measures[{extra}]" in str(error)
        ]
        if missing:
            raise MissingExtra(
                f"The measure '{name}' needs a library that is not installed; `pip install "
                f"'ir-measures[{missing[0]}]'` brings it."
            ) from None
        raise UsageError(f"ir-measures {ir_measures.__version__} cannot compute '{name}' here.") from None
    if not isinstance(value, (int, float)) or (isinstance(value, float) and math.isinf(value)):
        raise UsageError(f"The measure '{name}' does not give a number.")


def _error_reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__

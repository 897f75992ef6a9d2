"""A comparison as JSON. The shape, which scripts may rely on; every key is always there:

    {
      "data": {"name", "format", "split", "level": "document" | "chunk", "queries", "judgements",
               "answerable": {"yes", "no", "unsaid"},          counts over all topics
               "left_out": {"unjudged": n, "without_topic": [query id, …]},
               "unknown": [judged id that the collection lacks, …], "notes": [sentence, …]},
      "measures": [name, …],                                    the first is the main one
      "pipelines": [{"label", "letter", "pipeline", "options": {…}, "reranker",
                     "measures": {name: mean}, "change": {name: mean - baseline's} | null,
                     "better_than": {name: [label, …]},
                     "cost": {"latency_ms": {"p50", "p95"}, "queries", "index_bytes", "model_bytes"} | null}, …],
      "significance": {"test", "correction", "permutations", "alpha",
                       "pairs": [{"measure", "first", "second", "difference", "p", "p_holm", "queries"}, …]},
      "baseline": label | null,
      "gate": [{"judge", "preset", "threshold", "questions", "passed_answerable", "passed_unanswerable",
                "stopped_answerable", "stopped_unanswerable", "precision", "recall", "abstained", "auc",
                "ece", "bins": [{"count", "expected", "found"}, …] | null}, …] | null       where it was measured
      "per_query": [{"label", "measure", "queries": [{"query_id", "text", "relevant": [id, …],
                     "value", "top": [id, …], "first_relevant": rank | null,
                     "baseline": {"label", "value", "top", "first_relevant"} | null,
                     "difference": value - baseline's | null}, …]}, …] | null    worst first; with --per-query
    }

Ids are documents' or chunks', as `data.level` says, spelled as in the qrels. `pipeline` is null for a run that
came from a file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragcli.evaluation.comparison import Comparison, Cost, Result
from ragcli.evaluation.gating import GateReport
from ragcli.evaluation.per_query import Answer, changes
from ragcli.evaluation.specs import PipelineSpec


def report(
    comparison: Comparison,
    specs: Mapping[str, PipelineSpec],
    *,
    per_query: Sequence[str] | None = None,
    gates: Sequence[GateReport] = (),
) -> dict[str, Any]:
    """The JSON value of a comparison. `specs` are the pipelines by label; `per_query` names the rows to list."""
    given = comparison.given
    topics = (*given.topics, *given.unjudged)
    return {
        "data": {
            "name": given.name,
            "format": given.format,
            "split": given.split,
            "level": given.level,
            "queries": len(given.topics),
            "judgements": given.qrels.count,
            "answerable": {
                word: sum(topic.answerable is value for topic in topics)
                for word, value in (("yes", True), ("no", False), ("unsaid", None))
            },
            "left_out": {"unjudged": len(given.unjudged), "without_topic": list(given.without_topic)},
            "unknown": list(given.unknown),
            "notes": list(given.notes),
        },
        "measures": list(comparison.measures),
        "pipelines": [_row(comparison, result, specs.get(result.label)) for result in comparison.results],
        "significance": {
            "test": "paired randomisation, two-sided",
            "correction": "Holm, over all pairs of a measure",
            "permutations": comparison.permutations,
            "alpha": comparison.alpha,
            "pairs": [
                {
                    "measure": pair.measure,
                    "first": pair.first,
                    "second": pair.second,
                    "difference": pair.difference,
                    "p": pair.p,
                    "p_holm": pair.p_holm,
                    "queries": pair.queries,
                }
                for pair in comparison.pairs
            ],
        },
        "baseline": comparison.baseline,
        "gate": [each.as_json() for each in gates] or None,
        "per_query": None if per_query is None else [_queries(comparison, label) for label in per_query],
    }


def _row(comparison: Comparison, result: Result, spec: PipelineSpec | None) -> dict[str, Any]:
    changed = {measure: comparison.change(result.label, measure) for measure in comparison.measures}
    return {
        "label": result.label,
        "letter": comparison.marks[result.label],
        "pipeline": spec.pipeline if spec else None,
        "options": dict(spec.options) if spec else {},
        "reranker": result.reranker,
        "measures": dict(result.scores.means),
        "change": None if None in changed.values() else changed,
        "better_than": {measure: list(comparison.beaten(result.label, measure)) for measure in comparison.measures},
        "cost": _cost(result.cost),
    }


def _cost(cost: Cost | None) -> dict[str, Any] | None:
    if cost is None:
        return None
    return {
        "latency_ms": {"p50": cost.p50, "p95": cost.p95},
        "queries": cost.queries,
        "index_bytes": cost.index_bytes,
        "model_bytes": cost.model_bytes,
    }


def _queries(comparison: Comparison, label: str) -> dict[str, Any]:
    measure = comparison.measures[0]
    return {
        "label": label,
        "measure": measure,
        "queries": [
            {
                "query_id": change.query_id,
                "text": change.text,
                "relevant": list(change.relevant),
                "value": change.answer.value,
                "top": list(change.answer.top),
                "first_relevant": change.answer.first_relevant,
                "baseline": _answer(change.baseline),
                "difference": change.difference,
            }
            for change in changes(comparison, label, measure)
        ],
    }


def _answer(answer: Answer | None) -> dict[str, Any] | None:
    if answer is None:
        return None
    return {
        "label": answer.label,
        "value": answer.value,
        "top": list(answer.top),
        "first_relevant": answer.first_relevant,
    }

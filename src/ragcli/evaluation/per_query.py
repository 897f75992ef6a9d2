"""Query by query: where a pipeline loses to the baseline and where it wins, so that a person can see why."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from ragcli.evaluation.comparison import Comparison
from ragcli.evaluation.judgements import Run

SHOWN_ITEMS: Final = 3


@dataclass(frozen=True, slots=True)
class Answer:
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
    answer: Answer
    baseline: Answer | None

    @property
    def difference(self) -> float | None:
        """The pipeline's value minus the baseline's."""
        return None if self.baseline is None else self.answer.value - self.baseline.value


def changes(comparison: Comparison, label: str, measure: str) -> tuple[QueryChange, ...]:
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
                _answer(result.run, topic.query_id, value, relevant),
                _answer(base.run, topic.query_id, base.scores.per_query[measure].get(topic.query_id, 0.0), relevant)
                if base is not None
                else None,
            )
        )
    return tuple(sorted(found, key=lambda each: (each.difference or 0.0, each.answer.value, each.query_id)))


def _answer(run: Run, query_id: str, value: float, relevant: Collection[str]) -> Answer:
    items = run.items(query_id)
    first = next((rank for rank, item in enumerate(items, 1) if item in relevant), None)
    return Answer(run.name, value, items[:SHOWN_ITEMS], first)

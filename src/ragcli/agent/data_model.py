"""Data model of the agent: queries, sub-tasks, judgements, budget, and the trace of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragcli.errors import UsageError
from ragcli.types import Hit, StoredChunk

Result = Hit
ResultKey = tuple[str | None, str, str]


@dataclass(frozen=True, slots=True)
class Query:
    """What somebody wants to know: words, and constraints that hold for every retrieval made for them.

    The constraints are handed to each retriever as keyword arguments (`top`, `where`, `since`, … for a collection);
    a low-level query's own parameters go before them.
    """

    text: str
    constraints: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubTask:
    """A planner's unit of work: a goal, and the names of the sources to pursue it in, the most promising first.

    A refinement has another goal than the sub-task that it serves; `purpose` is that sub-task's goal, whoever made
    the refinement. It has no part in comparisons.
    """

    goal: str
    sources: tuple[str, ...]
    purpose: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class LowLevelQuery:
    """One concrete query against one source; `params` are keyword arguments for that source's retriever."""

    source: str
    query: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judgement:
    """An evaluator's word on what has been found so far.

    `relevant` is what is kept, with the scores it came with. `sufficient` ends the sub-task. `refinement`, where
    there is one, is what to look for next (the back-edge); without one the sub-task ends too. `reason` is a sentence
    for people and `signals` the numbers behind it; both may be left out.
    """

    relevant: Sequence[Result]
    sufficient: bool
    refinement: SubTask | None = None
    reason: str | None = None
    signals: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Budget:
    """What one sub-task may cost at most: rounds, sources in each, and results that are kept or judged at a time.

    UsageError for a bound below 1.
    """

    max_rounds: int = 3
    max_sources_per_task: int = 4
    max_results_per_task: int = 50

    def __post_init__(self) -> None:
        for name, value in (
            ("max_rounds", self.max_rounds),
            ("max_sources_per_task", self.max_sources_per_task),
            ("max_results_per_task", self.max_results_per_task),
        ):
            if value < 1:
                raise UsageError(f"{name} must be at least 1, not {value}.")


def result_key(hit: Result) -> ResultKey:
    """What makes two results the same one: source, collection and chunk. Equal ids in two sources are two results."""
    return hit.origin, hit.chunk.collection, hit.chunk.chunk_id


def make_result(
    text: str,
    *,
    score: float,
    source: str,
    chunk_id: str | None = None,
    title: str | None = None,
    path: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Result:
    """A result for what a retriever of your own found elsewhere: on the web, in a database.

    `source` is shown to people and `chunk_id` (the source's, if left out) tells it from others. Scores need to be
    comparable within one source only.
    """
    chunk = StoredChunk(
        number=0,
        chunk_id=chunk_id if chunk_id is not None else source,
        document_id=source,
        collection="",
        source=source,
        path=path,
        title=title,
        text=text,
        ordinal=0,
        start=0,
        end=len(text),
        page_start=None,
        page_end=None,
        heading=None,
        metadata=dict(metadata or {}),
    )
    return Hit(
        rank=0, chunk=chunk, score=float(score), score_type="other", cosine=0.0, reranker=None, scores={}, origin=None
    )


@dataclass(frozen=True, slots=True)
class Retrieval:
    """One low-level query, what it brought, and how long it took; `error` says why it brought nothing."""

    query: LowLevelQuery
    hits: tuple[Result, ...]
    seconds: float
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """One turn of the loop. `offered` is what the evaluator was shown, `kept` what was left of that.

    Where `judgement.refinement` is set and another round follows, that is the back-edge.
    """

    number: int
    task: SubTask
    retrievals: tuple[Retrieval, ...]
    offered: int
    judgement: Judgement
    kept: tuple[Result, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class TaskTrace:
    """One sub-task with its rounds. `ended` says why there were no more."""

    task: SubTask
    rounds: tuple[Round, ...]
    kept: tuple[Result, ...]
    sufficient: bool
    ended: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Trace:
    """The whole run."""

    query: Query
    tasks: tuple[TaskTrace, ...]
    seconds: float
    warnings: tuple[str, ...] = ()

    @property
    def sufficient(self) -> bool:
        """Whether every sub-task ended with enough."""
        return bool(self.tasks) and all(task.sufficient for task in self.tasks)

    @property
    def back_edges(self) -> int:
        """How often an evaluator's refinement was searched for."""
        return sum(len(task.rounds) - 1 for task in self.tasks)


@dataclass(frozen=True, slots=True)
class AgentRun:
    """What an agent found, best first, and how."""

    results: tuple[Result, ...]
    trace: Trace

"""What an agent did, all of it, as a tree: query, sub-tasks, rounds, low-level queries, hits and judgements.

Times are in seconds. A trace is complete whatever happened: a source that failed is in it with its error, a role
that had to be done without is among the warnings.
"""

from __future__ import annotations

from dataclasses import dataclass

from ragcli.agent.values import Judgement, LowLevelQuery, Query, Result, SubTask


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

"""The roles of the search agent, each a callable. Whatever has the signature can play the part.

The loop is fixed; everything that is decided in it is decided by one of these. All but the retriever get what they
need as arguments and give values, so each can be tested, replaced or put on a language model alone. A role may be an
`async` function: awaited where an event loop runs, run to its end where none does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ragcli.agent.values import Judgement, LowLevelQuery, Query, Result, SubTask


@runtime_checkable
class Retriever(Protocol):
    """Runs one query against one source. Its results are `Hit`s, best first; anything else raises RoleError."""

    def __call__(self, query: str, **params: Any) -> Sequence[Result] | Awaitable[Sequence[Result]]:
        """The results for this query."""
        ...


@runtime_checkable
class Planner(Protocol):
    """Breaks a query up into sub-tasks and says which sources each is for."""

    def __call__(self, query: Query, sources: Mapping[str, Retriever], /) -> Sequence[SubTask]:
        """The sub-tasks, pursued one after another."""
        ...


@runtime_checkable
class Formulator(Protocol):
    """Turns a sub-task and one of its sources into concrete queries. It gives queries, never sub-tasks."""

    def __call__(self, task: SubTask, source: str, /) -> Sequence[LowLevelQuery]:
        """What to ask that source."""
        ...


@runtime_checkable
class Evaluator(Protocol):
    """Judges what a sub-task has found so far, and may say what to look for next."""

    def __call__(self, task: SubTask, results: Sequence[Result], /) -> Judgement:
        """What to keep, whether it suffices, and the refinement if it does not."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Puts the results of all sub-tasks and sources in their final order."""

    def __call__(self, results: Sequence[Result], /) -> Sequence[Result]:
        """The results, best first."""
        ...


@runtime_checkable
class Citer(Protocol):
    """Confirms or marks that each result supports its use.

    One that takes a keyword `query` is given the Query as well.
    """

    def __call__(self, results: Sequence[Result], /) -> Sequence[Result]:
        """The results that may be cited, in order."""
        ...


# What an agent takes for each role: also an `async` function, and a citer that asks for the query.
AnyPlanner = Planner | Callable[..., Awaitable[Sequence[SubTask]]]
AnyFormulator = Formulator | Callable[..., Awaitable[Sequence[LowLevelQuery]]]
AnyEvaluator = Evaluator | Callable[..., Awaitable[Judgement]]
AnyReranker = Reranker | Callable[..., Awaitable[Sequence[Result]]]
AnyCiter = Citer | Callable[..., Sequence[Result]] | Callable[..., Awaitable[Sequence[Result]]]

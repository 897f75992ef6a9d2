"""Agent roles: their protocols, defaults without a language model, and checks of results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar, runtime_checkable

from ragcli.agent.data_model import Judgement, LowLevelQuery, Query, Result, SubTask
from ragcli.errors import RoleError


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


def single_subtask_planner(query: Query, sources: Mapping[str, Retriever]) -> list[SubTask]:
    """One sub-task over all sources, the question as it is."""
    return [SubTask(goal=query.text, sources=tuple(sources))]


def identity_formulator(task: SubTask, source: str) -> list[LowLevelQuery]:
    """The goal, word for word, as the one query."""
    return [LowLevelQuery(source=source, query=task.goal)]


def passthrough_evaluator(task: SubTask, results: Sequence[Result]) -> Judgement:  # noqa: ARG001
    """Keeps everything, finds it sufficient and never goes back."""
    return Judgement(relevant=list(results), sufficient=True)


def identity_citer(results: Sequence[Result]) -> Sequence[Result]:
    """The results as they are: to verify a citation takes a claim, and that is `ragcli check`'s work."""
    return results


def splitting_planner(query: Query, sources: Mapping[str, Retriever]) -> list[SubTask]:
    """One sub-task over all sources for each question in the query that shows its seams; by rule, without a model.

    "How does Raft elect a leader, and how does a sketch count?" is two; see `ragcli.retrieval.expansion.decomposition`.
    """
    from ragcli.retrieval.expansion.decomposition import split_question

    return [SubTask(goal=part, sources=tuple(sources)) for part in split_question(query.text)]


Value = TypeVar("Value")


def checked_results(who: str, given: object) -> list[Result]:
    """`given` as a list of hits. RoleError, naming `who`, if it is none."""
    return _all_of(who, given, Result, "Hit")


def checked_tasks(who: str, given: object) -> list[SubTask]:
    """`given` as a list of sub-tasks, each with a text for a goal and texts for sources."""
    tasks = _all_of(who, given, SubTask, "SubTask")
    for task in tasks:
        _check_task(who, task)
    return tasks


def checked_queries(who: str, given: object) -> list[LowLevelQuery]:
    """`given` as a list of low-level queries."""
    queries = _all_of(who, given, LowLevelQuery, "LowLevelQuery")
    for each in queries:
        if not isinstance(each.query, str):
            raise RoleError(f"{who} gave a query that is {_kind(each.query)} and no text.")
    return queries


def checked_judgement(who: str, given: object) -> Judgement:
    """`given` as a judgement over hits."""
    if not isinstance(given, Judgement):
        raise RoleError(f"{who} must give a Judgement, not {_kind(given)}.")
    relevant = checked_results(f"{who}, as relevant,", given.relevant)
    if given.refinement is not None:
        if not isinstance(given.refinement, SubTask):
            raise RoleError(f"{who} must refine by a SubTask, not by {_kind(given.refinement)}.")
        _check_task(who, given.refinement)
    return replace(given, relevant=tuple(relevant))


def _check_task(who: str, task: SubTask) -> None:
    if not isinstance(task.goal, str) or isinstance(task.sources, str):
        raise RoleError(f"{who} gave a SubTask whose goal is no text, or whose sources are one text and no tuple.")
    for source in task.sources:
        if not isinstance(source, str):
            raise RoleError(f"{who} gave a SubTask with a source that is {_kind(source)} and no name.")


def _all_of(who: str, given: object, kind: type[Value], name: str) -> list[Value]:
    if not isinstance(given, Iterable) or isinstance(given, (str, bytes, dict)):
        raise RoleError(f"{who} must give a sequence of {name}, not {_kind(given)}.")
    items: list[Any] = list(given)
    for item in items:
        if not isinstance(item, kind):
            raise RoleError(f"{who} must give a sequence of {name}; among what it gave is {_kind(item)}.")
    return items


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__qualname__}"

"""What comes back from a role, checked where it enters.

A custom retriever that returns dictionaries, or an evaluator that returns a boolean, would otherwise fail later, in
a place that says nothing about who is to blame.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from ragcli.agent.values import Judgement, LowLevelQuery, Result, SubTask
from ragcli.errors import RoleError

Value = TypeVar("Value")


def results_of(who: str, given: object) -> list[Result]:
    """`given` as a list of hits. RoleError, naming `who`, if it is none."""
    return _all_of(who, given, Result, "Hit")


def tasks_of(who: str, given: object) -> list[SubTask]:
    """`given` as a list of sub-tasks, each with a text for a goal and texts for sources."""
    tasks = _all_of(who, given, SubTask, "SubTask")
    for task in tasks:
        _check_task(who, task)
    return tasks


def queries_of(who: str, given: object) -> list[LowLevelQuery]:
    """`given` as a list of low-level queries."""
    queries = _all_of(who, given, LowLevelQuery, "LowLevelQuery")
    for each in queries:
        if not isinstance(each.query, str):
            raise RoleError(f"{who} gave a query that is {_kind(each.query)} and no text.")
    return queries


def judgement_of(who: str, given: object) -> Judgement:
    """`given` as a judgement over hits."""
    if not isinstance(given, Judgement):
        raise RoleError(f"{who} must give a Judgement, not {_kind(given)}.")
    relevant = results_of(f"{who}, as relevant,", given.relevant)
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

"""Reading a language model's replies to the agent's questions: leniently, and never more out of them than they say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragcli.agent.values import SubTask
from ragcli.errors import LanguageModelError
from ragcli.llm.replies import json_object, one_line, without_thoughts

_WORD: Final = re.compile(r"\b(in|not[ -])?sufficient\b", re.IGNORECASE)
_LABEL: Final = re.compile(
    r"^(?:(?:an?|the|new|next|improved|better|suggested|revised)\s+)*(?:search\s+)?quer(?:y|ies)\s*[:\-–]\s*",
    re.IGNORECASE,
)
_MARKS: Final = " \t-*•>`\"'“”‘’#:."
_LONGEST_REFINEMENT: Final = 300
LONGEST_GOAL: Final = 2_000
"""Characters of a goal, or of one put in other words: a model that goes on and on says nothing to search for."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the results suffice, and the query for what is missing."""

    sufficient: bool
    refinement: str | None


def verdict_of(reply: str) -> Verdict:
    """SUFFICIENT, or INSUFFICIENT with a query behind it or on the next line that has one.

    LanguageModelError if it is neither.
    """
    lines = [line for line in (each.strip() for each in without_thoughts(reply).splitlines()) if line.strip(_MARKS)]
    for place, line in enumerate(lines):
        found = _WORD.search(line)
        if found is None:
            continue
        if not found[1]:
            return Verdict(sufficient=True, refinement=None)
        for candidate in (line[found.end() :], *lines[place + 1 :]):
            words = _LABEL.sub("", candidate.strip(_MARKS)).strip(_MARKS)
            if words:
                return Verdict(sufficient=False, refinement=one_line(words)[:_LONGEST_REFINEMENT])
        return Verdict(sufficient=False, refinement=None)
    shown = " ".join(reply.split())[:120] or "nothing"
    raise LanguageModelError(f"The language model was asked whether it is sufficient and wrote: {shown}")


def planned_tasks(reply: Any, sources: Sequence[str]) -> list[SubTask]:
    """The tasks of a plan, over sources that there are. LanguageModelError if it is no plan."""
    if isinstance(reply, str):
        listed = json_object(reply).get("tasks")
        if not isinstance(listed, list):
            raise LanguageModelError("The language model was asked for a plan and gave no list of tasks.")
    else:
        listed = list(reply)
    names = {name.casefold(): name for name in sources}
    tasks: dict[str, SubTask] = {}
    for each in listed:
        goal, wanted = _parts(each)
        if not any(letter.isalnum() for letter in goal):
            continue
        there = [names[name.casefold()] for name in wanted if name.casefold() in names]
        task = SubTask(goal, tuple(dict.fromkeys(there)) or tuple(sources))
        tasks.setdefault(goal.casefold(), task)
    return list(tasks.values())


def chosen_numbers(reply: Any, most: int) -> frozenset[int]:
    """Numbers from 1 to `most` out of a reply, a JSON object with a list or a sequence of numbers.

    LanguageModelError if it is none.
    """
    listed = json_object(reply).get("supports") if isinstance(reply, str) else list(reply)
    if not isinstance(listed, list):
        raise LanguageModelError("The language model was asked for numbers and gave no list of them.")
    numbers = {int(each) for each in listed if str(each).strip().isdecimal()}
    return frozenset(number for number in numbers if 1 <= number <= most)


def _parts(task: Any) -> tuple[str, list[str]]:
    if isinstance(task, SubTask):
        return task.goal, list(task.sources)
    if isinstance(task, str):
        return one_line(task)[:LONGEST_GOAL], []
    if not isinstance(task, Mapping) or not isinstance(task.get("goal"), str):
        return "", []
    wanted = task.get("sources")
    named = wanted if isinstance(wanted, list | tuple) else [wanted]
    return one_line(task["goal"])[:LONGEST_GOAL], [name for name in named if isinstance(name, str)]

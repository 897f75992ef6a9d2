"""The roles played by a language model. None of them can make a search fail or go on for ever.

A formulator that fails gives the goal as it is; a planner, one task over all sources; an evaluator, no refinement,
which ends the loop; a citer, the results unmarked. Each says so once, to `notify` or as a RuntimeWarning.

What is relevant is decided without a model, by `select`: language models are easily swayed there. The model is asked
what it can tell from the passages: whether something is still missing, and what to look for.

Each role can be given a function in place of the model, for tests or a router of your own. With neither, the model
that `collections.toml` names under [llm] is opened when it is first asked.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ragcli.agent.configured import ConfiguredModel
from ragcli.agent.defaults import single_subtask_planner
from ragcli.agent.merging import rrf_reranker, with_own_scores
from ragcli.agent.reading import LONGEST_GOAL, Verdict, chosen_numbers, planned_tasks, verdict_of
from ragcli.agent.roles import Citer, Evaluator, Formulator, Planner, Reranker, Retriever
from ragcli.agent.selection import Selector, select
from ragcli.agent.values import Judgement, LowLevelQuery, Query, Result, SubTask
from ragcli.errors import LanguageModelError, UsageError
from ragcli.llm.prompts import fill, load_prompt
from ragcli.llm.protocols import LanguageModel, Message
from ragcli.llm.replies import json_strings

Notify = Callable[[str], None]
Formulate = Callable[[str], str | Sequence[str]]
Judge = Callable[..., tuple[bool, str | None] | str]

MAX_RESULT_CHARS: Final = 500
"""Characters of each passage that a model is shown."""
NOTHING: Final = "(nothing)"
# Seconds for which a goal that could not be put in other words is not tried again: a round asks for each source.
_AWAY: Final = 30.0


def make_llm_formulator(
    *,
    formulate: Formulate | None = None,
    params: Mapping[str, Any] | None = None,
    model: LanguageModel | None = None,
    n: int = 3,
    prompt: str | None = None,
    prompts: Path | None = None,
    notify: Notify | None = None,
) -> Formulator:
    """A formulator that puts the goal in other words: `n` queries beside the goal itself.

    `formulate`, from a goal to one query or several, stands in for the model, and then its queries are all that is
    asked. `params` go with every query, to the retriever. `prompt` is a template with $goal and $n; `prompts` a
    folder whose `agent_formulate.txt` replaces the prompt that comes with ragcli. It is asked once for a goal, not
    for each source. When it fails, or has nothing to say, the goal is the query.
    """
    asked, tell = model or ConfiguredModel(notify), _Once(notify)
    known: list[tuple[str, tuple[str, ...], float]] = []

    def ask(goal: str) -> Sequence[str]:
        text = _ask(asked, prompt, "agent_formulate", {"goal": goal, "n": str(n)}, prompts)
        return list(dict.fromkeys([goal, *(each[:LONGEST_GOAL] for each in json_strings(text, "queries")[:n])]))

    def queries_for(goal: str) -> tuple[str, ...]:
        if known and known[-1][0] == goal and time.monotonic() < known[-1][2]:
            return known[-1][1]
        until = float("inf")
        try:
            given = (formulate or ask)(goal)
            queries = (given,) if isinstance(given, str) else tuple(given or ())
        except Exception as error:  # whatever is wrong with it, the goal itself can be asked
            tell(f"The question is searched for as it is: {_told(error)}")
            queries, until = (), time.monotonic() + _AWAY
        queries = tuple(each for each in queries if isinstance(each, str) and each.strip()) or (goal,)
        known[:] = [(goal, queries, until)]
        return queries

    def formulator(task: SubTask, source: str) -> list[LowLevelQuery]:
        return [LowLevelQuery(source, query, dict(params or {})) for query in queries_for(task.goal)]

    return formulator


def make_llm_evaluator(
    *,
    judge: Judge | None = None,
    select_strategy: str | Selector = "conservative",
    select_kwargs: Mapping[str, Any] | None = None,
    prerank: Reranker | None = None,
    prompt: str | None = None,
    max_result_chars: int = MAX_RESULT_CHARS,
    model: LanguageModel | None = None,
    prompts: Path | None = None,
    max_tokens: int = 128,
    notify: Notify | None = None,
) -> Evaluator:
    """An evaluator whose sufficiency is the model's word and whose relevance is `select`'s.

    Each round, all results are put in order by `prerank` (`rrf_reranker`; give `score_reranker` for sources that
    share one scale of scores) and `select` commits to some of them; those are kept, with their original scores. The
    model reads them, each cut to `max_result_chars`, and says that they suffice or what to search for next: the
    back-edge, over the same sources.

    `judge` stands in for the model. It is called as `judge(goal=…, results=…)`, both texts, and gives
    (sufficient, refinement) or a reply as the model would: SUFFICIENT, or INSUFFICIENT and a query on the next line.
    A judge that fails, that gives no query, or gives the one that has just been asked, ends the sub-task.

    `select_kwargs` go to `select`. A `min_score` among them means something only for the scores of one source: a
    round whose results were fused by rank raises UsageError rather than compare it with those. `prompt` is a
    template with $goal and $results; `prompts` a folder whose `agent_evaluate.txt` is used instead.
    """
    order = prerank or rrf_reranker
    settings = dict(select_kwargs or {})
    asked, tell = model or ConfiguredModel(notify), _Once(notify)

    def ask(*, goal: str, results: str) -> str:
        return _ask(asked, prompt, "agent_evaluate", {"goal": goal, "results": results}, prompts, max_tokens=max_tokens)

    def evaluator(task: SubTask, results: Sequence[Result]) -> Judgement:
        ranked = list(order(results))
        if settings.get("min_score") is not None and any(hit.source_score is not None for hit in ranked):
            raise UsageError(
                "min_score cannot be used here: the results of several sources were merged by rank, and those scores "
                "are no measure of a result. Leave it out, or give prerank=score_reranker for sources that share one "
                "scale of scores."
            )
        selection = select(ranked, strategy=select_strategy, **settings)
        relevant = with_own_scores(selection.selected, results)
        signals = {"judge": _name(judge, asked), "selection": selection.reason, **selection.signals}
        try:
            verdict = _verdict((judge or ask)(goal=_goal(task, judge), results=_shown(relevant, max_result_chars)))
        except Exception as error:  # no judge, no more rounds
            tell(f"The language model could not judge what was found: {_told(error)}")
            reason = f"The language model could not judge it: {_told(error)}"
            return Judgement(relevant, selection.sufficient, reason=reason, signals={**signals, "judged": False})
        if verdict.sufficient:
            return Judgement(relevant, sufficient=True, reason="The language model finds it enough.", signals=signals)
        again = verdict.refinement is None or _plain(verdict.refinement) == _plain(task.goal)
        reason = "The language model finds it not enough" + (" and has no other query." if again else ".")
        refinement = None if again or verdict.refinement is None else SubTask(verdict.refinement, task.sources)
        return Judgement(relevant, sufficient=False, refinement=refinement, reason=reason, signals=signals)

    return evaluator


def make_llm_planner(
    *,
    plan: Callable[..., Any] | None = None,
    model: LanguageModel | None = None,
    max_tasks: int = 4,
    descriptions: Mapping[str, str] | None = None,
    otherwise: Planner = single_subtask_planner,
    prompt: str | None = None,
    prompts: Path | None = None,
    notify: Notify | None = None,
) -> Planner:
    """A planner that takes a question apart and says where to look for each part; at most `max_tasks` parts.

    The model is told the sources' names and, where `descriptions` has one, what a source is about. `plan` stands in
    for it: called as `plan(question=…, sources=…)`, both texts, it gives SubTasks, or a reply as the model would.
    Sources that are not there are left out, and a part without any gets all. When it fails, or plans nothing, the
    planner `otherwise` plans. `prompt` is a template with $question, $sources and $most.
    """
    asked, tell = model or ConfiguredModel(notify), _Once(notify)

    def ask(*, question: str, sources: str) -> str:
        values = {"question": question, "sources": sources, "most": str(max_tasks)}
        return _ask(asked, prompt, "agent_plan", values, prompts)

    def planner(query: Query, sources: Mapping[str, Retriever]) -> Sequence[SubTask]:
        about = descriptions or {}
        listed = "\n".join(f"- {name}: {about[name]}" if about.get(name) else f"- {name}" for name in sources)
        try:
            tasks = planned_tasks((plan or ask)(question=query.text, sources=listed), tuple(sources))
        except Exception as error:  # whatever is wrong with it, the question can be searched for as it is
            tell(f"The question is not taken apart: {_told(error)}")
            tasks = []
        return tasks[:max_tasks] or otherwise(query, sources)

    return planner


def make_llm_citer(
    *,
    cite: Callable[..., Any] | None = None,
    claim: str | None = None,
    model: LanguageModel | None = None,
    drop: bool = False,
    most: int = 20,
    max_result_chars: int = MAX_RESULT_CHARS,
    prompt: str | None = None,
    prompts: Path | None = None,
    notify: Notify | None = None,
) -> Citer:
    """A citer that marks each of the first `most` results: `scores["cited"]` is 1 where it supports its use, else 0.

    What it is used for is `claim`, or the question that the agent was asked. `cite` stands in for the model: called
    as `cite(question=…, results=…)`, both texts, it gives the numbers of the results that support it, or a reply as
    the model would. With `drop`, results marked 0 are left out, unless that would leave nothing. When it fails, the
    results are as they were.
    """
    asked, tell = model or ConfiguredModel(notify), _Once(notify)

    def ask(*, question: str, results: str) -> str:
        return _ask(asked, prompt, "agent_cite", {"question": question, "results": results}, prompts)

    def citer(results: Sequence[Result], query: Query | None = None) -> list[Result]:
        read, rest = list(results[:most]), list(results[most:])
        question = claim or (query.text if query is not None else "")
        if not read or not question:
            return [*read, *rest]
        listed = "\n\n".join(f"[{number}] {_line(hit, max_result_chars)}" for number, hit in enumerate(read, 1))
        try:
            numbers = chosen_numbers((cite or ask)(question=question, results=listed), len(read))
        except Exception as error:  # unmarked, they are still results
            tell(f"The results are not checked against the question: {_told(error)}")
            return [*read, *rest]
        marked = [
            replace(hit, scores={**hit.scores, "cited": 1.0 if number in numbers else 0.0})
            for number, hit in enumerate(read, 1)
        ]
        if drop and numbers:
            marked = [hit for hit in marked if hit.scores["cited"]]
        return [*marked, *rest]

    return citer


@dataclass(slots=True)
class _Once:
    """Tells a person the first of what may go wrong many times."""

    notify: Notify | None
    told: bool = False

    def __call__(self, sentence: str) -> None:
        if self.told:
            return
        self.told = True
        if self.notify is not None:
            self.notify(sentence)
        else:
            warnings.warn(sentence, RuntimeWarning, stacklevel=3)


def _ask(
    model: LanguageModel,
    prompt: str | None,
    name: str,
    values: Mapping[str, str],
    prompts: Path | None,
    *,
    max_tokens: int = 512,
) -> str:
    template = prompt if prompt is not None else load_prompt(name, prompts)
    for key in values:  # the seed's placeholders do as well
        template = template.replace(f"{{{key}}}", f"${{{key}}}")
    return model.complete([Message("user", fill(template, values))], max_tokens=max_tokens)


def _name(judge: Judge | None, model: LanguageModel) -> str:
    if judge is not None:
        return getattr(judge, "__name__", "judge")
    try:
        return model.name
    except LanguageModelError:
        return "language model"


def _goal(task: SubTask, judge: Judge | None) -> str:
    """The goal as the judge is told it: a model is told what the refinement is for, too."""
    if judge is not None or task.purpose is None or task.purpose == task.goal:
        return task.goal
    return f"{task.purpose}\n(The last search was for: {task.goal})"


def _verdict(given: tuple[bool, str | None] | str) -> Verdict:
    if isinstance(given, str):
        return verdict_of(given)
    sufficient, refinement = given
    words = " ".join(str(refinement).split()) if refinement else ""
    return Verdict(bool(sufficient), words or None)


def _shown(results: Sequence[Result], most: int) -> str:
    return "\n\n".join(f"- {_line(hit, most)}" for hit in results) if results else NOTHING


def _line(hit: Result, most: int) -> str:
    text = " ".join(hit.chunk.text.split())
    return f"{hit.chunk.chunk_id} ({hit.chunk.source}): {text if len(text) <= most else text[:most] + '…'}"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .?!\"'")


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__

"""Agent roles played by a language model, and the parsing of its replies."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ragcli.agent.data_model import Judgement, LowLevelQuery, Query, Result, SubTask
from ragcli.agent.result_ranking import Selector, rrf_reranker, select, with_source_scores
from ragcli.agent.roles import Citer, Evaluator, Formulator, Planner, Reranker, Retriever, single_subtask_planner
from ragcli.errors import LanguageModelError, UsageError
from ragcli.llm.chat_model import LanguageModel, Message
from ragcli.llm.configured_model import ConfiguredLanguageModel
from ragcli.llm.prompts import fill, load_prompt
from ragcli.llm.reply_parsing import fold_to_line, parse_json_object, parse_string_list, strip_thinking
from ragcli.types import Notify

FormulateFunction = Callable[[str], str | Sequence[str]]
JudgeFunction = Callable[..., tuple[bool, str | None] | str]

MAX_RESULT_CHARS: Final = 500
"""Characters of each passage that a model is shown."""
NO_RESULTS: Final = "(nothing)"
# Seconds for which a goal that could not be put in other words is not tried again: a round asks for each source.
_RETRY_AFTER_SECONDS: Final = 30.0


def make_llm_formulator(
    *,
    formulate: FormulateFunction | None = None,
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
    asked, tell = model or ConfiguredLanguageModel(notify), _NotifyOnce(notify)
    known: list[tuple[str, tuple[str, ...], float]] = []

    def ask(goal: str) -> Sequence[str]:
        text = _ask(asked, prompt, "agent_formulate", {"goal": goal, "n": str(n)}, prompts)
        return list(dict.fromkeys([goal, *(each[:MAX_GOAL_CHARS] for each in parse_string_list(text, "queries")[:n])]))

    def queries_for(goal: str) -> tuple[str, ...]:
        if known and known[-1][0] == goal and time.monotonic() < known[-1][2]:
            return known[-1][1]
        until = float("inf")
        try:
            given = (formulate or ask)(goal)
            queries = (given,) if isinstance(given, str) else tuple(given or ())
        except Exception as error:  # whatever is wrong with it, the goal itself can be asked
            tell(f"The question is searched for as it is: {_error_text(error)}")
            queries, until = (), time.monotonic() + _RETRY_AFTER_SECONDS
        queries = tuple(each for each in queries if isinstance(each, str) and each.strip()) or (goal,)
        known[:] = [(goal, queries, until)]
        return queries

    def formulator(task: SubTask, source: str) -> list[LowLevelQuery]:
        return [LowLevelQuery(source, query, dict(params or {})) for query in queries_for(task.goal)]

    return formulator


def make_llm_evaluator(
    *,
    judge: JudgeFunction | None = None,
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
    asked, tell = model or ConfiguredLanguageModel(notify), _NotifyOnce(notify)

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
        relevant = with_source_scores(selection.selected, results)
        signals = {"judge": _name(judge, asked), "selection": selection.reason, **selection.signals}
        try:
            verdict = _as_reply((judge or ask)(goal=_goal(task, judge), results=_shown(relevant, max_result_chars)))
        except Exception as error:  # no judge, no more rounds
            tell(f"The language model could not judge what was found: {_error_text(error)}")
            reason = f"The language model could not judge it: {_error_text(error)}"
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
    asked, tell = model or ConfiguredLanguageModel(notify), _NotifyOnce(notify)

    def ask(*, question: str, sources: str) -> str:
        values = {"question": question, "sources": sources, "most": str(max_tasks)}
        return _ask(asked, prompt, "agent_plan", values, prompts)

    def planner(query: Query, sources: Mapping[str, Retriever]) -> Sequence[SubTask]:
        about = descriptions or {}
        listed = "\n".join(f"- {name}: {about[name]}" if about.get(name) else f"- {name}" for name in sources)
        try:
            tasks = parse_plan((plan or ask)(question=query.text, sources=listed), tuple(sources))
        except Exception as error:  # whatever is wrong with it, the question can be searched for as it is
            tell(f"The question is not taken apart: {_error_text(error)}")
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
    asked, tell = model or ConfiguredLanguageModel(notify), _NotifyOnce(notify)

    def ask(*, question: str, results: str) -> str:
        return _ask(asked, prompt, "agent_cite", {"question": question, "results": results}, prompts)

    def citer(results: Sequence[Result], query: Query | None = None) -> list[Result]:
        read, rest = list(results[:most]), list(results[most:])
        question = claim or (query.text if query is not None else "")
        if not read or not question:
            return [*read, *rest]
        listed = "\n\n".join(f"[{number}] {_line(hit, max_result_chars)}" for number, hit in enumerate(read, 1))
        try:
            numbers = parse_numbers((cite or ask)(question=question, results=listed), len(read))
        except Exception as error:  # unmarked, they are still results
            tell(f"The results are not checked against the question: {_error_text(error)}")
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
class _NotifyOnce:
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


def _name(judge: JudgeFunction | None, model: LanguageModel) -> str:
    if judge is not None:
        return getattr(judge, "__name__", "judge")
    try:
        return model.name
    except LanguageModelError:
        return "language model"


def _goal(task: SubTask, judge: JudgeFunction | None) -> str:
    """The goal as the judge is told it: a model is told what the refinement is for, too."""
    if judge is not None or task.purpose is None or task.purpose == task.goal:
        return task.goal
    return f"{task.purpose}\n(The last search was for: {task.goal})"


def _as_reply(given: tuple[bool, str | None] | str) -> EvaluatorReply:
    if isinstance(given, str):
        return parse_evaluation(given)
    sufficient, refinement = given
    words = " ".join(str(refinement).split()) if refinement else ""
    return EvaluatorReply(bool(sufficient), words or None)


def _shown(results: Sequence[Result], most: int) -> str:
    return "\n\n".join(f"- {_line(hit, most)}" for hit in results) if results else NO_RESULTS


def _line(hit: Result, most: int) -> str:
    text = " ".join(hit.chunk.text.split())
    return f"{hit.chunk.chunk_id} ({hit.chunk.source}): {text if len(text) <= most else text[:most] + '…'}"


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" .?!\"'")


def _error_text(error: Exception) -> str:
    return str(error) or type(error).__name__


_WORD: Final = re.compile(r"\b(in|not[ -])?sufficient\b", re.IGNORECASE)
_LABEL: Final = re.compile(
    r"^(?:(?:an?|the|new|next|improved|better|suggested|revised)\s+)*(?:search\s+)?quer(?:y|ies)\s*[:\-–]\s*",
    re.IGNORECASE,
)
_MARKS: Final = " \t-*•>`\"'“”‘’#:."
_LONGEST_REFINEMENT: Final = 300
MAX_GOAL_CHARS: Final = 2_000
"""Characters of a goal, or of one put in other words: a model that goes on and on says nothing to search for."""


@dataclass(frozen=True, slots=True)
class EvaluatorReply:
    """Whether the results suffice, and the query for what is missing."""

    sufficient: bool
    refinement: str | None


def parse_evaluation(reply: str) -> EvaluatorReply:
    """SUFFICIENT, or INSUFFICIENT with a query behind it or on the next line that has one.

    LanguageModelError if it is neither.
    """
    lines = [line for line in (each.strip() for each in strip_thinking(reply).splitlines()) if line.strip(_MARKS)]
    for place, line in enumerate(lines):
        found = _WORD.search(line)
        if found is None:
            continue
        if not found[1]:
            return EvaluatorReply(sufficient=True, refinement=None)
        for candidate in (line[found.end() :], *lines[place + 1 :]):
            words = _LABEL.sub("", candidate.strip(_MARKS)).strip(_MARKS)
            if words:
                return EvaluatorReply(sufficient=False, refinement=fold_to_line(words)[:_LONGEST_REFINEMENT])
        return EvaluatorReply(sufficient=False, refinement=None)
    shown = " ".join(reply.split())[:120] or "nothing"
    raise LanguageModelError(f"The language model was asked whether it is sufficient and wrote: {shown}")


def parse_plan(reply: Any, sources: Sequence[str]) -> list[SubTask]:
    """The tasks of a plan, over sources that there are. LanguageModelError if it is no plan."""
    if isinstance(reply, str):
        listed = parse_json_object(reply).get("tasks")
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


def parse_numbers(reply: Any, most: int) -> frozenset[int]:
    """Numbers from 1 to `most` out of a reply, a JSON object with a list or a sequence of numbers.

    LanguageModelError if it is none.
    """
    listed = parse_json_object(reply).get("supports") if isinstance(reply, str) else list(reply)
    if not isinstance(listed, list):
        raise LanguageModelError("The language model was asked for numbers and gave no list of them.")
    numbers = {int(each) for each in listed if str(each).strip().isdecimal()}
    return frozenset(number for number in numbers if 1 <= number <= most)


def _parts(task: Any) -> tuple[str, list[str]]:
    if isinstance(task, SubTask):
        return task.goal, list(task.sources)
    if isinstance(task, str):
        return fold_to_line(task)[:MAX_GOAL_CHARS], []
    if not isinstance(task, Mapping) or not isinstance(task.get("goal"), str):
        return "", []
    wanted = task.get("sources")
    named = wanted if isinstance(wanted, list | tuple) else [wanted]
    return fold_to_line(task["goal"])[:MAX_GOAL_CHARS], [name for name in named if isinstance(name, str)]

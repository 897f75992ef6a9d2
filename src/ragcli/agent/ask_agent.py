"""The agent of `ragcli ask --agent`, and its run as an AskResult."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ragcli.agent.collection_retriever import CollectionRetriever, ask_all_sources, share_searcher
from ragcli.agent.data_model import Budget, Judgement, Result, SubTask, result_key
from ragcli.agent.llm_roles import make_llm_evaluator, make_llm_formulator, make_llm_planner
from ragcli.agent.result_ranking import score_reranker
from ragcli.agent.roles import Evaluator, splitting_planner
from ragcli.agent.search_loop import SingleContextAgent, make_search_agent
from ragcli.agent.sufficiency_evaluator import gate_evaluator
from ragcli.errors import LanguageModelAway
from ragcli.grounding.ask import REVIEW_BAND, AskResult, AskTrace, SearchAttempt
from ragcli.grounding.sufficiency.evidence import Decision
from ragcli.llm.chat_model import CircuitBreaker
from ragcli.retrieval.request import QueryResult, StageTime

if TYPE_CHECKING:
    from ragcli.agent.data_model import AgentRun, Result, Round, TaskTrace
    from ragcli.grounding.sufficiency.evidence import (
        AnswerVerdict,
        Preset,
        ReasonCode,
        SufficiencyJudge,
        SufficiencyJudgeName,
    )
    from ragcli.llm.chat_model import LanguageModel


MAX_ROUNDS: Final = 3
RESULTS_KEPT: Final = 10
"""Results that a round keeps at most where a language model judges. It reads them all, and the user sees the best."""


def standard_agent(
    sources: Mapping[str, CollectionRetriever],
    *,
    judge: SufficiencyJudge | SufficiencyJudgeName = "calibrated",
    preset: Preset = "balanced",
    model: LanguageModel | None = None,
    rounds: int = MAX_ROUNDS,
    descriptions: Mapping[str, str] | None = None,
    prompts: Path | None = None,
    notify: Callable[[str], None] | None = None,
) -> SingleContextAgent:
    """An agent over collections, which searches those of a sub-task in one pool.

    With a `model`, that plans, puts goals in other words, and says what is missing. Without one, or where it fails,
    the question is taken apart by its seams, the gate (`judge`, `preset`) says whether the evidence suffices, and the
    next round looks for words out of what was found (RM3). `descriptions` tell the model what a source is about;
    `prompts` is a folder of the user's own. `notify` is told of what fails.
    """
    budget = Budget(max_rounds=rounds, max_sources_per_task=max(len(sources), 1))
    gate = gate_evaluator(sources, judge=judge, preset=preset, prerank=score_reranker)
    if model is None:
        return make_search_agent(
            share_searcher(sources),
            planner=splitting_planner,
            formulator=ask_all_sources(),
            evaluator=gate,
            reranker=score_reranker,
            budget=budget,
        )
    # One that hangs costs its time limit, which no role and no round should pay again.
    model = CircuitBreaker(model, counted=LanguageModelAway)
    evaluator = make_llm_evaluator(
        model=model,
        select_strategy="top_k",
        select_kwargs={"max_k": RESULTS_KEPT},
        prerank=score_reranker,
        prompts=prompts,
        notify=notify,
    )
    return make_search_agent(
        share_searcher(sources),
        planner=make_llm_planner(
            model=model, descriptions=descriptions, otherwise=splitting_planner, prompts=prompts, notify=notify
        ),
        formulator=ask_all_sources(make_llm_formulator(model=model, prompts=prompts, notify=notify)),
        evaluator=_or_gate(evaluator, gate),
        reranker=score_reranker,
        budget=budget,
    )


def _or_gate(evaluator: Evaluator, gate: Evaluator) -> Evaluator:
    """The language model's word, or the gate's where it has none."""

    def judged(task: SubTask, results: Sequence[Result]) -> Judgement:
        judgement = evaluator(task, results)
        return judgement if judgement.signals.get("judged", True) else gate(task, results)

    return judged


_HALF: Final = 0.5


def ask_result(run: AgentRun, *, top: int, preset: Preset, pipeline: str, override: bool = False) -> AskResult:
    """The verdict on the run's question, with its best `top` results, of which each sub-task has its share.

    `override` lets through a question that did not get enough. A judgement without a score of its own, such as a
    language model's, counts as 1 or 0 against a threshold of a half.
    """
    tasks = run.trace.tasks
    rounds = [turn for task in tasks for turn in task.rounds]
    decision = _decision_of(tasks)
    # Even a plan without a task was one way to look.
    attempts = tuple(_attempt(turn) for turn in rounds) or (SearchAttempt(run.trace.query.text, (), decision, (), ()),)
    review = tuple(_review(tasks))
    enough = [task for task in tasks if task.sufficient]
    verdict: AnswerVerdict = "insufficient"
    if enough or override:
        verdict = "needs_review" if review and not (override and not enough) else "answerable"
    reranker = next((hit.reranker for hit in run.results if hit.reranker), None)
    shown = _shown(run, top)
    return AskResult(
        question=run.trace.query.text,
        verdict=verdict,
        decision=decision,
        found=QueryResult(shown, attempts[-1].stages, pipeline, reranker),
        passages=shown,
        trace=AskTrace(
            judge=decision.judge,
            preset=preset,
            attempts=attempts,
            chosen=len(attempts) - 1,
            stopped="passed" if run.trace.sufficient else "no retries left",
            pipeline=pipeline,
            reranker=reranker,
            overridden=override and not enough,
            warnings=run.trace.warnings,
        ),
        review=review if enough else (),
    )


def _shown(run: AgentRun, top: int) -> tuple[Result, ...]:
    """The best results in their order, dealt so that a sub-task whose scores are lower is not left without any."""
    places = {result_key(hit): place for place, hit in enumerate(run.results)}
    queues = [
        sorted({places[key] for hit in task.kept if (key := result_key(hit)) in places}) for task in run.trace.tasks
    ]
    dealt = [place for turn in zip_longest(*queues) for place in turn if place is not None]
    # What a role has added is in no sub-task; it comes behind.
    chosen = list(dict.fromkeys([*dealt, *places.values()]))[:top]
    return tuple(replace(run.results[place], rank=rank) for rank, place in enumerate(sorted(chosen), 1))


def _attempt(turn: Round) -> SearchAttempt:
    stages = tuple(StageTime(each.query.source, each.seconds, each.query.query) for each in turn.retrievals)
    rest = turn.seconds - sum(stage.seconds for stage in stages)
    ids = tuple(hit.chunk.chunk_id for hit in turn.kept)
    return SearchAttempt(turn.task.goal, (), _decision(turn), ids, (*stages, StageTime("roles", max(rest, 0.0), "")))


def _decision_of(tasks: Sequence[TaskTrace]) -> Decision:
    """The word that the verdict rests on: that on the first sub-task without enough, else that on the first."""
    if not tasks:
        return Decision(False, 0.0, _HALF, ("NO_EVIDENCE",), "Nothing was searched for.", {}, "none")
    task = next((task for task in tasks if not task.sufficient), tasks[0])
    return _decision(task.rounds[-1])


def _decision(turn: Round) -> Decision:
    judged, signals = turn.judgement, turn.judgement.signals
    reasons: tuple[ReasonCode, ...] = ("PASS",)
    if not judged.sufficient:
        reasons = ("LOW_COVERAGE",) if turn.kept else ("NO_EVIDENCE",)
    return Decision(
        passed=judged.sufficient,
        score=signals.get("score", float(judged.sufficient)),
        threshold=signals.get("threshold", _HALF),
        reasons=signals.get("reasons", reasons),
        explanation=judged.reason or ("Enough was found." if judged.sufficient else "Not enough was found."),
        features=signals.get("features", {}),
        judge=signals.get("judge", "evaluator"),
    )


def _review(tasks: Sequence[TaskTrace]) -> Iterator[str]:
    missing = [task for task in tasks if not task.sufficient]
    for task in missing:
        yield f"Not enough was found for: {task.task.goal}"
    for task in tasks:
        last = task.rounds[-1]
        if last.judgement.signals.get("judged", True) is False:
            yield last.judgement.reason or "Nobody could judge what was found."
        decision = _decision(last)
        if decision.passed and decision.score - decision.threshold < REVIEW_BAND:
            margin = decision.score - decision.threshold
            yield f"The evidence for “{task.task.goal}” suffices by a margin of {margin:.2f} only."

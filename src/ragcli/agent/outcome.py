"""An agent's run as `ragcli ask` tells it: a verdict with its evidence, so that answers can be written from it.

Each round is an attempt. The question is answerable when every sub-task ended with enough, and needs review when some
did, when a judge passed one by a hair's breadth, or when nobody could judge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from ragcli.agent.values import result_key
from ragcli.gate.ask import REVIEW_BAND
from ragcli.gate.trace import AskResult, Attempt, Trace
from ragcli.gate.values import Decision
from ragcli.retrieval.request import StageTime

if TYPE_CHECKING:
    from ragcli.agent.trace import AgentRun, Round, TaskTrace
    from ragcli.agent.values import Result
    from ragcli.gate.values import Preset, Reason, Verdict

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
    attempts = tuple(_attempt(turn) for turn in rounds) or (Attempt(run.trace.query.text, (), decision, (), ()),)
    review = tuple(_review(tasks))
    enough = [task for task in tasks if task.sufficient]
    verdict: Verdict = "insufficient"
    if enough or override:
        verdict = "needs_review" if review and not (override and not enough) else "answerable"
    reranker = next((hit.reranker for hit in run.results if hit.reranker), None)
    return AskResult(
        question=run.trace.query.text,
        verdict=verdict,
        decision=decision,
        hits=_shown(run, top),
        trace=Trace(
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


def _attempt(turn: Round) -> Attempt:
    stages = tuple(StageTime(each.query.source, each.seconds, each.query.query) for each in turn.retrievals)
    rest = turn.seconds - sum(stage.seconds for stage in stages)
    ids = tuple(hit.chunk.chunk_id for hit in turn.kept)
    return Attempt(turn.task.goal, (), _decision(turn), ids, (*stages, StageTime("roles", max(rest, 0.0), "")))


def _decision_of(tasks: Sequence[TaskTrace]) -> Decision:
    """The word that the verdict rests on: that on the first sub-task without enough, else that on the first."""
    if not tasks:
        return Decision(False, 0.0, _HALF, ("NO_EVIDENCE",), "Nothing was searched for.", {}, "none")
    task = next((task for task in tasks if not task.sufficient), tasks[0])
    return _decision(task.rounds[-1])


def _decision(turn: Round) -> Decision:
    judged, signals = turn.judgement, turn.judgement.signals
    reasons: tuple[Reason, ...] = ("PASS",)
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

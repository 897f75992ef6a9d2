"""What an agent's run comes to: the verdict, and the results that are shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ragcli.agent import AgentRun, Judgement, Query, Result, SubTask, make_result, make_search_agent
from ragcli.agent.ask_agent import ask_result
from ragcli.grounding import AskResult


def run_of(
    enough: Sequence[bool], *, results: int = 4, signals: dict[str, Any] | None = None, reason: str | None = None
) -> AgentRun:
    """A run of so many sub-tasks; the results of the first score best."""

    def planner(query: Query, sources: Any) -> list[SubTask]:
        return [SubTask(f"part {number}", ("all",)) for number in range(len(enough))]

    def retriever(query: str, **params: Any) -> list[Result]:
        part = int(query.split()[1])
        return [
            make_result(f"{part}.{place}", score=10.0 - 3 * part - place / 10, source=f"{part}.{place}")
            for place in range(results)
        ]

    def evaluator(task: SubTask, found: Sequence[Result]) -> Judgement:
        return Judgement(found, enough[int(task.goal.split()[1])], reason=reason, signals=signals or {})

    return make_search_agent({"all": retriever}, planner=planner, evaluator=evaluator).run("all of it")


def outcome(run: AgentRun, **options: Any) -> AskResult:
    return ask_result(run, **{"top": 5, "preset": "balanced", "pipeline": "hybrid", **options})


@pytest.mark.parametrize(
    ("enough", "verdict", "review"),
    [
        ([True], "answerable", ()),
        ([True, True], "answerable", ()),
        ([False], "insufficient", ()),
        ([False, False], "insufficient", ()),
        ([True, False, True], "needs_review", ("Not enough was found for: part 1",)),
    ],
)
def test_the_verdict_is_yes_when_every_part_has_enough_and_no_when_none_has(
    enough: list[bool], verdict: str, review: tuple[str, ...]
) -> None:
    result = outcome(run_of(enough))
    assert (result.verdict, result.review) == (verdict, review)
    assert result.decision.passed is all(enough)
    assert len(result.trace.attempts) == len(enough)


def test_a_question_can_be_let_through_and_that_is_recorded() -> None:
    result = outcome(run_of([False]), override=True)
    assert (result.verdict, result.trace.overridden, result.decision.passed) == ("answerable", True, False)
    assert not outcome(run_of([True]), override=True).trace.overridden


def test_what_nobody_could_judge_needs_review() -> None:
    result = outcome(run_of([True], signals={"judged": False}, reason="The model was away."))
    assert (result.verdict, result.review) == ("needs_review", ("The model was away.",))


def test_what_a_judge_passed_by_a_hair_needs_review() -> None:
    result = outcome(run_of([True], signals={"score": 0.56, "threshold": 0.55, "judge": "heuristic"}))
    assert result.verdict == "needs_review"
    assert "margin of 0.01" in result.review[0]
    assert (result.decision.score, result.decision.judge) == (0.56, "heuristic")


def test_every_part_has_its_share_of_what_is_shown_in_the_order_of_the_whole() -> None:
    shown = outcome(run_of([True, True, True]), top=4).hits
    assert [hit.chunk.text for hit in shown] == ["0.0", "0.1", "1.0", "2.0"]
    assert [hit.rank for hit in shown] == [1, 2, 3, 4]
    assert len(outcome(run_of([True, True]), top=50).hits) == 8


def test_without_any_result_there_is_no_evidence() -> None:
    result = outcome(run_of([False], results=0))
    assert (result.verdict, result.hits, result.decision.reasons) == ("insufficient", (), ("NO_EVIDENCE",))


def test_a_plan_without_a_task_is_insufficient() -> None:
    result = outcome(run_of([]))
    assert (result.verdict, result.hits, len(result.trace.attempts)) == ("insufficient", (), 1)

"""The loop of the search agent, with retrievers and roles of the tests' own: what is asked, kept and traced."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ragcli.agent import (
    AgentRun,
    Budget,
    Judgement,
    LowLevelQuery,
    Query,
    Result,
    SingleContextAgent,
    SubTask,
    make_result,
    make_search_agent,
    single_subtask_planner,
)
from ragcli.errors import CollectionError, LanguageModelError, RagcliError, RoleError, UsageError


class Shelf:
    """A source whose results are the lines that share a word with the query, in their order. It notes each query."""

    def __init__(self, *lines: str, scale: float = 1.0) -> None:
        self.lines = lines
        self.scale = scale
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, query: str, **params: Any) -> list[Result]:
        self.asked.append((query, params))
        words = set(query.lower().split())
        found = [line for line in self.lines if words & set(line.lower().split())]
        return [
            make_result(line, score=self.scale * (1 - place / 100), source=line.split()[0])
            for place, line in enumerate(found)
        ]


def giving(value: Any) -> Any:
    """A role that gives this, whatever it is given."""
    return lambda *_, **__: value


def gone(query: str, **params: Any) -> list[Result]:
    raise CollectionError("The collection is gone.")


def texts(results: Sequence[Result]) -> list[str]:
    return [hit.chunk.text for hit in results]


def refining(*queries: str) -> Callable[[SubTask, Sequence[Result]], Judgement]:
    """An evaluator that keeps everything and asks those queries one after another, then is content."""
    left = list(queries)

    def evaluator(task: SubTask, results: Sequence[Result]) -> Judgement:
        if not left:
            return Judgement(results, sufficient=True)
        return Judgement(results, sufficient=False, refinement=SubTask(left.pop(0), task.sources))

    return evaluator


def never_content(task: SubTask, results: Sequence[Result]) -> Judgement:
    return Judgement(results, sufficient=False, refinement=SubTask("zebra again", task.sources))


def test_without_any_role_every_source_is_asked_the_question_once_and_the_results_are_ranked() -> None:
    zoo, farm = Shelf("zebra in the zoo", "lion in the zoo"), Shelf("zebra on the farm")
    agent = make_search_agent({"zoo": zoo, "farm": farm})
    results = agent("Zebra")
    assert texts(results) == ["zebra in the zoo", "zebra on the farm"]
    assert [hit.rank for hit in results] == [1, 2]
    assert [hit.origin for hit in results] == ["zoo", "farm"]
    assert zoo.asked == farm.asked == [("Zebra", {})]


def test_the_agent_can_be_asked_again_and_by_a_query_value() -> None:
    agent = make_search_agent({"zoo": Shelf("zebra in the zoo")})
    assert texts(agent("zebra")) == texts(agent(Query("zebra"))) == ["zebra in the zoo"]
    assert agent("lion") == []


def test_constraints_of_the_query_reach_the_retriever_and_a_formulators_parameters_go_before_them() -> None:
    zoo = Shelf("zebra")

    def formulator(task: SubTask, source: str) -> list[LowLevelQuery]:
        return [LowLevelQuery(source, task.goal), LowLevelQuery(source, "striped zebra", {"top": 2})]

    make_search_agent({"zoo": zoo}, formulator=formulator, concurrency=1)(Query("zebra", {"top": 9, "pool": 5}))
    assert zoo.asked == [("zebra", {"top": 9, "pool": 5}), ("striped zebra", {"top": 2, "pool": 5})]


def test_a_refinement_is_searched_for_and_adds_to_what_was_kept() -> None:
    zoo = Shelf("zebra in the zoo", "lion in the den")
    results = make_search_agent({"zoo": zoo}, evaluator=refining("den"))("zebra")
    assert sorted(texts(results)) == ["lion in the den", "zebra in the zoo"]
    assert [query for query, _ in zoo.asked] == ["zebra", "den"]


def test_the_trace_shows_the_back_edge_and_what_each_round_found() -> None:
    zoo = Shelf("zebra in the zoo", "lion in the den")
    run = make_search_agent({"zoo": zoo}, evaluator=refining("den")).run("zebra")
    (task,) = run.trace.tasks
    assert run.trace.back_edges == 1
    assert [turn.task.goal for turn in task.rounds] == ["zebra", "den"]
    assert [turn.task.purpose for turn in task.rounds] == ["zebra", "zebra"]
    assert [[texts(each.hits) for each in turn.retrievals] for turn in task.rounds] == [
        [["zebra in the zoo"]],
        [["lion in the den"]],
    ]
    assert [turn.offered for turn in task.rounds] == [1, 2]
    assert task.rounds[0].judgement.refinement == SubTask("den", ("zoo",))
    assert (task.sufficient, task.ended) == (True, "Enough was found.")
    assert run.trace.sufficient
    assert run.trace.seconds >= sum(turn.seconds for turn in task.rounds) > 0


def test_what_the_evaluator_drops_is_not_among_the_results() -> None:
    def evaluator(task: SubTask, results: Sequence[Result]) -> Judgement:
        return Judgement([hit for hit in results if "lion" in hit.chunk.text], sufficient=True)

    agent = make_search_agent({"zoo": Shelf("zebra in the zoo", "lion in the zoo")}, evaluator=evaluator)
    assert texts(agent("zoo")) == ["lion in the zoo"]


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_an_evaluator_that_is_never_content_is_stopped_by_the_budget_of_rounds(rounds: int) -> None:
    zoo = Shelf("zebra")
    run = make_search_agent({"zoo": zoo}, evaluator=never_content, budget=Budget(max_rounds=rounds)).run("zebra")
    assert len(zoo.asked) == rounds
    assert len(run.trace.tasks[0].rounds) == rounds
    assert texts(run.results) == ["zebra"]
    assert not run.trace.sufficient
    assert run.trace.tasks[0].ended == "The budget of rounds is spent."


def test_only_so_many_sources_are_asked_for_a_task_and_the_rest_is_told() -> None:
    shelves = {name: Shelf("zebra") for name in "abcde"}
    run = make_search_agent(shelves, budget=Budget(max_sources_per_task=2)).run("zebra")
    assert [name for name, shelf in shelves.items() if shelf.asked] == ["a", "b"]
    assert run.trace.warnings == ("The budget of 2 sources a sub-task left out c, d, e.",)


def test_an_evaluator_is_never_shown_more_than_the_budget_and_each_source_gets_its_share() -> None:
    shown: list[list[str]] = []

    def evaluator(task: SubTask, results: Sequence[Result]) -> Judgement:
        shown.append(texts(results))
        return Judgement(results, sufficient=False, refinement=SubTask("lion", task.sources))

    sources = {
        "zoo": Shelf(*(f"z{number} zebra lion" for number in range(50)), scale=9),
        "farm": Shelf("f0 zebra", "f1 lion"),
    }
    agent = make_search_agent(sources, evaluator=evaluator, budget=Budget(max_results_per_task=4, max_rounds=2))
    results = agent("zebra")
    assert shown[0] == ["z0 zebra lion", "f0 zebra", "z1 zebra lion", "z2 zebra lion"]
    assert shown[1] == shown[0], "what was kept fills the budget; nothing new may push it out"
    assert len(results) == 4


def test_an_evaluator_may_give_what_it_keeps_as_it_comes() -> None:
    def evaluator(task: SubTask, results: Sequence[Result]) -> Judgement:
        return Judgement((hit for hit in results), sufficient=True)  # type: ignore[arg-type]

    run = make_search_agent({"zoo": Shelf("zebra")}, evaluator=evaluator).run("zebra")
    assert texts(run.results) == texts(run.trace.tasks[0].rounds[0].judgement.relevant) == ["zebra"]


def test_places_that_the_evaluator_frees_are_filled_by_what_the_next_round_brings() -> None:
    def evaluator(task: SubTask, results: Sequence[Result]) -> Judgement:
        if task.goal == "lion":
            return Judgement(results, sufficient=True)
        return Judgement(results[:1], sufficient=False, refinement=SubTask("lion", task.sources))

    zoo = Shelf("z0 zebra", "z1 zebra", "l0 lion", "l1 lion", "l2 lion")
    results = make_search_agent({"zoo": zoo}, evaluator=evaluator, budget=Budget(max_results_per_task=2))("zebra")
    assert sorted(texts(results)) == ["l0 lion", "z0 zebra"]


def test_an_evaluator_that_keeps_more_than_it_was_shown_is_cut_to_the_budget() -> None:
    extra = [make_result(f"extra {number}", score=1, source=f"x{number}") for number in range(9)]

    def evaluator(task: SubTask, results: Sequence[Result]) -> Judgement:
        return Judgement([*results, *extra], sufficient=True)

    agent = make_search_agent({"zoo": Shelf("zebra")}, evaluator=evaluator, budget=Budget(max_results_per_task=3))
    assert len(agent("zebra")) == 3


@pytest.mark.parametrize("bound", ["max_rounds", "max_sources_per_task", "max_results_per_task"])
def test_a_budget_of_nothing_is_refused(bound: str) -> None:
    with pytest.raises(UsageError, match=bound):
        Budget(**{bound: 0})


def test_sub_tasks_are_pursued_in_their_order_and_their_results_merged() -> None:
    def planner(query: Query, sources: Any) -> list[SubTask]:
        return [SubTask("lion", ("zoo",)), SubTask("cow", ("farm",))]

    zoo, farm = Shelf("lion in the zoo"), Shelf("cow on the farm")
    run = make_search_agent({"zoo": zoo, "farm": farm}, planner=planner).run("animals")
    assert [task.task.goal for task in run.trace.tasks] == ["lion", "cow"]
    assert [query for query, _ in zoo.asked] == ["lion"]
    assert [query for query, _ in farm.asked] == ["cow"]
    assert texts(run.results) == ["lion in the zoo", "cow on the farm"]


def test_a_source_that_is_not_there_is_told_and_costs_nothing_else() -> None:
    def planner(query: Query, sources: Any) -> list[SubTask]:
        return [SubTask(query.text, ("nowhere", "zoo"))]

    run = make_search_agent({"zoo": Shelf("zebra")}, planner=planner).run("zebra")
    assert texts(run.results) == ["zebra"]
    assert "nowhere" in run.trace.warnings[0]


def test_a_result_that_says_its_origin_keeps_it() -> None:
    from dataclasses import replace

    def web(query: str, **params: Any) -> list[Result]:
        return [replace(make_result("zebra", score=1, source="z"), origin="archive")]

    assert make_search_agent({"web": web})("zebra")[0].origin == "archive"


def test_a_source_that_fails_is_told_and_the_others_answer() -> None:
    def broken(query: str, **params: Any) -> list[Result]:
        raise CollectionError("The collection 'broken' is damaged.")

    run = make_search_agent({"broken": broken, "zoo": Shelf("zebra")}).run("zebra")
    assert texts(run.results) == ["zebra"]
    assert run.trace.tasks[0].rounds[0].retrievals[0].error == "The collection 'broken' is damaged."
    assert run.trace.warnings == ("The source 'broken' could not be asked: The collection 'broken' is damaged.",)


def test_where_no_source_can_be_asked_at_all_that_is_the_error() -> None:
    def broken(query: str, **params: Any) -> list[Result]:
        raise CollectionError("The collection is damaged.")

    with pytest.raises(CollectionError, match="damaged"):
        make_search_agent({"one": broken, "two": broken})("zebra")


def test_a_mistake_in_a_retriever_is_raised_as_it_is_also_amid_several() -> None:
    def wrong(query: str, **params: Any) -> list[Result]:
        raise ZeroDivisionError("a bug")

    for concurrency in (1, 4):
        with pytest.raises(ZeroDivisionError, match="a bug"):
            make_search_agent({"zoo": Shelf("zebra"), "wrong": wrong}, concurrency=concurrency)("zebra")


NOT_RESULTS = [[{"text": "zebra"}], ["zebra"], "zebra", None, [None], 3, {"a": 1}]


@pytest.mark.parametrize("given", NOT_RESULTS, ids=repr)
@pytest.mark.parametrize("others", [{}, {"zoo": Shelf("zebra")}], ids=["alone", "amid others"])
def test_a_retriever_that_gives_anything_but_hits_is_named_where_it_does(given: Any, others: dict[str, Any]) -> None:
    with pytest.raises(RoleError, match="retriever of the source 'web' must give a sequence of Hit"):
        make_search_agent({"web": giving(given), **others})("zebra")


def test_a_role_error_is_a_type_error_and_a_usage_error() -> None:
    with pytest.raises(TypeError) as caught:
        make_search_agent({"web": giving([1])})("zebra")
    assert isinstance(caught.value, UsageError)


@pytest.mark.parametrize(
    ("role", "function", "said"),
    [
        ("planner", giving("zebra"), "The planner must give a sequence of SubTask, not a str"),
        ("planner", giving([("zebra", ("zoo",))]), "among what it gave is a tuple"),
        ("planner", giving([SubTask("zebra", "zoo")]), "sources are one text"),  # type: ignore[arg-type]
        ("formulator", giving([SubTask("zebra", ("zoo",))]), "The formulator must give a sequence of LowLevelQuery"),
        ("evaluator", giving(True), "The evaluator must give a Judgement, not a bool"),
        ("evaluator", giving(Judgement(["zebra"], True)), "as relevant, must give"),  # type: ignore[list-item]
        ("evaluator", giving(Judgement([], False, "more")), "refine by a SubTask"),  # type: ignore[arg-type]
        ("reranker", giving(None), "The reranker must give a sequence of Hit, not nothing"),
        ("citer", lambda results: [hit.chunk for hit in results], "The citer must give a sequence of Hit"),
    ],
)
def test_every_role_that_gives_something_else_is_named(role: str, function: Any, said: str) -> None:
    with pytest.raises(RoleError, match=said):
        make_search_agent({"zoo": Shelf("zebra")}, **{role: function})("zebra")


def failing(*arguments: Any, **keywords: Any) -> Any:
    raise LanguageModelError("The model is down.")


@pytest.mark.parametrize("role", ["planner", "formulator", "evaluator", "reranker", "citer"])
def test_a_role_whose_language_model_fails_is_done_without_and_no_result_is_lost(role: str) -> None:
    zoo = Shelf("zebra in the zoo", "lion in the zoo")
    run = make_search_agent({"zoo": zoo}, **{role: failing}).run("zoo")  # type: ignore[arg-type]
    assert texts(run.results) == ["zebra in the zoo", "lion in the zoo"]
    assert len(zoo.asked) == 1
    assert run.trace.warnings == (f"The {role} was done without: The model is down.",)
    assert run.trace.sufficient is (role != "evaluator")


def test_the_reranker_decides_the_order_and_the_citer_has_the_last_word() -> None:
    seen: list[list[str]] = []

    def citer(results: Sequence[Result]) -> Sequence[Result]:
        seen.append(texts(results))
        return results[:1]

    agent = make_search_agent(
        {"zoo": Shelf("a zoo", "b zoo")}, reranker=lambda results: list(reversed(results)), citer=citer
    )
    assert texts(agent("zoo")) == ["b zoo"]
    assert seen == [["b zoo", "a zoo"]]


def test_a_citer_that_takes_the_query_is_given_it() -> None:
    asked: list[Query] = []

    def citer(results: Sequence[Result], query: Query) -> Sequence[Result]:
        asked.append(query)
        return results

    make_search_agent({"zoo": Shelf("zebra")}, citer=citer)(Query("zebra", {"top": 1}))
    assert asked == [Query("zebra", {"top": 1})]


def test_an_empty_question_is_refused() -> None:
    with pytest.raises(UsageError, match="empty"):
        make_search_agent({"zoo": Shelf("zebra")})("  ")


def test_a_plan_without_a_task_finds_nothing_and_is_not_sufficient() -> None:
    run = make_search_agent({"zoo": Shelf("zebra")}, planner=giving([])).run("zebra")
    assert (run.results, run.trace.sufficient) == ((), False)


class Crowd:
    """Sources that notice how many of them are asked at once."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self.threads: set[int] = set()
        self._lock = threading.Lock()

    def source(self, name: str) -> Callable[..., list[Result]]:
        def retriever(query: str, **params: Any) -> list[Result]:
            with self._lock:
                self.now += 1
                self.most = max(self.most, self.now)
                self.threads.add(threading.get_ident())
            # Those asked first answer last.
            time.sleep(0.05 - 0.005 * int(name))
            with self._lock:
                self.now -= 1
            return [make_result(name, score=1, source=name)]

        return retriever


@pytest.mark.parametrize("most", [1, 3])
def test_sources_are_asked_at_once_up_to_the_cap_and_answer_in_their_order(most: int) -> None:
    crowd = Crowd()
    sources = {str(number): crowd.source(str(number)) for number in range(6)}
    agent = make_search_agent(sources, budget=Budget(max_sources_per_task=6), concurrency=most)
    assert texts(agent("who")) == list(sources)
    assert crowd.most == most
    assert (crowd.threads == {threading.get_ident()}) is (most == 1)


def test_no_retrieval_at_once_is_refused() -> None:
    with pytest.raises(UsageError, match="concurrency"):
        make_search_agent({}, concurrency=0)


def asynchronous(shelf: Shelf) -> Any:
    async def retriever(query: str, **params: Any) -> list[Result]:
        await asyncio.sleep(0)
        return shelf(query, **params)

    return retriever


async def content(task: SubTask, results: Sequence[Result]) -> Judgement:
    await asyncio.sleep(0)
    return Judgement(results, sufficient=True)


def mixed() -> SingleContextAgent:
    sources = {"zoo": asynchronous(Shelf("zebra in the zoo")), "farm": Shelf("zebra on the farm")}
    return make_search_agent(sources, evaluator=content)


def test_roles_and_sources_may_be_asynchronous_where_the_agent_is_called_from_plain_code() -> None:
    assert texts(mixed()("zebra")) == ["zebra in the zoo", "zebra on the farm"]


def test_an_event_loop_awaits_the_agent() -> None:
    async def main() -> AgentRun:
        return await mixed().arun("zebra")

    run = asyncio.run(main())
    assert texts(run.results) == ["zebra in the zoo", "zebra on the farm"]
    assert run.trace.sufficient


def test_an_event_loop_goes_on_while_a_source_that_blocks_is_asked() -> None:
    async def main() -> int:
        crowd, ticks = Crowd(), 0
        agent = make_search_agent({"0": crowd.source("0"), "1": crowd.source("1")})
        asked = asyncio.create_task(agent.arun("who"))
        while not asked.done():
            ticks += 1
            await asyncio.sleep(0.001)
        return ticks

    assert asyncio.run(main()) > 5


def test_the_agent_can_be_called_plainly_where_an_event_loop_runs_as_in_a_notebook() -> None:
    async def main() -> list[Result]:
        return mixed()("zebra")

    assert len(asyncio.run(main())) == 2


def test_errors_come_out_of_the_event_loop_as_they_went_in() -> None:
    async def main(sources: dict[str, Any]) -> None:
        await make_search_agent(sources).arun("zebra")

    with pytest.raises(RoleError, match="'web'"):
        asyncio.run(main({"web": giving([1]), "zoo": Shelf("zebra")}))
    with pytest.raises(RagcliError, match="gone"):
        asyncio.run(main({"web": gone}))


def test_a_run_that_is_cancelled_does_not_wait_for_a_source_that_hangs() -> None:
    over = threading.Event()

    def hanging(query: str, **params: Any) -> list[Result]:
        over.wait(20)
        return []

    async def main() -> None:
        asked = asyncio.create_task(make_search_agent({"a": hanging, "b": hanging}).arun("who"))
        await asyncio.sleep(0.05)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    started = time.monotonic()
    try:
        asyncio.run(main())
        assert time.monotonic() - started < 10
    finally:
        over.set()


def test_the_planner_sees_the_query_and_the_sources() -> None:
    zoo = Shelf("zebra")
    tasks = single_subtask_planner(Query("zebra", {"top": 1}), {"zoo": zoo, "farm": zoo})
    assert tasks == [SubTask("zebra", ("zoo", "farm"))]

"""The roles that a language model plays, against a server that answers as told, or fails as servers do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from tests.support.llm_server import Fault, LlmServer, llm_server

from ragcli.agent import (
    Budget,
    Judgement,
    LowLevelQuery,
    Query,
    Result,
    SubTask,
    make_llm_citer,
    make_llm_evaluator,
    make_llm_formulator,
    make_llm_planner,
    make_result,
    make_search_agent,
    score_reranker,
    single_subtask_planner,
)
from ragcli.errors import LanguageModelError, UsageError
from ragcli.llm.cached_client import open_language_model
from ragcli.llm.chat_model import LanguageModel
from ragcli.llm.usage_budget import LanguageModelSettings

TASK = SubTask("who invented the protocol", ("notes", "papers"))
# What ends at once; how a server can be slow or away is the client's own matter and tested once here.
FAULTS = [Fault(status=401), Fault("malformed"), "I would rather talk about the weather.", "{", ""]
SLOW = [Fault(status=500), Fault("refuse"), Fault("hang", seconds=5)]


def model_at(server: LlmServer, *, timeout: float = 20) -> LanguageModel:
    return open_language_model(LanguageModelSettings(server.base_url, "test", timeout=timeout))


def result(name: str, score: float, origin: str = "notes", text: str | None = None) -> Result:
    return replace(make_result(text or f"What {name} says.", score=score, source=f"{name}.md"), origin=origin)


def ids(results: Sequence[Result]) -> list[str]:
    return [hit.chunk.source.removesuffix(".md") for hit in results]


POOL = [result("a", 1.0), result("b", 0.95), result("c", 0.4)]


@pytest.fixture
def told() -> list[str]:
    return []


class TestFormulator:
    def test_the_model_puts_the_goal_in_other_words_beside_the_goal_itself(self) -> None:
        with llm_server(json.dumps({"queries": ["raft inventor", "consensus author", "third", "fourth"]})) as server:
            formulator = make_llm_formulator(model=model_at(server), params={"top": 3})
            queries = formulator(TASK, "notes")
        wanted = [TASK.goal, "raft inventor", "consensus author", "third"]
        assert queries == [LowLevelQuery("notes", query, {"top": 3}) for query in wanted]
        assert TASK.goal in server.prompts[0]

    def test_half_a_character_in_a_query_is_shown_as_none_and_can_be_sent_on(self) -> None:
        with llm_server(r'{"queries": ["\ud800 dense"]}') as server:
            formulate = make_llm_formulator(model=model_at(server))
            queries = [each.query for each in formulate(SubTask("goal", ("notes",)), "notes")]
        assert queries == ["goal", "\ufffd dense"]

    def test_it_is_asked_once_for_a_goal_and_not_for_each_source(self) -> None:
        asked: list[str] = []

        def formulate(goal: str) -> str:
            asked.append(goal)
            return f"{goal}!"

        formulator = make_llm_formulator(formulate=formulate)
        assert [formulator(TASK, source)[0].source for source in TASK.sources] == ["notes", "papers"]
        formulator(SubTask("more", ("notes",)), "notes")
        assert asked == [TASK.goal, "more"]

    @pytest.mark.parametrize("given", ["raft author", ["raft author"], ("raft author", "  ", 3)], ids=repr)
    def test_a_function_in_its_place_gives_one_query_or_several(self, given: Any) -> None:
        assert make_llm_formulator(formulate=lambda _: given)(TASK, "notes") == [LowLevelQuery("notes", "raft author")]

    @pytest.mark.parametrize("given", [None, "", [], ["  "]], ids=repr)
    def test_nothing_from_it_means_the_goal_itself(self, given: Any) -> None:
        assert make_llm_formulator(formulate=lambda _: given)(TASK, "notes") == [LowLevelQuery("notes", TASK.goal)]

    @pytest.mark.parametrize("fault", FAULTS, ids=repr)
    def test_whatever_fails_the_goal_is_searched_for_as_it_is_and_that_is_told_once(
        self, fault: Any, told: list[str]
    ) -> None:
        with llm_server(fault) as server:
            formulator = make_llm_formulator(model=model_at(server), notify=told.append)
            for source in ("notes", "papers"):
                assert formulator(TASK, source) == [LowLevelQuery(source, TASK.goal)]
            seen = len(server.requests)
            formulator(TASK, "more")
            assert len(server.requests) == seen, "a model that is away is not asked again for every source"
        assert [each for each in told if "asking again" not in each] == [told[-1]]
        assert "as it is" in told[-1]

    def test_without_anybody_to_tell_a_failure_is_a_warning(self) -> None:
        formulator = make_llm_formulator(formulate=lambda _: 1 / 0)  # type: ignore[arg-type, return-value]
        with pytest.warns(RuntimeWarning, match="as it is"):
            formulator(TASK, "notes")


class TestEvaluator:
    def test_the_model_says_what_is_missing_and_that_is_the_back_edge(self) -> None:
        with llm_server("INSUFFICIENT\n- Raft inventor Ongaro") as server:
            judgement = make_llm_evaluator(model=model_at(server))(TASK, POOL)
        assert judgement.refinement == SubTask("Raft inventor Ongaro", TASK.sources)
        assert not judgement.sufficient
        assert ids(judgement.relevant) == ["a", "b"], "relevance is by the conservative selection"
        (prompt,) = server.prompts
        assert TASK.goal in prompt
        assert "What a says." in prompt
        assert "What c says." not in prompt

    def test_sufficient_ends_it(self) -> None:
        with llm_server("Sufficient.") as server:
            judgement = make_llm_evaluator(model=model_at(server))(TASK, POOL)
        assert (judgement.sufficient, judgement.refinement) == (True, None)

    @pytest.mark.parametrize(
        ("reply", "sufficient", "refinement"),
        [
            ("SUFFICIENT", True, None),
            ("**SUFFICIENT**\n\nThe passages say it.", True, None),
            ("The results are not sufficient: raft author", False, "raft author"),
            ("<think>insufficient?</think>\nSUFFICIENT", True, None),
            ("INSUFFICIENT", False, None),
            ("INSUFFICIENT\n\nImproved search query: “raft  author”", False, "raft author"),
            ("insufficient: `raft author`", False, "raft author"),
            ("> INSUFFICIENT\n>\n> * the raft author", False, "the raft author"),
            ("INSUFFICIENT\n" + "word " * 500, False, ("word " * 60).strip()),
        ],
    )
    def test_replies_are_read_as_models_write_them(self, reply: str, sufficient: bool, refinement: str | None) -> None:
        judgement = make_llm_evaluator(judge=lambda **_: reply)(TASK, POOL)
        assert judgement.sufficient is sufficient
        given = judgement.refinement.goal if judgement.refinement else None
        assert given == refinement or (given is not None and refinement is not None and given.strip() == refinement)

    @pytest.mark.parametrize(
        ("given", "sufficient", "refinement"),
        [((True, None), True, None), ((False, " raft "), False, "raft"), ((False, None), False, None)],
    )
    def test_a_function_may_give_a_pair_and_is_called_by_name(
        self, given: tuple[bool, str | None], sufficient: bool, refinement: str | None
    ) -> None:
        calls: list[dict[str, str]] = []

        def judge(*, goal: str, results: str) -> tuple[bool, str | None]:
            calls.append({"goal": goal, "results": results})
            return given

        judgement = make_llm_evaluator(judge=judge)(TASK, POOL)
        assert judgement.sufficient is sufficient
        assert (judgement.refinement.goal if judgement.refinement else None) == refinement
        assert calls == [{"goal": TASK.goal, "results": "- a.md (a.md): What a says.\n\n- b.md (b.md): What b says."}]

    @pytest.mark.parametrize("fault", [*FAULTS, *SLOW], ids=repr)
    def test_whatever_fails_there_is_no_refinement_and_what_was_selected_is_kept(
        self, fault: Any, told: list[str]
    ) -> None:
        with llm_server(fault) as server:
            timeout = 0.3 if fault in SLOW else 20
            evaluator = make_llm_evaluator(model=model_at(server, timeout=timeout), notify=told.append)
            judgement = evaluator(TASK, POOL)
        assert ids(judgement.relevant) == ["a", "b"]
        assert judgement.refinement is None
        assert judgement.sufficient is True, "the selection's own hint: it committed to something"
        assert evaluator(TASK, []).sufficient is False
        assert "could not judge" in told[-1]
        assert sum("could not judge" in each for each in told) == 1

    def test_a_model_that_repeats_the_query_does_not_loop(self) -> None:
        judgement = make_llm_evaluator(judge=lambda **_: (False, " Who invented  the protocol?"))(TASK, POOL)
        assert (judgement.sufficient, judgement.refinement) == (False, None)

    def test_results_of_several_sources_are_merged_by_rank_and_kept_with_their_own_scores(self) -> None:
        pool = [result("a", 40.0), result("b", 39.0), result("c", 0.3, "papers")]
        judgement = make_llm_evaluator(judge=lambda **_: (True, None), select_kwargs={"max_k": 2})(TASK, pool)
        assert ids(judgement.relevant) == ["a", "c"]
        assert [(hit.score, hit.source_score) for hit in judgement.relevant] == [(40.0, None), (0.3, None)]

    def test_a_floor_is_for_the_scores_of_one_source_and_refused_where_ranks_were_merged(self) -> None:
        floor = {"min_score": 0.99}
        mixed = [result("a", 1.0), result("c", 0.3, "papers")]
        content = make_llm_evaluator(judge=lambda **_: (True, None), select_kwargs=floor)
        assert ids(content(TASK, POOL).relevant) == ["a", "b"]
        assert content(TASK, POOL[2:]).relevant == []
        with pytest.raises(UsageError, match="prerank=score_reranker"):
            content(TASK, mixed)
        with pytest.raises(UsageError, match="min_score"):
            make_search_agent({"one": lambda *_, **__: POOL[:1], "two": lambda *_, **__: mixed[1:]}, evaluator=content)(
                "who"
            )
        raw = make_llm_evaluator(judge=lambda **_: (True, None), select_kwargs=floor, prerank=score_reranker)
        assert ids(raw(TASK, mixed).relevant) == ["a"]

    def test_the_strategy_and_the_prompt_can_be_others(self) -> None:
        pool = [result("a", 1.0, text="word " * 100), result("b", 0.1)]
        with llm_server("SUFFICIENT") as server:
            evaluator = make_llm_evaluator(
                model=model_at(server),
                select_strategy="top_k",
                prompt="Goal {goal} of $goal; found: {results}",
                max_result_chars=9,
            )
            assert ids(evaluator(TASK, pool).relevant) == ["a", "b"]
        assert server.prompts == [
            f"Goal {TASK.goal} of {TASK.goal}; found: - a.md (a.md): word word…\n\n- b.md (b.md): What b sa…"
        ]

    def test_what_a_passage_says_is_never_read_as_a_placeholder(self) -> None:
        with llm_server("SUFFICIENT") as server:
            make_llm_evaluator(model=model_at(server))(TASK, [result("a", 1.0, text="pay $goal or {goal} $$")])
        assert "pay $goal or {goal} $$" in server.prompts[0]

    def test_the_users_own_prompt_file_goes_before_ragclis(self, tmp_path: Path) -> None:
        (tmp_path / "agent_evaluate.txt").write_text("Enough for $goal?")
        with llm_server("SUFFICIENT") as server:
            make_llm_evaluator(model=model_at(server), prompts=tmp_path)(TASK, POOL)
        assert server.prompts == [f"Enough for {TASK.goal}?"]

    def test_the_model_is_told_what_a_refinement_is_for(self) -> None:
        with llm_server("SUFFICIENT") as server:
            make_llm_evaluator(model=model_at(server))(replace(TASK, purpose="the whole question"), POOL)
        assert "the whole question\n(The last search was for: who invented the protocol)" in server.prompts[0]


class TestPlanner:
    SOURCES: ClassVar[dict[str, Any]] = {"notes": None, "papers": None}

    def test_the_model_takes_a_question_apart_and_chooses_sources(self) -> None:
        plan = {
            "tasks": [
                {"goal": "how Raft elects", "sources": ["Papers", "nowhere"]},
                {"goal": "how sketches count", "sources": []},
                {"goal": "HOW RAFT elects", "sources": ["notes"]},
                {"goal": "  "},
                {"goal": "…", "sources": ["…"]},
                "what else",
            ]
        }
        with llm_server(f"Here you are:\n```json\n{json.dumps(plan)}\n```") as server:
            planner = make_llm_planner(model=model_at(server), descriptions={"notes": "my own notes"})
            tasks = planner(Query("Raft and sketches"), self.SOURCES)
        assert tasks == [
            SubTask("how Raft elects", ("papers",)),
            SubTask("how sketches count", ("notes", "papers")),
            SubTask("what else", ("notes", "papers")),
        ]
        assert "- notes: my own notes\n- papers\n" in server.prompts[0]
        assert "Raft and sketches" in server.prompts[0]

    def test_a_model_that_echoes_the_form_leaves_the_question_as_it_is(self) -> None:
        with llm_server('{"tasks": [{"goal": "…", "sources": ["…"]}]}') as server:
            tasks = make_llm_planner(model=model_at(server))(Query("who elects"), self.SOURCES)
        assert tasks == single_subtask_planner(Query("who elects"), self.SOURCES)

    @pytest.mark.parametrize("sources", [7, True, {"notes": 1}, [7, None]], ids=repr)
    def test_sources_that_are_no_names_stand_for_all_of_them(self, sources: Any, told: list[str]) -> None:
        reply = json.dumps({"tasks": [{"goal": "how Raft elects", "sources": sources}]})
        with llm_server(reply) as server:
            tasks = make_llm_planner(model=model_at(server), notify=told.append)(Query("q"), self.SOURCES)
        assert tasks == [SubTask("how Raft elects", ("notes", "papers"))]
        assert told == []

    def test_a_goal_without_end_is_cut(self) -> None:
        with llm_server(json.dumps({"tasks": [{"goal": "and on " * 5000}]})) as server:
            (task,) = make_llm_planner(model=model_at(server))(Query("q"), self.SOURCES)
        assert task.goal.startswith("and on and on")
        assert len(task.goal) <= 2000

    def test_there_are_never_more_tasks_than_allowed(self) -> None:
        planner = make_llm_planner(plan=lambda **_: [SubTask(f"goal {n}", ("notes",)) for n in range(9)], max_tasks=2)
        assert [task.goal for task in planner(Query("q"), self.SOURCES)] == ["goal 0", "goal 1"]

    @pytest.mark.parametrize("fault", [*FAULTS, '{"tasks": []}', '{"tasks": 3}', "{}"], ids=repr)
    def test_whatever_fails_it_is_one_task_over_all_sources(self, fault: Any, told: list[str]) -> None:
        with llm_server(fault) as server:
            planner = make_llm_planner(model=model_at(server), notify=told.append)
            for _ in range(2):
                assert planner(Query("q"), self.SOURCES) == single_subtask_planner(Query("q"), self.SOURCES)
        assert sum("not taken apart" in each for each in told) == (fault != '{"tasks": []}')


class TestCiter:
    def test_the_model_marks_which_results_support_the_question(self) -> None:
        with llm_server('{"supports": [2, 7, "1"]}') as server:
            agent = make_search_agent({"notes": lambda *_, **__: POOL}, citer=make_llm_citer(model=model_at(server)))
            results = agent("who invented it")
        assert [(hit.scores["cited"]) for hit in results] == [1.0, 1.0, 0.0]
        assert "who invented it" in server.prompts[0]
        assert "[3] c.md (c.md): What c says." in server.prompts[0]

    def test_those_that_do_not_can_be_left_out_but_never_all(self) -> None:
        dropping = make_llm_citer(cite=lambda **_: [3], claim="it was Ongaro", drop=True)
        assert ids(dropping(POOL)) == ["c"]
        assert ids(make_llm_citer(cite=lambda **_: [], claim="it was Ongaro", drop=True)(POOL)) == ["a", "b", "c"]

    def test_only_so_many_are_read_and_the_rest_stays(self) -> None:
        few = make_llm_citer(cite=lambda **_: [1], claim="it was Ongaro", drop=True, most=2)
        results = few(POOL)
        assert ids(results) == ["a", "c"]
        assert "cited" not in results[1].scores

    @pytest.mark.parametrize("fault", FAULTS, ids=repr)
    def test_whatever_fails_the_results_are_as_they_were(self, fault: Any, told: list[str]) -> None:
        with llm_server(fault) as server:
            citer = make_llm_citer(model=model_at(server), claim="it was Ongaro", drop=True, notify=told.append)
            assert list(citer(POOL)) == POOL
        assert sum("not checked" in each for each in told) == 1


def test_the_model_of_the_configuration_is_used_where_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RAGCLI_CACHE_DIR", str(tmp_path / "cache"))
    import platformdirs

    file = Path(platformdirs.user_config_dir("ragcli", appauthor=False)) / "collections.toml"
    assert tmp_path in file.parents
    evaluator = make_llm_evaluator(notify=told.append)
    assert evaluator(TASK, POOL).refinement is None
    assert "[llm]" in told[0]
    with llm_server("INSUFFICIENT\nraft author") as server:
        file.parent.mkdir(parents=True)
        file.write_text(f'[llm]\nbase_url = "{server.base_url}"\nmodel = "test"\n')
        judgement = evaluator(TASK, POOL)
    assert judgement.refinement == SubTask("raft author", TASK.sources)
    assert server.requests[0].body["model"] == "test"


@pytest.fixture
def hop_by_hop() -> Callable[..., list[Result]]:
    lines = {
        "Cluster Zeta agrees by Raft.": ("zeta",),
        "Ongaro invented Raft.": ("raft", "ongaro"),
    }

    def retriever(query: str, **params: Any) -> list[Result]:
        found = [line for line, words in lines.items() if any(word in query.lower() for word in words)]
        return [make_result(line, score=1.0, source=line.split()[0]) for line in found]

    return retriever


def test_a_question_in_two_steps_is_followed_by_the_models_own_query(hop_by_hop: Any) -> None:
    def respond(request: dict[str, Any]) -> str:
        prompt = request["messages"][-1]["content"]
        if "You plan a search" in prompt:
            return '{"tasks": [{"goal": "who invented the protocol of cluster Zeta", "sources": []}]}'
        return "SUFFICIENT" if "Ongaro invented" in prompt else "INSUFFICIENT\ninventor of Raft"

    with llm_server(respond) as server:
        model = model_at(server)
        agent = make_search_agent(
            {"notes": hop_by_hop},
            planner=make_llm_planner(model=model),
            evaluator=make_llm_evaluator(model=model, select_strategy="top_k"),
        )
        run = agent.run("Who invented the protocol of cluster Zeta?")
    assert sorted(hit.chunk.text for hit in run.results) == ["Cluster Zeta agrees by Raft.", "Ongaro invented Raft."]
    assert run.trace.back_edges == 1
    assert [turn.task.goal for turn in run.trace.tasks[0].rounds][-1] == "inventor of Raft"


@pytest.mark.parametrize("reply", ["INSUFFICIENT\nanother query {n}", "INSUFFICIENT\nthe same"], ids=repr)
def test_a_model_that_is_never_content_is_stopped_by_the_budget(hop_by_hop: Any, reply: str) -> None:
    count = iter(range(100))
    evaluator = make_llm_evaluator(judge=lambda **_: reply.format(n=next(count)))
    run = make_search_agent({"notes": hop_by_hop}, evaluator=evaluator, budget=Budget(max_rounds=4)).run("zeta")
    assert len(run.trace.tasks[0].rounds) == (4 if "{n}" in reply else 2)
    assert [hit.chunk.source for hit in run.results] == ["Cluster"]


def test_a_model_that_fails_in_the_second_round_loses_nothing_of_the_first(hop_by_hop: Any) -> None:
    answers = iter([(False, "raft"), LanguageModelError("The model is down.")])

    def judge(**_: str) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    evaluator = make_llm_evaluator(judge=judge, select_strategy="top_k", notify=lambda _: None)
    run = make_search_agent({"notes": hop_by_hop}, evaluator=evaluator).run("zeta")
    assert len(run.results) == 2
    judgement: Judgement = run.trace.tasks[0].rounds[-1].judgement
    assert judgement.reason is not None
    assert "The model is down." in judgement.reason

"""The sufficiency gate as an agent's evaluator, and a question in two steps followed without a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support.collection_builders import take_in, write_files

from ragcli.agent import Budget, Result, SubTask, collection_sources, gate_evaluator, make_result, make_search_agent
from ragcli.collection import Collection
from ragcli.errors import UsageError
from ragcli.grounding.sufficiency.evidence import Decision, Evidence, Preset
from ragcli.types import CollectionSettings

CLUSTERS: Mapping[str, str] = {
    "zeta.md": "# Zeta\n\nCluster Zeta reaches agreement by the Raft protocol, as its operators say.\n",
    "omega.md": "# Omega\n\nCluster Omega has never been seen to agree on anything at all.\n",
}
AUTHORS: Mapping[str, str] = {
    "raft.md": "# Raft\n\nRaft was designed by Ongaro and Ousterhout.\n",
    "sketch.md": "# Sketches\n\nHyperLogLog was designed by Flajolet.\n",
}
QUESTION = "Which person wrote the protocol that cluster Zeta has?"


@dataclass
class NameJudge:
    """Content when a passage says the name; notes what it was asked."""

    wanted: str
    name: str = "name"
    asked: list[tuple[str, list[str], Preset]] = field(default_factory=list)

    def judge(self, evidence: Evidence, preset: Preset = "balanced") -> Decision:
        self.asked.append((evidence.question, [hit.chunk.source for hit in evidence.hits], preset))
        there = any(self.wanted in hit.chunk.text for hit in evidence.hits)
        return Decision(
            there, float(there), 0.5, ("PASS",) if there else ("LOW_COVERAGE",), f"{there}.", {"there": there}, "name"
        )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gate") / "data"
    for name, notes in (("clusters", CLUSTERS), ("authors", AUTHORS)):
        root = write_files(folder.parent / name, notes)
        take_in(Collection.create(folder, name, CollectionSettings(encoder="none")), root)
    return folder


def sources_of(results: Sequence[Result]) -> list[str]:
    return [hit.chunk.source for hit in results]


def test_words_out_of_one_collection_find_the_second_step_in_the_other(data: Path) -> None:
    sources, judge = collection_sources(data_dir=data), NameJudge("Ongaro")
    run = make_search_agent(sources, evaluator=gate_evaluator(sources, judge=judge, preset="strict")).run(QUESTION)
    (task,) = run.trace.tasks
    first, second = task.rounds
    assert "raft.md" not in {hit.chunk.source for each in first.retrievals for hit in each.hits}
    assert "raft" in second.task.goal.split()
    assert second.task.goal.startswith(QUESTION)
    assert set(sources_of(run.results)) >= {"zeta.md", "raft.md"}
    assert (run.trace.sufficient, run.trace.back_edges) == (True, 1)
    assert [question for question, _, _ in judge.asked] == [QUESTION, QUESTION], "the question itself is judged"
    assert judge.asked[0][2] == "strict"
    assert first.judgement.signals["reasons"] == ("LOW_COVERAGE",)
    assert second.judgement.reason == "True."


def test_a_question_whose_answer_is_not_there_ends_within_the_budget_with_what_was_found(data: Path) -> None:
    sources, judge = collection_sources(data_dir=data), NameJudge("Lamport")
    agent = make_search_agent(
        sources, evaluator=gate_evaluator(sources, judge=judge), budget=Budget(max_rounds=4, max_sources_per_task=9)
    )
    run = agent.run(QUESTION)
    assert not run.trace.sufficient
    assert 1 < len(judge.asked) <= 4
    assert "zeta.md" in sources_of(run.results)


def test_no_word_to_add_ends_it_at_once(data: Path) -> None:
    sources, judge = collection_sources("authors", data_dir=data), NameJudge("Lamport")
    run = make_search_agent(sources, evaluator=gate_evaluator(sources, judge=judge)).run("zebra")
    assert (run.results, len(judge.asked)) == ((), 1)
    assert run.trace.tasks[0].ended == "The evaluator had no further query."
    judge.asked.clear()
    still = make_search_agent(sources, evaluator=gate_evaluator(sources, judge=judge, words=0)).run("Raft")
    assert (len(judge.asked), still.trace.back_edges) == (1, 0)


def test_what_comes_of_other_sources_is_kept_though_the_gate_cannot_judge_it(data: Path) -> None:
    def web(query: str, **params: object) -> list[Result]:
        return [make_result("Raft on the web", score=1, source="web")]

    sources = {**collection_sources("authors", data_dir=data), "web": web}
    judge = NameJudge("Ongaro")
    results = make_search_agent(sources, evaluator=gate_evaluator(sources, judge=judge))("Raft")  # type: ignore[arg-type]
    assert set(sources_of(results)) == {"raft.md", "web"}
    assert judge.asked[0][1] == ["raft.md"]
    with pytest.raises(UsageError, match="own collections"):
        gate_evaluator(sources, judge=judge)(SubTask("Raft", ("web",)), [])


def test_what_is_kept_has_the_scores_it_came_with(data: Path) -> None:
    sources = collection_sources(data_dir=data)
    run = make_search_agent(sources, evaluator=gate_evaluator(sources, judge=NameJudge("Raft"))).run("Raft protocol")
    kept = run.trace.tasks[0].kept
    assert {hit.source_score for hit in kept} == {None}
    assert {hit.score_type for hit in kept} == {"fused"}
    brought = {hit.chunk.chunk_id: hit.score for each in run.trace.tasks[0].rounds[0].retrievals for hit in each.hits}
    assert {hit.chunk.chunk_id: hit.score for hit in kept} == brought

"""`ragcli ask --agent` as a person calls it: on collections on disk, with a language model's server and without."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli_calls import Ragcli, caller
from tests.support.collection_builders import write_files
from tests.support.llm_server import Fault, LlmServer, llm_server

from ragcli.__main__ import main

QUESTION = "Which person wrote the protocol that cluster Zeta has?"
NOTES = {
    "clusters": {
        "zeta.md": "# Zeta\n\nCluster Zeta reaches agreement by the Raft protocol, as its operators say.\n",
        "omega.md": "# Omega\n\nCluster Omega has never been seen to agree on anything at all.\n",
    },
    "authors": {
        "raft.md": "# Raft\n\nRaft was designed by Ongaro and Ousterhout.\n",
        "sketch.md": "# Sketches\n\nHyperLogLog was designed by Flajolet.\n",
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the two collections, without vectors."""
    home = tmp_path_factory.mktemp("agent")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", io.StringIO())
        for name, notes in NOTES.items():
            root = write_files(home / "notes" / name, notes)
            call = ["ingest", str(root), "-c", name, "--encoder", "none", "--data-dir", str(home / "data")]
            assert main(call) == 0
    return home


@pytest.fixture
def ragcli(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ragcli:
    monkeypatch.setenv("COLUMNS", "120")
    return caller(folder / "data", tmp_path, monkeypatch, capsys, cache=tmp_path / "cache")


def respond(request: dict[str, Any]) -> str:
    """Plans one task, puts nothing in other words, and is content when it has read who designed Raft."""
    prompt = request["messages"][-1]["content"]
    if "You plan a search" in prompt:
        return json.dumps({"tasks": [{"goal": QUESTION, "sources": []}]})
    if "short search queries" in prompt:
        return json.dumps({"queries": ["Zeta agreement protocol"]})
    if "Raft was designed" in prompt:
        return "SUFFICIENT"
    return "INSUFFICIENT\nRaft designed by"


def at(server: LlmServer) -> list[str]:
    return ["--llm-base-url", server.base_url, "--llm-model", "test"]


def test_two_steps_over_two_collections_by_a_language_model(ragcli: Ragcli) -> None:
    with llm_server(respond) as server:
        given = ragcli("ask", QUESTION, "--agent", "--json", *at(server))
    assert given.code == 0, given.err
    record = given.json
    assert record["verdict"] == "answerable"
    assert {hit["source"] for hit in record["evidence"]} >= {"zeta.md", "raft.md"}
    agent = record["agent"]
    assert (agent["sufficient"], agent["back_edges"]) == (True, 1)
    (task,) = agent["tasks"]
    first, second = task["rounds"]
    assert task["sources"] == ["authors", "clusters"]
    assert first["judgement"]["refinement"] == {"goal": "Raft designed by", "sources": ["authors", "clusters"]}
    assert second["goal"] == "Raft designed by"
    assert [each["query"] for each in first["queries"]] == [QUESTION, "Zeta agreement protocol"]
    assert {tuple(each["sources"]) for each in first["queries"]} == {("authors", "clusters")}, "in one pool"
    brought = {hit["source"] for each in first["queries"] for hit in each["hits"]}
    assert "zeta.md" in brought
    assert "raft.md" not in brought
    assert "raft.md" in {hit["source"] for each in second["queries"] for hit in each["hits"]}
    assert record["trace"]["language_model"]["calls"] == 5
    (planned,) = [prompt for prompt in server.prompts if "You plan a search" in prompt]
    assert "- authors: Raft; Sketches" in planned


def test_two_steps_over_two_collections_without_a_language_model(ragcli: Ragcli) -> None:
    given = ragcli("ask", QUESTION, "--agent", "--judge", "heuristic", "--preset", "strict", "--json")
    agent = given.json["agent"]
    rounds = agent["tasks"][0]["rounds"]
    assert agent["back_edges"] >= 1
    assert "raft" in rounds[1]["goal"].split()
    assert "raft.md" not in {hit["source"] for each in rounds[0]["queries"] for hit in each["hits"]}
    assert {hit["source"] for hit in given.json["evidence"]} >= {"zeta.md", "raft.md"}
    assert rounds[0]["judgement"]["signals"]["judge"] == "heuristic"
    assert given.code == (0 if agent["sufficient"] else 6)


def test_the_terminal_shows_a_tree_of_rounds_and_hits_with_the_back_edge(ragcli: Ragcli) -> None:
    with llm_server(respond) as server:
        short = ragcli("ask", QUESTION, "--agent", *at(server)).out
        whole = ragcli("ask", QUESTION, "--agent", "--trace", *at(server)).out
    assert short.startswith("Answerable")
    assert f"{QUESTION}  enough" in short
    assert f"1. {QUESTION}" in short
    assert "↻ Raft designed by" in short
    assert "2. Raft designed by" in short
    assert "1 sub-task, 2 rounds" in short
    assert "raft.md  [authors] " in short
    assert "Zeta agreement protocol" not in short
    assert "authors, clusters: Zeta agreement protocol" in whole


def test_chosen_collections_alone_are_searched(ragcli: Ragcli) -> None:
    record = ragcli("ask", QUESTION, "--agent", "-c", "clusters", "--judge", "heuristic", "--json").json
    assert record["agent"]["tasks"][0]["sources"] == ["clusters"]
    assert {hit["collection"] for hit in record["evidence"]} == {"clusters"}


def test_filters_hold_for_every_round(ragcli: Ragcli) -> None:
    options = ["--agent", "--judge", "heuristic", "--preset", "strict", "--where", 'file != "raft.md"', "--json"]
    record = ragcli("ask", QUESTION, *options).json
    brought = {
        hit["source"]
        for task in record["agent"]["tasks"]
        for turn in task["rounds"]
        for each in turn["queries"]
        for hit in each["hits"]
    }
    assert record["agent"]["back_edges"] >= 1
    assert "zeta.md" in brought
    assert "raft.md" not in brought


def test_what_a_filter_keeps_out_is_not_told_to_the_language_model(ragcli: Ragcli) -> None:
    with llm_server(respond) as server:
        given = ragcli("ask", QUESTION, "--agent", "--where", 'file not in ["sketch.md", "omega.md"]', *at(server))
        told = "\n".join(server.prompts)
    assert "authors: Raft" in told, given.err
    assert "Sketches" not in told
    assert "Omega" not in told


def test_a_question_with_two_parts_is_two_sub_tasks_without_a_model(ragcli: Ragcli) -> None:
    question = "How does cluster Zeta reach agreement, and what did Flajolet design?"
    record = ragcli("ask", question, "--agent", "--judge", "heuristic", "--json").json
    assert [task["goal"] for task in record["agent"]["tasks"]] == [
        "How does cluster Zeta reach agreement",
        "what did Flajolet design?",
    ]
    assert {hit["source"] for hit in record["evidence"]} >= {"zeta.md", "sketch.md"}


def test_never_more_rounds_than_allowed(ragcli: Ragcli) -> None:
    count = iter(range(1000))

    def never(request: dict[str, Any]) -> str:
        return f"INSUFFICIENT\nsomething else {next(count)}"

    with llm_server(never) as server:
        given = ragcli("ask", QUESTION, "--agent", "--rounds", "2", "--json", *at(server))
    assert given.code == 6
    assert given.json["verdict"] == "insufficient"
    assert [len(task["rounds"]) for task in given.json["agent"]["tasks"]] == [2]
    assert given.json["evidence"], "what was found is shown all the same"


@pytest.mark.parametrize("fault", [Fault(status=401), "nonsense"], ids=repr)
def test_a_model_that_fails_costs_no_result_and_is_told_once_for_each_role(ragcli: Ragcli, fault: Any) -> None:
    with llm_server(fault) as server:
        given = ragcli("ask", QUESTION, "--agent", "--json", *at(server))
    record = given.json
    assert "zeta.md" in {hit["source"] for hit in record["evidence"]}
    (task,) = record["agent"]["tasks"]
    assert len(task["rounds"]) <= 3
    assert {turn["judgement"]["signals"]["judge"] for turn in task["rounds"]} == {"calibrated"}, "the gate stands in"
    for told in ("not taken apart", "as it is", "could not judge"):
        assert given.err.count(told) == 1


@pytest.mark.parametrize(
    "fault", [Fault("hang"), Fault(status=503, headers={"Retry-After": "3600"}), Fault(status=401)], ids=repr
)
def test_a_model_that_is_away_is_waited_for_once_and_not_for_every_role_and_round(
    ragcli: Ragcli, tmp_path: Path, fault: Fault
) -> None:
    config = tmp_path / "slow.toml"
    config.write_text("[llm]\ntimeout = 0.5\n")
    with llm_server(fault) as server:
        given = ragcli("--config", str(config), "ask", QUESTION, "--agent", "--preset", "strict", "--json", *at(server))
        assert len(server.requests) == 1
    assert given.json["evidence"]
    for told in ("not taken apart", "as it is", "could not judge"):
        assert given.err.count(told) == 1


def test_a_budget_of_calls_is_kept(ragcli: Ragcli) -> None:
    with llm_server(respond) as server:
        given = ragcli("ask", QUESTION, "--agent", "--json", "--max-llm-calls", "1", *at(server))
        assert len(server.requests) == 1
    assert given.json["evidence"]


def test_an_answer_is_written_from_what_the_agent_found(ragcli: Ragcli) -> None:
    def answering(request: dict[str, Any]) -> str:
        prompt = request["messages"][-1]["content"]
        known = any(mark in prompt for mark in ("You plan a search", "short search queries", "SUFFICIENT"))
        return respond(request) if known else "Raft was designed by Ongaro and Ousterhout [1]."

    with llm_server(answering) as server:
        record = ragcli("ask", QUESTION, "--agent", "--answer", "--check", "none", "--json", *at(server)).json
    assert record["answer"]["text"] == "Raft was designed by Ongaro and Ousterhout [1]."
    assert record["agent"]["back_edges"] == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--rounds", "2"], "--rounds is for --agent"),
        (["--trace"], "--trace is for --agent"),
        (["--agent", "--rounds", "0"], "--rounds must be at least 1"),
        (["--agent", "--retries", "1"], "--retries and --agent exclude each other"),
        (["--agent", "--expand", "rm3"], "leave the query techniques out"),
    ],
)
def test_what_does_not_go_together_is_refused(ragcli: Ragcli, options: list[str], said: str) -> None:
    given = ragcli("ask", QUESTION, *options)
    assert given.code == 2
    assert said in given.err


def test_what_a_document_holds_does_nothing_to_the_terminal(ragcli: Ragcli) -> None:
    with llm_server("INSUFFICIENT\n\x1b]0;owned\x07 [bold]Raft[/bold]") as server:
        out = ragcli("ask", QUESTION, "--agent", "--trace", "--rounds", "2", *at(server)).out
    assert "\x1b" not in out
    assert "[bold]Raft" in out

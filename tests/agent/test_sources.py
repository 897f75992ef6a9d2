"""ragcli's own collections as an agent's sources, on disk, with a tiny encoder where one is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.collection_builders import take_in, take_in_records, write_files
from tests.support.tiny_models import tiny_encoder

from ragcli.agent import (
    Budget,
    Query,
    SubTask,
    as_retriever,
    ask_all_sources,
    collection_sources,
    collections_view,
    gate_evaluator,
    make_search_agent,
    score_reranker,
    splitting_planner,
)
from ragcli.agent.ask_agent import standard_agent
from ragcli.collection import Collection, ingest
from ragcli.errors import MissingCollection, TenantNeeded, UsageError
from ragcli.grounding.sufficiency.evidence import Decision, Evidence, Preset
from ragcli.models import load_encoder
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import query
from ragcli.types import CollectionSettings

CLUSTERS: Mapping[str, str] = {
    "zeta.md": "# Cluster Zeta\n\nThe servers of cluster Zeta agree by the Raft protocol.\n",
    "omega.md": "# Cluster Omega\n\nThe servers of cluster Omega do not agree on anything.\n",
}
PROTOCOLS: Mapping[str, str] = {
    "raft.md": "# Raft\n\nRaft was designed by Ongaro and Ousterhout, and elects a leader for each term.\n",
    "sketch.md": "# Counting\n\nA sketch gives an estimate of the number of distinct words in a stream.\n",
}


class Content:
    """A judge that is always content."""

    name = "content"

    def judge(self, evidence: Evidence, preset: Preset = "balanced") -> Decision:  # noqa: ARG002
        return Decision(True, 1.0, 0.5, ("PASS",), "Enough.", {}, "content")


def make(data: Path, name: str, notes: Mapping[str, str], encoder: str = "none") -> Collection:
    root = write_files(data.parent / f"{name}-notes", notes)
    collection = Collection.create(data, name, CollectionSettings(encoder=encoder))
    if encoder == "none":
        assert not take_in(collection, root).failures
    else:
        assert not ingest(collection, [root], lambda: load_encoder(encoder)).failures
    return collection


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two collections without vectors."""
    folder = tmp_path_factory.mktemp("agent") / "data"
    make(folder, "clusters", CLUSTERS)
    make(folder, "protocols", PROTOCOLS)
    return folder


def test_named_collections_are_sources_and_their_hits_say_so(data: Path) -> None:
    sources = collection_sources("protocols", "clusters", data_dir=data)
    assert list(sources) == ["protocols", "clusters"]
    results = make_search_agent(sources)("Raft protocol")
    assert {(hit.origin, hit.chunk.collection, hit.chunk.source) for hit in results} >= {
        ("clusters", "clusters", "zeta.md"),
        ("protocols", "protocols", "raft.md"),
    }
    assert [hit.score_type for hit in results[:2]] == ["fused", "fused"]
    assert results[0].source_score is not None


def test_without_names_all_collections_are_sources(data: Path) -> None:
    assert list(collection_sources(data_dir=data)) == ["clusters", "protocols"]


def test_a_collection_that_is_not_there_is_told_at_once(data: Path) -> None:
    with pytest.raises(MissingCollection, match="nowhere"):
        collection_sources("clusters", "nowhere", data_dir=data)


def test_defaults_hold_for_every_query_and_a_querys_own_parameters_go_before_them(data: Path) -> None:
    retriever = collection_sources("clusters", data_dir=data, top=1, pipeline="bm25")["clusters"]
    assert [hit.score_type for hit in retriever("servers of cluster")] == ["bm25"]
    assert len(retriever("servers of cluster", top=5)) == 2
    run = make_search_agent({"clusters": retriever}).run(Query("servers of cluster", {"top": 2}))
    assert len(run.results) == 2


def test_a_parameter_that_no_request_has_is_refused_where_it_enters(data: Path) -> None:
    with pytest.raises(UsageError, match="no parameter 'mode'"):
        collection_sources("clusters", data_dir=data, mode="hybrid")
    with pytest.raises(UsageError, match="no parameter 'k'"):
        make_search_agent(collections_view(data_dir=data))(Query("servers", {"k": 3}))


def test_the_folder_is_the_configured_one_unless_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGCLI_DATA_DIR", str(data))
    assert list(collection_sources()) == list(collections_view()) == ["clusters", "protocols"]
    assert as_retriever("clusters")("servers")[0].origin == "clusters"


def test_a_view_opens_a_collection_only_when_it_is_asked(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    make(folder, "clusters", CLUSTERS)
    (folder / "broken").mkdir()
    (folder / "broken" / "store.db").write_bytes(b"no database at all" * 100)
    view = collections_view(data_dir=folder)
    assert sorted(view) == ["broken", "clusters"]
    assert len(view) == 2
    assert "nowhere" not in view
    with pytest.raises(KeyError):
        view["nowhere"]
    run = make_search_agent(view).run("cluster Zeta")
    assert run.results[0].chunk.source == "zeta.md"
    assert "'broken'" in run.trace.warnings[0]


def test_a_view_is_live(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    clusters = make(folder, "clusters", CLUSTERS)
    agent = make_search_agent(collections_view(data_dir=folder))
    assert "raft.md" not in {hit.chunk.source for hit in agent("Ongaro Raft")}
    make(folder, "protocols", PROTOCOLS)
    assert agent("Ongaro Raft")[0].chunk.source in {"raft.md", "zeta.md"}
    assert "raft.md" in {hit.chunk.source for hit in agent("Ongaro Raft")}
    take_in(clusters, write_files(tmp_path / "more", {"ongaro.md": "Ongaro was asked about cluster Zeta.\n"}))
    assert "ongaro.md" in {hit.chunk.source for hit in agent("Ongaro")}
    clusters.delete()
    assert {hit.origin for hit in agent("Ongaro Raft")} == {"protocols"}


def test_one_collection_under_two_names_is_one_source(data: Path) -> None:
    retriever = as_retriever("clusters", data_dir=data)
    results = make_search_agent({"one": retriever, "other": retriever})("cluster Zeta")
    assert [hit.origin for hit in results] == ["clusters"] * len(results)
    assert len({hit.chunk.chunk_id for hit in results}) == len(results)


def test_a_question_with_two_parts_is_two_tasks_by_rule(data: Path) -> None:
    sources = collection_sources(data_dir=data)
    question = "How do the servers of cluster Zeta agree, and what does a sketch estimate?"
    tasks = splitting_planner(Query(question), sources)
    assert [task.sources for task in tasks] == [("clusters", "protocols")] * 2
    run = make_search_agent(sources, planner=splitting_planner).run(question)
    assert [task.kept[0].chunk.source for task in run.trace.tasks] == ["zeta.md", "sketch.md"]
    assert splitting_planner(Query("one thing"), sources) == [SubTask("one thing", ("clusters", "protocols"))]


def test_collections_are_asked_at_once_with_one_model_between_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    encoder = str(tiny_encoder(tmp_path / "encoder"))
    for name, notes in (("clusters", CLUSTERS), ("protocols", PROTOCOLS)):
        make(folder, name, notes, encoder)
    loaded: list[str] = []

    import ragcli.models

    real = ragcli.models.load_encoder

    def counted(name: str, **options: object) -> object:
        loaded.append(name)
        return real(name, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ragcli.models, "load_encoder", counted)
    agent = make_search_agent(collection_sources(data_dir=folder))
    alone = [hit.chunk.source for hit in make_search_agent(collection_sources(data_dir=folder), concurrency=1)("Raft")]
    loaded.clear()
    together = [[hit.chunk.source for hit in agent("Raft")] for _ in range(3)]
    assert together == [alone] * 3
    assert loaded == [encoder]
    assert [hit.chunk.source for hit in asyncio.run(agent.arun("Raft")).results] == alone
    assert loaded == [encoder]


def test_of_a_collection_with_tenants_only_the_tenants_own_is_found_or_judged(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    shared = Collection.create(folder, "shared", CollectionSettings(encoder="none", tenant_key="team"))
    take_in_records(
        shared,
        {"id": "ours", "text": "Our servers agree by Raft.", "team": "red"},
        {"id": "theirs", "text": "Their machines agree by Paxos.", "team": "blue"},
    )
    with pytest.raises(TenantNeeded):
        collection_sources("shared", data_dir=folder)
    with pytest.raises(TenantNeeded):
        as_retriever(shared)
    with pytest.raises(TenantNeeded):
        make_search_agent(collections_view(data_dir=folder))("servers agree")
    seen: list[str] = []

    class Nobody:
        name = "nobody"

        def judge(self, evidence: Evidence, preset: Preset = "balanced") -> Decision:  # noqa: ARG002
            seen.extend(chunk.source for each in evidence.searcher.readers for chunk in each.documents())
            return Decision(False, 0.0, 0.5, ("LOW_COVERAGE",), "Never.", {}, "nobody")

    for sources in (
        collection_sources("shared", data_dir=folder, tenant="red"),
        collections_view(data_dir=folder, tenant="red"),
        {"shared": as_retriever(shared, tenant="red")},
    ):
        agent = make_search_agent(sources, evaluator=gate_evaluator(sources, judge=Nobody()))
        run = agent.run("servers agree by Paxos")
        assert {hit.chunk.document_id for hit in run.results} == {"ours"}
        assert all("machines" not in turn.task.goal for turn in run.trace.tasks[0].rounds)
    assert set(seen) == {"ours"}
    assert make_search_agent(collection_sources("shared", data_dir=folder, tenant="green"))("servers agree") == []


def test_collections_searched_in_one_pool_have_scores_that_can_be_compared(data: Path) -> None:
    sources = collection_sources(data_dir=data)
    agent = make_search_agent(sources, formulator=ask_all_sources(), reranker=score_reranker)
    run = agent.run("who designed Raft, which elects a leader")
    (retrieval,) = run.trace.tasks[0].rounds[0].retrievals
    assert retrieval.query.params["among"] == ("clusters", "protocols")
    handles = [each.collection for each in sources.values()]
    plain = query(handles, QueryRequest("who designed Raft, which elects a leader", top=10)).hits
    assert [(hit.chunk.source, hit.score) for hit in run.results] == [(hit.chunk.source, hit.score) for hit in plain]
    assert {hit.origin for hit in run.results} == {"clusters", "protocols"}


def test_a_pool_is_of_the_sub_tasks_own_sources_and_within_the_budget(data: Path) -> None:
    sources = collection_sources(data_dir=data)

    def ask(*names: str, most: int = 4) -> list[tuple[str, ...]]:
        agent = make_search_agent(
            sources,
            planner=lambda query, _: [SubTask(query.text, names)],
            formulator=ask_all_sources(),
            budget=Budget(max_sources_per_task=most),
        )
        run = agent.run("Raft")
        assert {hit.origin for hit in run.results} <= set(names)
        return [each.query.params["among"] for each in run.trace.tasks[0].rounds[0].retrievals]

    assert ask("protocols") == [("protocols",)]
    assert ask("nowhere", "protocols", "clusters") == [("protocols", "clusters")]
    assert ask("protocols", "clusters", most=1) == [("protocols",)]
    with pytest.raises(UsageError, match="searched together"):
        as_retriever("clusters", data_dir=data)("Raft", among=("clusters", "protocols"))


def test_the_standard_agent_asks_every_collection_weighs_them_and_shows_a_copy_once(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    names = [f"topic{number}" for number in range(6)]
    for name in names:
        make(folder, name, {"raft.md": PROTOCOLS["raft.md"], f"{name}.md": f"Raft is the topic of {name}.\n"})

    def ask(**defaults: Any) -> list[tuple[str | None, str]]:
        sources = collection_sources(data_dir=folder, **defaults)
        results = standard_agent(sources, judge=Content())("who designed Raft")
        return [(hit.origin, hit.chunk.source) for hit in results]

    found = ask()
    assert found[0] == ("topic0", "raft.md")
    assert sorted(source for _, source in found) == ["raft.md", *(f"{name}.md" for name in names)]
    assert ask(weights=(("topic4", 9.0),))[0][0] == "topic4"
    assert [source for _, source in ask(identity="none", keep_duplicates=True, top=20)].count("raft.md") == 6

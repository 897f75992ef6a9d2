"""Rerankers elsewhere: a real server that speaks the protocol, and everything it may do wrong."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cli_calls import Ragcli
from tests.support.llm_server import Fault, llm_server
from tests.support.notes import places, ragcli

from ragcli.errors import RerankerUnavailable, UsageError
from ragcli.models import load_reranker
from ragcli.models.remote_reranker import RERANK_ATTEMPTS, RERANK_BATCH_SIZE, RemoteReranker, rerank_endpoint

__all__ = ["places", "ragcli"]

QUESTION = ("query", "a vote for the leader", "-c", "notes", "--json", "--top", "8")


def test_the_server_puts_the_passages_in_order(ragcli: Ragcli) -> None:
    with llm_server(score=lambda _, passage: float("drug" in passage)) as server:
        answer = ragcli(*QUESTION, "--pipeline", "classic", "--reranker", server.rerank_url)
    assert (answer.code, answer.err) == (0, "")
    hits = answer.json
    assert Path(hits[0]["source"]).stem == "drug"
    assert (hits[0]["score"], hits[1]["score"]) == (1.0, 0.0)
    assert {hit["reranker"] for hit in hits} == {server.rerank_url}
    (asked,) = server.requests
    assert asked.body["query"] == "a vote for the leader"
    assert asked.body["top_n"] == len(asked.body["documents"]) == 8
    assert asked.body["return_documents"] is False
    assert "model" not in asked.body
    assert "authorization" not in {name.lower() for name in asked.headers}


def test_a_model_and_a_key_go_with_the_request(ragcli: Ragcli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "secret\n")
    with llm_server() as server:
        answer = ragcli(*QUESTION, "--reranker", f"{server.rerank_url}#big", "--reranker-key-env", "MY_KEY")
    assert (answer.code, answer.err) == (0, "")
    assert server.requests[0].body["model"] == "big"
    assert server.requests[0].headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=401, body={"message": "no such key"}),
        Fault(status=500),
        Fault("malformed"),
        Fault("odd"),
        Fault("odd", body={"results": [{"index": 0, "relevance_score": 1.0}]}),
        Fault("odd", body={"results": [{"index": 99, "relevance_score": 1.0}]}),
        Fault("refuse"),
        Fault(status=302, headers={"Location": "http://127.0.0.1:9/rerank"}),
    ],
)
def test_late_interaction_takes_over_with_one_warning(ragcli: Ragcli, fault: Fault) -> None:
    with llm_server(rerank_fault=fault) as server:
        answer = ragcli(*QUESTION, "--reranker", server.rerank_url)
    late = ragcli(*QUESTION, "--reranker", "late")
    assert answer.code == 0
    assert answer.json == late.json
    assert answer.json[0]["reranker"] == "late"
    assert answer.err.count("ragcli: ") == 1
    assert "late interaction instead" in answer.err
    assert "127.0.0.1" in answer.err


def test_a_server_that_is_not_there_costs_no_hit(ragcli: Ragcli) -> None:
    answer = ragcli(*QUESTION, "--reranker", "http://127.0.0.1:9/rerank")
    assert answer.code == 0
    assert "cannot be reached" in answer.err


def test_a_key_that_is_not_there_costs_no_hit_and_nothing_is_sent(
    ragcli: Ragcli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COHERE_API_KEY", raising=False)
    answer = ragcli(*QUESTION, "--reranker", "cohere:rerank-v3.5")
    assert answer.code == 0
    assert "COHERE_API_KEY" in answer.err
    assert answer.json[0]["reranker"] == "late"


def test_several_queries_wait_for_a_dead_server_once(ragcli: Ragcli) -> None:
    with llm_server(rerank_fault=Fault(status=400)) as server:
        answer = ragcli(
            *("query", "compare a sketch with a vote", "-c", "notes", "--decompose"), "--reranker", server.rerank_url
        )
        assert len(server.requests) == 1
    assert answer.err.count("ragcli: ") == 1


def test_a_comparison_says_which_reranker_ran(ragcli: Ragcli, tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text('{"query": "vote", "relevant_ids": ["vote.md"]}\n')
    questions = str(tmp_path / "questions.jsonl")
    with llm_server() as server:
        specs = f"hybrid:reranker={server.rerank_url}"
        answer = ragcli("eval", questions, "-c", "notes", "--compare", specs, "--json")
        assert answer.json["pipelines"][0]["reranker"] == server.rerank_url
    with llm_server(rerank_fault=Fault(status=400)) as server:
        specs = f"hybrid:reranker={server.rerank_url}"
        answer = ragcli("eval", questions, "-c", "notes", "--compare", specs, "--json")
        assert answer.json["pipelines"][0]["reranker"] == "late"


def test_a_refusal_for_the_moment_is_asked_again_while_there_is_time() -> None:
    with llm_server(rerank_fault=Fault(status=429, headers={"Retry-After": "0"})) as server:
        with pytest.raises(RerankerUnavailable, match="429"):
            RemoteReranker("busy", rerank_endpoint(server.rerank_url)).score("a", ["a"])
        assert len(server.requests) == RERANK_ATTEMPTS
    with llm_server(rerank_fault=Fault(status=429, headers={"Retry-After": "60"})) as server:
        started = time.monotonic()
        with pytest.raises(RerankerUnavailable, match="429"):
            RemoteReranker("busy", rerank_endpoint(server.rerank_url)).score("a", ["a"])
        assert len(server.requests) == 1
        assert time.monotonic() - started < 10


def test_a_compressed_reply_is_not_read_and_a_key_in_an_error_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = Fault(
        status=200, headers={"Content-Encoding": "gzip, gzip"}, raw=gzip.compress(gzip.compress(bytes(1 << 24)))
    )
    with llm_server(rerank_fault=bomb) as server:
        with pytest.raises(RerankerUnavailable, match="compressed"):
            RemoteReranker("bomb", rerank_endpoint(server.rerank_url)).score("a", ["a"])
        assert len(server.requests) == 1
    monkeypatch.setenv("MY_KEY", "s3cret-key")
    with (
        llm_server(rerank_fault=Fault(status=401, body={"message": "no such key: s3cret-key"})) as server,
        pytest.raises(RerankerUnavailable, match="no such key: …") as caught,
    ):
        RemoteReranker("keyed", rerank_endpoint(server.rerank_url, key_env="MY_KEY")).score("a", ["a"])
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("kind", ["hang", "trickle"])
def test_a_server_that_never_ends_is_left(kind: str) -> None:
    with llm_server(rerank_fault=Fault(kind)) as server:  # type: ignore[arg-type]
        started = time.monotonic()
        with pytest.raises(RerankerUnavailable, match=r"within 0\.4 s"):
            RemoteReranker("slow", rerank_endpoint(server.rerank_url), timeout=0.4).score("a", ["a", "b"])
        assert time.monotonic() - started < 3


def test_many_passages_go_in_several_requests_and_come_back_in_order() -> None:
    texts = [f"word{number}" for number in range(RERANK_BATCH_SIZE + 5)]
    with llm_server(score=lambda _, passage: float(passage.removeprefix("word"))) as server:
        scores = load_reranker(server.rerank_url).score("anything", texts)
        assert len(server.requests) == 2
    assert scores.tolist() == list(map(float, range(RERANK_BATCH_SIZE + 5)))


def test_names_stand_for_services(monkeypatch: pytest.MonkeyPatch) -> None:
    cohere, jina = rerank_endpoint("cohere:rerank-v3.5"), rerank_endpoint("jina:jina-reranker-v2", key_env="OWN")
    assert (cohere.host, cohere.model, cohere.key_env) == ("api.cohere.com", "rerank-v3.5", "COHERE_API_KEY")
    assert (jina.host, jina.model, jina.key_env) == ("api.jina.ai", "jina-reranker-v2", "OWN")


@pytest.mark.parametrize(
    "name", ["cohere:", "jina: ", "http://", "https://user:hunter2@host/rerank", "http://a b/", "http://h:0/"]
)
def test_an_address_that_is_none_is_a_mistake_of_the_call(ragcli: Ragcli, name: str) -> None:
    answer = ragcli(*QUESTION, "--reranker", name)
    assert (answer.code, answer.out) == (2, "")
    assert "hunter2" not in answer.err


@given(st.text(max_size=40))
@settings(max_examples=60, deadline=None)
def test_any_name_is_an_endpoint_or_a_mistake(text: str) -> None:
    for name in (text, f"http://{text}", f"cohere:{text}"):
        try:
            endpoint = rerank_endpoint(name)
        except UsageError:
            continue
        assert endpoint.host


def test_a_strangers_configuration_cannot_send_passages_anywhere(ragcli: Ragcli) -> None:
    with llm_server() as server:
        Path("collections.toml").write_text(
            f'[query]\nreranker = "{server.rerank_url}"\nreranker_key_env = "HOME"\n', encoding="utf-8"
        )
        answer = ragcli(*QUESTION)
        assert (answer.code, answer.out) == (3, "")
        assert "sends questions and passages to" in answer.err
        assert server.requests == []
        # Named by its user, it is believed; the key is the one that it names.
        Path("collections.toml").rename("own.toml")
        assert ragcli("--config", "own.toml", *QUESTION).json[0]["reranker"] == server.rerank_url
        assert server.requests[0].headers["Authorization"].startswith("Bearer /")
        # A key of the configuration's is not for a reranker that it does not name.
        ragcli("--config", "own.toml", *QUESTION, "--reranker", f"{server.rerank_url}#other")
        assert "Authorization" not in server.requests[-1].headers

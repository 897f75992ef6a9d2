"""A language model over HTTP: asked, limited, remembered, and never a reason to fail in any way but one."""

from __future__ import annotations

import gzip
import json
import logging
import stat
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.llm_server import Fault, llm_server

from ragcli.errors import InputError, LanguageModelError, UsageError
from ragcli.http_client import MAX_REPLY_BYTES
from ragcli.llm.cached_client import RemoteLanguageModel, ResponseCache, open_language_model
from ragcli.llm.chat_model import LanguageModel, Message
from ragcli.llm.prompts import fill, load_prompt
from ragcli.llm.reply_parsing import parse_json_object, parse_string_list
from ragcli.llm.usage_budget import LanguageModelSettings

QUESTION = [Message("system", "Be brief."), Message("user", "What opens a wormhole?")]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the server names no time to wait, ragcli's own is short here."""
    monkeypatch.setattr("ragcli.llm.openai_client._FIRST_RETRY_SECONDS", 0.01)


def model(base_url: str, **settings: Any) -> RemoteLanguageModel:
    return open_language_model(LanguageModelSettings(base_url, "test-model", **({"timeout": 5.0} | settings)))


def test_it_sends_the_conversation_and_gives_the_answer() -> None:
    with llm_server("Negative energy.") as server:
        asked: LanguageModel = model(server.base_url)
        assert asked.complete(QUESTION, max_tokens=7, temperature=0.5) == "Negative energy."
        assert asked.name == "test-model"
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What opens a wormhole?"},
    ]
    assert (request.body["model"], request.body["max_tokens"], request.body["temperature"]) == ("test-model", 7, 0.5)


def test_a_streamed_answer_comes_in_parts() -> None:
    parts: list[str] = []
    with llm_server("Negative energy opens it.") as server:
        assert model(server.base_url).complete(QUESTION, on_text=parts.append) == "Negative energy opens it."
    assert len(parts) > 2
    assert "".join(parts) == "Negative energy opens it."


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("<think>Let me see. </think>\n\nNegative energy.", "Negative energy."),
        ("<thinking>So</thinking>Yes.", "Yes."),
        ("<three is more than two", "<three is more than two"),
    ],
)
def test_thinking_before_the_answer_is_no_part_of_it(said: str, meant: str, streamed: bool) -> None:
    parts: list[str] = []
    with llm_server(said) as server:
        answer = model(server.base_url).complete(QUESTION, on_text=parts.append if streamed else None)
    assert answer == meant
    assert "".join(parts).strip() == (meant if streamed else "")


def test_an_answer_that_is_all_thinking_is_none() -> None:
    with llm_server("<think>I wonder") as server, pytest.raises(LanguageModelError, match="empty"):
        model(server.base_url).complete(QUESTION)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=500),
        Fault(status=503, raw=b"<html>busy</html>"),
        Fault(status=429, headers={"Retry-After": "0"}),
        Fault("refuse"),
    ],
)
def test_what_may_pass_is_asked_again(fault: Fault) -> None:
    with llm_server([fault, "At last."]) as server:
        assert model(server.base_url).complete(QUESTION) == "At last."
        assert len(server.requests) == 2


def test_the_server_is_heeded_when_it_says_how_long_to_wait() -> None:
    with llm_server([Fault(status=429, headers={"Retry-After": "1"}), "At last."]) as server:
        started = time.monotonic()
        told: list[str] = []
        asked = open_language_model(LanguageModelSettings(server.base_url, "m", timeout=10), notify=told.append)
        assert asked.complete(QUESTION) == "At last."
        assert 0.9 <= time.monotonic() - started < 5
        assert "asking again in 1 s" in told[0]


def test_a_wait_beyond_the_time_limit_is_not_begun() -> None:
    with llm_server(Fault(status=429, headers={"Retry-After": "60"})) as server:
        started = time.monotonic()
        with pytest.raises(LanguageModelError, match="asked too often"):
            model(server.base_url).complete(QUESTION)
        assert time.monotonic() - started < 3
        assert len(server.requests) == 1


def test_retries_end() -> None:
    with llm_server(Fault(status=500)) as server:
        with pytest.raises(LanguageModelError, match="the error 500"):
            model(server.base_url, timeout=20).complete(QUESTION)
        assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(status=401, body={"error": {"message": "Bad key s3cret-key."}}), "refuses the key"),
        (Fault(status=400, body={"error": {"message": "x" * 195 + " s3cret-key"}}), "error 400"),
        (Fault(status=404, body={"error": {"message": "model not found"}}), "knows no such model"),
        (Fault(status=400, body={"error": {"message": "too long"}}), r"error 400 \(too long\)"),
        (Fault(status=307, headers={"Location": "http://127.0.0.1:9/v1/chat/completions"}), "redirects"),
        (Fault(status=429, body={"error": {"message": "pay", "code": "insufficient_quota"}}), "quota"),
        (Fault("malformed"), "protocol"),
        (Fault("odd"), "protocol"),
        (Fault("odd", body=[1, 2]), "protocol"),
        (Fault("odd", body={"choices": [{"index": 0, "message": {"role": "assistant", "content": 7}}]}), "no text"),
        (Fault("cut"), "broke off"),
    ],
)
def test_what_will_not_pass_is_told_in_one_sentence(
    fault: Fault, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MY_KEY", "s3cret-key")
    with llm_server(fault) as server, pytest.raises(LanguageModelError, match=said) as caught:
        model(server.base_url, api_key_env="MY_KEY").complete(QUESTION)
    assert "test-model at 127.0.0.1" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert "s3cret-key" not in caplog.text


@pytest.mark.parametrize(
    ("headers", "raw", "said"),
    [
        ({"Content-Encoding": "gzip, gzip"}, gzip.compress(gzip.compress(bytes(1 << 24))), "compressed"),
        ({"Content-Encoding": "gzip"}, gzip.compress(b"{}"), "compressed"),
        ({}, b" " * (MAX_REPLY_BYTES + 1), "more than 16 MB"),
    ],
    ids=["nested gzip", "gzip", "too long"],
)
@pytest.mark.parametrize("streamed", [True, False])
def test_a_reply_that_is_compressed_or_too_long_is_not_read(
    headers: dict[str, str], raw: bytes, said: str, streamed: bool
) -> None:
    with llm_server(Fault(status=200, headers=headers, raw=raw)) as server:
        with pytest.raises(LanguageModelError, match=said):
            model(server.base_url).complete(QUESTION, on_text=print if streamed else None)
        assert len(server.requests) == 1


@pytest.mark.parametrize("kind", ["cut", "unfinished"])
def test_a_stream_that_breaks_off_is_no_answer_and_is_not_begun_again(kind: Any) -> None:
    parts: list[str] = []
    with llm_server(Fault(kind, parts=2)) as server:
        with pytest.raises(LanguageModelError, match="broke off"):
            model(server.base_url).complete(QUESTION, on_text=parts.append)
        assert "".join(parts) == "one two"
        assert len(server.requests) == 1


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("kind", ["hang", "trickle"])
def test_a_server_that_does_not_come_to_an_end_is_given_up_in_time(kind: Any, streamed: bool) -> None:
    with llm_server(Fault(kind)) as server:
        started = time.monotonic()
        with pytest.raises(LanguageModelError, match=r"longer than 0\.6 s|too long"):
            model(server.base_url, timeout=0.6).complete(QUESTION, on_text=print if streamed else None)
        assert time.monotonic() - started < 3


def test_after_a_time_out_it_can_be_asked_again() -> None:
    with llm_server([Fault("hang"), "Here."]) as server:
        asked = model(server.base_url, timeout=1.0)
        with pytest.raises(LanguageModelError):
            asked.complete(QUESTION)
        assert asked.complete(QUESTION) == "Here."


def test_a_server_that_is_not_there_is_told() -> None:
    with llm_server() as server:
        gone = server.base_url
    with pytest.raises(LanguageModelError, match="cannot be reached"):
        model(gone, timeout=1.5).complete(QUESTION)


def test_a_server_that_knows_other_parameters_is_asked_in_its_own() -> None:
    def respond(request: dict[str, Any]) -> str | Fault:
        if "max_tokens" in request:
            told = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            return Fault(status=400, body={"error": {"message": told}})
        if "temperature" in request:
            return Fault(status=400, body={"error": {"message": "'temperature' does not support 0."}})
        return "Fine."

    with llm_server(respond) as server:
        assert model(server.base_url).complete(QUESTION, max_tokens=9) == "Fine."
    assert server.requests[-1].body["max_completion_tokens"] == 9


def test_only_the_key_that_was_named_is_sent_and_nothing_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-program")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-another-program")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project-of-another-program")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("MY_KEY", "mine")
    with llm_server() as server:
        model(server.base_url).complete(QUESTION)
        model(server.base_url, api_key_env="MY_KEY").complete(QUESTION)
    without, having = (each.headers for each in server.requests)
    assert "Authorization" not in without
    assert having["Authorization"] == "Bearer mine"
    for headers in (without, having):
        assert "another-program" not in headers.as_string()
        assert not [name for name in headers if name.lower().startswith("x-stainless")]
        assert headers["User-Agent"] == "ragcli"


def test_a_variable_without_a_key_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with llm_server() as server:
        with pytest.raises(LanguageModelError, match="MY_KEY holds no key"):
            model(server.base_url, api_key_env="MY_KEY").complete(QUESTION)
        assert not server.requests


@pytest.mark.parametrize(
    "address",
    ["", "localhost:11434", "ftp://host/v1", "http://", "http://host:99999/v1", "http://me:pw@host/v1", "http://a b/"],
)
def test_an_address_that_cannot_be_asked_is_refused_at_once(address: str) -> None:
    with pytest.raises(UsageError, match="address of a language model"):
        LanguageModelSettings(address, "m")


def test_no_more_calls_are_made_than_allowed() -> None:
    with llm_server() as server:
        asked = model(server.base_url, max_calls=2)
        asked.complete(QUESTION)
        asked.complete(QUESTION)
        with pytest.raises(LanguageModelError, match="asked 2 times"):
            asked.complete(QUESTION)
        assert len(server.requests) == 2


def test_tokens_and_money_are_counted_and_their_limits_not_passed() -> None:
    with llm_server("one two three") as server:
        asked = model(server.base_url, price_in=1_000_000, price_out=2_000_000)
        asked.complete(QUESTION)
        spent = asked.spent
        assert (spent.calls, spent.prompt_tokens, spent.completion_tokens, spent.cost) == (1, 6, 3, 12.0)
        with pytest.raises(LanguageModelError, match="max_cost"):
            model(server.base_url, price_out=1_000_000, max_cost=9.5).complete(QUESTION, max_tokens=10)
        model(server.base_url, price_out=1_000_000, max_cost=10.5).complete(QUESTION, max_tokens=10)
        with pytest.raises(LanguageModelError, match="100 tokens"):
            model(server.base_url, max_total_tokens=100).complete(QUESTION, max_tokens=90)
        assert len(server.requests) == 2


def test_tokens_are_estimated_where_the_server_does_not_count_them() -> None:
    with llm_server("one two three", usage=False) as server:
        for on_text in (None, lambda _: None):
            asked = model(server.base_url)
            asked.complete(QUESTION, on_text=on_text)
            assert asked.spent.prompt_tokens > 6
            assert asked.spent.completion_tokens >= 3


@pytest.mark.parametrize("count", ["6", None, True, -1_000_000, 10**30, 0.5, [6]], ids=str)
def test_what_is_no_number_of_tokens_costs_no_answer_and_lifts_no_limit(count: object) -> None:
    with llm_server("one two three", usage={"prompt_tokens": count, "completion_tokens": count}) as server:
        for on_text in (None, lambda _: None):
            asked = model(server.base_url, price_in=1.0)
            assert asked.complete(QUESTION, on_text=on_text) == "one two three"
            assert 6 < asked.spent.prompt_tokens < 100
            assert 3 <= asked.spent.completion_tokens < 100


def test_the_same_question_is_asked_once_and_its_answer_kept_for_the_user_alone(tmp_path: Path) -> None:
    with llm_server(["First.", "Second."]) as server:
        assert model(server.base_url, cache=tmp_path / "llm").complete(QUESTION) == "First."
        again = model(server.base_url, cache=tmp_path / "llm", max_calls=0)
        heard: list[str] = []
        assert again.complete(QUESTION, on_text=heard.append) == "First."
        assert heard == ["First."]
        assert (again.spent.calls, again.spent.cached) == (0, 1)
        other = model(server.base_url, cache=tmp_path / "llm")
        assert other.complete([*QUESTION, Message("user", "And why?")]) == "Second."
    files = list((tmp_path / "llm").iterdir())
    assert len(files) == 2
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert "wormhole" not in file.read_text()


def test_with_a_temperature_each_time_is_another_answer_and_the_next_run_gets_the_same(tmp_path: Path) -> None:
    with llm_server(["First.", "Second.", "Third."]) as server:
        for _ in range(2):
            asked = model(server.base_url, cache=tmp_path)
            assert [asked.complete(QUESTION, temperature=0.7) for _ in range(2)] == ["First.", "Second."]


def test_a_failure_and_a_damaged_entry_are_not_answers(tmp_path: Path) -> None:
    with llm_server([Fault(status=400), "Right.", "Right again."]) as server:
        asked = model(server.base_url, cache=tmp_path)
        with pytest.raises(LanguageModelError):
            asked.complete(QUESTION)
        assert asked.complete(QUESTION) == "Right."
        (file,) = tmp_path.glob("*.json")
        file.write_bytes(b'{"answer": ')
        assert asked.complete(QUESTION) == "Right again."


def test_a_cache_that_cannot_be_written_costs_no_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with llm_server("Right.") as server:
        assert model(server.base_url, cache=tmp_path / "file" / "llm").complete(QUESTION) == "Right."


def test_the_answers_kept_are_bounded_and_the_longest_unused_go_first(tmp_path: Path) -> None:
    import os

    # Keeping sweeps now and then by itself, so what fills the folder allows for more.
    cache = ResponseCache(tmp_path, most=3)
    for number in range(6):
        ResponseCache(tmp_path).keep(f"{number}", f"answer {number}")
        os.utime(tmp_path / f"{number}.json", (1000 + number, 1000 + number))
    assert cache.find("0") == "answer 0"
    cache.sweep()
    assert [cache.find(f"{number}") is not None for number in range(6)] == [True, False, False, False, True, True]


def test_a_reader_that_stops_listening_stops_the_answer() -> None:
    class Gone(Exception):
        pass

    def leave(text: str) -> None:
        raise Gone

    with llm_server("one two three") as server, pytest.raises(Gone):
        model(server.base_url).complete(QUESTION, on_text=leave)


@pytest.mark.parametrize(
    "reply",
    [
        '{"queries": ["a b", "c"]}',
        'Sure! Here it is:\n```json\n{"queries": ["a  b", "c"],}\n```\nHope that helps {really}.',
        '<think>{"queries": ["wrong"]}</think> {"queries": ["a b", "", "c"]}',
        '{"queries": ["…"]} as in {"queries": ["a b", "...", "c", "?"]}',
        '["a b", "c"]',
        'I thought of {this} and then {"queries": ["a b", "c"]}',
        '{"queries": [{"question": "a b", "terms": ["x"]}, {"n": 1, "question": "c"}]}',
        "To search for this, I would ask:\n\n1. a b\n2. **c**\n\nThat is all.",
        "- a b\n- c",
    ],
)
def test_a_list_is_read_out_of_whatever_surrounds_it(reply: str) -> None:
    assert parse_string_list(reply, "queries") == ["a b", "c"]


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "no",
        "{",
        '{"queries": []}',
        '{"queries": 3}',
        '{"queries": ["…"]}',
        "[" * 5000,
        '{"other": {}}',
        "- …",
        "{\n- a b",
    ],
)
def test_a_reply_without_the_list_is_told(reply: str) -> None:
    with pytest.raises(LanguageModelError, match="queries"):
        parse_string_list(reply, "queries")


def test_an_object_is_read_and_its_absence_told() -> None:
    assert parse_json_object('Well: {"supported": true, "why": "a } in a text"} .') == {
        "supported": True,
        "why": "a } in a text",
    }
    with pytest.raises(LanguageModelError, match="asked for JSON"):
        parse_json_object("[1, 2]")


def test_what_a_passage_holds_is_never_read_as_a_placeholder() -> None:
    template = "Passage: $passage\nQuestion: ${question} costs $$5, $unknown"
    values = {"passage": "$question {x} %s $", "question": "Why?"}
    assert fill(template, values) == "Passage: $question {x} %s $\nQuestion: Why? costs $5, $unknown"


def test_a_users_own_prompt_goes_before_the_one_that_comes_along(tmp_path: Path) -> None:
    assert "$" in load_prompt("faithfulness")
    assert load_prompt("faithfulness", tmp_path) == load_prompt("faithfulness")
    own = tmp_path / "faithfulness.txt"
    own.write_text("Mine: $sentence")
    assert load_prompt("faithfulness", tmp_path) == load_prompt("answer", own) == "Mine: $sentence"
    with pytest.raises(InputError, match="no such prompt"):
        load_prompt("faithfulness", tmp_path / "nowhere")
    own.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InputError, match="cannot be read"):
        load_prompt("faithfulness", tmp_path)


def test_the_request_is_json_that_a_strict_server_takes() -> None:
    with llm_server() as server:
        model(server.base_url).complete([Message("user", "naïve “quotes” \u2028 \x00 𝛼")])
    assert json.loads(json.dumps(server.requests[0].body))["messages"][0]["content"] == "naïve “quotes” \u2028 \x00 𝛼"

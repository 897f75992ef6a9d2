"""A real language model on this machine: the client and an answer, from end to end.

`scripts/llm-server --prepare` builds it; without that the tests are skipped. It is too small to do as it is told.
RAGCLI_LLM_GGUF may name the file of one that is not, and then what is told is tried too.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragcli.agent.data_model import SubTask
from ragcli.agent.llm_roles import make_llm_evaluator
from ragcli.grounding.answers import write_answer
from ragcli.grounding.faithfulness.claims import Claim, EvidencePassage
from ragcli.grounding.faithfulness.llm_judge import LlmFaithfulnessJudge
from ragcli.llm.cached_client import RemoteLanguageModel, open_language_model
from ragcli.llm.chat_model import Message
from ragcli.llm.usage_budget import LanguageModelSettings
from ragcli.types import Hit, StoredChunk

ROOT = Path(__file__).parents[2]
PREPARED = Path(os.environ.get("RAGCLI_LLM_VENV", ROOT / ".llm-venv"), "gemma-3-270m-q4_k_m.gguf")

INSTRUCTED = os.environ.get("RAGCLI_LLM_GGUF")
TEXT = "Each leader sends a heartbeat to all followers every 50 ms. A follower that hears none starts an election."

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PREPARED.is_file(), reason="scripts/llm-server --prepare has built no language model here"),
]

instructed = pytest.mark.skipif(not INSTRUCTED, reason="RAGCLI_LLM_GGUF names no model that does as it is told")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteLanguageModel]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    name = Path(INSTRUCTED).stem if INSTRUCTED else "gemma3-270m"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [ROOT / "scripts" / "llm-server", *(["--gguf", INSTRUCTED] if INSTRUCTED else []), str(port)],
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        asked = open_language_model(LanguageModelSettings(f"http://127.0.0.1:{port}/v1", name, timeout=300))
        until = time.monotonic() + 120
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.2)
        yield asked
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=20)


def test_it_answers_whole_and_in_parts_and_its_tokens_are_counted(model: RemoteLanguageModel) -> None:
    parts: list[str] = []
    question = [Message("user", "What is the capital of France? Answer in one word.")]
    whole = model.complete(question, max_tokens=12)
    assert model.complete(question, max_tokens=12, on_text=parts.append) == "".join(parts).strip()
    assert whole
    assert model.spent.calls == 2
    assert model.spent.prompt_tokens > 10
    assert model.spent.completion_tokens > 0


def hit(text: str) -> Hit:
    chunk = StoredChunk(1, "d:0", "d", "c", "zeta.md", None, "Zeta", text, 0, 0, len(text), 1, 1, None)
    return Hit(1, chunk, 1.0, "fused", 0.0, None, {})


def test_it_writes_an_answer_from_a_passage(model: RemoteLanguageModel) -> None:
    answer = write_answer("How often does a leader send heartbeats?", [hit(TEXT)], model)
    assert answer.text
    assert set(answer.cited) <= {1}


@instructed
def test_an_answer_says_what_the_passage_says(model: RemoteLanguageModel) -> None:
    answer = write_answer("How often does a leader send heartbeats?", [hit(TEXT)], model)
    assert "50" in answer.text


@instructed
def test_a_judge_tells_what_the_passage_says_from_what_it_does_not(model: RemoteLanguageModel) -> None:
    passages = (EvidencePassage(TEXT, "Zeta"),)
    true, false = LlmFaithfulnessJudge(model).judge(
        [
            Claim("A leader sends a heartbeat to its followers every 50 ms.", passages),
            Claim("A leader sends a heartbeat to its followers every 900 ms.", passages),
        ]
    )
    assert true.supported
    assert not false.supported


@instructed
def test_it_says_whether_what_was_found_is_enough_and_what_to_look_for_else(model: RemoteLanguageModel) -> None:
    evaluator = make_llm_evaluator(model=model)
    enough = evaluator(SubTask("how often a leader sends heartbeats", ("notes",)), [hit(TEXT)])
    lacking = evaluator(SubTask("how many servers Zeta needs to tolerate two failures", ("notes",)), [hit(TEXT)])
    assert (enough.signals.get("judged", True), lacking.signals.get("judged", True)) == (True, True)
    assert (enough.sufficient, lacking.sufficient) == (True, False)

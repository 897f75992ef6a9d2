"""A real language model on this machine, small as it is: the client, an answer and a verdict from end to end.

`scripts/llm-server --prepare` builds it; without that the test is skipped.
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

from ragcli.gate.answers import write_answer
from ragcli.llm.open import RemoteLanguageModel, open_language_model
from ragcli.llm.protocols import Message
from ragcli.llm.settings import LanguageModelSettings
from ragcli.records import Hit, StoredChunk

ROOT = Path(__file__).parents[1]
PREPARED = Path(os.environ.get("RAGCLI_LLM_VENV", ROOT / ".llm-venv"), "gemma-3-270m-q4_k_m.gguf")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PREPARED.is_file(), reason="scripts/llm-server --prepare has built no language model here"),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RemoteLanguageModel]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("server") / "log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            [ROOT / "scripts" / "llm-server", str(port)], stdout=out, stderr=out, start_new_session=True
        )
    try:
        asked = open_language_model(LanguageModelSettings(f"http://127.0.0.1:{port}/v1", "gemma3-270m", timeout=120))
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


def test_it_writes_an_answer_from_a_passage(model: RemoteLanguageModel) -> None:
    text = "Each leader sends a heartbeat to all followers every 50 ms. A follower that hears none starts an election."
    chunk = StoredChunk(1, "d:0", "d", "c", "zeta.md", None, "Zeta", text, 0, 0, len(text), 1, 1, None)
    hits = [Hit(1, chunk, 1.0, "fused", 0.0, None, {})]
    answer = write_answer("How often does a leader send heartbeats?", hits, model)
    assert answer.text
    assert set(answer.cited) <= {1}

"""Two small collections with a tiny encoder and a way to call ragcli on them, for tests of ways to search."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli_calls import Called, Ragcli, caller
from tests.support.llm_server import Answer, Fault, LlmServer, llm_server
from tests.support.model_cache import with_shared_exports
from tests.support.pdfs import new_pdf, put_lines, wrapped
from tests.support.tiny_models import tiny_cross_encoder, tiny_encoder

from ragcli.__main__ import main

NOTES = {
    "wormhole": "A traversable wormhole needs negative average null energy at its throat.",
    "energy": "The null energy condition in quantum field gravity is a bound on matter.",
    "leader": "The leader of the cluster is elected by a vote of the servers for one term.",
    "vote": "A vote in each term elects one leader, and a server of the cluster has one vote.",
    "sketch": "A sketch gives an estimate of the number of distinct words in a stream.",
    "hash": "A hash of one value goes to a register, and the register has the first bit.",
    "flow": "The flow over a wing has a boundary layer and the pressure is low.",
    "drug": "The dose of a drug for the heart was set in a trial with one patient.",
}
LONG = (
    "The river bank was old. A leader of the cluster is elected by a vote of the servers. The fish and the cat like "
    "the water. A new term begins with a vote for the leader. The dog sleeps under a tree. Money is not in the bank."
)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data folder `data` in it, which has `notes`, `again` the same, and `long`."""
    home = tmp_path_factory.mktemp("techniques")
    encoder = tiny_encoder(home / "encoder")
    tiny_cross_encoder(home / "cross")
    (home / "notes").mkdir()
    for name, text in NOTES.items():
        (home / "notes" / f"{name}.md").write_text(f"# On the {name}\n\n{text}\n", encoding="utf-8")
    (home / "long").mkdir()
    pdf = new_pdf()
    for text in (LONG, "The leader of the cluster sends the log. The wing is new."):
        pdf.add_page()
        put_lines(pdf, 72, 72, wrapped(pdf, text, 450))
    pdf.output(str(home / "long" / "long.pdf"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGCLI_DATA_DIR", str(home / "data"))
        patch.setenv("RAGCLI_CACHE_DIR", str(with_shared_exports(home / "cache")))
        patch.setattr(sys, "stdout", io.StringIO())
        patch.setattr(sys, "stderr", io.StringIO())
        for folder, name in (("notes", "notes"), ("long", "long"), ("notes", "again")):
            call = ["ingest", str(home / folder), "-c", name, "--encoder", str(encoder)]
            assert main(call) == 0, sys.stderr.getvalue()
    return home


@pytest.fixture
def ragcli(places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ragcli:
    """Calls ragcli in an empty folder, with answers of language models kept for this test alone."""
    (tmp_path / "here").mkdir()
    (tmp_path / "cache").mkdir()
    for each in (places / "cache").iterdir():
        (tmp_path / "cache" / each.name).symlink_to(each)
    return caller(places / "data", tmp_path / "here", monkeypatch, capsys, cache=tmp_path / "cache")


def by_technique(**answers: Answer) -> Callable[[dict[str, Any]], Answer]:
    """Answers by what is asked for: `queries`, `questions`, `sentences`, `rewritten` or `passage`."""
    marks = {
        "queries": '{"queries"',
        "questions": '{"questions"',
        "sentences": '{"sentences"',
        "rewritten": "Last question:",
        "passage": "Write a passage",
    }

    def respond(body: dict[str, Any]) -> Answer:
        prompt = body["messages"][-1]["content"]
        return next((answer for name, answer in answers.items() if marks[name] in prompt), Fault(status=400))

    return respond


@pytest.fixture
def model() -> Iterator[LlmServer]:
    """A language model that does every technique as it should be done."""
    answers = {
        "queries": json.dumps({"queries": ["vote of the servers for a term", "election in a cluster"]}),
        "questions": json.dumps({"questions": ["what is a sketch", "what does a drug dose do"]}),
        "sentences": json.dumps({"sentences": ["A new term begins with a vote for the leader.", "It never rains."]}),
        "rewritten": "how many distinct words does a sketch count",
        "passage": "The flow over the wing has a boundary layer.",
    }
    with llm_server(by_technique(**answers)) as server:
        yield server


def of(server: LlmServer) -> tuple[str, ...]:
    return ("--llm-base-url", server.base_url, "--llm-model", "test")


def sources(call: Called) -> list[str]:
    assert call.code == 0, call.err
    return [Path(hit["source"]).stem for hit in call.json]

"""The main job on real papers, as a researcher does it: ingest a folder, ask, grep; all of it offline.

The papers are not in the repository. RAGCLI_TEST_DATA names the folder that has them, as `papers`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

DATA = os.environ.get("RAGCLI_TEST_DATA")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(DATA is None, reason="RAGCLI_TEST_DATA does not name a folder with real papers"),
]

CONTRACT = {
    *("rank", "source", "text", "score", "score_type", "cosine", "collection", "document_id", "chunk_id"),
    *("page_start", "page_end", "heading", "reranker", "scores", "title", "path"),
    *("source_score", "duplicates", "others"),
}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shows")


def ragcli(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ragcli", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "RAGCLI_DATA_DIR": str(data_dir), "HF_HUB_OFFLINE": "1"},
        cwd=data_dir,
        check=False,
    )


def answer(data_dir: Path, *arguments: str) -> Any:
    done = ragcli(data_dir, *arguments, "--json")
    assert done.returncode in (0, 4), done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def first_run(data_dir: Path) -> Any:
    return answer(data_dir, "ingest", f"{DATA}/papers", "-c", "papers")


def test_every_paper_is_ingested_or_reported_and_the_second_run_is_quick(data_dir: Path, first_run: Any) -> None:
    assert len(first_run["added"]) + len(first_run["failures"]) == 36
    assert all("scanned" in failure["source"] for failure in first_run["failures"])
    assert all("--ocr" in failure["reason"] for failure in first_run["failures"])
    started = time.monotonic()
    second = answer(data_dir, "ingest", f"{DATA}/papers", "-c", "papers")
    seconds = time.monotonic() - started
    assert second["documents"] == second["embedded"] == 0
    assert second["unchanged"] == len(first_run["added"])
    assert seconds < 3


def test_a_question_has_every_key_of_the_contract(data_dir: Path, first_run: Any) -> None:
    hits = answer(
        data_dir, "query", "estimate the number of distinct values with little memory", "-c", "papers", "--top", "3"
    )
    assert len(hits) == 3
    assert set(hits[0]) == CONTRACT


def test_rafts_leader_election_is_found_in_the_raft_paper(data_dir: Path, first_run: Any) -> None:
    first = answer(data_dir, "query", "what does Raft's leader election do", "-c", "papers")[0]
    assert "understandable-consensus" in first["source"]
    assert first["page_start"] in range(4, 9)


@pytest.mark.parametrize(
    ("phrase", "paper"),
    [
        ("query recommendation based", "tw_idf"),
        ("access special file", "unix-time-sharing"),
        ("place conceptual limits", "why-functional-programming-matters"),
        ("high-latency networks", "onion-router"),
    ],
)
def test_a_phrase_broken_by_a_line_end_hyphen_is_found(data_dir: Path, first_run: Any, phrase: str, paper: str) -> None:
    assert paper in answer(data_dir, "grep", phrase, "-c", "papers")[0]["source"]


def test_every_odd_pdf_is_ingested_or_fails_with_a_sentence(data_dir: Path) -> None:
    report = answer(data_dir, "ingest", f"{DATA}/pdfs-odd", "-c", "odd")
    assert len(report["added"]) + len(report["failures"]) == 28
    assert all(failure["reason"].endswith((".", ")")) for failure in report["failures"])


def test_the_right_paper_is_in_the_top_three_for_most_of_thirty_questions(data_dir: Path, first_run: Any) -> None:
    questions = Path(__file__).parents[1] / "data" / "paper_questions.jsonl"
    report = answer(data_dir, "eval", str(questions), "-c", "papers", "--metric", "Success@3")
    assert report["data"]["queries"] == 30
    assert report["pipelines"][0]["measures"]["Success@3"] >= 0.9

"""Yes and no on real papers: what they answer is cited, and what they do not is refused with a reason.

The papers are not in the repository. RAGCLI_TEST_DATA names the folder that has them, as `papers`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

DATA = os.environ.get("RAGCLI_TEST_DATA")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(DATA is None, reason="RAGCLI_TEST_DATA does not name a folder with real papers"),
]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shows")
    done = ragcli(folder, "ingest", f"{DATA}/papers", "-c", "papers")
    assert done.returncode in (0, 4), done.stderr
    return folder


def ragcli(data_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ragcli", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "RAGCLI_DATA_DIR": str(data_dir), "HF_HUB_OFFLINE": "1"},
        cwd=data_dir,
        check=False,
    )


def test_the_titanics_fourth_funnel_is_not_in_the_papers(data_dir: Path) -> None:
    done = ragcli(data_dir, "ask", "What colour is the RMS Titanic's fourth funnel?", "-c", "papers")
    assert done.returncode == 6, done.stdout
    assert done.stdout.startswith("Insufficient: ")
    assert done.stdout.splitlines()[1]


@pytest.mark.parametrize(
    ("question", "paper", "pages"),
    [
        ("How does Raft elect a new leader when the old one fails?", "understandable-consensus", range(4, 9)),
        ("Why do higher-order functions and lazy evaluation make programs modular?", "functional-programming-matters",
         range(1, 24)),
    ],
)  # fmt: skip
def test_what_the_papers_answer_is_quoted_with_its_page(
    data_dir: Path, question: str, paper: str, pages: range
) -> None:
    done = ragcli(data_dir, "ask", question, "-c", "papers", "--extract", "--json")
    assert done.returncode == 0, done.stdout
    record = json.loads(done.stdout)
    first = record["answer"]["sentences"][0]
    assert paper in record["evidence"][first["citations"][0] - 1]["source"]
    assert first["page"] in pages


def test_every_question_on_the_papers_is_let_through_and_none_on_the_kitchen_is(data_dir: Path) -> None:
    lines = (Path(__file__).parents[1] / "data" / "paper_questions.jsonl").read_text().splitlines()
    kitchen = ("How long does a soft-boiled egg take?", "Which wine goes with grilled trout?", "How is ghee made?")
    passed = [ragcli(data_dir, "ask", json.loads(line)["query"], "-c", "papers").returncode == 0 for line in lines]
    refused = [ragcli(data_dir, "ask", question, "-c", "papers").returncode == 6 for question in kitchen]
    assert sum(passed) >= 0.9 * len(passed)
    assert all(refused)

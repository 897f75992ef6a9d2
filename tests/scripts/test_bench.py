"""The benchmark scripts measure what they say, and their synthetic collections hold what was planted in them."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.support.collection_builders import HashEncoder

from ragcli.collection import Collection
from ragcli.index.nearest_neighbours import top_rows
from ragcli.retrieval.exact_search import GrepRequest, grep

BENCH = Path(__file__).parents[2] / "scripts" / "bench"


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module(name)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    return script("run", monkeypatch)


@pytest.fixture
def scale(monkeypatch: pytest.MonkeyPatch) -> Any:
    return script("scale", monkeypatch)


@pytest.fixture
def synthetic(monkeypatch: pytest.MonkeyPatch) -> Any:
    return script("synthetic", monkeypatch)


def test_a_cold_process_is_charged_with_its_own_time_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    processes: ModuleType = script("processes", monkeypatch)
    large = processes.cold([sys.executable, "-c", "x = bytearray(300_000_000)"], 2)
    small = processes.cold([sys.executable, "-c", "import time; time.sleep(0.2)"], 2)
    assert large.peak > 300_000_000
    assert small.seconds >= 0.2
    assert small.runs == 2


def test_a_process_that_fails_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    processes: ModuleType = script("processes", monkeypatch)
    with pytest.raises(SystemExit, match="code 3"):
        processes.cold([sys.executable, "-c", "raise SystemExit(3)"], 1)
    assert processes.cold([sys.executable, "-c", "raise SystemExit(3)"], 1, accept=(3,)).runs == 1


def test_a_call_that_cannot_be_repeated_tells_its_time_and_what_it_said(run: Any) -> None:
    seconds, said = run.once([sys.executable, "-c", "import time; time.sleep(0.2); print('done'); raise SystemExit(4)"])
    assert seconds >= 0.2
    assert said == "done\n"
    with pytest.raises(SystemExit, match="code 3"):
        run.once([sys.executable, "-c", "raise SystemExit(3)"])


def test_a_budget_is_kept_or_missed_in_the_direction_that_counts(run: Any) -> None:
    slow = run.Row("query", 0.5, 0.7, "s", 7.0)
    quick = run.Row("parsing", 300, 350, "pages/s", 22, "higher", "a note")
    assert (slow.kept, quick.kept) == (False, True)
    assert slow.ratio == pytest.approx(10)
    assert quick.ratio == pytest.approx(350 / 22)
    lines = run.table([slow, quick]).splitlines()
    assert "≤ 0.5 s" in lines[2]
    assert "MISSED" in lines[2]
    assert "≥ 300 pages/s" in lines[3]
    assert "kept (a note)" in lines[3]


def test_a_budget_without_a_reference_has_no_ratio(run: Any) -> None:
    assert run.Row("help", 0.15, 0.1, "s").ratio is None


def test_the_slope_is_the_exponent_of_growth(scale: Any) -> None:
    assert scale.slope([10, 100, 1000], [5, 50, 500]) == pytest.approx(1)
    assert scale.slope([10, 100, 1000], [7, 7, 7]) == pytest.approx(0)
    assert scale.slope([10, 100], [1, 10**0.5]) == pytest.approx(0.5)
    assert scale.slope([10], [3]) is None


def test_the_report_names_every_size_and_budget(scale: Any, tmp_path: Path) -> None:
    figures = {key: 1.0 for _, key, _ in scale.ROWS}
    measured = [figures | {"chunks": 10_000.0}, figures | {"chunks": 1_000_000.0}]
    text = scale.report(measured)
    assert "10,000 chunks" in text
    assert "≤ 150 ms" in text
    assert "≥ 0.98" in text
    assert scale.kept(measured[0])
    assert not scale.kept(measured[1])
    pytest.importorskip("matplotlib")
    scale.plot(measured, tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text("utf-8").startswith("<?xml")


@pytest.mark.slow
def test_a_synthetic_collection_holds_its_planted_answers(synthetic: Any, tmp_path: Path) -> None:
    real = HashEncoder(dimension=128, vocabulary_size=5000)
    made = synthetic.build(tmp_path, "s", 1600, real)
    assert 1400 < made.chunks < 2200
    topic = synthetic.topics(synthetic.topics_in(1600))[0]
    collection = Collection.open(tmp_path, "s")
    hits = grep([collection], GrepRequest(topic.words[0], max_hits=None))
    assert len({hit.document_id for hit in hits}) == synthetic.ANSWERS
    with collection.snapshot() as snapshot:
        nearest, _ = top_rows(snapshot.vectors, real.encode([topic.question])[0], 5)
        found = snapshot.chunks(snapshot.row_numbers[nearest].tolist())
        # Questions have small words in common, so another question's answer may come between.
        assert sum(topic.words[0] in chunk.text for chunk in found.values()) >= 3
        assert snapshot.tokens is not None
        counts = np.diff(snapshot.tokens.offsets)
        assert counts.max() == synthetic.TOKENS


def test_synthetic_words_are_all_different(synthetic: Any) -> None:
    words = synthetic.vocabulary(30_000)
    assert len({*words}) == 30_000


def test_the_same_collection_is_made_every_time(synthetic: Any) -> None:
    planted = synthetic.topics(3)
    assert list(synthetic.records(80, planted)) == list(synthetic.records(80, planted))


def test_papers_are_dealt_out_to_ten_collections_of_about_one_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = script("many", monkeypatch)
    for number in range(43):
        (tmp_path / f"{number}.txt").write_text("x" * (1000 + 10 * number))
    (tmp_path / "left.out").write_text("x")
    folders = many.deal(tmp_path, tmp_path / "dealt")
    dealt = [sorted(path.read_text() for path in folder.iterdir()) for folder in folders]
    assert sorted(text for texts in dealt for text in texts) == sorted("x" * (1000 + 10 * n) for n in range(43))
    assert {len(texts) for texts in dealt} == {4, 5}
    assert max(len("".join(texts[-4:])) for texts in dealt) < 1.05 * min(len("".join(texts[-4:])) for texts in dealt)

"""`ragcli eval` on the gate: figures on labelled questions, and a gate fitted to one's own."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.tiny_models import tiny_encoder

from ragcli.__main__ import main
from ragcli.collection import Collection
from ragcli.evaluation.gate_evaluation import GateQuestion, area, gate_questions, gate_report, reliability_bins
from ragcli.evaluation.topics_qrels_runs import Qrels, Topic
from ragcli.grounding.judge_registry import open_judge, own_calibration

SUBJECTS = (
    "a wormhole needs negative energy in its throat",
    "a raft server wins the leader election by a vote",
    "a sketch of a hash register counts the distinct stream",
    "the boundary layer flow over a plate in shock",
    "a vaccine trial in mouse cells against the virus",
    "the drug dose for the heart of a patient",
    "the river bank and the fish in the water",
    "a star and a black hole in one galaxy",
    "the neuron of the brain and its blood",
    "page and word of a document in the index",
    "latency of the network at high access",
    "the cat and the dog in the tree",
)
OFF = tuple(f"{word} {word}s of {other}" for word, other in zip("qwrtypsdfghj", "zxcvbnmlkpjh", strict=True))

Ragcli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one collection, of a document on each subject."""
    work = tmp_path_factory.mktemp("gate")
    encoder = tiny_encoder(work / "encoder")
    corpus = work / "corpus.jsonl"
    corpus.write_text("\n".join(json.dumps({"id": f"d{n}", "text": text}) for n, text in enumerate(SUBJECTS)))
    call = ["ingest", str(corpus), "-c", "papers", "--encoder", str(encoder), "--data-dir", str(work / "data")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGCLI_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
        assert main(call) == 0
    return work / "data"


@pytest.fixture
def ragcli(
    data_dir: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Ragcli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAGCLI_DATA_DIR", str(data_dir))
    monkeypatch.setenv("RAGCLI_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
        capsys.readouterr()
        code = main(list(arguments))
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def labelled(folder: Path, *, yes: int = 12, no: int = 12, ids: bool = True) -> str:
    lines: list[dict[str, Any]] = []
    for n, text in enumerate(SUBJECTS[:yes]):
        lines.append({"query": text, "answerable": True} | ({"relevant_ids": [f"d{n}"]} if ids else {}))
    lines += [{"query": text, "answerable": False} | ({"relevant_ids": []} if ids else {}) for text in OFF[:no]]
    file = folder / "labelled.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\n")
    return str(file)


def test_questions_labelled_unanswerable_have_the_gate_measured(ragcli: Ragcli, tmp_path: Path) -> None:
    code, out, err = ragcli("eval", labelled(tmp_path), "-c", "papers", "--compare", "bm25", "--json")
    assert code == 0, err
    (gate,) = json.loads(out)["gate"]
    assert (gate["judge"], gate["preset"], gate["questions"]) == ("calibrated", "balanced", 24)
    counts = [gate[f"{what}_{kind}"] for what in ("passed", "stopped") for kind in ("answerable", "unanswerable")]
    assert sum(counts) == 24
    assert gate["abstained"] == pytest.approx((counts[2] + counts[3]) / 24)
    assert gate["auc"] > 0.9
    assert sum(each["count"] for each in gate["bins"]) == 24


def test_without_such_labels_it_is_measured_only_when_asked_for(ragcli: Ragcli, tmp_path: Path) -> None:
    questions = labelled(tmp_path, no=0)
    assert json.loads(ragcli("eval", questions, "-c", "papers", "--compare", "bm25", "--json")[1])["gate"] is None
    code, out, err = ragcli("eval", questions, "-c", "papers", "--gate", "heuristic", "--gate", "calibrated")
    assert code == 0, err
    assert "heuristic" in out
    assert "24 questions" not in out
    assert "12 questions, 12 answerable" in out


def test_under_a_filter_it_is_not_measured_and_that_is_said(ragcli: Ragcli, tmp_path: Path) -> None:
    narrow = ["-c", "papers", "--compare", "bm25", "--where", "year > 1900 or not year > 1900"]
    code, out, err = ragcli("eval", labelled(tmp_path), *narrow, "--json")
    assert code == 0, err
    assert json.loads(out)["gate"] is None
    code, out, err = ragcli("eval", labelled(tmp_path), *narrow)
    assert "The gate was not measured" in " ".join((out + err).split())
    assert ragcli("eval", labelled(tmp_path), *narrow, "--gate", "calibrated")[0] == 2


def test_presets_ask_for_more_or_less(ragcli: Ragcli, tmp_path: Path) -> None:
    questions = labelled(tmp_path)
    passed = []
    for preset in ("strict", "balanced", "lenient"):
        out = ragcli("eval", questions, "-c", "papers", "--compare", "bm25", "--preset", preset, "--json")[1]
        (gate,) = json.loads(out)["gate"]
        assert gate["preset"] == preset
        passed.append(gate["passed_answerable"] + gate["passed_unanswerable"])
    assert passed == sorted(passed)
    assert ragcli("eval", questions, "-c", "papers", "--preset", "stricter")[0] == 2


@pytest.mark.parametrize("ids", [True, False])
def test_a_gate_fitted_to_own_questions_is_kept_and_used(
    ragcli: Ragcli, data_dir: Path, tmp_path: Path, ids: bool
) -> None:
    collection = Collection.open(data_dir, "papers")
    collection.store_calibration(None)
    code, out, err = ragcli("eval", labelled(tmp_path, ids=ids), "-c", "papers", "--calibrate-gate", "--json")
    assert code == 0, err
    report = json.loads(out)
    assert (report["questions"], report["answerable"]) == (24, 12)
    assert report["after"]["auc"] > 0.9
    assert report["thresholds"]["strict"] >= report["thresholds"]["balanced"] >= report["thresholds"]["lenient"]
    learned = own_calibration(collection)
    assert learned is not None
    assert learned.own is not None
    (gate,) = json.loads(ragcli("eval", labelled(tmp_path), "-c", "papers", "--compare", "bm25", "--json")[1])["gate"]
    assert gate["threshold"] == pytest.approx(report["thresholds"]["balanced"])
    assert collection.verify() == ()


def test_what_the_gate_has_learned_is_shown_with_the_collection_and_can_be_let_go(
    ragcli: Ragcli, data_dir: Path, tmp_path: Path
) -> None:
    collection = Collection.open(data_dir, "papers")
    collection.store_calibration(None)
    assert "fitted to" not in ragcli("collections", "show", "papers")[1]
    _, _, err = ragcli("eval", labelled(tmp_path), "-c", "papers", "--calibrate-gate")
    assert "`ragcli eval -c papers --forget-gate`" in err
    assert "fitted to 24 questions of its own, 12 of them answerable" in ragcli("collections", "show", "papers")[1]
    shown = json.loads(ragcli("collections", "show", "papers", "--json")[1])
    assert shown["gate"].startswith("fitted to 24 questions")
    code, out, err = ragcli("eval", "-c", "papers", "--forget-gate")
    assert (code, out) == (0, "")
    assert "the shipped gate judges 'papers' again" in err
    assert collection.calibration() is None
    assert "nothing was changed" in ragcli("eval", "-c", "papers", "--forget-gate")[2]


def test_only_a_collection_named_alone_has_its_gate_forgotten(ragcli: Ragcli, tmp_path: Path) -> None:
    for given in ((), ("-c", "papers", labelled(tmp_path)), ("-c", "papers", "--calibrate-gate")):
        code, _, err = ragcli("eval", "--forget-gate", *given)
        assert code == 2
        assert "forg" in err


def test_the_reliability_curve_is_printed_and_drawn(ragcli: Ragcli, data_dir: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    code, out, err = ragcli(
        "eval", labelled(tmp_path), "-c", "papers", "--calibrate-gate", "--plot", str(tmp_path / "curve.svg")
    )
    assert code == 0, err
    assert "is kept with the collection 'papers'" in err
    for word in ("shipped", "calibrated", "expected", "ECE"):
        assert word in out
    assert "share that could be answered" in (tmp_path / "curve.svg").read_text()
    Collection.open(data_dir, "papers").store_calibration(None)


def test_too_few_questions_fit_nothing_and_change_nothing(ragcli: Ragcli, data_dir: Path, tmp_path: Path) -> None:
    collection = Collection.open(data_dir, "papers")
    collection.store_calibration(None)
    code, _, err = ragcli("eval", labelled(tmp_path, no=5), "-c", "papers", "--calibrate-gate")
    assert code == 3
    assert "12 and 5" in err
    assert collection.calibration() is None


def test_a_calibration_for_another_model_is_not_used(data_dir: Path) -> None:
    collection = Collection.open(data_dir, "papers")
    stored = json.loads(
        (Path(sys.modules["ragcli.grounding"].__file__ or "").parent / "sufficiency" / "coefficients.json").read_text()
    )
    collection.store_calibration(json.dumps({**stored["vectors"], "encoder": "e" * 64}))
    assert own_calibration(collection) is None
    assert open_judge("calibrated", [collection]).name == "calibrated"
    collection.store_calibration(None)


def test_a_reindex_that_costs_the_calibration_says_so(
    ragcli: Ragcli, data_dir: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shutil.copytree(data_dir / "papers", tmp_path / "data" / "papers")
    place = ("-c", "papers", "--data-dir", str(tmp_path / "data"))
    assert ragcli("eval", labelled(tmp_path), *place, "--calibrate-gate")[0] == 0
    code, _, err = ragcli("reindex", *place, "--chunk-size", "600")
    assert (code, "calibration" in err) == (0, False)
    other = tiny_encoder(tmp_path_factory.mktemp("models") / "other", seed=5)
    code, _, err = ragcli("reindex", *place, "--encoder", str(other))
    assert code == 0, err
    assert "calibration went with the old model" in err
    assert Collection.open(tmp_path / "data", "papers").calibration() is None


# The figures


def test_labels_come_from_the_line_and_else_from_what_is_judged_and_there() -> None:
    topics = [
        Topic("a", "said yes", answerable=True),
        Topic("b", "said no", answerable=False),
        Topic("c", "one is there"),
        Topic("d", "none is there"),
        Topic("e", "nobody judged it"),
    ]
    qrels = Qrels({"c": {"x": 1, "gone": 1}, "d": {"gone": 2, "x": 0}})
    found = gate_questions(topics, qrels, ["gone"])
    assert found == (
        GateQuestion("a", "said yes", True),
        GateQuestion("b", "said no", False),
        GateQuestion("c", "one is there", True),
        GateQuestion("d", "none is there", False),
    )


def test_precision_recall_and_abstention_count_what_was_let_through() -> None:
    report = gate_report("calibrated", "balanced", 0.5, [0.9, 0.8, 0.4, 0.6, 0.1], [True, True, False, True, False],
                         [True, True, True, False, False])  # fmt: skip
    assert (report.precision, report.recall, report.abstained) == pytest.approx((2 / 3, 2 / 3, 0.4))
    assert (report.passed_answerable, report.passed_unanswerable) == (2, 1)
    assert (report.stopped_answerable, report.stopped_unanswerable) == (1, 1)


def test_the_area_is_the_share_of_pairs_in_the_right_order() -> None:
    random = np.random.default_rng(5)
    scores, truth = random.integers(0, 8, 60) / 8, random.random(60) < 0.4
    pairs = [(yes > no) + 0.5 * (yes == no) for yes in scores[truth] for no in scores[~truth]]
    assert area(scores.tolist(), truth.tolist()) == pytest.approx(np.mean(pairs))
    assert area([0.1, 0.2], [True, True]) is None


def test_calibration_error_is_nothing_for_probabilities_that_come_true() -> None:
    scores = [0.25] * 4 + [0.75] * 4
    honest = [True, False, False, False, True, True, True, False]
    report = gate_report("calibrated", "balanced", 0.5, scores, [score > 0.5 for score in scores], honest)
    assert report.ece == pytest.approx(0.0)
    worse = gate_report(
        "calibrated", "balanced", 0.5, scores, [score > 0.5 for score in scores], [not e for e in honest]
    )
    assert worse.ece == pytest.approx(0.5)
    assert [each.count for each in reliability_bins([0.0, 0.05, 1.0], [False, False, True])] == [2, 1]

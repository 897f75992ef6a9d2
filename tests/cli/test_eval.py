"""`ragcli eval`, called as a person calls it, on small collections with a tiny encoder."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import ir_measures
import pytest
from tests.support.cli_calls import Ragcli, caller
from tests.support.model_cache import with_shared_exports
from tests.support.tiny_models import tiny_encoder

TESTS = Path(__file__).parent

DOCUMENTS = {
    "w1": ("Wormholes", "a traversable wormhole needs negative average null energy"),
    "w2": ("Energy", "the null energy condition in quantum field gravity"),
    "r1": ("Raft", "leader election and the replicated log of a server cluster reach consensus"),
    "r2": ("Votes", "a vote in each term elects one leader of the cluster"),
    "s1": ("Sketches", "estimate the distinct count of a stream with little memory by hash registers"),
    "s2": ("Hashing", "a hash of one value in a register"),
    "b1": ("Flow", "boundary layer flow and shock on a supersonic wing"),
    "b2": ("Heat", "heat and pressure drag on a flat plate in supersonic flow"),
    "c1": ("Cells", "a vaccine trial against a virus in mouse cells"),
    "c2": ("Drugs", "the dose of a drug for heart patients in a trial"),
}
QUERIES = {
    "1": ("negative energy wormhole", {"w1": 2, "w2": 1}),
    "2": ("leader election consensus", {"r1": 1, "r2": 1}),
    "3": ("distinct count of a stream", {"s1": 1}),
    "4": ("supersonic flow over a plate", {"b2": 1, "b1": 0}),
    "5": ("drug dose trial", {"c2": 1, "missing": 1}),
    "6": ("nobody judged this", {}),
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("models") / "encoder")


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A data folder and a cache for all tests of this file: what is ingested once stays."""
    return {
        "RAGCLI_DATA_DIR": str(tmp_path_factory.mktemp("data")),
        "RAGCLI_CACHE_DIR": str(with_shared_exports(tmp_path_factory.mktemp("cache"))),
        "HF_HUB_OFFLINE": "1",
    }


@pytest.fixture(scope="module")
def beir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets") / "tiny set"
    (folder / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": key, "title": title, "text": text}) for key, (title, text) in DOCUMENTS.items()]
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    lines = [json.dumps({"_id": key, "text": text}) for key, (text, _) in QUERIES.items()]
    (folder / "queries.jsonl").write_text("\n".join(lines) + "\n")
    rows = [f"{key}\t{item}\t{grade}\n" for key, (_, items) in QUERIES.items() for item, grade in items.items()]
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(rows))
    return folder


@pytest.fixture
def ragcli(
    places: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Ragcli:
    return caller(
        Path(places["RAGCLI_DATA_DIR"]), tmp_path, monkeypatch, capsys, cache=Path(places["RAGCLI_CACHE_DIR"])
    )


@pytest.fixture
def tiny(ragcli: Ragcli, beir: Path, encoder: Path) -> Ragcli:
    """`ragcli eval` on the BEIR folder with the tiny encoder."""
    return lambda *arguments: ragcli("eval", str(beir), "--encoder", str(encoder), *arguments)


@pytest.fixture
def papers(ragcli: Ragcli, beir: Path, encoder: Path, places: dict[str, str]) -> str:
    """A collection with the same documents, each chunk its own document's only one."""
    if not (Path(places["RAGCLI_DATA_DIR"]) / "papers").exists():
        answer = ragcli(
            "ingest", "-", "-c", "papers", "--encoder", str(encoder), stdin=(beir / "corpus.jsonl").read_bytes()
        )
        assert answer.code == 0, answer.err
    return "papers"


# BEIR folders


def test_all_pipelines_are_measured_with_marks_costs_and_counts(tiny: Ragcli) -> None:
    answer = tiny("--compare", "tfidf,bm25,dense,classic,hybrid", "--json")
    assert answer.code == 0, answer.err
    value = answer.json
    assert value["data"] | {"notes": []} == {
        "name": "tiny set",
        "format": "beir",
        "split": "test",
        "level": "document",
        "queries": 5,
        "judgements": 9,
        "answerable": {"yes": 0, "no": 0, "unsaid": 6},
        "left_out": {"unjudged": 1, "without_topic": []},
        "unknown": ["missing"],
        "notes": [],
    }
    rows = {row["label"]: row for row in value["pipelines"]}
    assert list(rows) == ["tfidf", "bm25", "dense", "classic", "hybrid"]
    assert rows["bm25"]["measures"]["nDCG@10"] > 0.8
    assert [rows[name]["reranker"] for name in rows] == [None, None, None, "late", "late"]
    for row in rows.values():
        assert 0 < row["cost"]["latency_ms"]["p50"] <= row["cost"]["latency_ms"]["p95"]
        assert row["cost"]["index_bytes"] > 0
    assert rows["bm25"]["cost"]["model_bytes"] == rows["tfidf"]["cost"]["model_bytes"] == 0
    assert rows["hybrid"]["cost"]["model_bytes"] > 0
    assert rows["hybrid"]["cost"]["index_bytes"] > rows["dense"]["cost"]["index_bytes"]


def test_figures_equal_ir_measures_on_the_written_runs(tiny: Ragcli, beir: Path, tmp_path: Path) -> None:
    answer = tiny("--compare", "bm25,hybrid:pool=3", "--json", "--run-out", "out.run")
    qrels = [
        ir_measures.Qrel(query, item, int(grade))
        for query, item, grade in (line.split("\t") for line in (beir / "qrels/test.tsv").read_text().splitlines()[1:])
    ]
    for row, name in zip(answer.json["pipelines"], ("out.bm25.run", "out.hybrid-pool=3.run"), strict=True):
        run = list(ir_measures.read_trec_run(str(tmp_path / name)))
        measures = [ir_measures.parse_measure(measure) for measure in row["measures"]]
        by_hand = ir_measures.calc_aggregate(measures, qrels, run)
        assert {str(measure): value for measure, value in by_hand.items()} == row["measures"]


def test_the_corpus_is_ingested_once_and_not_listed(tiny: Ragcli, ragcli: Ragcli, places: dict[str, str]) -> None:
    tiny("--compare", "bm25")
    folder = Path(places["RAGCLI_DATA_DIR"]) / ".evaluation"
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("store.db")}
    assert len(before) >= 1
    tiny("--compare", "bm25,dense")
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("store.db")} == before
    listed = ragcli("collections", "--json")
    assert not any("tiny" in row["name"] for row in listed.json)


def test_an_unfinished_ingest_is_taken_up_again(tiny: Ragcli, places: dict[str, str]) -> None:
    first = tiny("--compare", "bm25", "--json").json
    folder = Path(places["RAGCLI_DATA_DIR"]) / ".evaluation"
    for mark in folder.glob("*.json"):
        mark.unlink()
    again = tiny("--compare", "bm25", "--json")
    assert again.code == 0, again.err
    assert again.json["pipelines"][0]["measures"] == first["pipelines"][0]["measures"]
    assert list(folder.glob("*.json"))


def test_a_corpus_can_be_ingested_anew(tiny: Ragcli, places: dict[str, str]) -> None:
    first = tiny("--compare", "bm25", "--json").json
    mark = next((Path(places["RAGCLI_DATA_DIR"]) / ".evaluation").glob("*.json"))
    before = mark.stat().st_mtime_ns
    again = tiny("--compare", "bm25", "--fresh", "--json")
    assert again.code == 0, again.err
    assert again.json["pipelines"][0]["measures"] == first["pipelines"][0]["measures"]
    assert mark.stat().st_mtime_ns > before


def test_deep_ranking_changes_nothing_at_the_top(tiny: Ragcli, ragcli: Ragcli, beir: Path, tmp_path: Path) -> None:
    tiny("--compare", "hybrid:pool=2", "--run-out", "deep.run")
    collection = next((Path(os.environ["RAGCLI_DATA_DIR"]) / ".evaluation").glob("tiny-set-*/"))
    deep = ir_measures.read_trec_run(str(tmp_path / "deep.run"))
    ranked: dict[str, list[str]] = {}
    for entry in deep:
        ranked.setdefault(entry.query_id, []).append(entry.doc_id)
    assert {len(items) for items in ranked.values()} == {len(DOCUMENTS)}
    for query, items in ranked.items():
        hits = ragcli(
            "query",
            QUERIES[query][0],
            *("--data-dir", str(collection.parent), "-c", collection.name, "--pool", "2", "--json"),
        ).json
        assert [hit["document_id"] for hit in hits] == items[: len(hits)]


def test_the_table_has_rows_marks_and_what_was_left_out(tiny: Ragcli) -> None:
    answer = tiny("--compare", "bm25,dense", "--baseline", "bm25", "--metric", "RR@10", "--metric", "P@1")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert lines[0].split() == ["pipeline", "RR@10", "P@1", "Δ", "RR@10", "p50", "ms", "p95", "ms", "index", "models"]
    assert lines[2].split()[:2] == ["a", "bm25"]
    assert lines[3].split()[:2] == ["b", "dense"]
    assert "5 queries, 9 judgements of documents" in answer.out
    assert "Left out: 1 queries without judgements." in answer.out
    assert "not in the collection: 1 ids (missing)" in answer.out


def test_without_compare_the_default_pipeline_stands_alone(tiny: Ragcli) -> None:
    answer = tiny("--json")
    assert [row["label"] for row in answer.json["pipelines"]] == ["hybrid"]
    assert answer.json["significance"]["pairs"] == []


def test_markdown_and_latex_and_p_values(tiny: Ragcli) -> None:
    answer = tiny("--compare", "bm25,dense", "--markdown", "--p-values")
    assert answer.out.startswith("|  | pipeline | nDCG@10 | R@1 ")
    assert "| bm25 − dense | nDCG@10 |" in answer.out
    assert r"\begin{tabular}" in tiny("--compare", "bm25,dense", "--latex").out


def test_wins_and_losses_come_with_the_words_of_the_query(tiny: Ragcli) -> None:
    answer = tiny("--compare", "bm25,dense", "--per-query", "--metric", "nDCG@10", "--json")
    (listed,) = answer.json["per_query"]
    assert (answer.json["baseline"], listed["label"]) == ("bm25", "dense")
    differences = [each["difference"] for each in listed["queries"]]
    assert differences == sorted(differences)
    assert {each["text"] for each in listed["queries"]} == {QUERIES[key][0] for key in "12345"}
    shown = tiny("--compare", "bm25,dense", "--per-query", "--metric", "nDCG@10").out
    assert "dense against bm25, nDCG@10 by query, worst first:" in shown
    worst = listed["queries"][0]
    if worst["difference"]:
        assert worst["text"] in shown


def test_a_drawing_is_made(tiny: Ragcli, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    assert tiny("--compare", "bm25,dense", "--plot", "out.svg").code == 0
    assert "Quality against latency" in (tmp_path / "out.svg").read_text()


def test_other_settings_make_another_collection(tiny: Ragcli, places: dict[str, str]) -> None:
    tiny("--compare", "bm25")
    before = len(list((Path(places["RAGCLI_DATA_DIR"]) / ".evaluation").glob("*/store.db")))
    tiny("--compare", "bm25", "--chunk-size", "60", "--overlap", "10")
    assert len(list((Path(places["RAGCLI_DATA_DIR"]) / ".evaluation").glob("*/store.db"))) == before + 1


# collections that are there


def test_labelled_questions_against_a_collection(ragcli: Ragcli, papers: str, tmp_path: Path) -> None:
    lines = [
        {"query": "leader election", "relevant_ids": ["r1"], "answerable": True},
        {"query": "vaccine trial", "relevant_ids": ["c1", "nowhere"]},
        {"query": "price of fish", "relevant_ids": [], "answerable": False},
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    answer = ragcli("eval", "q.jsonl", "-c", papers, "--compare", "bm25", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["data"]["answerable"] == {"yes": 1, "no": 1, "unsaid": 1}
    assert answer.json["data"]["unknown"] == ["nowhere"]
    assert answer.json["pipelines"][0]["measures"]["R@5"] == pytest.approx(0.75)
    by_option = ragcli("eval", "-c", papers, "--qrels", "q.jsonl", "--compare", "bm25", "--json")
    assert by_option.json["pipelines"][0]["measures"] == answer.json["pipelines"][0]["measures"]


def test_where_judgements_go_by_source_the_whole_run_does(ragcli: Ragcli, encoder: Path, tmp_path: Path) -> None:
    (tmp_path / "notes" / "a folder").mkdir(parents=True)
    for name, words in (("raft", "leader election"), ("a folder/votes", "a vote elects a leader"), ("fish", "fish")):
        (tmp_path / "notes" / f"{name}.md").write_text(f"# {name}\n\n{words} in a cluster\n")
    assert ragcli("ingest", "notes", "-c", "notes", "--encoder", str(encoder)).code == 0
    (tmp_path / "q.jsonl").write_text('{"query": "leader", "relevant_ids": ["raft.md"]}\n')
    answer = ragcli("eval", "q.jsonl", "-c", "notes", "--compare", "dense", "--run-out", "out.run", "--json")
    assert answer.code == 0, answer.err
    items = {line.split()[2] for line in (tmp_path / "out.run").read_text().splitlines()}
    assert items == {"raft.md", "a%20folder/votes.md", "fish.md"}


def test_chunk_ids_are_scored_as_chunks(ragcli: Ragcli, papers: str, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"query": "leader election", "relevant_ids": ["r1:0"]}\n')
    answer = ragcli("eval", "q.jsonl", "-c", papers, "--compare", "bm25", "--json", "--run-out", "c.run")
    assert answer.json["data"]["level"] == "chunk"
    assert answer.json["pipelines"][0]["measures"]["R@5"] == 1.0
    assert (tmp_path / "c.run").read_text().split()[2].endswith(":0")
    by_document = ragcli("eval", "q.jsonl", "-c", papers, "--compare", "bm25", "--json", "--level", "document")
    assert by_document.json["data"]["level"] == "document"


def test_topics_and_qrels_of_trec_against_a_collection(ragcli: Ragcli, papers: str, tmp_path: Path) -> None:
    (tmp_path / "topics").write_text("<top>\n<num> Number: 7\n<title> leader election\n</top>\n")
    (tmp_path / "qrels").write_text("7 0 r1 1\n8 0 w1 1\n")
    answer = ragcli("eval", "topics", "-c", papers, "--qrels", "qrels", "--compare", "bm25,dense", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["data"]["left_out"] == {"unjudged": 0, "without_topic": ["8"]}
    assert answer.json["pipelines"][0]["measures"]["R@5"] == 1.0


# runs from elsewhere


def test_a_run_from_elsewhere_is_scored(ragcli: Ragcli, tmp_path: Path) -> None:
    (tmp_path / "their.run").write_text("1 Q0 a 1 2.5 theirs\n1 Q0 b 2 1.5 theirs\n3 Q0 x 1 1 theirs\n")
    (tmp_path / "qrels").write_text("1 0 b 1\n2 0 z 1\n")
    answer = ragcli("eval", "--run", "their.run", "--qrels", "qrels", "--metric", "RR", "--json")
    assert answer.code == 0, answer.err
    (row,) = answer.json["pipelines"]
    assert (row["label"], row["pipeline"], row["cost"]) == ("theirs", None, None)
    assert row["measures"] == {"RR": 0.25}
    assert answer.json["data"]["left_out"]["unjudged"] == 1
    assert "nothing for 1 judged queries" in answer.json["data"]["notes"][0]


def test_a_run_written_here_and_scored_again_gives_the_same_figures(tiny: Ragcli, beir: Path, ragcli: Ragcli) -> None:
    first = tiny("--compare", "hybrid", "--json", "--run-out", "h.run").json["pipelines"][0]
    again = ragcli("eval", "--run", "h.run", "--qrels", str(beir / "qrels" / "test.tsv"), "--json")
    assert again.json["pipelines"][0]["measures"] == first["measures"]
    beside = tiny("--compare", "bm25", "--run", "h.run", "--json").json["pipelines"]
    assert [row["label"] for row in beside] == ["bm25", "hybrid"]
    assert beside[1]["measures"] == first["measures"]


# labelling


def test_labels_come_from_keys_and_a_later_run_goes_on(ragcli: Ragcli, papers: str, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("# mine\nleader election\n\nvaccine trial\n")
    call = ("eval", "--make-qrels", "q.txt", "-c", papers, "--qrels-out", "out.qrels", "--depth", "2")
    first = ragcli(*call, "--compare", "bm25,dense", stdin=b"y\nn q")
    assert first.code == 0, first.err
    assert "leader election" in first.err
    assert "1 relevant, 1 not, 0 unsure" in first.err
    lines = (tmp_path / "out.qrels").read_text().splitlines()
    assert [line.split()[3] for line in lines] == ["1", "0"]
    second = ragcli(*call, "--compare", "bm25,dense", stdin=b"x" + b"n" * 40)
    assert "not 'x'" in second.err
    after = (tmp_path / "out.qrels").read_text().splitlines()
    assert after[:2] == lines
    assert "0 passages are left to judge" in second.err
    scored = ragcli("eval", "q.txt", "-c", papers, "--qrels", "out.qrels", "--compare", "bm25", "--json")
    assert scored.code == 0, scored.err
    assert scored.json["data"]["level"] == "chunk"


def test_keys_are_read_from_a_terminal_without_return(ragcli: Ragcli, papers: str, tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text("leader election\n")
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "ragcli", "eval", "--make-qrels", "q.txt", "-c", papers]
    command += ["--qrels-out", "out.jsonl", "--compare", "bm25", "--depth", "2"]
    process = subprocess.Popen(command, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
    os.close(slave)
    assert process.stderr is not None
    seen = b""
    while not seen.endswith(b"[q]uit "):
        byte = process.stderr.read(1)
        assert byte, seen
        seen += byte
    os.write(master, b"yq")
    _, err = process.communicate(timeout=60)
    os.close(master)
    assert process.returncode == 0, err
    record = json.loads((tmp_path / "out.jsonl").read_text())
    assert record["query"] == "leader election"
    assert len(record["relevant_ids"]) == 1


# mistakes


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        (["nowhere"], 2, "Say with -c which collection"),
        (["nowhere", "-c", "papers"], 3, "no file nowhere"),
        (["--qrels-out", "x"], 2, "--qrels-out goes with --make-qrels"),
        (["--make-qrels", "x", "--qrels-out", "y"], 2, "Say with -c"),
        (["--make-qrels", "x", "-c", "papers"], 2, "--qrels-out FILE"),
        (["BEIR", "--compare", "bm52"], 2, "did you mean 'bm25'"),
        (["BEIR", "--metric", "nDGC"], 2, "There is no measure 'nDGC'"),
        (["BEIR", "--compare", "bm25", "--baseline", "dense"], 2, "baseline 'dense' is not among"),
        (["BEIR", "--split", "dev"], 3, "no split 'dev'"),
        (["BEIR", "--qrels", "x"], 2, "has its own qrels"),
        (["BEIR", "--plot", "x.pdf"], 2, "--plot draws"),
        (["BEIR", "--json", "--latex"], 2, "exclude each other"),
        (["BEIR", "--alpha", "2"], 2, "--alpha must lie between"),
        (["BEIR", "--depth", "0"], 2, "--depth must be at least 1"),
        (["BEIR", "--level", "page"], 2, "--level takes one of auto, document, chunk"),
        (["BEIR", "--format", "xml"], 2, "--format takes"),
        (["-c", "absent", "x.jsonl"], 3, "absent"),
        (["x.jsonl", "-c", "papers", "--fresh"], 2, "a collection has its own"),
        (["--run", "absent.run", "--qrels", "x"], 3, "no file absent.run"),
    ],
)
def test_a_mistake_is_one_sentence_and_an_exit_code(
    ragcli: Ragcli, beir: Path, papers: str, arguments: list[str], code: int, complaint: str
) -> None:
    answer = ragcli("eval", *(str(beir) if each == "BEIR" else each for each in arguments))
    assert (answer.code, answer.out) == (code, ""), answer.err
    assert complaint in answer.err
    assert len(answer.err.splitlines()) == 1


def test_nothing_is_written_when_something_is_wrong(tiny: Ragcli, tmp_path: Path) -> None:
    answer = tiny("--compare", "bm25", "--run-out", "no/such/folder/out.run")
    assert answer.code == 3
    assert "cannot be written" in answer.err
    assert list(tmp_path.rglob("*.run*")) == []

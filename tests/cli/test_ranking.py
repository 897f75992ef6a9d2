"""The options that arrange hits, as a person types them, over collections on disk."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.collection_builders import take_in, take_in_records, write_files
from tests.support.tiny_models import tiny_encoder

from ragcli.__main__ import main
from ragcli.collection import Collection
from ragcli.models import load_encoder
from ragcli.types import CollectionSettings

RAFT = "The leader of the cluster is elected by a vote of the servers for one term."
MORE = "\n\n".join(f"# Part {n}\n\nThe vote number {n} elects a leader, says server {n} of {n + 7}." for n in range(6))
Ragcli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two collections that share a document, and one of dated records."""
    folder = tmp_path_factory.mktemp("ranking")
    name = str(tiny_encoder(folder / "encoder"))
    model: Any = load_encoder(name)
    settings = CollectionSettings(encoder=name, chunk_size=120, overlap=0)
    texts = {
        "papers": {"raft.md": RAFT, "more.md": MORE, "flow.md": "Supersonic flow past a wing."},
        "notes": {"copy.md": RAFT, "hole.md": "A traversable wormhole needs negative energy."},
    }
    for collection, files in texts.items():
        take_in(
            Collection.create(folder / "data", collection, settings),
            write_files(folder / collection, files),
            encoder=model,
        )
    dated = [
        {"_id": year, "text": f"{RAFT} So it was in {year}.", "date": f"{year}-01-01"} for year in ("1990", "2020")
    ]
    take_in_records(Collection.create(folder / "data", "dated", settings), *dated, encoder=model)
    return folder / "data"


@pytest.fixture
def ragcli(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Ragcli:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAGCLI_DATA_DIR", str(data_dir))
    monkeypatch.setenv("COLUMNS", "120")

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b""), encoding="utf-8"))
        capsys.readouterr()
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def hits(ragcli: Ragcli, *arguments: str) -> list[dict[str, Any]]:
    code, out, err = ragcli("query", *arguments, "--json")
    assert code == 0, err
    found: list[dict[str, Any]] = json.loads(out)
    return found


BOTH = ("leader elected by a vote", "-c", "papers", "-c", "notes")


def test_a_document_in_two_collections_is_one_hit_that_tells_of_the_other(ragcli: Ragcli) -> None:
    (first,) = (hit for hit in hits(ragcli, *BOTH, "--top", "20") if hit["text"] == RAFT)
    assert (first["source"], first["source_score"], first["others"]) == ("raft.md", None, [])
    assert [each["source"] for each in first["duplicates"]] == ["copy.md"]
    assert set(first["duplicates"][0]) == {"source", "collection", "chunk_id"}
    apart = hits(ragcli, *BOTH, "--top", "20", "--identity", "none", "--keep-duplicates")
    shown = [hit["source"] for hit in apart if hit["text"] == RAFT]
    assert sorted(shown) == ["copy.md", "raft.md"]
    code, out, _ = ragcli("query", *BOTH, "--top", "1")
    assert code == 0
    assert "+ 1 that says the same" in out


def test_weights_are_for_the_collections_they_name(ragcli: Ragcli) -> None:
    found = hits(ragcli, *BOTH, "--weight", "notes=3", "--weight", "papers=0.5")
    assert (found[0]["collection"], found[0]["score_type"]) == ("notes", "fused")
    assert found[0]["score"] == pytest.approx(3.0)
    assert found[0]["source_score"] not in (None, found[0]["score"])


def test_groups_are_shown_with_what_is_under_them(ragcli: Ragcli) -> None:
    found = hits(ragcli, *BOTH, "--group")
    sources = [hit["source"] for hit in found]
    assert len(sources) == len(set(sources))
    (more,) = (hit for hit in found if hit["source"] == "more.md")
    assert len(more["others"]) == 4
    assert {other["source"] for other in more["others"]} == {"more.md"}
    code, out, _ = ragcli("query", *BOTH, "--group")
    assert code == 0
    assert out.count("└ ") == 4
    assert "└ and 1 more" in out
    assert more["others"][0]["chunk_id"] in out


def test_diversity_and_recency_show_in_the_scores(ragcli: Ragcli) -> None:
    plain = hits(ragcli, "leader vote", "-c", "dated")
    assert not {"mmr", "recency"} & plain[0]["scores"].keys()
    for way in ("mmr=0.3", "0.3"):
        found = hits(ragcli, "leader vote", "-c", "papers", "--diversity", way)
        assert all(hit["scores"]["mmr"] is not None for hit in found)
    new = hits(ragcli, "leader vote", "-c", "dated", "--recency", "1", "--half-life", "2y", "--keep-duplicates")
    assert [hit["source"] for hit in new] == ["2020", "1990"]
    assert new[0]["scores"]["recency"] > 100 * new[1]["scores"]["recency"]
    code, out, _ = ragcli("query", "leader vote", "-c", "dated", "--recency", "0.5", "--explain")
    assert code == 0
    assert "half-life 365 days" in out


@pytest.mark.parametrize(
    ("age", "days"), [("36h", 1.5), ("90d", 90), ("2w", 14), ("6m", 182.625), ("2y", 730.5), ("7", 7)]
)
def test_a_half_life_is_written_as_an_age(ragcli: Ragcli, age: str, days: float) -> None:
    code, out, _ = ragcli("query", "leader", "-c", "dated", "--recency", "0.5", "--half-life", age, "--explain")
    assert code == 0
    assert f"half-life {days:g} days" in out


def test_what_is_settled_in_the_configuration_holds_until_an_option_says_otherwise(
    ragcli: Ragcli, tmp_path: Path
) -> None:
    (tmp_path / "my.toml").write_text('[query]\ndiversity = 0.4\nrecency = 0.5\nhalf_life = "30d"\n')
    settled = hits(ragcli, "leader vote", "-c", "dated", "--config", "my.toml")
    assert {"mmr", "recency"} <= settled[0]["scores"].keys()
    other = hits(ragcli, "leader vote", "-c", "dated", "--config", "my.toml", "--half-life", "100y")
    assert other[0]["scores"]["recency"] > settled[0]["scores"]["recency"]
    (tmp_path / "my.toml").write_text('[query]\nhalf_life = "soon"\nrecency = 0.5\n')
    wrong = ragcli("query", "x", "-c", "dated", "--config", "my.toml")
    assert wrong[0] == 3
    assert "my.toml, line 2: query.half_life takes an age such as 12h" in wrong[2]


def test_a_chunk_stands_in_for_the_question(ragcli: Ragcli, tmp_path: Path) -> None:
    (raft,) = (hit for hit in hits(ragcli, *BOTH, "--top", "20") if hit["source"] == "raft.md")
    like = hits(ragcli, "--like", raft["chunk_id"], "-c", "papers", "-c", "notes", "--top", "20")
    assert like[0]["source"] == "more.md"
    assert RAFT not in {hit["text"] for hit in like}
    (tmp_path / "draft.md").write_text("Who is elected leader by a vote of the servers?")
    code, out, err = ragcli("query", "--like", "draft.md", "-c", "papers", "--top", "1")
    assert (code, err) == (0, "")
    assert "1 hit" in out


def test_pipelines_are_compared_with_diversity_and_recency(ragcli: Ragcli, tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text('{"query": "leader elected by a vote", "relevant_ids": ["2020"]}\n')
    specs = "hybrid,hybrid:recency=1,half_life=900,hybrid:diversity=0.3"
    code, out, err = ragcli("eval", "questions.jsonl", "-c", "dated", "--compare", specs, "--metric", "RR", "--json")
    assert code == 0, err
    assert [each["label"] for each in json.loads(out)["pipelines"]] == [
        "hybrid",
        "hybrid:recency=1,half_life=900",
        "hybrid:diversity=0.3",
    ]
    code, _, err = ragcli("eval", "questions.jsonl", "-c", "dated", "--compare", "hybrid:recency=1.5")
    assert code == 2
    assert "recency" in err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["x", "--weight", "papers"], 2, "like papers=2"),
        (["x", "--weight", "papers=much"], 2, "like papers=2"),
        (["x", "--weight", "papers=-1"], 2, "like papers=2"),
        (["x", "--weight", "papers=1", "--weight", "papers=2"], 2, "twice"),
        (["x", "--weight", "nothere=2", "-c", "papers"], 2, "nothere"),
        (["x", "--diversity", "mmr"], 2, "mmr=X"),
        (["x", "--diversity", "mmr=1.5"], 2, "mmr=X"),
        (["x", "--diversity", "other=0.5"], 2, "mmr=X"),
        (["x", "--diversity", "=0.5"], 2, "mmr=X"),
        (["x", "--recency", "2"], 2, "recency"),
        (["x", "--half-life", "90d"], 2, "--recency"),
        (["x", "--recency", "0.2", "--half-life", "soon"], 2, "90d"),
        (["x", "--recency", "0.2", "--half-life", "0d"], 2, "90d"),
        (["x", "--identity", "contnet"], 2, "did you mean content"),
        (["x", "--identity", "a b"], 2, "--identity"),
        (["x", "--like", "raft.md"], 2, "exclude each other"),
        (["--like", "no-such-thing"], 3, "no-such-thing"),
        (["--like", "raft.md", "--expand", "rm3"], 2, "--like"),
        (["--like", "more.md", "-c", "dated"], 3, "more.md"),
        ([], 2, "TEXT"),
    ],
)
def test_a_call_that_makes_no_sense_is_told_in_one_line(
    ragcli: Ragcli, arguments: list[str], code: int, words: str
) -> None:
    found, out, err = ragcli("query", *arguments)
    assert (found, out) == (code, ""), err
    assert words in err
    assert err.count("\n") == 1

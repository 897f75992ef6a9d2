"""The public functions: what the commands do, as one call each."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.collection_builders import write_files
from tests.support.tiny_models import tiny_encoder

import ragcli
from ragcli import Collection, CollectionSettings, QueryRequest, ask, check, grep, ingest, query
from ragcli.errors import InputError, MissingCollection
from ragcli.grounding import Decision, Evidence, Preset

NOTES = {
    "raft.md": "# Raft\n\nIn each term there is at most one leader. A majority of votes makes a leader.",
    "sketch.md": "# Sketches\n\nA kilobyte of memory estimates the number of distinct values.",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the collection "notes"."""
    root = tmp_path_factory.mktemp("library")
    settings = CollectionSettings(encoder=str(tiny_encoder(root / "encoder")))
    report = ingest([write_files(root / "in", NOTES)], "notes", data_dir=root / "data", settings=settings)
    assert sorted(report.added) == ["raft.md", "sketch.md"]
    return root / "data"


def test_a_collection_is_named_by_its_handle_its_folder_or_its_name(data: Path) -> None:
    for named in ("notes", data / "notes", str(data / "notes"), Collection.open(data, "notes"), ["notes"], None):
        (hit,) = grep("at most one leader", named, data_dir=data)
        assert (hit.source, hit.match) == ("raft.md", "at most one leader")


def test_without_a_data_folder_it_is_that_of_the_command_line(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGCLI_DATA_DIR", str(data))
    assert query("leader", "notes").hits[0].chunk.source == "raft.md"


def test_a_query_takes_a_question_or_a_request_with_options(data: Path) -> None:
    assert query("a majority of votes", "notes", data_dir=data).hits[0].chunk.source == "raft.md"
    result = query(QueryRequest("distinct values", top=1, pipeline="bm25"), "notes", data_dir=data)
    assert [hit.chunk.source for hit in result.hits] == ["sketch.md"]


class AlwaysEnough:
    """A judge of the caller's own."""

    name = "always"

    def judge(self, evidence: Evidence, preset: Preset = "balanced") -> Decision:  # noqa: ARG002
        return Decision(True, 1.0, 0.5, ("PASS",), "Anything is enough.", {}, self.name)


def test_ask_answers_in_the_documents_own_words(data: Path) -> None:
    result = ask("how many leaders are there in a term", "notes", data_dir=data, judge=AlwaysEnough())
    assert result.answer is not None
    assert "at most one leader" in result.answer.text
    assert result.hits[0].chunk.source == "raft.md"


def test_check_holds_each_sentence_against_what_it_cites(data: Path) -> None:
    draft = "In each term there is at most one leader [raft.md]. Sheep are counted by seven leaders [raft.md]."
    first, second = check(draft, "notes", data_dir=data)
    assert (first.verdict, second.verdict) == ("supported", "unsupported")


def test_errors_are_sentences_of_ragcli(data: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingCollection, match="nowhere"):
        query("x", "nowhere", data_dir=data)
    with pytest.raises(MissingCollection, match="no collection"):
        grep("x", data_dir=tmp_path)
    with pytest.raises(InputError):
        ingest([tmp_path / "missing"], "notes", data_dir=data)


def test_no_public_function_is_called_like_a_module_of_the_package() -> None:
    modules = {each.name for each in pkgutil.iter_modules(ragcli.__path__)}
    assert modules & set(ragcli.__all__) == set()


def test_importing_ragcli_loads_none_of_it() -> None:
    code = "import sys, ragcli; print([m for m in sys.modules if m.startswith('ragcli.') and 'lazy' not in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['ragcli._version']"

"""When a parser or the chunker improves, old documents are named, and read anew when that is asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.collection_builders import (
    READ_HERE,
    HashEncoder,
    all_texts,
    new_collection,
    prose,
    take_in,
    take_in_records,
    write_files,
)

from ragcli.__main__ import main
from ragcli.collection import Collection, ingest
from ragcli.collection.ingestion.ingest_run import IngestOptions
from ragcli.documents import parser_registry
from ragcli.documents.formats import plain_text_parser
from ragcli.types import Document


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    return write_files(tmp_path / "in", {"a.txt": prose(1, 600), "b.txt": prose(2, 300), "c.md": f"# C\n\n{prose(3)}"})


@pytest.fixture
def collection(tmp_path: Path, papers: Path) -> Collection:
    """A collection of two texts and a note, read by the parsers of today."""
    collection = new_collection(tmp_path)
    take_in(collection, papers)
    return collection


def improve_text_parser(monkeypatch: pytest.MonkeyPatch, added: str = "") -> None:
    """From now on, texts are read by another version of their parser, which finds something more in them."""
    versions = {**parser_registry.PARSER_VERSIONS, "text": "2"}
    monkeypatch.setattr(parser_registry, "PARSER_VERSIONS", versions)
    before = plain_text_parser.read_plain_text

    def read(data: bytes, path: Path) -> Document:
        return before(data + added.encode(), path)

    monkeypatch.setattr(plain_text_parser, "read_plain_text", read)


def versions(collection: Collection) -> dict[str, tuple[str, str]]:
    with collection.snapshot() as snapshot:
        return {row.source: (row.parser, row.parser_version) for row in snapshot.documents()}


def chunk_texts(collection: Collection) -> dict[str, str]:
    with collection.snapshot() as snapshot:
        rows = [chunk for row in snapshot.documents() for chunk in snapshot.document_chunks(row.document_id)]
        return {chunk.chunk_id: chunk.text for chunk in rows}


def test_every_document_says_which_version_of_which_parser_read_it(collection: Collection) -> None:
    assert versions(collection) == {"a.txt": ("text", "1"), "b.txt": ("text", "1"), "c.md": ("markdown", "1")}


def test_an_ingest_counts_what_an_older_parser_has_read_and_leaves_it(
    collection: Collection, papers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert take_in(collection, papers).outdated == 0
    improve_text_parser(monkeypatch, "\n\nMore.")
    before = chunk_texts(collection)
    report = take_in(collection, papers)
    assert (report.outdated, report.unchanged, report.refreshed) == (2, 3, ())
    assert chunk_texts(collection) == before


def test_a_refresh_reads_those_anew_and_embeds_only_passages_that_changed(
    collection: Collection, papers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = chunk_texts(collection)
    improve_text_parser(monkeypatch, "\n\nMore.")
    encoder = HashEncoder()
    report = take_in(collection, papers, encoder=encoder, refresh=True)
    after = chunk_texts(collection)
    assert sorted(report.refreshed) == ["a.txt", "b.txt"]
    assert (report.outdated, report.unchanged, report.changed, report.added) == (0, 1, (), ())
    assert all(text.endswith("More.") for source, text in all_texts(collection).items() if source != "c.md")
    changed = {each for each, text in after.items() if before.get(each) != text}
    assert 0 < len(changed) < len(after) - 1
    assert sorted(encoder.texts) == sorted(after[each] for each in changed)
    assert collection.verify() == ()
    assert versions(collection)["a.txt"] == ("text", "2")
    again = take_in(collection, papers, encoder=encoder, refresh=True)
    assert (again.refreshed, again.unchanged, again.outdated) == ((), 3, 0)


def test_a_document_that_reads_the_same_keeps_its_passages_and_gets_the_new_version(
    collection: Collection, papers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collection.snapshot() as snapshot:
        numbers = snapshot.row_numbers.tolist()
    improve_text_parser(monkeypatch)
    encoder = HashEncoder()
    report = take_in(collection, papers, encoder=encoder, refresh=True)
    assert sorted(report.refreshed) == ["a.txt", "b.txt"]
    assert (report.chunks, encoder.texts) == (0, [])
    with collection.snapshot() as snapshot:
        assert snapshot.row_numbers.tolist() == numbers
    assert versions(collection)["b.txt"] == ("text", "2")
    assert collection.verify() == ()


def test_another_version_of_the_chunker_cuts_documents_anew_on_refresh(
    collection: Collection, papers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragcli.documents.chunking.CHUNKER_VERSION", "2")
    assert take_in(collection, papers).outdated == 3
    encoder = HashEncoder()
    before = chunk_texts(collection)
    report = take_in(collection, papers, encoder=encoder, refresh=True)
    assert (len(report.refreshed), encoder.texts) == (3, [])
    assert chunk_texts(collection) == before
    assert take_in(collection, papers).outdated == 0


def test_records_of_standard_input_have_no_file_to_read_anew(
    tmp_path: Path, papers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = new_collection(tmp_path, "records")
    take_in_records(collection, {"id": "r1", "text": prose(1)})
    monkeypatch.setattr(parser_registry, "PARSER_VERSIONS", {**parser_registry.PARSER_VERSIONS, "jsonl": "2"})
    assert take_in(collection, papers, refresh=True).outdated == 0
    take_in_records(collection, {"id": "r1", "text": prose(1)})
    assert versions(collection)["r1"] == ("jsonl", "2")


def test_a_dry_run_names_what_would_be_refreshed(
    collection: Collection, papers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    improve_text_parser(monkeypatch)
    options = IngestOptions(read=READ_HERE, dry_run=True, refresh=True)
    report = ingest(collection, (papers,), HashEncoder, options)
    assert sorted(report.refreshed) == ["a.txt", "b.txt"]
    assert versions(collection)["a.txt"] == ("text", "1")


def test_the_command_line_says_it_once_and_shows_versions(
    tmp_path: Path, papers: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAGCLI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    call = ["ingest", str(papers), "-c", "plain", "--encoder", "none"]
    assert main(call) == 0
    monkeypatch.setattr(parser_registry, "PARSER_VERSIONS", {**parser_registry.PARSER_VERSIONS, "text": "2"})
    capsys.readouterr()
    assert main(call) == 0
    said = capsys.readouterr().err
    assert said.count("2 documents were read by an older parser; --refresh reads them anew.") == 1
    assert main([*call, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outdated"] == 2
    assert main([*call, "--refresh", "--dry-run"]) == 0
    assert "would refresh a.txt" in capsys.readouterr().out
    assert main([*call, "--refresh"]) == 0
    done = capsys.readouterr()
    assert "2 refreshed, 1 unchanged" in done.out
    assert "older parser" not in done.err
    assert main(["documents", "-c", "plain", "--json"]) == 0
    rows = {row["source"]: (row["parser"], row["parser_version"]) for row in json.loads(capsys.readouterr().out)}
    assert rows["a.txt"] == ("text", "2")

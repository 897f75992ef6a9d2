"""What is said of documents: by themselves, by sidecars, by their place, by `--meta`; typed, and one over the other."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.collection_builders import HashEncoder, new_collection, take_in, take_in_records, write_files

from ragcli.__main__ import main
from ragcli.collection import Collection
from ragcli.collection.store.metadata_layers import (
    MetadataLayers,
    clean_metadata,
    decode_metadata,
    encode_metadata,
    merge_layers,
)
from ragcli.documents.metadata_normalization import parse_assignments
from ragcli.errors import UsageError
from ragcli.text.datetimes import date_text, epoch_seconds, parse_date
from ragcli.types import MetadataValue

NOTE = """---
title: Noise in short circuits
authors: Kristan Temme; Sergey Bravyi
date: 2017-05-03
tags: [noise, zne]
draft: false
---
Errors grow with depth.
"""


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    return new_collection(tmp_path)


def said_of(collection: Collection, source: str) -> Mapping[str, MetadataValue]:
    with collection.snapshot() as snapshot:
        return snapshot.document(source).metadata


def test_a_document_is_described_by_itself_and_by_its_place(collection: Collection, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "papers", {"qec/Surface.md": NOTE})
    os.utime(folder / "qec/Surface.md", (1_000_000_000, 1_000_000_000))
    take_in(collection, folder)
    assert said_of(collection, "qec/Surface.md") == {
        "title": "Noise in short circuits",
        "author": ["Kristan Temme", "Sergey Bravyi"],
        "date": date(2017, 5, 3),
        "year": 2017,
        "tag": ["noise", "zne"],
        "draft": False,
        "kind": "markdown",
        "path": str(folder / "qec/Surface.md"),
        "file": "Surface.md",
        "folder": ["papers", "qec"],
        "suffix": "md",
        "modified": datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC),
    }


@pytest.mark.parametrize("name", ["a.md.meta.toml", "a.meta.toml", "a.md.meta.json", "a.meta.json"])
def test_a_sidecar_speaks_over_the_document_and_meta_over_the_sidecar(
    collection: Collection, tmp_path: Path, name: str
) -> None:
    told = {"title": "Another title", "year": 2019, "authors": ["Ada Example"], "rating": 4.5, "topic": "noise"}
    lines = "\n".join(f"{key} = {json.dumps(value)}" for key, value in told.items())
    folder = write_files(tmp_path / "in", {"a.md": NOTE, name: lines if name.endswith("toml") else json.dumps(told)})
    report = take_in(collection, folder, meta={"topic": "errors", "tag": None})
    assert (report.added, dict(report.skipped)) == (("a.md",), {})
    said = said_of(collection, "a.md")
    assert said | {"path": "", "modified": "", "created": ""} == {
        "title": "Another title",
        "author": ["Ada Example"],
        "year": 2019,
        "draft": False,
        "rating": 4.5,
        "topic": "errors",
        "kind": "markdown",
        "file": "a.md",
        "folder": ["in"],
        "suffix": "md",
        "path": "",
        "modified": "",
        "created": "",
    }
    with collection.snapshot() as snapshot:
        assert snapshot.document("a.md").title == "Another title"
        assert next(iter(snapshot.document_chunks(snapshot.document("a.md").document_id))).title == "Another title"


def test_a_changed_sidecar_changes_metadata_and_nothing_is_parsed_or_embedded(
    collection: Collection, tmp_path: Path
) -> None:
    folder = write_files(tmp_path / "in", {"a.md": NOTE, "b.md": "b", "a.md.meta.toml": "year = 2019"})
    take_in(collection, folder)
    with collection.snapshot() as snapshot:
        before = snapshot.generation, snapshot.document("a.md").ingested_at, snapshot.row_numbers.tolist()
    encoder = HashEncoder()

    write_files(folder, {"a.md.meta.toml": "topic = 'noise'"})
    report = take_in(collection, folder, encoder=encoder)
    assert (report.described, report.unchanged, report.added, report.changed) == (("a.md",), 2, (), ())
    assert {"year": 2017, "topic": "noise"}.items() <= said_of(collection, "a.md").items()
    (folder / "a.md.meta.toml").unlink()
    assert take_in(collection, folder, encoder=encoder).described == ("a.md",)
    assert "topic" not in said_of(collection, "a.md")
    assert take_in(collection, folder, encoder=encoder).described == ()

    assert encoder.texts == []
    with collection.snapshot() as snapshot:
        after = snapshot.generation, snapshot.document("a.md").ingested_at, snapshot.row_numbers.tolist()
    assert (after[0] > before[0], after[1:]) == (True, before[1:])
    assert collection.verify() == ()


def test_what_meta_said_holds_until_something_else_is_said(collection: Collection, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a.md": "one"})
    take_in(collection, folder, meta={"topic": "noise", "read": True})
    write_files(folder, {"a.md": "two", "b.md": "new"})
    take_in(collection, folder)
    assert said_of(collection, "a.md")["topic"] == "noise"
    assert "topic" not in said_of(collection, "b.md")
    report = take_in(collection, folder, meta={"topic": None, "year": 2020})
    assert report.described == ("a.md", "b.md")
    assert "topic" not in said_of(collection, "a.md")
    assert {"read": True, "year": 2020}.items() <= said_of(collection, "a.md").items()
    assert collection.verify() == ()


def test_a_record_keeps_what_is_said_of_its_file(collection: Collection, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"c.jsonl": '{"id": "r1", "text": "one", "topic": "own"}\n'})
    take_in(collection, folder, meta={"team": "theory"})
    write_files(folder, {"c.jsonl": '{"id": "r1", "text": "one", "topic": "own"}\n{"id": "r2", "text": "two"}\n'})
    write_files(folder, {"c.meta.json": '{"topic": "noise"}'})
    take_in(collection, folder)
    for record in ("r1", "r2"):
        assert {"team": "theory", "topic": "noise"}.items() <= said_of(collection, record).items()


@pytest.mark.parametrize(
    ("date", "year"),
    [
        ("1700000000", None),
        ("1714521600000", None),
        ('"1700000000"', None),
        ("20244", None),
        ("20240501", 2024),
        ('"20240501T120000"', 2024),
        ('"2024/5/1"', 2024),
        ("2024", 2024),
    ],
)
def test_a_long_number_that_begins_like_a_year_names_none(
    collection: Collection, tmp_path: Path, date: str, year: int | None
) -> None:
    take_in(collection, write_files(tmp_path / "in", {"c.jsonl": f'{{"id": "r", "text": "one", "date": {date}}}\n'}))
    assert said_of(collection, "r").get("year") == year


def test_records_from_a_stream_are_described_each_by_its_own_call(tmp_path: Path) -> None:
    from ragcli.collection import IngestOptions, ingest_jsonl

    collection = new_collection(tmp_path, encoder="none")

    def take(record: str, topic: str) -> None:
        lines = [json.dumps({"id": record, "text": record}).encode()]
        ingest_jsonl(collection, lines, HashEncoder, IngestOptions(meta={"topic": topic}))

    take("r1", "noise")
    take("r2", "codes")
    assert (said_of(collection, "r1")["topic"], said_of(collection, "r2")["topic"]) == ("noise", "codes")
    take("r1", "codes")
    take_in_records(collection, {"id": "r2", "text": "another text"})
    assert (said_of(collection, "r1")["topic"], said_of(collection, "r2")["topic"]) == ("codes", "codes")
    assert collection.verify() == ()


def test_a_moved_file_is_described_by_its_new_place(collection: Collection, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"old/a.md": NOTE, "old/a.meta.toml": "topic = 'noise'"})
    take_in(collection, folder)
    (folder / "new").mkdir()
    (folder / "old/a.md").rename(folder / "new/a.md")
    encoder = HashEncoder()
    assert take_in(collection, folder, encoder=encoder).moved == (("old/a.md", "new/a.md"),)
    said = said_of(collection, "new/a.md")
    assert said["folder"] == ["in", "new"]
    assert "topic" not in said
    assert encoder.texts == []
    assert collection.verify() == ()


def test_a_touched_file_has_a_new_time(collection: Collection, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a.md": NOTE})
    take_in(collection, folder)
    os.utime(folder / "a.md", (1_000_000_000, 1_000_000_000))
    report = take_in(collection, folder)
    assert (report.unchanged, report.described) == (1, ())
    assert said_of(collection, "a.md")["modified"] == datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)


@pytest.mark.parametrize("broken", ["year = ", "[1, 2", "\xff", "[" * 100_000, "topic = nan", "topic = -inf"])
def test_a_sidecar_that_cannot_be_read_is_told_and_changes_nothing(
    collection: Collection, tmp_path: Path, broken: str
) -> None:
    folder = write_files(tmp_path / "in", {"a.md": NOTE, "a.meta.toml": "topic = 'noise'"})
    take_in(collection, folder)
    (folder / "a.meta.toml").write_bytes(broken.encode("latin-1"))
    report = take_in(collection, folder)
    (warning,) = report.warnings
    assert (warning.source, report.described) == ("a.md", ())
    assert "a.meta.toml" in warning.reason
    assert said_of(collection, "a.md")["topic"] == "noise"


@pytest.mark.parametrize(("name", "digits"), [("a.md.meta.json", '{"n": %s}'), ("a.md.meta.toml", "n = %s")])
def test_a_number_too_long_is_told_without_pythons_own_words(
    collection: Collection, tmp_path: Path, name: str, digits: str
) -> None:
    folder = write_files(tmp_path / "in", {"a.md": NOTE, name: digits % ("9" * 5000)})
    (warning,) = take_in(collection, folder).warnings
    assert "it has a number that is too long" in warning.reason
    assert "set_int_max_str_digits" not in warning.reason


def test_a_key_of_endless_parts_is_refused_before_it_is_read(collection: Collection, tmp_path: Path) -> None:
    # The library that reads TOML takes the square of them, which for a megabyte is hours.
    endless, said = "a." * 300 + "a = 1\n", 'topic = "1.2.3"\nnote = "' + "…. " * 300 + '"\na.b.c = 1\n'
    texts = {"a.md": NOTE, "a.md.meta.toml": endless, "b.md": NOTE + "b", "b.md.meta.toml": said}
    (warning,) = take_in(collection, write_files(tmp_path / "in", texts)).warnings
    assert (warning.source, "a key has more than 100 parts (at line 1)" in warning.reason.lower()) == ("a.md", True)
    assert said_of(collection, "b.md")["topic"] == "1.2.3"


def test_lists_and_sets_in_front_matter_and_sidecars_are_lists_of_texts_as_written(
    collection: Collection, tmp_path: Path
) -> None:
    front = "---\nflags: [true, no, 3, x]\nwords: !!set {beta, alpha, gamma}\ndeep: [{in: !!set {b, a}}]\n---\n"
    sidecar = json.dumps({"more": [True, 2024, "x"], "": "nameless", "  ": "blank"})
    folder = write_files(tmp_path / "in", {"a.md": front + "# A\n\nText.\n", "a.md.meta.json": sidecar})
    take_in(collection, folder)
    said = said_of(collection, "a.md")
    assert said["flags"] == ["true", "false", "3", "x"]
    assert said["words"] == ["alpha", "beta", "gamma"]
    assert said["deep"] == '[{"in": ["a", "b"]}]'
    assert said["more"] == ["true", "2024", "x"]
    assert "" not in said, "a key without a name could be asked for by nobody"


def test_a_sidecar_alone_is_no_document_and_a_link_is_no_sidecar(collection: Collection, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a.md": NOTE, "gone.pdf.meta.json": "{}", ".hidden.meta.toml": ""})
    write_files(tmp_path / "elsewhere", {"secret.toml": "password = 'x'"})
    (folder / "a.meta.toml").symlink_to(tmp_path / "elsewhere/secret.toml")
    report = take_in(collection, folder)
    assert report.skipped["sidecar without a document"] == 1
    assert "password" not in said_of(collection, "a.md")
    take_in(collection, folder / "a.md")
    assert "password" not in said_of(collection, "a.md")


@pytest.mark.parametrize("named", ["in", "in/a.md"])
@pytest.mark.parametrize("kind", ["link out", "link within", "broken link", "folder"])
def test_what_takes_the_place_of_a_sidecar_is_told_and_what_it_said_before_holds(
    collection: Collection, tmp_path: Path, named: str, kind: str
) -> None:
    folder = write_files(tmp_path / "in", {"a.md": NOTE, "a.md.meta.toml": "team = 'alpha'", "b.txt": "team = 'beta'"})
    take_in(collection, folder)
    sidecar = folder / "a.md.meta.toml"
    sidecar.unlink()
    if kind == "folder":
        sidecar.mkdir()
    else:
        write_files(tmp_path / "elsewhere", {"other.toml": "team = 'beta'"})
        targets = {"link out": tmp_path / "elsewhere/other.toml", "link within": folder / "b.txt"}
        sidecar.symlink_to(targets.get(kind, folder / "gone"))
    report = take_in(collection, tmp_path / named)
    assert [warning.source for warning in report.warnings] == ["a.md"]
    assert "what it said before holds" in report.warnings[0].reason
    assert said_of(collection, "a.md")["team"] == "alpha"


def test_a_file_named_by_itself_has_its_sidecar_too(collection: Collection, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a.md": NOTE, "a.md.meta.json": '{"topic": "noise"}'})
    take_in(collection, folder / "a.md")
    assert said_of(collection, "a.md")["topic"] == "noise"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            ["a=1", "b=1.5", "c=true", "d=2024-05-01", "e=word", 'f="7"'],
            {"a": 1, "b": 1.5, "c": True, "d": date(2024, 5, 1), "e": "word", "f": "7"},
        ),
        (["tag=noise", "tag=zne"], {"tag": ["noise", "zne"]}),
        (["tags=noise, zne"], {"tag": ["noise", "zne"]}),
        (['list=["a", "b"]'], {"list": ["a", "b"]}),
        (["x=a", "x=b"], {"x": ["a", "b"]}),
        (["topic="], {"topic": None}),
        (["a=b=c"], {"a": "b=c"}),
        (["date=2024-05-01"], {"date": date(2024, 5, 1), "year": 2024}),
        (["doi=https://doi.org/10.1/x", "arxiv=arXiv:1612.02058"], {"doi": "10.1/x", "arxiv": "1612.02058"}),
        (["a=nan", "b=inf", "c=1e999", "d=1_000"], {"a": "nan", "b": "inf", "c": "1e999", "d": "1_000"}),
        (["when=2024-05-01T10:00+02:00"], {"when": datetime(2024, 5, 1, 8, tzinfo=UTC)}),
        (["when=2024-13-01"], {"when": "2024-13-01"}),
    ],
)
def test_a_value_on_the_command_line_has_a_type(given: list[str], expected: dict[str, MetadataValue | None]) -> None:
    assert parse_assignments(given) == expected
    assert {key: type(value) for key, value in parse_assignments(given).items()} == {
        k: type(v) for k, v in expected.items()
    }


@pytest.mark.parametrize("given", [["word"], ["=x"], ["x=1", "x="], ['x=["a"'], [" =1"]])
def test_what_is_no_assignment_is_refused(given: list[str]) -> None:
    with pytest.raises(UsageError):
        parse_assignments(given)


VALUES = st.one_of(
    st.text(max_size=20),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.dates(),
    st.datetimes(timezones=st.just(UTC)).map(lambda each: each.replace(microsecond=0)),
    st.lists(st.text(max_size=8), max_size=3),
)


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=5))
def test_metadata_come_back_from_the_store_as_they_were(metadata: dict[str, MetadataValue]) -> None:
    cleaned = clean_metadata(metadata)
    back = decode_metadata(encode_metadata(cleaned))
    assert back == cleaned
    assert {key: type(value) for key, value in back.items()} == {key: type(each) for key, each in cleaned.items()}


@given(st.one_of(st.dates(), st.datetimes(timezones=st.just(UTC)).map(lambda each: each.replace(microsecond=0))))
def test_a_date_is_what_its_text_says_and_is_in_order(value: date) -> None:
    back = parse_date(date_text(value))
    assert back == value
    assert type(back) is type(value)
    assert (epoch_seconds(value) < epoch_seconds(date(2000, 1, 1))) == (value.isoformat() < "2000-01-01")


@pytest.mark.parametrize(
    "text", ["2024-02-30", "2024-5-1", "24-05-01", "2024-05-01 x", "2024-05-01T25:00", "٢٠٢٤-05-01", ""]
)
def test_what_looks_like_a_date_and_is_none_is_text(text: str) -> None:
    assert parse_date(text) is None


def test_a_date_brings_its_year_and_a_year_drops_the_date_of_another() -> None:
    read = {"year": 2017, "date": date(2017, 5, 3)}
    assert merge_layers({}, MetadataLayers(read, {"date": date(2020, 1, 1)})) == {
        "year": 2020,
        "date": date(2020, 1, 1),
    }
    assert merge_layers({}, MetadataLayers(read, {"year": 2020})) == {"year": 2020}
    assert merge_layers({}, MetadataLayers(read, {"year": 2017})) == read
    assert merge_layers({"a": 1}, MetadataLayers({"a": 2, "b": ["x"]}, {"a": None}, {"b": []})) == {}


def test_the_keys_there_are_are_listed_with_types_counts_and_examples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAGCLI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    folder = write_files(tmp_path / "in", {"a.md": NOTE, "b.md": "---\nyear: '2017b'\ntags: noise\n---\nb"})
    assert main(["ingest", str(folder), "-c", "p", "--encoder", "none", "--meta", "read=2024-06-01"]) == 0
    capsys.readouterr()
    assert main(["documents", "-c", "p", "--fields", "--json"]) == 0
    fields = {each.pop("key"): each for each in json.loads(capsys.readouterr().out)}
    assert fields["tag"] == {"collection": "p", "types": ["list"], "documents": 2, "examples": ["noise", "zne"]}
    assert fields["year"] == {"collection": "p", "types": ["number"], "documents": 2, "examples": [2017]}
    assert fields["read"] == {"collection": "p", "types": ["date"], "documents": 2, "examples": ["2024-06-01"]}
    assert fields["draft"]["examples"] == [False]
    assert main(["documents", "-c", "p", "--fields"]) == 0
    shown = capsys.readouterr().out
    assert "noise, zne" in shown
    assert main(["documents", "-c", "p", "--json"]) == 0
    documents = json.loads(capsys.readouterr().out)
    assert documents[0]["metadata"]["date"] == "2017-05-03"
    assert documents[0]["metadata"]["draft"] is False
    assert main(["ingest", str(folder), "-c", "p", "--meta", "nonsense"]) == 2
    assert "--meta team=theory" in capsys.readouterr().err

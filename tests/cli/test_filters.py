"""--where, --filter, --since and --until, as a person and a script use them."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest
from tests.support.cli_calls import Ragcli, caller
from tests.support.collection_builders import write_files
from tests.support.model_cache import with_shared_exports
from tests.support.tiny_models import tiny_encoder

from ragcli.__main__ import main
from ragcli.text.characters import column_width

NOTES = {
    "zne.md": "---\nyear: 2017\nauthors: [Kristan Temme, Sergey Bravyi]\ntags: [noise, zne]\ndate: 2017-11-03\n---\n",
    "vqe.md": "---\nyear: 2014\nauthors: [Alberto Peruzzo]\ntags: [vqe]\n---\n",
    "pec.md": "---\nyear: 2018\nauthors: [Suguru Endo]\ntags: [noise]\ndraft: true\ndate: 2018-07-26\n---\n",
    "plain.md": "",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a data folder in it, which has the collection `notes`."""
    home = tmp_path_factory.mktemp("filters")
    encoder = tiny_encoder(home / "encoder")
    text = "# Errors\n\nThe error of a quantum method is low, and the value has a bound.\n"
    write_files(home / "notes", {name: front + text for name, front in NOTES.items()})
    os.utime(home / "notes" / "plain.md", (1_400_000_000, 1_400_000_000))  # 13 May 2014
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGCLI_DATA_DIR", str(home / "data"))
        patch.setenv("RAGCLI_CACHE_DIR", str(with_shared_exports(home / "cache")))
        patch.setattr(sys, "stdout", io.StringIO())
        patch.setattr(sys, "stderr", io.StringIO())
        assert main(["ingest", str(home / "notes"), "-c", "notes", "--encoder", str(encoder)]) == 0
    return home


@pytest.fixture
def ragcli(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ragcli:
    return caller(home / "data", tmp_path, monkeypatch, capsys)


def found(ragcli: Ragcli, *options: str) -> dict[str, set[str]]:
    """The names that each command finds under a filter."""
    calls = {
        "query": ("query", "the error of a method", "--keep-duplicates", "--top", "10"),
        "ask": ("ask", "the error of a method", "--override", "--top", "10"),
        "grep": ("grep", "quantum method"),
        "documents": ("documents",),
    }
    names = {}
    for name, call in calls.items():
        answer = ragcli(*call, *options, "--json")
        assert answer.err == "" or name == "ask", answer.err
        records = answer.json["evidence"] if name == "ask" else answer.json
        names[name] = {record["source"] for record in records}
    return names


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (["--where", 'year >= 2017 and author ~ "temme" and tag in ["noise", "x"] and not draft'], {"zne.md"}),
        (["--where", "year >= 2017", "--where", "not draft"], {"zne.md"}),
        (["--filter", '{"$and": [{"year": {"$gte": 2017}}, {"tag": {"$in": ["noise"]}}]}'], {"zne.md", "pec.md"}),
        (["--where", "tag = 'noise'", "--filter", '{"year": 2018}'], {"pec.md"}),
        (["--since", "2018"], {"pec.md"}),
        (["--since", "2017-11-03", "--until", "2017"], {"zne.md"}),
        (["--until", "2014-06"], {"vqe.md", "plain.md"}),
        (["--since", "2015-01-01T00:30+02:00", "--until", "2015"], {"vqe.md"}),
        (["--since", "2014", "--until", "2013-12-31T23:30-02:00"], {"vqe.md"}),
        (["--since", "2000", "--where", "exists year"], {"zne.md", "pec.md", "vqe.md"}),
        (["--where", "not exists year"], {"plain.md"}),
        (["--where", "file like 'p%.md'"], {"pec.md", "plain.md"}),
    ],
)
def test_every_command_keeps_to_the_documents_that_meet_the_filter(
    ragcli: Ragcli, options: list[str], kept: set[str]
) -> None:
    names = found(ragcli, *options)
    # What says the same is evidence once.
    assert set() < names.pop("ask") <= kept
    assert names == dict.fromkeys(names, kept)


def test_exact_search_lists_and_counts_under_a_filter(ragcli: Ragcli) -> None:
    listed = ragcli("grep", "quantum", "-l", "--where", "year > 2014")
    assert sorted(Path(line).name for line in listed.out.splitlines()) == ["pec.md", "zne.md"]
    assert ragcli("grep", "quantum", "--count", "--since", "3000").code == 1
    assert ragcli("grep", "quantum", "--where", "false").code == 1


@pytest.mark.parametrize("command", [("query", "x"), ("ask", "x"), ("grep", "x"), ("documents",)])
def test_a_bad_expression_is_shown_with_a_caret_under_the_fault(ragcli: Ragcli, command: tuple[str, ...]) -> None:
    answer = ragcli(*command, "--where", 'year >= and author ~ "Temme"')
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err == (
        "ragcli: The filter cannot be read: there is `and` where it needs a value.\n"
        '  year >= and author ~ "Temme"\n'
        "          ^\n"
    )
    assert ragcli(*command, "--filter", '{"year": {"$gtr": 1}}').code == 2
    assert ragcli(*command, "--since", "last week").code == 2


def test_a_bad_json_filter_is_shown_with_a_caret_too(ragcli: Ragcli) -> None:
    answer = ragcli("documents", "--filter", '{"year" 2017}')
    assert answer.err.splitlines()[1:] == ['  {"year" 2017}', "          ^"]


@pytest.mark.parametrize("width", [60, 33])
@pytest.mark.parametrize("wide", ["", "著者著者 = '日本' and "])
def test_the_caret_points_at_the_fault_on_a_narrow_terminal_too(
    ragcli: Ragcli, monkeypatch: pytest.MonkeyPatch, width: int, wide: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for before, after in ((20, 0), (20, 20), (0, 20)):
        answer = ragcli("documents", "--where", "year = 1 or " * before + wide + "year = oops" + " or year = 1" * after)
        shown, caret = answer.err.splitlines()[1:]
        columns = "".join(letter * column_width(letter) for letter in shown)
        assert len(columns) <= width
        assert columns[caret.index("^") :].startswith("oops")


def test_control_characters_of_an_expression_do_not_reach_the_terminal(ragcli: Ragcli) -> None:
    answer = ragcli("documents", "--where", "a = \x1b]0;x\x07 \x9b2J")
    assert answer.code == 2
    assert not set(answer.err) & {"\x1b", "\x07", "\x9b"}


@pytest.mark.parametrize(
    ("key", "hint"),
    [("yaer", "did you mean 'year'?"), ("Authors", "did you mean 'author'?"), ("qqq", "`ragcli documents --fields`")],
)
def test_a_key_that_no_document_has_is_told_and_is_no_error(ragcli: Ragcli, key: str, hint: str) -> None:
    for command in (("query", "error"), ("grep", "error"), ("documents",)):
        answer = ragcli(*command, "--where", f"{key} = 2017 or year = 2017")
        assert answer.code == 0
        assert answer.err.startswith(f"ragcli: no document has the key '{key}'; ")
        assert hint in answer.err
    assert ragcli("documents", "--where", "not exists year or year = 1").err == ""


def test_fields_and_filters_exclude_each_other(ragcli: Ragcli) -> None:
    assert ragcli("documents", "--fields", "--where", "true").code == 2


def test_the_agent_and_query_techniques_stay_within_the_filter(ragcli: Ragcli) -> None:
    answer = ragcli("query", "the error of a method", "--expand", "rm3", "--where", "draft", "--json")
    assert {record["source"] for record in answer.json} == {"pec.md"}
    told = ragcli("ask", "the error of a method", "--agent", "--where", "draft", "--json")
    assert "pec.md" in told.out
    assert not any(name in told.out for name in ("zne.md", "vqe.md", "plain.md"))


def test_json_of_a_filtered_query_is_that_of_any_query(ragcli: Ragcli) -> None:
    plain = ragcli("query", "the error of a method", "--json").json[0]
    kept = ragcli("query", "the error of a method", "--where", "true", "--json").json[0]
    assert json.dumps(plain) == json.dumps(kept)


def test_pipelines_are_measured_among_the_documents_that_meet_the_filter(ragcli: Ragcli, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps({"query": "error of a method", "relevant_ids": ["zne.md"]}) + "\n")

    def measured(*options: str) -> tuple[float, list[str]]:
        call = ("eval", str(questions), "-c", "notes", "--compare", "bm25", "--metric", "R@10", "--json", *options)
        answer = ragcli(*call)
        assert answer.code == 0, answer.err
        return answer.json["pipelines"][0]["measures"]["R@10"], answer.json["data"]["notes"]

    assert measured()[0] == 1.0
    assert measured("--where", "year = 2017") == (1.0, ["Ranked are only documents that meet: year = 2017"])
    assert measured("--where", "year != 2017")[0] == 0.0
    (tmp_path / "x.run").write_text("1 Q0 zne.md 1 1.0 x\n")
    (tmp_path / "x.qrels").write_text("1 0 zne.md 1\n")
    files = ("--run", str(tmp_path / "x.run"), "--qrels", str(tmp_path / "x.qrels"))
    assert ragcli("eval", *files).code == 0
    refused = ragcli("eval", *files, "--where", "true")
    assert refused.code == 2
    assert "A filter is for pipelines" in refused.err

"""The commands, called as a person calls them, on real files and a real store.

Most calls run in this process, which costs milliseconds; what only a process shows (exit codes, closed pipes,
Ctrl-C) is in test_cli_process.py.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from scripts.make_papers import write_papers
from tests.support.cli_calls import Called, Ragcli, caller
from tests.support.tiny_models import tiny_cross_encoder, tiny_encoder

from ragcli.__main__ import main
from ragcli.cli.render.ingest_report import report_summary
from ragcli.collection import IngestReport


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny encoder, exported once for all tests of this file."""
    return tiny_encoder(tmp_path_factory.mktemp("models") / "encoder")


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_cross_encoder(tmp_path_factory.mktemp("models") / "cross")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("given") / "papers"
    write_papers(folder)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, papers: Path, encoder: Path, cache: Path) -> Path:
    """A data folder with the collection `papers`. Not for tests that write; `ragcli_on_copy` is."""
    data = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(data)
        patch.setenv("RAGCLI_DATA_DIR", str(data))
        patch.setenv("RAGCLI_CACHE_DIR", str(cache))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr(sys, "stdout", io.StringIO())
        patch.setattr(sys, "stderr", io.StringIO())
        assert main(["ingest", str(papers), "-c", "papers", "--encoder", str(encoder)]) == 0, sys.stderr.getvalue()
    return data


@pytest.fixture
def ragcli(
    made: Path, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Ragcli:
    """Calls ragcli on the made collection, from an empty folder, for a user who configured nothing."""
    return caller(made, tmp_path, monkeypatch, capsys, cache=cache)


@pytest.fixture
def ragcli_on_copy(ragcli: Ragcli, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ragcli:
    """As `ragcli`, on a copy of the collection that may be changed."""
    shutil.copytree(made, tmp_path / "data")
    monkeypatch.setenv("RAGCLI_DATA_DIR", str(tmp_path / "data"))
    return ragcli


QUESTION = "negative average null energy wormhole"


# query


def test_a_question_finds_the_paper_and_its_page(ragcli: Ragcli) -> None:
    answer = ragcli("query", QUESTION, "--json")
    assert answer.code == 0, answer.err
    first = answer.json[0]
    assert (first["rank"], first["source"], first["page_start"]) == (1, "wormhole.pdf", 2)
    assert first["collection"] == "papers"
    assert first["title"] == "How a Wormhole Becomes Traversable"
    assert Path(first["path"]).name == "wormhole.pdf"
    assert {"bm25", "dense", "rerank"} <= first["scores"].keys()


def test_the_table_shows_source_page_and_passage_and_says_what_ran(ragcli: Ragcli) -> None:
    answer = ragcli("query", QUESTION, "-c", "papers", "--top", "2")
    assert answer.code == 0
    assert "wormhole.pdf, p. 2" in answer.out
    assert "negative average null" in answer.out
    assert "2 hits (hybrid, reranked by late" in answer.out
    assert answer.err == ""


@pytest.mark.parametrize("pipeline", ["classic", "hybrid", "bm25", "tfidf", "dense"])
def test_every_pipeline_answers(ragcli: Ragcli, pipeline: str) -> None:
    answer = ragcli("query", QUESTION, "--pipeline", pipeline, "--json", "--top", "3")
    assert answer.code == 0, answer.err
    assert [hit["rank"] for hit in answer.json] == [1, 2, 3]
    # The tiny encoder's weights are random, so of its own order nothing can be expected.
    assert pipeline == "dense" or answer.json[0]["source"] == "wormhole.pdf"


def test_without_reranking_the_first_stages_own_order_is_shown(ragcli: Ragcli) -> None:
    answer = ragcli("query", QUESTION, "--pipeline", "classic", "--no-rerank", "--json")
    assert {hit["score_type"] for hit in answer.json} == {"cosine"}
    assert {hit["reranker"] for hit in answer.json} == {None}
    assert [hit["score"] for hit in answer.json] == sorted((hit["score"] for hit in answer.json), reverse=True)


def test_a_cross_encoder_in_a_folder_reranks(ragcli: Ragcli, cross_encoder: Path) -> None:
    answer = ragcli("query", QUESTION, "--reranker", str(cross_encoder), "--json")
    assert answer.code == 0, answer.err
    assert answer.json[0]["reranker"] == str(cross_encoder)


def test_the_forms_for_scripts_hold_the_same_hits(ragcli: Ragcli) -> None:
    whole = ragcli("query", QUESTION, "--json", "--top", "4").json
    lines = ragcli("query", QUESTION, "--jsonl", "--top", "4").out.splitlines()
    paths = ragcli("query", QUESTION, "--paths", "--top", "4").out.splitlines()
    assert [json.loads(line)["chunk_id"] for line in lines] == [hit["chunk_id"] for hit in whole]
    assert paths == list(dict.fromkeys(hit["path"] for hit in whole))
    assert ragcli("query", QUESTION, "--json", "--paths").code == 2


def test_the_number_of_hits_from_one_document_can_be_limited(ragcli: Ragcli) -> None:
    hits = ragcli("query", QUESTION, "--json", "--top", "4", "--max-per-source", "1").json
    assert len({hit["source"] for hit in hits}) == len(hits) == 4


def test_explain_adds_scores_and_times_beside_the_data(ragcli: Ragcli) -> None:
    shown = ragcli("query", QUESTION, "--explain")
    assert "Scores" in shown.out
    assert "Times" in shown.out
    answer = ragcli("query", QUESTION, "--explain", "--json")
    assert answer.json[0]["rank"] == 1
    assert "Times" in answer.err


def test_the_question_may_come_through_stdin(ragcli: Ragcli) -> None:
    piped = ragcli("query", "-", "--json", stdin=QUESTION.encode() + b"\n")
    assert [hit["chunk_id"] for hit in piped.json] == [
        hit["chunk_id"] for hit in ragcli("query", QUESTION, "--json").json
    ]
    too_long = ragcli("query", "-", stdin=b"x" * (1 << 20))
    assert (too_long.code, too_long.out) == (3, "")
    assert "20,000 characters" in too_long.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["query", ""], 2, "empty"),
        (["query", "x", "--top", "0"], 2, "--top"),
        (["query", "x", "--top", "many"], 2, "--top takes a whole number, not 'many'"),
        (["query", "x", "--pipeline", "magic"], 2, "hybrid"),
        (["query", "x", "--pool", "-3"], 2, "--pool"),
        (["query", "x", "--no-rerank", "--reranker", "late"], 2, "exclude"),
        (["query", "x", "-c", "nothing"], 3, "papers"),
        (["query", "x", "-c", "../papers"], 2, "cannot name a collection"),
        (["query"], 2, "TEXT"),
        (["query", "a", "b"], 2, "b"),
        (["query", "x", "--reranker", "no-such/model-anywhere"], 5, "no-such/model-anywhere"),
    ],
)
def test_a_query_that_makes_no_sense_is_told_in_one_line(
    ragcli: Ragcli, arguments: list[str], code: int, words: str
) -> None:
    answer = ragcli(*arguments)
    assert answer.code == code, answer.err
    assert answer.out == ""
    assert answer.err.startswith("ragcli: ")
    assert answer.err.count("\n") == 1
    assert words in answer.err


@pytest.mark.parametrize(
    "text", ["x", "the of and", "🙂🙃", "漢字", "مرحبا", "a\x00b", "\ud800", "?" * 5000, "naïve cafe\u0301"]
)
def test_any_question_gets_an_answer(ragcli: Ragcli, text: str) -> None:
    answer = ragcli("query", text, "--json")
    assert answer.code == 0, answer.err
    assert isinstance(answer.json, list)


def test_a_changed_or_missing_file_is_told_and_strict_makes_it_an_error(
    ragcli: Ragcli, papers: Path, tmp_path: Path, encoder: Path
) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(papers, mine)
    data = ("--data-dir", str(tmp_path / "mine-data"))
    assert ragcli("ingest", str(mine), "-c", "mine", "--encoder", str(encoder), *data).code == 0
    assert ragcli("query", QUESTION, "--top", "1", *data).err == ""
    (mine / "wormhole.pdf").unlink()
    answer = ragcli("query", QUESTION, "--top", "1", *data)
    assert answer.code == 0
    assert answer.err.count("\n") == 1
    assert "wormhole.pdf" in answer.err
    strict = ragcli("query", QUESTION, "--top", "1", "--strict", *data)
    assert (strict.code, strict.out) == (3, "")
    assert "wormhole.pdf" in strict.err


def test_query_defaults_come_from_the_configuration(ragcli: Ragcli, tmp_path: Path) -> None:
    (tmp_path / "collections.toml").write_text("[query]\ntop = 2\npipeline = 'bm25'\n")
    hits = ragcli("query", "energy", "--json").json
    assert len(hits) == 2
    assert {hit["score_type"] for hit in hits} == {"bm25"}
    assert len(ragcli("query", "energy", "--json", "--top", "1").json) == 1
    (tmp_path / "collections.toml").write_text("[query]\npipeline = 'magic'\n")
    answer = ragcli("query", "energy")
    assert answer.code == 3
    assert "collections.toml" in answer.err


# grep


def test_a_phrase_is_found_across_a_line_break_with_its_page(ragcli: Ragcli) -> None:
    answer = ragcli("grep", "run circuits of short depth many times", "--json")
    assert answer.code == 0, answer.err
    assert [(hit["source"], hit["page"]) for hit in answer.json] == [("error-mitigation.pdf", 1)]
    assert set(answer.json[0]) == {
        *("source", "chunk_index", "match", "snippet", "start", "end", "collection", "page", "path"),
    }


def test_a_hit_is_shown_with_its_place_and_its_surroundings(ragcli: Ragcli) -> None:
    answer = ragcli("grep", "negative average null energy", "--context", "20")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].startswith("wormhole.pdf, p. 2")
    assert "negative average null energy" in lines[1]
    assert lines[1].startswith("  ...")


def test_the_match_is_marked_where_it_stands(ragcli: Ragcli) -> None:
    answer = ragcli("grep", "negative average null energy", "--color", "always")
    assert "\x1b[1;31mnegative average null energy\x1b[0m" in answer.out
    plain = ragcli("grep", "negative average null energy", "--color", "never")
    assert "\x1b" not in plain.out


def test_nothing_found_is_exit_1_and_silence(ragcli: Ragcli) -> None:
    assert ragcli("grep", "perpetual motion machine") == Called(1, "", "")
    assert ragcli("grep", "perpetual motion machine", "--json") == Called(1, "[]\n", "")


def test_more_hits_than_asked_for_are_marked_and_told(ragcli: Ragcli) -> None:
    answer = ragcli("grep", "the", "--max-hits", "2", "--json")
    assert len(answer.json) == 2
    assert answer.json[-1]["truncated"] is True
    assert "more than 2 hits" in answer.err
    everything = ragcli("grep", "the", "--all", "--json")
    assert len(everything.json) > 10
    assert everything.err == ""


def test_case_and_words_and_patterns(ragcli: Ragcli) -> None:
    assert ragcli("grep", "NEGATIVE average").code == 0
    assert ragcli("grep", "-E", "NEGATIVE average").code == 1
    assert ragcli("grep", "-E", "-i", "NEGATIVE averag.").code == 0
    assert ragcli("grep", "-w", "negat").code == 1
    assert ragcli("grep", "negat").code == 0
    answer = ragcli("grep", "-E", "(unclosed")
    assert answer.code == 2
    assert answer.err.count("\n") == 1


def test_only_names_or_only_numbers(ragcli: Ragcli, papers: Path) -> None:
    assert ragcli("grep", "-l", "null energy").out == f"{papers / 'wormhole.pdf'}\n"
    answer = ragcli("grep", "--count", "--all", "negative average null energy")
    assert answer.out == f"{papers / 'wormhole.pdf'}:2\n"
    counted = ragcli("grep", "--count", "--all", "negative average null energy", "--json").json
    assert [(each["source"], each["count"]) for each in counted] == [("wormhole.pdf", 2)]
    assert ragcli("grep", "-l", "--count", "x").code == 2
    assert ragcli("grep", "-l", "perpetual motion").code == 1


# ingest


def test_a_second_run_reads_nothing(ragcli_on_copy: Ragcli, papers: Path) -> None:
    answer = ragcli_on_copy("ingest", str(papers), "-c", "papers", "--json")
    assert answer.code == 0, answer.err
    assert answer.json["unchanged"] == 5
    assert answer.json["documents"] == answer.json["embedded"] == 0
    shown = ragcli_on_copy("ingest", str(papers), "-c", "papers")
    assert shown.out.startswith("papers: 5 unchanged in ")
    assert shown.out.count("\n") == 1


def test_a_bad_file_costs_itself_and_exit_4(ragcli: Ragcli, tmp_path: Path, encoder: Path) -> None:
    folder = tmp_path / "some"
    folder.mkdir()
    (folder / "good.md").write_text("# Good\n\nwords about energy\n")
    (folder / "bad.pdf").write_bytes(b"%PDF-1.4 and then nothing of use")
    (folder / "sheet.xlsx").write_bytes(b"PK")
    data = ("--data-dir", str(tmp_path / "d"))
    answer = ragcli("ingest", str(folder), "-c", "some", "--encoder", str(encoder), *data)
    assert answer.code == 4
    assert "1 added, 1 failed, 1 skipped (.xlsx)" in answer.out
    assert "bad.pdf" in answer.err
    assert ragcli("grep", "about energy", *data).code == 0
    report = ragcli("ingest", str(folder), "-c", "some", "--json", *data)
    assert report.code == 4
    assert [failure["source"] for failure in report.json["failures"]] == ["bad.pdf"]
    assert report.json["failures"][0]["reason"]


def test_a_dry_run_tells_and_changes_nothing(ragcli: Ragcli, papers: Path, tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "d"))
    answer = ragcli("ingest", str(papers), "-c", "new", "--dry-run", *data)
    assert answer.code == 0, answer.err
    assert "new: would have 5 added." in answer.out
    assert "would add wormhole.pdf" in answer.out
    assert ragcli("collections", "--json", *data).json == []


def test_gone_files_are_told_and_pruned_when_asked(ragcli: Ragcli, papers: Path, tmp_path: Path, encoder: Path) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(papers, mine)
    data = ("--data-dir", str(tmp_path / "d"))
    ragcli("ingest", str(mine), "-c", "mine", "--encoder", str(encoder), *data)
    (mine / "wormhole.pdf").unlink()
    kept = ragcli("ingest", str(mine), "-c", "mine", *data)
    assert "--prune" in kept.err
    assert ragcli("grep", "null energy", *data).code == 0
    assert ragcli("ingest", str(mine), "-c", "mine", "--prune", "--json", *data).json["removed"] == ["wormhole.pdf"]
    assert ragcli("grep", "null energy", *data).code == 1


def test_json_lines_come_through_stdin(ragcli: Ragcli, tmp_path: Path, encoder: Path) -> None:
    data = ("--data-dir", str(tmp_path / "d"))
    lines = b'{"_id": "a1", "title": "Cats", "text": "cat and mouse"}\nnot json\n{"id": "b2", "text": "dog and bank"}\n'
    answer = ragcli("ingest", "-", "-c", "corpus", "--encoder", str(encoder), "--json", *data, stdin=lines)
    assert answer.code == 4, answer.err
    assert answer.json["documents"] == 2
    assert "2" in answer.json["failures"][0]["source"] + answer.json["failures"][0]["reason"]
    hit = ragcli("grep", "cat and mouse", "--json", *data).json[0]
    assert hit["collection"] == "corpus"
    assert "Cats" in ragcli("show", "a1", *data).out


def test_other_settings_than_a_collection_was_made_with_are_refused(
    ragcli_on_copy: Ragcli, papers: Path, tmp_path: Path
) -> None:
    answer = ragcli_on_copy("ingest", str(papers), "-c", "papers", "--chunk-size", "800")
    assert answer.code == 3
    assert "ragcli reindex -c papers" in answer.err
    impossible = ragcli_on_copy("ingest", str(papers), "-c", "papers", "--chunk-size", "40")
    assert impossible.code == 2
    assert "50" in impossible.err
    (tmp_path / "collections.toml").write_text("[collections.papers]\noverlap = 100\n")
    assert "overlap" in ragcli_on_copy("ingest", str(papers), "-c", "papers").err
    (tmp_path / "collections.toml").write_text("[collections.papers]\noverlap = 200\n")
    assert ragcli_on_copy("ingest", str(papers), "-c", "papers").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["ingest"], 2, "Say what to ingest"),
        (["ingest", "-c", "papers"], 2, "no collections.toml"),
        (["ingest", "no-such-folder"], 3, "no-such-folder"),
        (["ingest", ""], 2, "not a path"),
        (["ingest", ".", "-c", "a/b"], 2, "cannot name a collection"),
        (["ingest", ".", "-c", "n", "--chunk-size", "20"], 2, "50"),
        (["ingest", ".", "-c", "n", "--overlap", "1200"], 2, "verlap"),
        (["ingest", ".", "-c", "n", "--pdf-engine", "word"], 2, "pdfium or pypdf"),
        (["ingest", ".", "-c", "n", "--parse-timeout", "nan"], 2, "--parse-timeout"),
        (["ingest", ".", "-c", "n", "--token-vectors", "some"], 2, "bits"),
        (["ingest", ".", "--config", "none.toml"], 3, "none.toml"),
    ],
)
def test_an_ingest_that_makes_no_sense_is_told_in_one_line(
    ragcli: Ragcli, tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    answer = ragcli(*arguments, "--data-dir", str(tmp_path / "d"))
    assert answer.code == code, answer.err
    assert answer.err.startswith("ragcli: ")
    assert answer.err.count("\n") == 1
    assert words in answer.err
    assert ragcli("collections", "--json", "--data-dir", str(tmp_path / "d")).json == []


def trusted(file: Path) -> None:
    """As if the user had said yes to it; test_trust.py has what happens otherwise."""
    from hashlib import sha256

    from ragcli.config.trust_policy import trust_config

    trust_config(file, sha256(file.read_bytes()).hexdigest())


def test_configured_collections_are_brought_up_to_date_without_a_path(
    ragcli: Ragcli, papers: Path, tmp_path: Path, encoder: Path
) -> None:
    shutil.copytree(papers, tmp_path / "library")
    (tmp_path / "collections.toml").write_text(
        f'data_dir = "index"\n[defaults]\nencoder = "{encoder}"\n'
        "[collections.pdfs]\npaths = ['library']\ninclude = ['*.pdf']\n"
        "[collections.notes]\npaths = ['library']\nexclude = ['*.pdf']\nchunk_size = 300\noverlap = 30\n"
        "[collections.empty]\n"
    )
    trusted(tmp_path / "collections.toml")
    import os

    del os.environ["RAGCLI_DATA_DIR"]
    answer = ragcli("ingest", "--json")
    assert answer.code == 0, answer.err
    assert [(report["collection"], len(report["added"])) for report in answer.json] == [("pdfs", 3), ("notes", 2)]
    assert (tmp_path / "index" / "pdfs").is_dir()
    assert ragcli("ingest", "-c", "notes", "--json").json["unchanged"] == 2
    assert ragcli("collections", "show", "notes", "--json").json["settings"]["chunk_size"] == 300
    assert ragcli("ingest", "-c", "empty").code == 2


def test_a_configured_folder_that_is_missing_does_not_stop_the_other_collections(
    ragcli: Ragcli, papers: Path, tmp_path: Path, encoder: Path
) -> None:
    (tmp_path / "collections.toml").write_text(
        f'data_dir = "index"\n[defaults]\nencoder = "{encoder}"\n'
        f"[collections.away]\npaths = ['unmounted']\n[collections.here]\npaths = ['{papers}']\n"
    )
    trusted(tmp_path / "collections.toml")
    import os

    del os.environ["RAGCLI_DATA_DIR"]
    answer = ragcli("ingest", "--json")
    assert answer.code == 3
    assert [(report["collection"], len(report["added"])) for report in answer.json] == [("here", 5)]
    assert "away: " in answer.err
    assert "unmounted" in answer.err
    assert ragcli("ingest", "-c", "away").code == 3


def test_an_interrupted_ingest_does_not_say_that_there_was_nothing_to_do() -> None:
    assert "nothing taken in" in report_summary(IngestReport("papers", interrupted=True))
    assert "nothing to do" in report_summary(IngestReport("papers"))


# collections, documents, show, reindex


def test_collections_are_listed_with_what_they_hold(ragcli: Ragcli, encoder: Path) -> None:
    shown = ragcli("collections")
    assert shown.code == 0, shown.err
    assert "papers" in shown.out
    record = ragcli("collections", "list", "--json").json[0]
    assert (record["name"], record["documents"]) == ("papers", 5)
    assert record["settings"]["encoder"] == str(encoder)
    assert record["bytes"] > 1000
    assert ragcli("collections", "--json").json == [record]


def test_one_collection_is_shown_with_its_settings(ragcli: Ragcli) -> None:
    shown = ragcli("collections", "show", "papers")
    for part in ("documents", "1200 characters, 200", "token vectors", "folder"):
        assert part in shown.out
    assert ragcli("collections", "show", "nothing").code == 3


def test_a_collection_can_be_renamed_and_deleted(ragcli_on_copy: Ragcli) -> None:
    assert ragcli_on_copy("collections", "rename", "papers", "reading").code == 0
    assert [each["name"] for each in ragcli_on_copy("collections", "--json").json] == ["reading"]
    assert ragcli_on_copy("grep", "null energy", "-c", "reading").code == 0
    assert ragcli_on_copy("collections", "rename", "reading", "../up").code == 2
    refused = ragcli_on_copy("collections", "delete", "reading")
    assert (refused.code, "--yes" in refused.err) == (2, True)
    assert ragcli_on_copy("collections", "delete", "reading", "--yes").code == 0
    assert ragcli_on_copy("collections", "--json").json == []
    assert ragcli_on_copy("query", "anything").code == 3


def test_a_whole_collection_verifies_and_a_damaged_one_does_not(ragcli_on_copy: Ragcli, tmp_path: Path) -> None:
    assert ragcli_on_copy("collections", "verify").code == 0
    vectors = max((tmp_path / "data" / "papers").glob("vectors*"), key=lambda file: file.stat().st_size)
    content = bytearray(vectors.read_bytes())
    content[len(content) // 2] ^= 0x40
    vectors.write_bytes(content)
    answer = ragcli_on_copy("collections", "verify", "papers", "--json")
    assert answer.code == 3
    assert answer.json[0]["problems"]
    assert "vectors" in ragcli_on_copy("collections", "verify").out
    mended = ragcli_on_copy("collections", "verify", "--repair", "--json")
    assert mended.code == 0, mended.err
    assert mended.json[0]["repaired"]
    assert ragcli_on_copy("collections", "verify").out == "papers: whole\n"


def test_documents_are_listed(ragcli: Ragcli) -> None:
    shown = ragcli("documents", "-c", "papers")
    assert "wormhole.pdf" in shown.out
    assert "5 documents" in shown.out
    records = {each["source"]: each for each in ragcli("documents", "--json").json}
    assert records["wormhole.pdf"]["pages"] == 2
    assert records["reranking.md"]["metadata"]["author"] == ["D. Writer"]


def test_a_chunk_is_read_in_its_place(ragcli_on_copy: Ragcli, tmp_path: Path, papers: Path, encoder: Path) -> None:
    data = ("--data-dir", str(tmp_path / "small"))
    settings = ("--chunk-size", "200", "--overlap", "50", "--encoder", str(encoder))
    assert ragcli_on_copy("ingest", str(papers), "-c", "small", *settings, *data).code == 0
    document = next(
        each for each in ragcli_on_copy("documents", "--json", *data).json if each["source"] == "wormhole.pdf"
    )
    whole = ragcli_on_copy("show", document["document_id"], "--json", *data).json
    assert whole["chunks"] > 5
    passage = ragcli_on_copy("show", f"{document['document_id']}:3", "--around", "2", "--json", *data).json
    stretch = passage["before"] + passage["text"] + passage["after"]
    assert stretch in whole["text"]
    assert whole["text"].index(stretch) + len(passage["before"]) == passage["start"]
    assert passage["before"]
    assert passage["after"]
    shown = ragcli_on_copy("show", f"{document['document_id']}:3", "--around", "1", *data).out
    assert "wormhole.pdf, p." in shown
    assert any(line.startswith("| ") for line in shown.splitlines())
    alone = ragcli_on_copy("show", f"{document['document_id']}:3", *data).out
    assert not any(line.startswith("| ") for line in alone.splitlines())


def test_a_document_is_found_by_source_too_and_an_unknown_one_is_told(ragcli: Ragcli) -> None:
    assert "Einstein-Rosen" in ragcli("show", "wormhole.pdf").out
    answer = ragcli("show", "no such thing")
    assert answer.code == 3
    assert answer.err.count("\n") == 1
    assert ragcli("show", "x", "--around", "-1").code == 2


def test_reindex_changes_the_chunking(ragcli_on_copy: Ragcli) -> None:
    before = ragcli_on_copy("collections", "show", "papers", "--json").json
    answer = ragcli_on_copy("reindex", "-c", "papers", "--chunk-size", "300", "--overlap", "50", "--json")
    assert answer.code == 0, answer.err
    after = ragcli_on_copy("collections", "show", "papers", "--json").json
    assert after["settings"]["chunk_size"] == 300
    assert after["chunks"] > before["chunks"]
    assert after["documents"] == before["documents"]
    assert ragcli_on_copy("query", QUESTION, "--json").json[0]["source"] == "wormhole.pdf"
    said = ragcli_on_copy("reindex", "-c", "papers", "--chunk-size", "400").out
    assert said.startswith("papers: rebuilt; ")
    assert ragcli_on_copy("reindex").code == 2


def test_one_collection_that_cannot_be_read_does_not_cost_the_others(ragcli_on_copy: Ragcli, tmp_path: Path) -> None:
    broken = tmp_path / "data" / "broken"
    broken.mkdir()
    (broken / "store.db").write_bytes(b"this is no database" * 100)
    for arguments in (["collections"], ["grep", "null energy"], ["query", QUESTION], ["documents"]):
        answer = ragcli_on_copy(*arguments, "--json")
        assert answer.code == 0, answer.err
        assert answer.json
        assert answer.err.startswith("ragcli: ")
        assert answer.err.count("\n") == 1
        assert "broken" in answer.err
    assert ragcli_on_copy("grep", "null energy", "-c", "broken").code == 3


# import-index, models


def test_an_index_saved_by_the_other_tool_becomes_a_collection(ragcli: Ragcli, tmp_path: Path, encoder: Path) -> None:
    import numpy as np

    saved = tmp_path / "saved"
    saved.mkdir()
    chunks = [
        {"text": "a wormhole with negative energy", "source": "gao.pdf"},
        {"text": "river bank", "source": "b.md"},
    ]
    (saved / "chunks.json").write_text(json.dumps(chunks))
    np.save(saved / "embeddings.npy", np.eye(2, 32, dtype=np.float32))
    (saved / "vectorizer.pkl").write_bytes(b"cos\nsystem\n(S'touch opened'\ntR.")
    data = ("--data-dir", str(tmp_path / "d"))
    answer = ragcli("import-index", str(saved), "-c", "old", "--encoder", str(encoder), "--json", *data)
    assert answer.code == 0, answer.err
    assert (answer.json["documents"], answer.json["chunks"]) == (2, 2)
    assert ragcli("grep", "negative energy", "--json", *data).json[0]["source"] == "gao.pdf"
    assert ragcli("query", "river bank", "--json", *data).json[0]["source"] == "b.md"
    assert not (tmp_path / "opened").exists()
    assert ragcli("import-index", str(tmp_path / "none"), "-c", "new", *data).code == 3
    assert ragcli("import-index", str(tmp_path), "-c", "new", *data).code == 3
    assert [each["name"] for each in ragcli("collections", "--json", *data).json] == ["old"]


def test_models_are_listed_and_found(ragcli: Ragcli, encoder: Path) -> None:
    listed = {each["path"]: each for each in ragcli("models", "--json").json}
    assert listed[str(encoder)]["engine"] == "onnx"
    assert len(listed[str(encoder)]["sha256"]) == 64
    assert "SHA-256" in ragcli("models").out
    assert ragcli("models", "path", str(encoder)).out == f"{encoder}\n"
    assert ragcli("models", "pull", str(encoder)).out == f"{encoder}\n"


@pytest.mark.parametrize("command", ["path", "pull"])
def test_a_model_that_is_not_here_is_exit_5_and_a_way_to_get_it(ragcli: Ragcli, command: str) -> None:
    answer = ragcli("models", command, "some/model")
    assert answer.code == 5
    assert answer.err.count("\n") == 1
    assert "some/model" in answer.err


# the frame


def test_every_command_has_help_with_an_example(ragcli: Ragcli) -> None:
    from ragcli.cli.app import COMMANDS

    whole = ragcli("--help")
    assert whole.code == 0
    for name, entry in COMMANDS.items():
        assert entry.example in whole.out
        answer = ragcli(name, "--help")
        assert answer.code == 0, name
        assert "Example" in answer.out, name
        assert f"ragcli {name}" in answer.out
    for subcommand in ("list", "show", "rename", "delete", "verify"):
        assert "Example" in ragcli("collections", subcommand, "--help").out
    assert "130  interrupted" in whole.out


def test_the_version_is_told(ragcli: Ragcli) -> None:
    from ragcli import __version__

    assert ragcli("--version") == Called(0, f"ragcli {__version__}\n", "")


def test_options_for_every_command_may_stand_before_or_after_it(ragcli: Ragcli, tmp_path: Path) -> None:
    empty = str(tmp_path / "empty")
    assert ragcli("--data-dir", empty, "collections", "--json").json == []
    assert ragcli("collections", "--data-dir", empty, "--json").json == []
    assert ragcli("collections", "list", "--data-dir", empty, "--json").json == []
    assert len(ragcli("collections", "--json").json) == 1
    assert ragcli("--data-dir", "", "collections").code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["quary", "x"], "Did you mean 'query'?"),
        (["--colour"], "--colour"),
        (["query", "x", "--tob", "3"], "--top"),
        (["collections", "shwo"], "shwo"),
        (["grep", "x", "--color", "pink"], "auto, always, never"),
    ],
)
def test_a_mistyped_call_is_told_and_points_to_help(ragcli: Ragcli, arguments: list[str], words: str) -> None:
    answer = ragcli(*arguments)
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert words in answer.err
    assert "--help`" in answer.err

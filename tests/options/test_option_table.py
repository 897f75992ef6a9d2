"""Every option stands once in the table, and each surface takes it from there."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cli_calls import called

from ragcli.evaluation.pipeline_spec import parse_specs
from ragcli.options import Option, OptionError, OptionGroup
from ragcli.options.command_options import ALL_GROUPS, CHUNKING, DEFAULT_ENCODER, flag_of
from ragcli.options.query_options import QUERY_GROUPS, REQUEST_OPTIONS, SPEC_OPTIONS
from ragcli.retrieval.request import PIPELINE_NAMES, QueryRequest
from ragcli.types import CollectionSettings

# The question, the filter that several options make, and what a technique finds.
NO_OPTIONS = {"text", "where", "expansion", "hypothetical"}


def test_the_fields_of_a_request_are_those_of_the_table_with_the_same_defaults() -> None:
    found = {field.name: field for field in fields(QueryRequest) if field.name not in NO_OPTIONS}
    assert found.keys() == REQUEST_OPTIONS.keys()
    for name, field in found.items():
        assert field.default is not MISSING
        assert field.default == REQUEST_OPTIONS[name].default, name


def test_an_option_stands_once() -> None:
    seen: dict[str, Option] = {}
    for group in ALL_GROUPS:
        for option in group.options:
            assert seen.setdefault(option.name, option) is option


def test_the_table_tells_the_settings_that_a_collection_has_by_itself() -> None:
    settings = CollectionSettings()
    told = {option.config_key: option.default_text for option in CHUNKING.options if option.default_text}
    assert told == {name: str(getattr(settings, name)) for name in ("chunk_size", "overlap", "context")}
    assert settings.encoder == DEFAULT_ENCODER


def test_the_table_has_the_pipelines_that_there_are() -> None:
    assert REQUEST_OPTIONS["pipeline"].choices == PIPELINE_NAMES


@pytest.mark.parametrize("command", ["query", "ask"])
@pytest.mark.parametrize("group", QUERY_GROUPS, ids=lambda group: group.heading)
def test_query_and_ask_have_every_option_of_a_search(command: str, group: OptionGroup) -> None:
    shown = called(command, "--help").out
    assert f"\n{group.heading}:\n" in shown
    for option in group.options:
        assert (f"{option.long_flag} " in shown or f"{option.long_flag}\n" in shown) == option.cli, option.name


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--top", "0"), "--top must be at least 1, not 0."),
        (("--top", "9223372036854775808"), "--top must be at most 1,000,000, not 9223372036854775808."),
        (("--top", "9" * 5000), "--top takes a whole number, not '999"),
        (("--titles", "1e308"), "--titles must be at most 1,000,000, not 1e+308."),
        (("--feedback", "nan"), "--feedback takes a number, not 'nan'."),
        (("--recency", "inf"), "--recency must lie between 0 and 1, not inf."),
        (("--weights", "bm25=inf"), "--weights takes weights like bm25=0.7,dense=1.5"),
        (("--weights", "bm25=1,bm25=2"), "--weights gives 'bm25' twice."),
        (("--weights", "cosine=1"), "of the stages bm25, dense, rerank, window, not 'cosine=1'."),
        (("--fusion", "mean"), "--fusion takes one of zscore, minmax, rrf, convex, not 'mean'."),
        (("--rrf-k", "9"), "--rrf-k is for --fusion rrf; give both."),
        (("--alpha", "0.2"), "--alpha is for --fusion convex; give both."),
        (("--half-life", "90d"), "--half-life says how fast newness is lost; give --recency"),
    ],
)
def test_what_an_option_does_not_take_is_told_in_one_sentence_with_its_flag(
    words: tuple[str, ...], sentence: str
) -> None:
    answer = called("query", "x", *words)
    assert answer.code == 2
    assert sentence in answer.err
    assert answer.err.count("\n") == 1


def test_the_library_names_an_option_without_dashes() -> None:
    with pytest.raises(OptionError, match=r"^max_per_source must be at least 1, not 0\.$") as caught:
        QueryRequest("x", max_per_source=0)
    assert caught.value.spelled(flag_of) == "--max-per-source must be at least 1, not 0."


def test_values_in_a_sentence_are_no_names_of_options() -> None:
    with pytest.raises(OptionError) as caught:
        QueryRequest("x", fusion="{top}")  # type: ignore[arg-type]
    assert caught.value.spelled(flag_of) == "--fusion takes one of zscore, minmax, rrf, convex, not '{top}'."


@given(st.sampled_from(sorted(SPEC_OPTIONS)), st.text(max_size=50) | st.floats().map(str) | st.integers().map(str))
def test_any_text_is_a_value_of_an_option_or_refused(name: str, text: str) -> None:
    try:
        value = SPEC_OPTIONS[name].read(text)
    except OptionError:
        return
    QueryRequest("x", **{name: value})


def test_stage_weights_of_a_pipeline_are_those_of_the_command_line() -> None:
    (spec,) = parse_specs("hybrid:bm25=0.7,dense=1.5,fusion=rrf,rrf_k=10")
    assert spec.request("x", 5) == QueryRequest("x", bm25=0.7, dense=1.5, fusion="rrf", rrf_k=10)


def test_fusion_comes_from_flags_or_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable, name in (("RAGCLI_DATA_DIR", "data"), ("HOME", "home")):
        monkeypatch.setenv(variable, str(tmp_path / name))
    (tmp_path / "notes").mkdir()
    for name in ("raft", "paxos", "zab"):
        (tmp_path / "notes" / f"{name}.md").write_text(f"# {name}\n\nA leader of {name} is elected by a majority.\n")
    assert called("ingest", "notes", "-c", "notes", "--encoder", "none").code == 0
    asked = ("query", "leader of raft", "-c", "notes", "--json")
    plain = called(*asked).json
    ranked = called(*asked, "--fusion", "rrf", "--rrf-k", "10").json
    assert ranked[0]["score"] != plain[0]["score"]
    (tmp_path / "collections.toml").write_text('[query]\nfusion = "rrf"\nrrf_k = 10\n')
    assert [hit["score"] for hit in called(*asked).json] == [hit["score"] for hit in ranked]
    weighed = called(*asked, "--weights", "bm25=3,rerank=0").json
    assert weighed[0]["score"] > ranked[0]["score"] / 2
    assert called("ask", "leader of raft", "-c", "notes", "--fusion", "minmax", "--json").code in (0, 6)

"""Pipelines written on one line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragcli.errors import RagcliError, UsageError
from ragcli.evaluation.pipeline_spec import parse_specs
from ragcli.retrieval.request import PIPELINE_NAMES, QueryRequest


def test_names_alone() -> None:
    assert [(spec.label, spec.pipeline, spec.options) for spec in parse_specs("bm25, dense")] == [
        ("bm25", "bm25", {}),
        ("dense", "dense", {}),
    ]


def test_commas_separate_options_and_pipelines() -> None:
    first, second, third = parse_specs("hybrid:pool=50,reranker=late,bm25,classic:reranker=org/model:v2")
    assert first.label == "hybrid:pool=50,reranker=late"
    assert first.options == {"pool": 50, "reranker": "late"}
    assert (second.label, third.options) == ("bm25", {"reranker": "org/model:v2"})


def test_a_pipeline_becomes_a_request_with_its_options() -> None:
    (spec,) = parse_specs("hybrid:pool=50")
    assert spec.request("why", 5) == QueryRequest("why", top=5, pipeline="hybrid", pool=50)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("hybird", "no pipeline 'hybird' .* did you mean 'hybrid'"),
        ("bm25,,dense", "is empty"),
        ("", "is empty"),
        ("pool=5,bm25", "'pool=5' stands before any pipeline"),
        ("bm25,pool=5", "'pool=5' follows 'bm25' without a colon: bm25:pool=5"),
        ("hybrid:pol=5", "no option 'pol' .* did you mean 'pool'"),
        ("hybrid:pool", "not an option with a value"),
        ("hybrid:pool=", "not an option with a value"),
        ("hybrid:pool=many", "'hybrid:pool=many': pool takes a whole number, not 'many'"),
        ("hybrid:pool=0", "'hybrid:pool=0': pool must be at least 1"),
        ("hybrid:pool=1,pool=2", "gives 'pool' twice"),
        ("hybrid:text=x", "no option 'text'"),
        ("bm25,bm25", "'bm25' is named twice"),
    ],
)
def test_mistakes_are_told_in_a_sentence(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_specs(text)


@given(st.text("abhybrid:=,25 pool", max_size=30))
def test_any_text_is_a_list_of_pipelines_or_a_sentence(text: str) -> None:
    try:
        specs = parse_specs(text)
    except RagcliError:
        return
    assert all(spec.pipeline in PIPELINE_NAMES for spec in specs)

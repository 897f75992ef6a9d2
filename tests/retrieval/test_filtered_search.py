"""Search under a filter: it acts before anything is ranked, so what comes is the best of what meets it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.support.collection_builders import WORDS, prose
from tests.support.tiny_models import tiny_encoder

from ragcli.collection import Collection, ingest_jsonl
from ragcli.engines import local_arrays
from ragcli.filters import Filter, parse_where
from ragcli.models import load_encoder
from ragcli.retrieval.exact_search import GrepRequest, count, grep
from ragcli.retrieval.request import PIPELINE_NAMES, QueryRequest
from ragcli.retrieval.searcher import Searcher, query
from ragcli.types import CollectionSettings

QUESTION = "the leader of the network has a latency bound by the server log"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_encoder(tmp_path_factory.mktemp("models") / "encoder"))


def corpus(folder: Path, encoder: str, size: int) -> Collection:
    """Records of one chunk each, 12 of which are kept by `keep`; half of them have an even year."""
    collection = Collection.create(folder, "corpus", CollectionSettings(encoder=encoder, token_vectors="none"))
    records = [
        {"id": f"r{n}", "text": prose(n, 12), "keep": n % (size // 12) == 5, "year": 1900 + n % 100, "topic": ["x"]}
        for n in range(size)
    ]
    lines = [json.dumps(record).encode() + b"\n" for record in records]
    assert not ingest_jsonl(collection, lines, lambda: load_encoder(encoder)).failures
    return collection


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, encoder: str) -> Collection:
    return corpus(tmp_path_factory.mktemp("small"), encoder, 480)


def ids(collection: Collection, **options: object) -> list[str]:
    request = QueryRequest(QUESTION, reranker="none", keep_duplicates=True, **options)  # type: ignore[arg-type]
    return [hit.chunk.document_id for hit in query([collection], request).hits]


def true_best(collection: Collection, pipeline: str, condition: Filter, top: int) -> list[str]:
    """What is left of the ranking of everything when those that do not meet the filter are struck out."""
    with collection.snapshot() as snapshot:
        meeting = {row.document_id for row in snapshot.documents(condition)}
        everything = ids(collection, pipeline=pipeline, top=snapshot.chunk_count)
    return [document for document in everything if document in meeting][:top]


@pytest.mark.parametrize("pipeline", ["bm25", "tfidf", "dense"])
@pytest.mark.parametrize("text", ["keep", "year >= 1950", "not year in [1907, 1909]", "true"])
def test_a_stage_gives_the_true_best_of_what_meets_the_filter(small: Collection, pipeline: str, text: str) -> None:
    condition = parse_where(text)
    found = ids(small, pipeline=pipeline, top=10, where=condition)
    assert len(found) == 10
    assert found == true_best(small, pipeline, condition, 10)


@pytest.mark.parametrize("pipeline", PIPELINE_NAMES)
def test_as_many_hits_come_as_are_asked_for_where_as_many_meet_the_filter(small: Collection, pipeline: str) -> None:
    kept = parse_where("keep")
    assert len(ids(small, pipeline=pipeline, top=10, pool=1, where=kept)) == 10
    assert len(ids(small, pipeline=pipeline, top=20, where=kept)) == 12
    assert ids(small, pipeline=pipeline, where=parse_where("keep and not keep")) == []


@pytest.mark.parametrize("pipeline", ["bm25", "tfidf", "dense"])
def test_many_that_meet_the_filter_are_chosen_from_as_well_as_few(
    small: Collection, pipeline: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # From some number on the words' stage asks for more than it needs and drops what does not meet the filter.
    monkeypatch.setattr(local_arrays, "_MAX_NAMED_CHUNKS", 5)
    for text in ("keep", "year >= 1950", "year = 1907"):
        condition = parse_where(text)
        wanted = true_best(small, pipeline, condition, 4)
        assert ids(small, pipeline=pipeline, top=4, where=condition) == wanted


def test_the_scores_of_a_stage_are_those_it_gives_without_the_filter(small: Collection) -> None:
    def scored(condition: Filter | None) -> dict[str, Sequence[float | None]]:
        request = QueryRequest(QUESTION, top=480, pipeline="bm25", where=condition)
        return {hit.chunk.document_id: (hit.score, hit.cosine) for hit in query([small], request).hits}

    everything, kept = scored(None), scored(parse_where("keep"))
    assert kept
    assert all(values == pytest.approx(everything[document]) for document, values in kept.items())


def test_the_record_of_the_stages_names_the_filter(small: Collection) -> None:
    condition = parse_where("year = 1950 and keep")
    stages = {stage.stage: stage.detail for stage in query([small], QueryRequest(QUESTION, where=condition)).stages}
    assert stages["filter"] == "year = 1950 and keep = true"
    assert "filter" not in {stage.stage for stage in query([small], QueryRequest(QUESTION)).stages}


def test_a_deep_ranking_has_nothing_that_does_not_meet_the_filter(small: Collection) -> None:
    with Searcher([small]) as searcher:
        ranked = searcher.ranking(
            QueryRequest(QUESTION, reranker="none", where=parse_where("year < 1910")), documents=1000
        )
    assert len(ranked.chunks) == 50
    assert {int(chunk.document_id[1:]) % 100 for chunk in ranked.chunks} == set(range(10))


def test_feedback_and_reranking_stay_within_the_filter(small: Collection) -> None:
    for options in ({"rocchio": 0.5}, {"reranker": "late"}, {"expansion": (("leader", 0.5),)}):
        request = QueryRequest(QUESTION, top=20, where=parse_where("keep"), **options)  # type: ignore[arg-type]
        hits = query([small], request).hits
        assert len(hits) == 12
        assert all(hit.chunk.metadata["keep"] is True for hit in hits)


def test_each_collection_is_filtered_by_its_own_metadata(small: Collection, tmp_path: Path, encoder: str) -> None:
    other = Collection.create(tmp_path, "other", CollectionSettings(encoder=encoder))
    record = {"id": "mine", "text": "the leader of the network", "keep": True}
    ingest_jsonl(other, [json.dumps(record).encode() + b"\n"], lambda: load_encoder(encoder))
    hits = query([small, other], QueryRequest(QUESTION, top=30, where=parse_where("keep"))).hits
    assert len(hits) == 13
    only = query([small, other], QueryRequest(QUESTION, top=30, where=parse_where("keep and not exists topic"))).hits
    assert [hit.chunk.collection for hit in only] == ["other"]


def test_a_filter_that_was_not_asked_for_looks_nothing_up(small: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    from ragcli.collection.read import metadata_filter

    monkeypatch.setattr(metadata_filter, "matching_documents", None)
    assert len(ids(small)) == 5


def test_exact_search_looks_only_into_documents_that_meet_the_filter(small: Collection) -> None:
    word = WORDS[0]
    for text in ("keep", "year >= 1950", "not keep"):
        condition = parse_where(text)
        with small.snapshot() as snapshot:
            meeting = {row.source for row in snapshot.documents(condition)}
        everything = [hit for hit in grep([small], GrepRequest(word, max_hits=None)) if hit.source in meeting]
        assert everything
        assert list(grep([small], GrepRequest(word, max_hits=None, where=condition))) == everything
        assert [each.source for each in count([small], GrepRequest(word, where=condition))] == [
            hit.source for hit in everything
        ]
        pattern = GrepRequest(f"{word}[.]?", regex=True, ignore_case=True, max_hits=None, where=condition)
        assert {hit.source for hit in grep([small], pattern)} == {hit.source for hit in everything}


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["bm25", "tfidf", "dense"])
def test_of_ten_thousand_chunks_the_true_best_ten_of_twelve_come(
    tmp_path_factory: pytest.TempPathFactory, encoder: str, pipeline: str
) -> None:
    folder = tmp_path_factory.getbasetemp() / "large"
    collection = Collection(folder / "corpus") if folder.exists() else corpus(folder, encoder, 10_000)
    condition = parse_where("keep")
    with collection.snapshot() as snapshot:
        assert snapshot.chunk_count == 10_000
        chosen = snapshot.matching(condition)
        assert chosen is not None
        assert len(np.asarray(chosen.numbers)) == 12
    found = ids(collection, pipeline=pipeline, top=10, where=condition)
    assert len(found) == 10
    assert found == true_best(collection, pipeline, condition, 10)
    assert len(ids(collection, top=10, where=condition)) == 10

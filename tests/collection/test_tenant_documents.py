"""Whose a document is, and that the scores of what is theirs are a tenant's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.cli_calls import called
from tests.support.collection_builders import HashEncoder, new_collection, prose, take_in_records

from ragcli.collection import Collection, IngestOptions, ingest
from ragcli.retrieval.exact_search import GrepRequest, grep
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import Searcher


def scores_of(collection: Collection, tenant: str, question: str) -> dict[str, dict[str, float | None]]:
    with Searcher([collection.for_tenant(tenant)]) as searcher:
        hits = searcher.query(QueryRequest(question, top=50, pipeline="hybrid")).hits
    return {hit.chunk.chunk_id: {**hit.scores, "cosine": hit.cosine} for hit in hits}


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> HashEncoder:
    made = HashEncoder()
    monkeypatch.setattr("ragcli.models.load_encoder", lambda *_, **__: made)
    return made


def test_how_rare_a_word_is_among_others_changes_no_score(tmp_path: Path, encoder: HashEncoder) -> None:
    """All but BM25's mean length of texts, which here is the same."""
    mine = [{"id": f"m{n}", "text": prose(n, 24), "team": "mine"} for n in range(30)]
    one = new_collection(tmp_path, "one", tenant_key="team")
    other = new_collection(tmp_path, "other", tenant_key="team")
    take_in_records(one, *mine, *({"id": f"x{n}", "text": prose(100 + n, 24), "team": "x"} for n in range(50)))
    # As many, as long, but full of the very words that are asked for.
    words = "wormhole energy boundary throat Common1word thing. " * 4
    take_in_records(other, *mine, *({"id": f"x{n}", "text": words + f"Unique{n}word.", "team": "x"} for n in range(50)))
    question = "wormhole energy boundary of a sketch"
    first, second = (scores_of(each, "mine", question) for each in (one, other))
    assert first.keys() == second.keys()
    assert len(first) == 30
    for chunk, scores in first.items():
        for name, score in scores.items():
            if score is None:
                assert second[chunk][name] is None
            else:
                assert score == pytest.approx(second[chunk][name], rel=2e-3, abs=1e-4), (chunk, name)
    # Without tenants the same texts have other scores.
    plain = new_collection(tmp_path, "plain")
    take_in_records(plain, *mine, *({"id": f"x{n}", "text": words + f"Unique{n}word."} for n in range(50)))
    with Searcher([plain]) as searcher:
        hits = searcher.query(QueryRequest(question, top=50)).hits
    known = {hit.chunk.chunk_id: hit.scores["bm25"] for hit in hits if hit.chunk.chunk_id in first}
    assert known
    assert any(abs((score or 0) - (first[chunk]["bm25"] or 0)) > 0.1 for chunk, score in known.items())


def test_a_tenants_ranking_is_that_of_a_collection_of_their_own(tmp_path: Path, encoder: HashEncoder) -> None:
    mine = [{"id": f"m{n}", "text": prose(n, 24), "team": "mine"} for n in range(40)]
    shared = new_collection(tmp_path, "shared", tenant_key="team")
    take_in_records(shared, *mine, *({"id": f"x{n}", "text": prose(100 + n, 24), "team": "x"} for n in range(40)))
    alone = new_collection(tmp_path, "alone")
    take_in_records(alone, *mine)
    for pipeline in ("bm25", "tfidf", "dense", "hybrid", "classic"):
        request = QueryRequest("wormhole energy boundary of a sketch", top=10, pipeline=pipeline)
        with Searcher([shared.for_tenant("mine")]) as one, Searcher([alone]) as other:
            found, expected = (
                [hit.chunk.chunk_id for hit in searcher.query(request).hits] for searcher in (one, other)
            )
        assert found == expected, pipeline


def test_whose_a_document_is_may_change_and_may_be_a_number_or_a_list(tmp_path: Path) -> None:
    collection = new_collection(tmp_path, encoder="none", tenant_key="owner")
    (tmp_path / "a.md").write_text("negative energy")

    def readers(*names: str) -> list[str]:
        return [name for name in names if grep([collection.for_tenant(name)], GrepRequest("energy"))]

    for said, expected in (
        ({"owner": "ada"}, ["ada"]),
        ({"owner": ["ada", "ben"]}, ["ada", "ben"]),
        ({"owner": 7}, ["7"]),
        ({"owner": "007"}, ["007"]),
        ({"owner": None}, []),
    ):
        ingest(collection, [tmp_path / "a.md"], HashEncoder, IngestOptions(meta=said))  # type: ignore[arg-type]
        assert readers("ada", "ben", "7", "007", "None", "Ada", "ada,ben") == expected
    assert collection.verify() == ()


def test_what_names_no_tenant_is_told(tmp_path: Path) -> None:
    values: list[object] = [True, 1.5, "", [], "a" * 201, 10**18, "alpha", 7, ["beta"], "2024-05-01"]
    lines = [json.dumps({"id": f"d{at}", "text": f"text {at}", "team": value}) for at, value in enumerate(values)]
    (tmp_path / "given.jsonl").write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGCLI_DATA_DIR", str(tmp_path / "data"))
        patch.delenv("RAGCLI_TENANT", raising=False)
        words = ("ingest", str(tmp_path / "given.jsonl"), "-c", "names", "--encoder", "none", "--tenant-key", "team")
        assert "6 documents have no 'team' that names a tenant" in " ".join(called(*words).err.split())
        for tenant in ("alpha", "7", "beta", "2024-05-01"):
            assert len(json.loads(called("documents", "-c", "names", "--tenant", tenant, "--json").out)) == 1
        for tenant in ("true", "True", "1.5", str(10**18)):
            assert json.loads(called("documents", "-c", "names", "--tenant", tenant, "--json").out) == []


def test_a_collection_without_tenants_is_read_by_anybody(tmp_path: Path) -> None:
    collection = new_collection(tmp_path, encoder="none")
    take_in_records(collection, {"id": "a", "text": "negative energy", "team": "alpha"})
    assert len(grep([collection.for_tenant("beta")], GrepRequest("energy"))) == 1

"""Questions over real collections on disk, with a tiny encoder that runs the real code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.tiny_models import tiny_cross_encoder, tiny_encoder

from ragcli.collection import Collection, ingest, ingest_jsonl
from ragcli.errors import UsageError
from ragcli.models import load_encoder
from ragcli.retrieval.exact_search import GrepRequest, count, grep
from ragcli.retrieval.request import PIPELINE_NAMES, QueryRequest
from ragcli.retrieval.searcher import Searcher, query
from ragcli.types import CollectionSettings

NOTES: Mapping[str, str] = {
    "wormhole.md": "# Wormholes\n\nA traversable wormhole needs negative average null energy at its throat.\n",
    "raft.md": "# Consensus\n\nThe leader of the cluster is elected by a vote of the servers for one term.\n",
    "sketch.md": "# Counting\n\nA sketch gives an estimate of the number of distinct words in a stream.\n",
    "flow.md": "# Boundary layers\n\nThe flow over a wing has a boundary layer and the pressure is low.\n",
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_encoder(tmp_path_factory.mktemp("models") / "encoder"))


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_cross_encoder(tmp_path_factory.mktemp("models") / "cross"))


def make(folder: Path, name: str, notes: Mapping[str, str], encoder: str, **settings: object) -> Collection:
    root = folder / name
    root.mkdir(parents=True)
    for file, text in notes.items():
        (root / file).write_text(text, encoding="utf-8")
    collection = Collection.create(folder / "data", name, CollectionSettings(encoder=encoder, **settings))  # type: ignore[arg-type]
    report = ingest(collection, [root], lambda: load_encoder(encoder))
    assert not report.failures
    return collection


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory, encoder: str) -> Collection:
    return make(tmp_path_factory.mktemp("notes"), "notes", NOTES, encoder)


def ask(collection: Collection, text: str, **options: object) -> list[str]:
    return [hit.chunk.source for hit in query([collection], QueryRequest(text, **options)).hits]  # type: ignore[arg-type]


@pytest.mark.parametrize("pipeline", PIPELINE_NAMES)
def test_every_pipeline_puts_the_passage_with_the_words_of_the_question_first(notes: Collection, pipeline: str) -> None:
    energy = "a traversable wormhole needs negative average null energy at its throat"
    vote = "the leader of the cluster is elected by a vote of the servers for one term"
    assert ask(notes, energy, pipeline=pipeline)[0] == "wormhole.md"
    assert ask(notes, vote, pipeline=pipeline)[0] == "raft.md"


def test_a_hit_says_where_it_stands_and_how_it_scored(notes: Collection) -> None:
    hit = query([notes], QueryRequest("leader elected by a vote")).hits[0]
    assert (hit.rank, hit.chunk.collection, hit.chunk.heading) == (1, "notes", "Consensus")
    assert hit.chunk.chunk_id == f"{hit.chunk.document_id}:0"
    assert hit.score_type == "fused"
    assert hit.reranker == "late"
    assert set(hit.scores) == {"bm25", "tfidf", "dense", "rerank", "window", "feedback", "fused"}
    assert hit.scores["tfidf"] is None
    assert hit.scores["fused"] == hit.score
    assert 0.0 < hit.cosine <= 1.0


def test_without_reranking_classic_is_tfidf_cosine(notes: Collection) -> None:
    result = query([notes], QueryRequest("negative energy", pipeline="classic", reranker="none"))
    assert result.reranker is None
    assert all(hit.score_type == "cosine" and hit.score == pytest.approx(hit.cosine) for hit in result.hits)


def test_without_reranking_hybrid_fuses_the_first_stages(notes: Collection) -> None:
    result = query([notes], QueryRequest("negative energy", reranker="none"))
    assert result.reranker is None
    assert result.hits[0].score_type == "fused"
    assert result.hits[0].scores["rerank"] is None


@pytest.mark.parametrize(
    "options",
    [
        {"fusion": "rrf"},
        {"fusion": "rrf", "rrf_k": 1},
        {"fusion": "minmax"},
        {"fusion": "convex", "alpha": 0.0},
        {"feedback": 0.0},
        {"feedback": 2.0},
        {"bm25": 0.0, "window": 0.0},
        {"titles": 1.0},
        {"rocchio": 0.7},
    ],
)
def test_every_way_to_rank_finds_the_passage(notes: Collection, options: dict[str, object]) -> None:
    vote = "the leader of the cluster is elected by a vote of the servers for one term"
    assert ask(notes, vote, **options)[0] == "raft.md"


def test_convex_fusion_at_its_ends_is_one_stage_alone(notes: Collection) -> None:
    question = "flow over a wing"
    assert ask(notes, question, fusion="convex", alpha=1.0, feedback=0.0) == ask(notes, question, pipeline="dense")


def test_a_weight_outside_its_range_is_a_usage_error(notes: Collection) -> None:
    with pytest.raises(UsageError, match="alpha"):
        ask(notes, "x", alpha=1.5)
    with pytest.raises(UsageError, match="rrf_k"):
        ask(notes, "x", rrf_k=0)


def test_single_stage_pipelines_rerank_only_when_told_to(notes: Collection) -> None:
    plain = query([notes], QueryRequest("negative energy", pipeline="bm25"))
    reranked = query([notes], QueryRequest("negative energy", pipeline="bm25", reranker="late"))
    assert (plain.reranker, plain.hits[0].score_type) == (None, "bm25")
    assert (reranked.reranker, reranked.hits[0].score_type) == ("late", "rerank")


def test_a_cross_encoder_at_a_path_reranks(notes: Collection, cross_encoder: str) -> None:
    result = query([notes], QueryRequest("leader", pipeline="classic", reranker=cross_encoder))
    assert result.reranker == cross_encoder
    assert [hit.score for hit in result.hits] == sorted((hit.score for hit in result.hits), reverse=True)
    assert all(hit.score == hit.scores["rerank"] for hit in result.hits)


def test_bm25_needs_no_model(notes: Collection) -> None:
    with Searcher([notes]) as searcher:
        stages = [stage.stage for stage in searcher.query(QueryRequest("leader", pipeline="bm25")).stages]
    assert "encoder" not in stages
    assert {"pool", "hits"} <= set(stages)


def test_a_question_without_a_known_word_still_has_neighbours_in_hybrid(notes: Collection) -> None:
    assert len(ask(notes, "zebra")) == 4
    assert ask(notes, "zebra", pipeline="bm25") == []


@pytest.mark.parametrize("text", ["?", "\U0001f9ea", "the of and", "量子", "a" * 20_000, "\ud800", "\x00 x"])
def test_any_question_gets_an_answer(notes: Collection, text: str) -> None:
    for pipeline in PIPELINE_NAMES:
        ask(notes, text, pipeline=pipeline)


def test_more_hits_may_be_asked_for_than_a_pool_holds(notes: Collection) -> None:
    assert len(ask(notes, "leader", top=50, pool=1)) == 4


def test_two_runs_give_the_same_hits(notes: Collection) -> None:
    assert query([notes], QueryRequest("flow")).hits == query([notes], QueryRequest("flow")).hits


def test_a_source_gets_no_more_hits_than_allowed(tmp_path: Path, encoder: str) -> None:
    long = "# Leaders\n\n" + "\n\n".join(f"The leader number {n} is elected by a vote." for n in range(60))
    collection = make(tmp_path, "long", {"long.md": long, **NOTES}, encoder, chunk_size=200, overlap=20)
    assert ask(collection, "leader elected by a vote", top=3) == ["long.md"] * 3
    assert ask(collection, "leader elected by a vote", top=3, max_per_source=1).count("long.md") == 1


def test_collections_with_one_encoder_compete_in_one_pool(tmp_path: Path, encoder: str) -> None:
    first = make(tmp_path, "first", {"raft.md": NOTES["raft.md"]}, encoder)
    second = make(tmp_path, "second", {"wormhole.md": NOTES["wormhole.md"], "flow.md": NOTES["flow.md"]}, encoder)
    result = query([first, second], QueryRequest("leader elected by a vote"))
    assert [hit.chunk.collection for hit in result.hits] == ["first", "second", "second"]
    assert result.hits[0].score_type == "fused"
    assert [hit.rank for hit in result.hits] == [1, 2, 3]


def test_collections_with_different_encoders_are_merged_by_rank(
    tmp_path: Path, encoder: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = str(tiny_encoder(tmp_path_factory.mktemp("models") / "other", seed=7))
    first = make(tmp_path, "first", {"raft.md": NOTES["raft.md"], "flow.md": NOTES["flow.md"]}, encoder)
    second = make(tmp_path, "second", {"wormhole.md": NOTES["wormhole.md"], "sketch.md": NOTES["sketch.md"]}, other)
    hits = query([first, second], QueryRequest("leader elected by a vote", pipeline="dense")).hits
    assert [hit.score for hit in hits] == pytest.approx([1 / 61, 1 / 61, 1 / 62, 1 / 62])
    assert {hit.chunk.collection for hit in hits[:2]} == {"first", "second"}


def test_without_token_vectors_the_pool_is_encoded_on_the_spot(tmp_path: Path, encoder: str) -> None:
    bits = make(tmp_path / "a", "bits", NOTES, encoder)
    none = make(tmp_path / "b", "none", NOTES, encoder, token_vectors="none")
    assert ask(none, "leader elected by a vote", pipeline="classic")[0] == "raft.md"
    assert ask(bits, "leader elected by a vote", pipeline="classic")[0] == "raft.md"


def test_an_empty_collection_has_no_hits(tmp_path: Path, encoder: str) -> None:
    empty = Collection.create(tmp_path, "empty", CollectionSettings(encoder=encoder))
    for pipeline in PIPELINE_NAMES:
        assert ask(empty, "anything", pipeline=pipeline) == []
    assert grep([empty], GrepRequest("anything")) == ()


def test_an_empty_collection_beside_a_full_one_changes_nothing(tmp_path: Path, notes: Collection, encoder: str) -> None:
    empty = Collection.create(tmp_path, "empty", CollectionSettings(encoder=encoder))
    for pipeline in PIPELINE_NAMES:
        request = QueryRequest("leader elected by a vote", pipeline=pipeline)
        assert query([empty, notes], request).hits == query([notes], request).hits


def test_a_question_of_blanks_and_an_unknown_pipeline_are_usage_errors(notes: Collection) -> None:
    with pytest.raises(UsageError, match="empty"):
        ask(notes, "  ")
    with pytest.raises(UsageError, match="no pipeline 'magic'"):
        ask(notes, "x", pipeline="magic")
    with pytest.raises(UsageError, match="top must be at least 1"):
        ask(notes, "x", top=0)


def test_grep_finds_a_phrase_across_a_line_break_once(tmp_path: Path, encoder: str) -> None:
    text = "filler text. " * 12 + "negative average\nnull energy stands here. " + "more filler text. " * 12
    collection = make(tmp_path, "wide", {"wide.txt": text}, encoder, chunk_size=140, overlap=90)
    with collection.snapshot() as snapshot:
        document = next(iter(snapshot.texts()))
    text = document.text
    phrase = text[text.index("negative") : text.index(" stands")]
    holding = [chunk for chunk in document.chunks if phrase in text[chunk.start : chunk.end]]
    assert len(holding) > 1, "the place must lie in two overlapping chunks for this test to mean anything"
    hits = grep([collection], GrepRequest("Negative Average Null Energy", every=True))
    assert [hit.match for hit in hits] == [phrase]
    chunk_text = text[holding[0].start : holding[0].end]
    assert chunk_text[hits[0].start : hits[0].end] == hits[0].match


def test_grep_finds_a_phrase_that_crosses_from_chunk_to_chunk(tmp_path: Path, encoder: str) -> None:
    text = " ".join(f"word{n}" for n in range(200))
    collection = make(tmp_path, "cross", {"cross.txt": text}, encoder, chunk_size=100, overlap=10)
    phrase = " ".join(f"word{n}" for n in range(40, 90))
    assert [hit.match for hit in grep([collection], GrepRequest(phrase))] == [phrase]


def test_grep_gives_one_hit_a_chunk_unless_all_are_wanted(tmp_path: Path, encoder: str) -> None:
    collection = make(tmp_path, "many", {"many.txt": "fish and fish and fish."}, encoder)
    assert len(grep([collection], GrepRequest("fish"))) == 1
    assert len(grep([collection], GrepRequest("fish", every=True))) == 3
    assert [each.count for each in count([collection], GrepRequest("fish", every=True))] == [3]


def test_grep_marks_the_last_hit_only_when_more_exist(tmp_path: Path, encoder: str) -> None:
    collection = make(tmp_path, "three", {f"{n}.txt": "a fish" for n in range(3)}, encoder)
    cut = grep([collection], GrepRequest("fish", max_hits=2))
    assert [hit.truncated for hit in cut] == [False, True]
    assert [hit.truncated for hit in grep([collection], GrepRequest("fish", max_hits=3))] == [False] * 3


def test_deleted_documents_are_never_served(tmp_path: Path, encoder: str) -> None:
    from ragcli.collection import IngestOptions

    collection = make(tmp_path, "gone", NOTES, encoder)
    (tmp_path / "gone" / "raft.md").unlink()
    ingest(collection, [tmp_path / "gone"], lambda: load_encoder(encoder), IngestOptions(prune=True))
    for pipeline in PIPELINE_NAMES:
        assert "raft.md" not in ask(collection, "leader elected by a vote", pipeline=pipeline)
    assert grep([collection], GrepRequest("elected")) == ()


def test_records_keep_their_own_ids(tmp_path: Path, encoder: str) -> None:
    collection = Collection.create(tmp_path, "records", CollectionSettings(encoder=encoder))
    lines = [b'{"_id": "31715818", "title": "A vote", "text": "The leader is elected."}\n']
    ingest_jsonl(collection, lines, lambda: load_encoder(encoder))
    hit = query([collection], QueryRequest("leader")).hits[0]
    assert (hit.chunk.document_id, hit.chunk.source, hit.chunk.title) == ("31715818", "31715818", "A vote")

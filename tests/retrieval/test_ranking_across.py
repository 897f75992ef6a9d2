"""Questions to several collections at once: what competes, what is merged, what is shown once, and in which order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from tests.support.collection_builders import prose, take_in, take_in_records, write_files
from tests.support.tiny_models import tiny_encoder

from ragcli.collection import Collection
from ragcli.errors import UsageError
from ragcli.models import load_encoder
from ragcli.retrieval import dedupe
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import Searcher, query
from ragcli.retrieval.stages import EncodedQuery, fill_pool, rank_stage
from ragcli.types import CollectionSettings, Hit

RAFT = "The leader of the cluster is elected by a vote of the servers for one term."
FLOW = "Supersonic flow past a wing has a boundary layer and the pressure is low."
HOLE = "A traversable wormhole needs negative average null energy at its throat."
SKETCH = "A sketch gives an estimate of the number of distinct words in a stream."
VOTE = "leader elected by a vote"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_encoder(tmp_path_factory.mktemp("models") / "encoder"))


@pytest.fixture(scope="module")
def other_encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_encoder(tmp_path_factory.mktemp("models") / "other", seed=7))


@cache
def loaded(name: str) -> Any:
    return None if name == "none" else load_encoder(name)


def empty(folder: Path, name: str, encoder: str, **settings: object) -> Collection:
    return Collection.create(folder / "data", name, CollectionSettings(encoder=encoder, **settings))  # type: ignore[arg-type]


def made(folder: Path, name: str, texts: Mapping[str, str], encoder: str, **settings: object) -> Collection:
    collection = empty(folder, name, encoder, **settings)
    report = take_in(collection, write_files(folder / name, texts), encoder=loaded(encoder))
    assert not report.failures
    return collection


def hits_of(collections: Sequence[Collection], text: str = VOTE, **options: Any) -> tuple[Hit, ...]:
    return query(collections, QueryRequest(text, **options)).hits


def places(hits: Sequence[Hit]) -> list[tuple[str, str]]:
    return [(hit.chunk.collection, hit.chunk.source) for hit in hits]


# one pool


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory, encoder: str) -> list[Collection]:
    folder = tmp_path_factory.mktemp("three")
    sizes = {"a": 9, "b": 30, "c": 2}
    return [
        made(folder, name, {f"{name}{n}.txt": prose(100 * at + n) for n in range(size)}, encoder)
        for at, (name, size) in enumerate(sizes.items())
    ]


@pytest.mark.parametrize("depth", [1, 5, 12, 100])
def test_the_pool_of_several_collections_has_each_stages_best_over_all_of_them(
    three: list[Collection], encoder: str, depth: int
) -> None:
    with Searcher(three) as searcher:
        readers = searcher.readers
        question = EncodedQuery(prose(7, 9), lambda text: loaded(encoder).encode_tokens([text])[0])
        pool = fill_pool(readers, ("bm25", "dense"), question, depth)
        expected: set[tuple[int, int]] = set()
        for stage in ("bm25", "dense"):
            scored = [
                (-float(score), owner, int(number))
                for owner, reader in enumerate(readers)
                for number, score in zip(*rank_stage(reader, stage, question, 1000), strict=True)  # type: ignore[arg-type]
            ]
            expected |= {(owner, number) for _, owner, number in sorted(scored)[:depth]}
        assert set(zip(pool.owners.tolist(), pool.numbers.tolist(), strict=True)) == expected
        for owner, number, bm25, dense in zip(
            pool.owners.tolist(), pool.numbers.tolist(), pool.scores["bm25"], pool.scores["dense"], strict=True
        ):
            (vector,) = readers[owner].vectors([number])
            assert dense == pytest.approx(float(vector @ question.vector), abs=1e-5)
            with three[owner].snapshot() as snapshot:
                assert bm25 == pytest.approx(snapshot.lexical.scores_of(question.text, [number], boosts=_BODY)[0])


def _body() -> Any:
    from ragcli.index.bm25 import FieldBoosts

    return FieldBoosts(title=0.0, heading=0.0)


_BODY = _body()


def test_a_passage_without_a_word_of_the_question_has_a_bm25_score_of_nothing(tmp_path: Path, encoder: str) -> None:
    notes = made(tmp_path, "notes", {"raft.md": RAFT, "flow.md": FLOW}, encoder)
    scores = {hit.chunk.source: hit.scores["bm25"] for hit in hits_of([notes], "vote", reranker="none")}
    assert scores["flow.md"] == 0.0
    assert (scores["raft.md"] or 0.0) > 0.0


# merging and weights


def test_a_weight_counts_in_the_merging_of_different_encoders(tmp_path: Path, encoder: str, other_encoder: str) -> None:
    first = made(tmp_path, "first", {"raft.md": RAFT, "flow.md": FLOW}, encoder)
    second = made(tmp_path, "second", {"hole.md": HOLE, "sketch.md": SKETCH}, other_encoder)
    plain = hits_of([first, second], pipeline="dense")
    assert [hit.score for hit in plain] == pytest.approx([1 / 61, 1 / 61, 1 / 62, 1 / 62])
    alone = {hit.chunk.source: hit.score for each in (first, second) for hit in hits_of([each], pipeline="dense")}
    assert {hit.chunk.source: hit.source_score for hit in plain} == pytest.approx(alone)
    weighted = hits_of([first, second], pipeline="dense", weights=(("second", 2.0),))
    assert [hit.chunk.collection for hit in weighted] == ["second", "second", "first", "first"]
    assert [hit.score for hit in weighted] == pytest.approx([2 / 61, 2 / 62, 1 / 61, 1 / 62])
    assert {hit.score_type for hit in weighted} == {"fused"}


def test_in_one_pool_a_weight_multiplies_the_scaled_score(tmp_path: Path, encoder: str) -> None:
    first = made(tmp_path, "first", {"raft.md": RAFT, "flow.md": FLOW}, encoder)
    second = made(tmp_path, "second", {"hole.md": HOLE, "sketch.md": SKETCH}, encoder)
    plain = hits_of([first, second])
    assert all(hit.source_score is None for hit in plain)
    low, high = plain[-1].score, plain[0].score
    weighted = hits_of([first, second], weights=(("second", 0.5), ("first", 3.0)))
    before = {hit.chunk.source: hit.score for hit in plain}
    for hit in weighted:
        weight = 3.0 if hit.chunk.collection == "first" else 0.5
        assert hit.source_score == pytest.approx(before[hit.chunk.source])
        assert hit.score == pytest.approx(weight * (before[hit.chunk.source] - low) / (high - low))
    assert [hit.score for hit in weighted] == sorted((hit.score for hit in weighted), reverse=True)
    assert places(hits_of([first, second], weights=(("first", 0.0),)))[0][0] == "second"


def test_a_weight_for_a_collection_that_is_not_searched_is_a_usage_error(three: list[Collection]) -> None:
    with pytest.raises(UsageError, match="'papers', which is not searched \\(a, b, c are\\)"):
        hits_of(three, weights=(("papers", 2.0),))
    with pytest.raises(UsageError, match="not negative"):
        hits_of(three, weights=(("a", -1.0),))


# the same document


@pytest.fixture
def twice(tmp_path: Path, encoder: str) -> list[Collection]:
    return [
        made(tmp_path, "first", {"raft.md": RAFT, "flow.md": FLOW}, encoder),
        made(tmp_path, "second", {"copy.md": RAFT, "hole.md": HOLE}, encoder),
    ]


@pytest.mark.parametrize("pipeline", ["hybrid", "dense", "bm25", "tfidf", "classic"])
def test_a_document_in_two_collections_is_shown_once_and_its_copy_told(twice: list[Collection], pipeline: str) -> None:
    hits = hits_of(twice, pipeline=pipeline)
    assert ("second", "copy.md") not in places(hits)
    shown = {hit.chunk.source: [(each.collection, each.source) for each in hit.duplicates] for hit in hits}
    assert shown.pop("raft.md") == [("second", "copy.md")]
    assert not any(shown.values())


def test_of_two_copies_that_of_the_weightier_collection_is_shown(twice: list[Collection]) -> None:
    hits = hits_of(twice, weights=(("second", 2.0),))
    assert places(hits)[0] == ("second", "copy.md")
    assert ("first", "raft.md") not in places(hits)


def test_copies_count_as_what_they_are_with_another_identity(twice: list[Collection]) -> None:
    for identity in ("none", "path", "doi", lambda chunk: chunk.document_id):
        hits = hits_of(twice, identity=identity, keep_duplicates=True)
        assert {("first", "raft.md"), ("second", "copy.md")} <= set(places(hits)), identity
    by_words = hits_of(twice, identity=lambda chunk: chunk.text.split()[0], keep_duplicates=True)
    assert sorted(places(by_words)) == [("first", "flow.md"), ("first", "raft.md"), ("second", "hole.md")]


def test_a_file_that_two_collections_have_in_two_versions_is_one_by_its_path(tmp_path: Path, encoder: str) -> None:
    file = write_files(tmp_path / "notes", {"raft.md": RAFT}) / "raft.md"
    old, new = empty(tmp_path, "old", encoder), empty(tmp_path, "new", encoder)
    take_in(old, file, encoder=loaded(encoder))
    file.write_text("Servers vote, and the log of the leader elected is what counts in this new term.")
    take_in(new, file, encoder=loaded(encoder))
    assert len(hits_of([old, new])) == 2
    assert len(hits_of([old, new], identity="path")) == 1


def test_records_of_two_pipes_are_not_one_for_having_the_same_id(tmp_path: Path, encoder: str) -> None:
    first, second = empty(tmp_path, "first", encoder), empty(tmp_path, "second", encoder)
    take_in_records(first, {"_id": "1", "text": RAFT, "doi": "10.1/x"}, encoder=loaded(encoder))
    take_in_records(second, {"_id": "1", "text": FLOW, "doi": "10.1/x"}, encoder=loaded(encoder))
    assert len(hits_of([first, second], identity="path")) == 2
    assert len(hits_of([first, second], identity="doi")) == 1


def test_a_document_cut_in_two_ways_is_shown_from_one_collection(tmp_path: Path, encoder: str) -> None:
    text = " ".join(prose(n) for n in range(8))
    first = made(tmp_path, "first", {"long.txt": text}, encoder, chunk_size=300, overlap=0)
    second = made(tmp_path, "second", {"long.txt": text}, encoder, chunk_size=500, overlap=0)
    hits = hits_of([first, second], "leader election quorum", top=20)
    assert len({hit.chunk.collection for hit in hits}) == 1
    assert hits[0].duplicates


def test_copies_do_not_get_round_the_cap_of_a_document(tmp_path: Path, encoder: str) -> None:
    text = " ".join(prose(n) for n in range(8))
    both = [made(tmp_path, name, {"long.txt": text}, encoder, chunk_size=300, overlap=0) for name in ("one", "two")]
    assert len(hits_of(both, "leader election", max_per_source=2)) == 2


def test_copies_take_no_place_in_the_pool(tmp_path: Path, encoder: str) -> None:
    texts = {f"{n}.txt": prose(n) for n in range(6)}
    both = [made(tmp_path, name, texts, encoder) for name in ("one", "two")]
    alone = hits_of(both[:1], "leader election", top=6, pool=6)
    assert places(hits_of(both, "leader election", top=6, pool=6)) == places(alone)


# near-duplicates


def versions(words: int, changed: int) -> tuple[str, str]:
    """Two texts of so many different words, of which the second has some others, far apart from each other."""
    first = [f"word{n}x" for n in range(words)]
    second = (
        [f"other{n}x" if n % (words // changed) == 0 else word for n, word in enumerate(first)] if changed else first
    )
    return " ".join(first), " ".join(second)


def test_a_passage_in_two_versions_is_shown_once_with_the_other_counted(tmp_path: Path, encoder: str) -> None:
    one, other = versions(100, 2)
    notes = made(tmp_path, "notes", {"v1.txt": one, "v2.txt": other, "raft.md": RAFT}, encoder)
    hits = hits_of([notes], "word3x word4x word5x")
    assert len(hits) == 2
    shown = {hit.chunk.source: [each.source for each in hit.duplicates] for hit in hits}
    assert shown in ({"raft.md": [], "v1.txt": ["v2.txt"]}, {"raft.md": [], "v2.txt": ["v1.txt"]})
    kept = hits_of([notes], "word3x word4x word5x", keep_duplicates=True)
    assert sorted(hit.chunk.source for hit in kept) == ["raft.md", "v1.txt", "v2.txt"]
    assert not any(hit.duplicates for hit in kept)


def test_passages_of_different_encoders_say_the_same_when_their_words_do(
    tmp_path: Path, encoder: str, other_encoder: str
) -> None:
    one, other = versions(100, 2)
    first = made(tmp_path, "first", {"v1.txt": one, "raft.md": RAFT}, encoder)
    second = made(tmp_path, "second", {"v2.txt": other, "flow.md": FLOW}, other_encoder)
    hits = hits_of([first, second], "word3x word4x word5x")
    assert sum(hit.chunk.source in ("v1.txt", "v2.txt") for hit in hits) == 1
    assert sum(len(hit.duplicates) for hit in hits) == 1


def test_many_hits_are_compared_with_one_another(tmp_path: Path, encoder: str) -> None:
    texts = {f"{n:02}.txt": prose(n // 2) + (" Again." if n % 2 else "") for n in range(60)}
    notes = made(tmp_path, "notes", texts, encoder)
    hits = hits_of([notes], "leader election", top=60)
    assert len(hits) == 30
    assert all(len(hit.duplicates) == 1 for hit in hits)


def test_passages_near_in_meaning_alone_are_not_each_compared_with_each(
    tmp_path: Path, encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    the_same = dedupe._are_near_duplicates
    monkeypatch.setattr(dedupe, "_are_near_duplicates", lambda *given: compared.append(given) or the_same(*given))
    random = Random(3)
    orders = [random.sample(RAFT.split(), len(RAFT.split())) for _ in range(80)]
    texts = {f"{n:02}.txt": " ".join(orders[n // 2]) + (" Again." if n % 2 else "") for n in range(160)}
    notes = made(tmp_path, "notes", texts, encoder)
    hits = hits_of([notes], "leader", top=160)
    assert len(hits) == 80
    assert all(len(hit.duplicates) == 1 for hit in hits)
    assert 80 <= len(compared) < 600


@pytest.mark.parametrize(("changed", "shown"), [(0, 1), (2, 1), (4, 1), (5, 2), (20, 2)])
def test_four_fifths_of_the_runs_of_words_make_a_near_duplicate(tmp_path: Path, changed: int, shown: int) -> None:
    # Without an encoder the words alone decide. A changed word is in five of the 96 runs, the first in one.
    one, other = versions(100, changed)
    notes = made(tmp_path, "notes", {"v1.txt": one, "v2.txt": other}, "none")
    assert len(hits_of([notes], "word3x word51x", pipeline="bm25")) == shown


def test_neighbours_that_share_their_overlap_are_both_shown(tmp_path: Path, encoder: str) -> None:
    text = " ".join(f"word{n}x" for n in range(150))
    notes = made(tmp_path, "notes", {"long.txt": text}, encoder, chunk_size=600, overlap=200)
    assert len(hits_of([notes], "word70x", top=9)) == 2 + (len(text) > 1100)


def test_a_repeated_passage_takes_no_place_among_the_hits(tmp_path: Path, encoder: str) -> None:
    texts = {f"same{n}.txt": RAFT + f" Copy {n}." for n in range(6)} | {"flow.md": FLOW, "hole.md": HOLE}
    notes = made(tmp_path, "notes", texts, encoder)
    hits = hits_of([notes], top=3)
    assert len(hits) == 3
    assert len(hits[0].duplicates) == 5


# diversity


def naive_mmr(relevance: Sequence[float], vectors: Sequence[Any], share: float) -> list[int]:
    left, taken = list(range(len(relevance))), []
    while left:
        values = {
            at: (1 - share) * relevance[at]
            - share * max([0.0, *(float(vectors[at] @ vectors[other]) for other in taken)])
            for at in left
        }
        best = max(left, key=lambda at: values[at])
        left.remove(best)
        taken.append(best)
    return taken


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_diversity_is_maximal_marginal_relevance(three: list[Collection], share: float) -> None:
    plain = hits_of(three, prose(7, 9), top=20, keep_duplicates=True)
    vectors = []
    for hit in plain:
        with next(each for each in three if each.name == hit.chunk.collection).snapshot() as snapshot:
            vectors.append(np.array(snapshot.vectors[snapshot.rows([hit.chunk.number])[hit.chunk.number]]))
    whole = hits_of(three, prose(7, 9), top=200, keep_duplicates=True)
    low, high = whole[-1].score, whole[0].score
    order = naive_mmr([(hit.score - low) / (high - low) for hit in plain], vectors, share)
    # A first hit that is the best, and then as the formula says, as far as only the first twenty can come up.
    diverse = hits_of(three, prose(7, 9), top=200, diversity=share, keep_duplicates=True)
    found = [hit.chunk.chunk_id for hit in diverse if hit.chunk.chunk_id in {each.chunk.chunk_id for each in plain}]
    if share <= 0.3:
        assert found[:5] == [plain[at].chunk.chunk_id for at in order[:5]]
    assert diverse[0].chunk == plain[0].chunk
    values = [hit.scores["mmr"] or 0.0 for hit in diverse]
    assert values == sorted(values, reverse=True)
    assert (share == 0.0) == ([hit.chunk for hit in diverse] == [hit.chunk for hit in whole])


def test_diversity_puts_another_subject_before_more_of_the_same(tmp_path: Path, encoder: str) -> None:
    texts = {f"raft{n}.md": f"{RAFT} The term has number {n}." for n in range(3)} | {"flow.md": FLOW}
    notes = made(tmp_path, "notes", texts, encoder)
    assert [hit.chunk.source[:4] for hit in hits_of([notes], top=2, keep_duplicates=True)] == ["raft", "raft"]
    # The tiny encoder finds everything alike, so it takes a great share.
    diverse = hits_of([notes], top=2, diversity=0.95, keep_duplicates=True)
    assert [hit.chunk.source[:4] for hit in diverse] == ["raft", "flow"]


def test_diversity_without_vectors_is_a_usage_error(tmp_path: Path) -> None:
    notes = made(tmp_path, "notes", {"raft.md": RAFT}, "none")
    with pytest.raises(UsageError, match="without an encoder"):
        hits_of([notes], pipeline="bm25", diversity=0.5)


# grouping


def test_grouped_hits_are_documents_with_their_other_passages_under_the_best(tmp_path: Path, encoder: str) -> None:
    texts = {"long.txt": " ".join(prose(n) for n in range(8)), "raft.md": RAFT, "hole.md": HOLE}
    notes = made(tmp_path, "notes", texts, encoder, chunk_size=300, overlap=0)
    plain = hits_of([notes], "leader election quorum wormhole", top=50)
    grouped = hits_of([notes], "leader election quorum wormhole", top=50, group=True)
    assert [hit.rank for hit in grouped] == [1, 2, 3]
    assert {hit.chunk.source for hit in grouped} == set(texts)
    for hit in grouped:
        own = [each.chunk.chunk_id for each in plain if each.chunk.source == hit.chunk.source]
        assert [hit.chunk.chunk_id, *(other.chunk.chunk_id for other in hit.others)] == own
    assert len(hits_of([notes], "leader election", top=2, group=True)) == 2
    capped = hits_of([notes], "leader election quorum", top=50, group=True, max_per_source=3)
    assert max(len(hit.others) for hit in capped) == 2


@pytest.mark.parametrize("pipeline", ["hybrid", "dense", "bm25", "tfidf", "classic"])
def test_many_versions_of_one_passage_do_not_keep_all_others_out(tmp_path: Path, encoder: str, pipeline: str) -> None:
    draft = "A leader election makes a leader by a vote; the election of a leader takes a quorum. " + prose(1)
    texts = {f"draft-{n}.md": f"{draft} Version {n}." for n in range(40)}
    texts |= {f"other-{n}.md": f"{prose(n + 2)} A leader is named once, in passing." for n in range(6)}
    notes = made(tmp_path, "notes", texts, encoder)
    hits = hits_of([notes], "leader election by a quorum", pipeline=pipeline, pool=20, top=4)
    assert len(hits) == 4
    (versions,) = (hit for hit in hits if hit.duplicates)
    assert len(versions.duplicates) == 39


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("pipeline", ["hybrid", "dense", "bm25", "tfidf", "classic"])
@pytest.mark.parametrize("option", [{"group": True}, {"max_per_source": 1}, {"max_per_source": 2}], ids=str)
def test_as_many_documents_come_as_are_asked_for_although_one_could_fill_the_pool(
    tmp_path: Path, encoder: str, pipeline: str, option: dict[str, Any], several: bool
) -> None:
    long = "\n\n".join(
        f"Leader election {n}: an election makes a leader, leader {n} of election {n}." for n in range(80)
    )
    others = {f"{n}.md": f"# Note {n}\n\n{prose(n)} A leader is named once, in passing." for n in range(5)}
    notes = made(
        tmp_path, "notes", {"long.md": long, **({} if several else others)}, encoder, chunk_size=120, overlap=0
    )
    asked = [notes, made(tmp_path, "more", others, encoder)] if several else [notes]
    hits = hits_of(
        asked, "leader election", pipeline=pipeline, top=5, pool=20, reranker="none", keep_duplicates=True, **option
    )
    assert len(hits) == 5
    assert len({hit.chunk.source for hit in hits}) >= (4 if "max_per_source" in option else 5)


# recency


def dated(days: float) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds")


@pytest.fixture(scope="module")
def aged(tmp_path_factory: pytest.TempPathFactory, encoder: str) -> Collection:
    collection = empty(tmp_path_factory.mktemp("aged"), "aged", encoder)
    take_in_records(
        collection,
        {"_id": "old", "text": RAFT + " This is old.", "date": dated(730)},
        {"_id": "new", "text": RAFT + " And not old.", "date": dated(0)},
        {"_id": "future", "text": FLOW, "date": dated(-50)},
        {"_id": "year", "text": HOLE, "year": datetime.now(UTC).year - 10},
        {"_id": "none", "text": SKETCH},
        encoder=loaded(encoder),
    )
    return collection


def test_newness_halves_with_every_half_life(aged: Collection) -> None:
    hits = {hit.chunk.source: hit for hit in hits_of([aged], recency=0.2, keep_duplicates=True)}
    decay = {source: hit.scores["recency"] for source, hit in hits.items()}
    assert decay["old"] == pytest.approx(0.25, abs=1e-3)
    assert decay["new"] == pytest.approx(1.0, abs=1e-3)
    assert decay["future"] == 1.0
    assert decay["none"] is None
    assert 0.5**10.1 < (decay["year"] or 0.0) <= 0.5**8.9
    faster = {hit.chunk.source: hit for hit in hits_of([aged], recency=0.2, half_life=73, keep_duplicates=True)}
    assert faster["old"].scores["recency"] == pytest.approx(2**-10, rel=0.01)


def test_recency_is_blended_into_the_scaled_score(aged: Collection) -> None:
    plain = {hit.chunk.source: hit.score for hit in hits_of([aged], keep_duplicates=True)}
    low, high = min(plain.values()), max(plain.values())
    for share in (0.1, 0.6):
        hits = hits_of([aged], recency=share, keep_duplicates=True)
        for hit in hits:
            scaled = (plain[hit.chunk.source] - low) / (high - low)
            expected = (1 - share) * scaled + share * (hit.scores["recency"] or 0.0)
            assert hit.score == pytest.approx(expected)
            assert hit.scores["fused"] == hit.score
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert "recency" not in hits_of([aged])[0].scores


def test_with_all_of_recency_the_newest_comes_first(aged: Collection) -> None:
    order = [hit.chunk.source for hit in hits_of([aged], recency=1.0, keep_duplicates=True)]
    assert order[:2] in (["future", "new"], ["new", "future"])
    assert order[2:4] == ["old", "year"]


def test_a_file_without_a_date_is_as_old_as_its_last_change(tmp_path: Path, encoder: str) -> None:
    notes = made(tmp_path, "notes", {"raft.md": RAFT}, encoder)
    assert hits_of([notes], recency=0.5)[0].scores["recency"] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("options", [{"recency": 1.5}, {"recency": -0.1}, {"half_life": 0.0}, {"diversity": 2.0}])
def test_shares_beyond_their_range_are_usage_errors(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        QueryRequest("x", **options)


# deep rankings


def test_a_deep_ranking_begins_with_the_same_order(aged: Collection, three: list[Collection]) -> None:
    for collection, options in (
        ([aged], {"recency": 0.7}),
        (three, {"diversity": 0.4}),
        (three, {"weights": (("c", 3),)}),
    ):
        request = QueryRequest(prose(7, 9), top=4, keep_duplicates=True, **options)  # type: ignore[arg-type]
        with Searcher(collection) as searcher:
            deep = searcher.ranking(request, chunks=30).chunks
            assert [each.chunk_id for each in deep[:4]] == [hit.chunk.chunk_id for hit in searcher.query(request).hits]
        assert [each.score for each in deep] == sorted((each.score for each in deep), reverse=True)


def test_hits_can_be_written_as_json_whatever_was_folded(twice: list[Collection]) -> None:
    from ragcli.cli.render.json_output import to_json
    from ragcli.serialize import hit_record

    record = json.loads(to_json(hit_record(hits_of(twice, group=True, diversity=0.2, recency=0.1)[0])))
    assert record["duplicates"][0]["collection"] == "second"
    assert record["others"] == []
    assert {"mmr", "recency"} <= record["scores"].keys()

"""Words that the best passages add to a question, and what BM25 finds by them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.collection_builders import new_collection, take_in, write_files

from ragcli.retrieval.expansion.rm3 import expand_request, new_terms, rm3_expansion
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import Searcher

NOTES = {
    "raft.md": "Raft elects a leader by randomized timeouts. The leader replicates the log to all servers.",
    "terms.md": "A leader is elected for one term. Randomized timeouts keep split votes rare.",
    "paxos.md": "Randomized timeouts and quorums also stand behind Paxos.",
    **{f"other{number}.md": f"Funnels and ships fill volume {number} of the harbour log." for number in range(12)},
}


@pytest.fixture(scope="module")
def searcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    folder = tmp_path_factory.mktemp("rm3")
    collection = new_collection(folder, encoder="none")
    take_in(collection, write_files(folder / "notes", NOTES))
    with Searcher([collection]) as opened:
        yield opened


def weights(searcher: Searcher, request: QueryRequest, **options: float) -> dict[str, float]:
    return dict(rm3_expansion(searcher, request, searcher.query(request), **options))  # type: ignore[arg-type]


def test_words_that_the_best_passages_share_are_added(searcher: Searcher) -> None:
    found = weights(searcher, QueryRequest("leader elected"))
    assert {"randomized", "timeouts"} <= set(found)
    assert found["randomized"] > found["servers"]
    assert not {"the", "a", "is", "for"} & set(found)


def test_the_question_keeps_its_share_of_the_mixture(searcher: Searcher) -> None:
    request = QueryRequest("leader elected")
    for share in (0.5, 0.8):
        # The question's two words weigh 1 each; the rest of the mixture is (1 - share) / share of that.
        assert sum(weights(searcher, request, share=share).values()) == pytest.approx(2 * (1 - share) / share)
    assert weights(searcher, request, share=1.0).keys()
    with pytest.raises(ValueError, match="share"):
        weights(searcher, request, share=0.0)


def test_words_that_are_everywhere_are_left_out(searcher: Searcher) -> None:
    assert "volume" not in weights(searcher, QueryRequest("funnels"))


def test_the_same_hits_give_the_same_words_and_no_hit_gives_none(searcher: Searcher) -> None:
    request = QueryRequest("leader elected")
    assert weights(searcher, request) == weights(searcher, request)
    assert weights(searcher, QueryRequest("zebra")) == {}


def test_bm25_finds_by_the_added_words_what_the_question_shares_no_word_with(searcher: Searcher) -> None:
    request = QueryRequest("leader elected", pipeline="bm25", top=20)
    plain = [hit.chunk.source for hit in searcher.query(request).hits]
    words = rm3_expansion(searcher, request, searcher.query(request))
    richer = [hit.chunk.source for hit in searcher.query(expand_request(request, words)).hits]
    assert "paxos.md" not in plain
    assert richer[:3] == [*plain[:2], "paxos.md"]


def test_a_heavier_word_counts_for_more(searcher: Searcher) -> None:
    def first(weight: float) -> str:
        request = QueryRequest("leader", pipeline="bm25", expansion=(("quorums", weight),))
        return searcher.query(request).hits[0].chunk.source

    assert first(0.01) != "paxos.md"
    assert first(10.0) == "paxos.md"


def test_a_pipeline_without_bm25_gets_the_new_words_behind_the_question(searcher: Searcher) -> None:
    request = QueryRequest("leader elected", pipeline="tfidf")
    words = (("leaders", 1.0), ("timeouts", 0.5))
    assert new_terms(request, words) == ("timeouts",)
    assert expand_request(request, words).text == "leader elected timeouts"
    assert expand_request(request, (("leader", 1.0),)) == request


def test_chinese_is_expanded_by_its_pairs(tmp_path: Path) -> None:
    collection = new_collection(tmp_path, encoder="none")
    take_in(collection, write_files(tmp_path / "notes", {"a.md": "虫洞需要负能量。", "b.md": "负能量很少见。"}))
    with Searcher([collection]) as searcher:
        assert "能量" in weights(searcher, QueryRequest("虫洞"))

"""One ranking out of several sources' results, and the few of it to act on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragcli.agent import Result, make_result, make_rrf_reranker, rrf_reranker, score_reranker, select
from ragcli.agent.result_ranking import round_robin_by_source
from ragcli.errors import UsageError


def hit(name: str, score: float, origin: str | None = None, **more: object) -> Result:
    return replace(make_result(f"text of {name}", score=score, source=name, **more), origin=origin)  # type: ignore[arg-type]


def ids(results: object) -> list[str]:
    return [each.chunk.chunk_id for each in results]  # type: ignore[attr-defined]


def test_between_sources_only_ranks_count_whatever_their_scores() -> None:
    lexical = [hit("l1", 41.0, "lexical"), hit("l2", 40.0, "lexical"), hit("l3", 39.0, "lexical")]
    dense = [hit("d1", 0.71, "dense"), hit("d2", 0.7, "dense")]
    assert ids(rrf_reranker([*lexical, *dense])) == ["l1", "d1", "l2", "d2", "l3"]
    assert ids(score_reranker([*lexical, *dense])) == ["l1", "l2", "l3", "d1", "d2"]


def test_a_fused_result_has_its_rank_score_and_keeps_the_one_it_came_with() -> None:
    first, second = rrf_reranker([hit("a", 41.0, "one"), hit("b", 0.7, "two")])
    assert (first.score, first.source_score, first.score_type) == (1 / 61, 41.0, "fused")
    assert (second.score, second.source_score, second.score_type) == (1 / 61, 0.7, "fused")


@pytest.mark.parametrize("origin", ["one", None])
def test_one_source_alone_keeps_its_scores(origin: str | None) -> None:
    results = [hit("a", 1.0, origin), hit("b", 3.0, origin), hit("a", 2.0, origin)]
    ranked = rrf_reranker(results)
    assert ranked == score_reranker(results) == [results[1], results[2]]
    assert [each.source_score for each in ranked] == [None, None]


def test_a_result_found_again_counts_once_at_its_best() -> None:
    again = [hit("a", 1.0, "one"), hit("b", 2.0, "one"), hit("a", 3.0, "one"), hit("c", 9.0, "two")]
    assert ids(rrf_reranker(again)) == ["a", "c", "b"]
    assert rrf_reranker(again)[0].source_score == 3.0


def test_equal_ids_in_two_sources_are_two_results() -> None:
    same = [hit("a", 1.0, "one"), hit("a", 2.0, "two")]
    assert [(each.chunk.chunk_id, each.origin) for each in rrf_reranker(same)] == [("a", "one"), ("a", "two")]
    assert len(score_reranker(same)) == 2


def test_results_without_an_origin_are_a_source_of_their_own() -> None:
    ranked = rrf_reranker([hit("a", 1.0), hit("b", 0.5), hit("c", 7.0, "named")])
    assert ids(ranked) == ["a", "c", "b"]
    assert [each.origin for each in ranked] == [None, "named", None]


def test_a_weight_lifts_a_source_and_one_for_a_source_that_is_not_there_is_no_error() -> None:
    pool = [hit("a1", 2.0, "a"), hit("a2", 1.0, "a"), hit("b1", 9.0, "b"), hit("b2", 8.0, "b")]
    weighted = make_rrf_reranker(weights={"b": 2.0, "nowhere": 5.0})(pool)
    assert ids(weighted) == ["b1", "b2", "a1", "a2"]
    assert weighted[0].score == pytest.approx(2 / 61)
    assert ids(make_rrf_reranker(weights={"a": 0.0})(pool))[:2] == ["b1", "b2"]


def test_a_small_constant_favours_the_first_ranks() -> None:
    pool = [hit("a1", 2.0, "a"), hit("b1", 9.0, "b")]
    assert make_rrf_reranker(rrf_k=1)(pool)[0].score == 1 / 2


def test_an_identity_makes_one_result_of_what_several_sources_have() -> None:
    pool = [
        hit("other", 9.0, "one"),
        hit("mine", 5.0, "one", path="/papers/raft.pdf"),
        hit("yours", 0.3, "two", path="/papers/raft.pdf"),
        hit("last", 0.2, "two"),
    ]
    pool[2] = replace(pool[2], chunk=replace(pool[2].chunk, text=pool[1].chunk.text, end=pool[1].chunk.end))
    assert ids(rrf_reranker(pool)) == ["other", "yours", "mine", "last"]
    for identity in ("path", "pointer", "content", lambda each: each.chunk.path):
        merged = make_rrf_reranker(identity=identity)(pool)
        assert ids(merged) == ["yours", "other", "last"], identity
        assert merged[0].score == pytest.approx(1 / 61 + 1 / 62)


def test_doubles_within_one_source_count_once_under_an_identity() -> None:
    same = {"path": "/papers/raft.pdf"}
    pool = [hit("a", 3.0, "one", **same), hit("b", 2.0, "one", **same), hit("c", 1.0, "two")]
    pool[1] = replace(pool[1], chunk=replace(pool[1].chunk, end=pool[0].chunk.end))
    assert ids(make_rrf_reranker(identity="path")(pool)) == ["a", "c"]


@pytest.mark.parametrize(
    "settings_",
    [{"rrf_k": 0}, {"weights": {"a": -1.0}}, {"weights": {"a": float("nan")}}, {"identity": "colour"}],
    ids=repr,
)
def test_settings_that_make_no_sense_are_refused(settings_: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        make_rrf_reranker(**settings_)  # type: ignore[arg-type]


def test_nothing_is_ranked_as_nothing() -> None:
    assert rrf_reranker([]) == score_reranker([]) == []


def test_a_score_that_is_no_number_comes_last() -> None:
    assert ids(score_reranker([hit("a", float("nan")), hit("b", -5.0), hit("c", 1.0)])) == ["c", "b", "a"]


POOLS = st.lists(
    st.builds(
        hit,
        st.sampled_from("abcdef"),
        st.one_of(st.floats(-100, 100), st.just(float("nan"))),
        st.sampled_from(["one", "two", "three", None]),
    ),
    max_size=25,
)


@given(POOLS, st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_whatever_comes_in_each_result_comes_out_once_and_a_share_of_it_is_fair(pool: list[Result], limit: int) -> None:
    keys = {(each.origin, each.chunk.chunk_id) for each in pool}
    for reranker in (rrf_reranker, score_reranker):
        assert sorted((each.origin or "", each.chunk.chunk_id) for each in reranker(pool)) == sorted(
            (origin or "", chunk) for origin, chunk in keys
        )
    share = round_robin_by_source(pool, limit)
    assert len(share) == min(limit, len(keys))
    assert all(each in pool for each in share), "no score is changed"
    counts = [sum(each.origin == origin for each in share) for origin, _ in keys]
    full = [
        count == len({key for key in keys if key[0] == origin}) for count, (origin, _) in zip(counts, keys, strict=True)
    ]
    assert all(whole or count >= max(counts) - 1 for count, whole in zip(counts, full, strict=True))


def scored(*scores: float) -> list[Result]:
    return [hit(str(place), score) for place, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("scores", "options", "chosen", "reason"),
    [
        ((1.0, 0.95, 0.91, 0.9), {}, 3, "max_k"),
        ((1.0, 0.95, 0.5), {}, 2, "rel_threshold"),
        ((1.0,), {}, 1, "single"),
        ((1.0, 0.99), {}, 2, "exhausted"),
        ((-1.0, -1.1), {}, 1, "nonpositive_top"),
        ((), {}, 0, "abstain:no_candidates"),
        ((0.4, 0.39), {"min_score": 0.5}, 0, "abstain:below_floor"),
        ((0.6, 0.55), {"min_score": 0.5}, 2, "exhausted"),
        ((1.0, 0.7, 0.6), {"rel": 0.6, "max_k": 9}, 3, "exhausted"),
        ((1.0, 0.95, 0.5), {"strategy": "rel_threshold"}, 2, "rel_threshold"),
        ((1.0, 0.6, 0.2, 0.19), {"strategy": "score_gap"}, 2, "score_gap"),
        ((1.0, 0.6, 0.2), {"strategy": "score_gap", "gap_ratio": 0.3}, 3, "score_gap"),
        ((1.0, 0.6, 0.2), {"strategy": "abs_threshold", "min_score": 0.5}, 2, "abs_threshold"),
        ((0.1,), {"strategy": "abs_threshold", "min_score": 0.5}, 0, "abstain:abs_threshold"),
        ((1.0, 0.1, 0.1, 0.1), {"strategy": "top_k", "max_k": 2}, 2, "max_k"),
    ],
)
def test_a_selection_commits_to_few_and_says_by_which_rule(
    scores: tuple[float, ...], options: dict[str, object], chosen: int, reason: str
) -> None:
    selection = select(scored(*scores), **options)  # type: ignore[arg-type]
    assert selection.selected_ids == [str(place) for place in range(chosen)]
    assert selection.reason == reason
    assert selection.sufficient is (chosen > 0)
    assert selection.abstained is (chosen == 0)
    assert selection.signals["n_candidates"] == len(scores)
    assert len(selection.candidates) == len(scores)


def test_a_selector_of_ones_own_is_held_to_the_number() -> None:
    selection = select(scored(1, 2, 3, 4), strategy=lambda hits: hits[::-1])
    assert selection.selected_ids == ["3", "2", "1"]
    assert select(scored(1), strategy=lambda _: []).reason.startswith("abstain:")


def test_a_strategy_that_is_not_there_or_lacks_its_floor_is_refused() -> None:
    with pytest.raises(UsageError, match="conservative, top_k"):
        select(scored(1), strategy="bold")
    with pytest.raises(UsageError, match="min_score"):
        select(scored(1), strategy="abs_threshold")

"""Fusion is plain arithmetic over a pool, so it is described by what it must do with any scores at all."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragcli.retrieval.fusion import (
    convex_combination,
    min_max,
    pooled_union,
    reciprocal_rank_fusion,
    weighted_sum,
    z_scores,
)

score = st.floats(-1e6, 1e6, allow_nan=False)
scores = st.lists(score, min_size=1, max_size=40)


@given(scores)
def test_z_scores_have_mean_zero_and_deviation_one_or_are_all_zero(values: list[float]) -> None:
    standard = z_scores(values)
    assert abs(standard.mean()) < 1e-6
    assert math.isclose(standard.std(), 1.0, rel_tol=1e-6) or not standard.any()


@given(scores, st.floats(0.1, 100), st.floats(-1000, 1000))
def test_z_scores_do_not_change_with_scale_or_offset(values: list[float], scale: float, offset: float) -> None:
    spread = np.std(values)
    if spread < 1e-2 * max(1.0, np.abs(values).max()):
        return
    moved = [value * scale + offset for value in values]
    assert np.allclose(z_scores(values), z_scores(moved), atol=1e-3)


def test_one_candidate_alone_scores_zero_and_not_nan() -> None:
    assert z_scores([3.5]).tolist() == [0.0]
    assert min_max([3.5]).tolist() == [0.0]


def test_a_missing_score_counts_as_the_lowest_one() -> None:
    assert z_scores([1.0, math.nan, 3.0]).tolist() == z_scores([1.0, 1.0, 3.0]).tolist()
    assert min_max([1.0, math.nan, 3.0]).tolist() == [0.0, 0.0, 1.0]


def test_a_list_where_every_score_is_missing_says_nothing() -> None:
    assert z_scores([math.nan, math.nan]).tolist() == [0.0, 0.0]


def test_no_candidates_give_no_scores() -> None:
    assert z_scores([]).size == 0
    assert weighted_sum({}, {}).size == 0
    assert reciprocal_rank_fusion({}).size == 0


@given(scores)
def test_min_max_lies_between_zero_and_one(values: list[float]) -> None:
    scaled = min_max(values)
    assert scaled.min() >= 0.0
    assert scaled.max() <= 1.0


def test_a_heavier_list_decides() -> None:
    lists = {"bm25": [3.0, 2.0, 1.0], "dense": [1.0, 2.0, 3.0]}
    assert weighted_sum(lists, {"bm25": 2.0, "dense": 1.0}).argmax() == 0
    assert weighted_sum(lists, {"bm25": 1.0, "dense": 2.0}).argmax() == 2


def test_reciprocal_ranks_equal_the_published_formula() -> None:
    fused = reciprocal_rank_fusion({"a": [9.0, 8.0, math.nan], "b": [math.nan, 1.0, 2.0]})
    assert fused.tolist() == pytest.approx([1 / 61, 1 / 62 + 1 / 62, 1 / 61])


def test_reciprocal_ranks_take_a_weight_per_list_and_a_constant() -> None:
    fused = reciprocal_rank_fusion({"a": [2.0, 1.0], "b": [1.0, 2.0]}, weights={"a": 0.6, "b": 0.4}, k=10)
    assert fused.tolist() == pytest.approx([0.6 / 11 + 0.4 / 12, 0.6 / 12 + 0.4 / 11])


def test_alpha_zero_is_sparse_alone_and_one_is_dense_alone() -> None:
    sparse, dense = [1.0, 5.0, 2.0], [7.0, 3.0, 9.0]
    assert convex_combination(sparse, dense, 0.0).tolist() == min_max(sparse).tolist()
    assert convex_combination(sparse, dense, 1.0).tolist() == min_max(dense).tolist()
    with pytest.raises(ValueError, match="between 0 and 1"):
        convex_combination(sparse, dense, 1.5)


def test_the_union_keeps_the_order_of_first_appearance() -> None:
    assert pooled_union([[3, 1, 2], [4, 3, 5]], depth=2) == [3, 1, 4]


maybe = st.one_of(score, st.just(math.nan))


@st.composite
def pools(draw: st.DrawFn) -> dict[str, list[float]]:
    """Up to three lists of scores for the same candidates, of which each list may miss some."""
    size = draw(st.integers(1, 12))
    names = draw(st.lists(st.sampled_from(["bm25", "dense", "rerank"]), min_size=1, max_size=3, unique=True))
    return {name: draw(st.lists(maybe, min_size=size, max_size=size)) for name in names}


weights = st.fixed_dictionaries({name: st.floats(0, 5) for name in ("bm25", "dense", "rerank")})
FUSIONS = {"sum": weighted_sum, "ranks": reciprocal_rank_fusion}


@pytest.mark.parametrize("fusion", FUSIONS)
@settings(max_examples=40, deadline=None)
@given(lists=pools(), weights=weights)
def test_every_candidate_gets_one_finite_score_whatever_is_missing(
    fusion: str, lists: dict[str, list[float]], weights: dict[str, float]
) -> None:
    fused = FUSIONS[fusion](lists, weights)
    assert fused.shape == (len(next(iter(lists.values()))),)
    assert np.isfinite(fused).all()


@settings(max_examples=40, deadline=None)
@given(lists=pools(), weights=weights)
def test_fused_scores_stay_within_what_the_weights_allow(
    lists: dict[str, list[float]], weights: dict[str, float]
) -> None:
    total = sum(weights[name] for name in lists)
    size = len(next(iter(lists.values())))
    by_rank = reciprocal_rank_fusion(lists, weights)
    assert (by_rank >= 0).all()
    assert (by_rank <= total / 61 + 1e-12).all()
    # No score is farther from the mean than this many deviations, in whatever list.
    assert (np.abs(weighted_sum(lists, weights)) <= total * math.sqrt(max(size - 1, 0)) + 1e-6).all()
    first, *_ = lists.values()
    assert ((convex_combination(first, first, 0.3) >= 0) & (convex_combination(first, first, 0.3) <= 1 + 1e-12)).all()


@settings(max_examples=40, deadline=None)
@given(data=st.data(), lists=pools(), weights=weights)
def test_the_order_of_candidates_and_of_lists_changes_no_score(
    data: st.DataObject, lists: dict[str, list[float]], weights: dict[str, float]
) -> None:
    size = len(next(iter(lists.values())))
    order = data.draw(st.permutations(range(size)))
    names = data.draw(st.permutations(list(lists)))
    moved = {name: [lists[name][place] for place in order] for name in names}
    assert np.allclose(weighted_sum(moved, weights), weighted_sum(lists, weights)[order], atol=1e-6)
    if all(len(set(values)) == len(values) for values in lists.values()):  # ranks of equal scores go by position
        assert np.allclose(reciprocal_rank_fusion(moved, weights), reciprocal_rank_fusion(lists, weights)[order])


@settings(max_examples=40, deadline=None)
@given(data=st.data(), lists=pools(), weights=weights)
def test_who_is_nowhere_worse_is_not_ranked_below(
    data: st.DataObject, lists: dict[str, list[float]], weights: dict[str, float]
) -> None:
    size = len(next(iter(lists.values())))
    better, worse = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1))

    def at(values: list[float], place: int) -> float:
        return -math.inf if math.isnan(values[place]) else values[place]

    if better == worse or not all(at(values, better) > at(values, worse) for values in lists.values()):
        return
    summed, ranked = weighted_sum(lists, weights), reciprocal_rank_fusion(lists, weights)
    assert summed[better] >= summed[worse] - 1e-9
    assert ranked[better] >= ranked[worse]


@settings(max_examples=40, deadline=None)
@given(values=st.lists(maybe, min_size=1, max_size=20))
def test_a_missing_score_never_beats_one_that_is_there(values: list[float]) -> None:
    for standard in (z_scores(values), min_max(values), reciprocal_rank_fusion({"one": values})):
        there = [value for value, given_value in zip(standard, values, strict=True) if not math.isnan(given_value)]
        missing = [value for value, given_value in zip(standard, values, strict=True) if math.isnan(given_value)]
        assert not there or not missing or max(missing) <= min(there)


@given(st.lists(st.lists(st.integers(0, 30), max_size=12, unique=True), max_size=4), st.integers(0, 12))
def test_the_union_has_every_ranking_s_first_members_once(rankings: list[list[int]], depth: int) -> None:
    pool = pooled_union(rankings, depth)
    assert len(pool) == len(set(pool))
    assert set(pool) == {member for ranking in rankings for member in ranking[:depth]}

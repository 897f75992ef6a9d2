"""Fusion is plain arithmetic over a pool, so it is described by what it must do with any scores at all."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragcli.retrieval.fusion import convex, min_max, reciprocal_ranks, union, weighted_sum, z_scores

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
    assert reciprocal_ranks({}).size == 0


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
    fused = reciprocal_ranks({"a": [9.0, 8.0, math.nan], "b": [math.nan, 1.0, 2.0]})
    assert fused.tolist() == pytest.approx([1 / 61, 1 / 62 + 1 / 62, 1 / 61])


def test_reciprocal_ranks_take_a_weight_per_list_and_a_constant() -> None:
    fused = reciprocal_ranks({"a": [2.0, 1.0], "b": [1.0, 2.0]}, weights={"a": 0.6, "b": 0.4}, k=10)
    assert fused.tolist() == pytest.approx([0.6 / 11 + 0.4 / 12, 0.6 / 12 + 0.4 / 11])


def test_alpha_zero_is_sparse_alone_and_one_is_dense_alone() -> None:
    sparse, dense = [1.0, 5.0, 2.0], [7.0, 3.0, 9.0]
    assert convex(sparse, dense, 0.0).tolist() == min_max(sparse).tolist()
    assert convex(sparse, dense, 1.0).tolist() == min_max(dense).tolist()
    with pytest.raises(ValueError, match="between 0 and 1"):
        convex(sparse, dense, 1.5)


def test_the_union_keeps_the_order_of_first_appearance() -> None:
    assert union([[3, 1, 2], [4, 3, 5]], depth=2) == [3, 1, 4]

"""The tests of significance against values counted by hand and by a second, plain implementation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragcli.evaluation.run_comparison import compare_pairs, holm_correction, randomisation_test, row_letters


def counted(differences: list[float]) -> float:
    """Every assignment of signs, one by one."""
    seen = abs(sum(differences))
    signs = list(itertools.product((1, -1), repeat=len(differences)))
    hits = sum(
        abs(sum(s * d for s, d in zip(each, differences, strict=True))) >= seen - 1e-9 * sum(map(abs, differences))
        for each in signs
    )
    return hits / len(signs)


def test_three_wins_of_the_same_size_have_the_p_of_three_equal_tosses() -> None:
    # All heads or all tails of 8 outcomes.
    assert randomisation_test([[0.1], [0.1], [0.1]]).tolist() == [2 / 8]


def test_one_win_among_ties_shows_nothing() -> None:
    assert randomisation_test([[0.5], [0.0], [0.0]]).tolist() == [1.0]


def test_by_hand_for_unequal_differences() -> None:
    # |±3 ±2 ±1| >= |3 + 2 - 1| = 4 holds for 6, 4 and their negatives: 4 of 8.
    assert randomisation_test([[3.0], [2.0], [-1.0]]).tolist() == [4 / 8]


@given(st.lists(st.floats(-1, 1).map(lambda value: round(value, 2)), min_size=1, max_size=9))
@settings(max_examples=60)
def test_exact_p_values_equal_a_plain_count(differences: list[float]) -> None:
    got = randomisation_test(np.array(differences)[:, None])
    assert got[0] == pytest.approx(counted(differences))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_drawn_p_values_come_near_to_exact_ones(seed: int) -> None:
    values = np.random.default_rng(seed).normal(0.2, 0.5, size=(12, 2))
    exact = randomisation_test(values, permutations=4096)
    drawn = randomisation_test(values, permutations=4095, seed=seed)
    assert np.allclose(exact, drawn, atol=0.06)
    assert (drawn > 0).all()


def test_the_same_seed_gives_the_same_p_values_and_no_p_is_zero() -> None:
    values = np.full((50, 1), 0.3)
    first = randomisation_test(values, permutations=10_000, seed=1)
    assert first == randomisation_test(values, permutations=10_000, seed=1)
    assert first[0] == pytest.approx(1 / 10_001)


def test_holm_by_hand() -> None:
    assert holm_correction([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm_correction([0.5, 0.9]) == [1.0, 1.0]
    assert holm_correction([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(p_values: list[float]) -> None:
    corrected = holm_correction(p_values)
    assert all(after >= before for before, after in zip(p_values, corrected, strict=True))
    order = np.argsort(p_values, kind="stable")
    assert np.all(np.diff(np.array(corrected)[order]) >= 0)


def test_pairs_are_tested_over_the_queries_that_all_systems_have() -> None:
    first, second, third = compare_pairs(
        "AP",
        {
            "a": {"1": 1.0, "2": 1.0, "3": 1.0, "4": 0.5},
            "b": {"1": 0.0, "2": 0.0, "3": 0.0},
            "c": {"1": 1.0, "2": 1.0, "3": 1.0},
        },
    )
    assert (first.first, first.second, first.difference, first.queries) == ("a", "b", 1.0, 3)
    assert first.p == 0.25
    assert first.p_holm == 0.75
    assert (second.first, second.second, second.p) == ("a", "c", 1.0)
    assert third.difference == -1.0
    assert compare_pairs("AP", {"a": {"1": 1.0}}) == ()


def test_rows_are_lettered_beyond_the_alphabet() -> None:
    marks = row_letters(30)
    assert marks[:2] + marks[25:28] == ("a", "b", "z", "aa", "ab")

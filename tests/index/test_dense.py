"""Exact nearest rows, and late interaction over sign bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragcli.index.append_only_array import RowRangeReader, RowWriter, open_rows
from ragcli.index.late_interaction import (
    TokenReader,
    chunk_frequency,
    idf_weights,
    max_cosines_of_similarities,
    max_sim,
    max_sim_and_cosines,
    pack_signs,
)
from ragcli.index.nearest_neighbours import hamming_distances, top_rows, top_rows_by_signs

Array = npt.NDArray[np.float32]


def unit_rows(count: int, width: int, seed: int) -> Array:
    rows = np.random.default_rng(seed).standard_normal((count, width)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.integers(0, 50), st.integers(0, 1000), st.booleans())
def test_the_best_rows_are_those_of_a_full_sort(count: int, k: int, seed: int, ties: bool) -> None:
    vectors = np.round(unit_rows(count, 3, seed)) if ties else unit_rows(count, 3, seed)
    query = unit_rows(1, 3, seed + 1)[0]
    dead = np.flatnonzero(np.random.default_rng(seed).random(count) < 0.3)
    rows, scores = top_rows(vectors.reshape(count, 3), query, k, dead)
    full = vectors @ query
    expected = sorted(set(range(count)) - set(dead.tolist()), key=lambda row: (-full[row], row))[:k]
    assert rows.tolist() == expected
    np.testing.assert_allclose(scores, full[expected], atol=1e-6)


@pytest.mark.parametrize("width", [1, 8, 16, 20, 32, 384])
def test_signs_are_as_far_apart_as_the_dimensions_in_which_they_differ(width: int) -> None:
    vectors, query = unit_rows(70, width, 5), unit_rows(1, width, 6)[0]
    expected = ((vectors > 0) != (query > 0)).sum(axis=1)
    assert hamming_distances(pack_signs(vectors), query).tolist() == expected.tolist()


def test_signs_find_the_rows_that_an_exact_search_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragcli.index.nearest_neighbours._RESCORED", 400)
    vectors, query = unit_rows(6000, 64, 7), unit_rows(1, 64, 8)[0]
    planted = np.arange(100, 6000, 500)
    vectors[planted] = query + 0.8 * unit_rows(len(planted), 64, 9)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    dead = planted[:1]
    rows, scores = top_rows_by_signs(vectors, pack_signs(vectors), query, 10, dead)
    expected, exact = top_rows(vectors, query, 10, dead)
    assert rows.tolist() == expected.tolist()
    np.testing.assert_allclose(scores, exact, atol=1e-6)


def test_dead_rows_never_come_back_however_like_the_query_their_signs_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragcli.index.nearest_neighbours._RESCORED", 32)
    vectors = np.repeat(unit_rows(1, 16, 9), 300, axis=0)
    rows, _ = top_rows_by_signs(vectors, pack_signs(vectors), vectors[0], 20, np.arange(280))
    assert set(rows.tolist()) <= set(range(280, 300))


def test_a_search_for_most_rows_scores_them_all() -> None:
    vectors, query = unit_rows(50, 8, 1), unit_rows(1, 8, 2)[0]
    expected, exact = top_rows(vectors, query, 50)
    rows, scores = top_rows_by_signs(vectors, pack_signs(vectors), query, 50)
    assert rows.tolist() == expected.tolist()
    np.testing.assert_array_equal(scores, exact)


def test_rows_come_from_disk_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragcli.index.nearest_neighbours._BLOCK_BYTES", 4 * 8 * 10)
    vectors = unit_rows(95, 8, 3)
    with RowWriter(tmp_path / "v", np.float32, (8,), 0) as writer:
        writer.append(vectors)
        writer.sync()
    rows, _ = top_rows(open_rows(tmp_path / "v", np.float32, (8,), 95), vectors[93], 2)
    assert rows[0] == 93


def test_what_is_not_a_number_never_ranks() -> None:
    vectors = np.array([[np.nan, 1], [1, 0], [np.inf, -np.inf], [0, 1]], np.float32)
    assert top_rows(vectors, np.array([1, 0.5], np.float32), 4)[0].tolist() == [1, 3]
    assert top_rows(vectors, np.array([np.nan, 0], np.float32), 4)[0].tolist() == []


def reader_of(chunks: list[Array], folder: Path) -> TokenReader:
    bits = np.concatenate([pack_signs(chunk) for chunk in chunks])
    path = folder / "tokens.bits"
    path.write_bytes(bits.tobytes())
    offsets = np.cumsum([0, *(len(chunk) for chunk in chunks)])
    return TokenReader(RowRangeReader(path, "|u1", bits.shape[1:], len(bits)), offsets)


def in_127_steps(query: Array) -> Array:
    steps = np.abs(query).max(axis=1, keepdims=True) / np.float32(127)
    return np.asarray(np.rint(query / steps) * steps, np.float32)


def plain_max_sim(query: Array, weights: Array, chunks: list[Array]) -> list[float]:
    width = query.shape[1]
    query = in_127_steps(query)
    return [
        sum(
            float(w) * max(float(q @ np.where(t > 0, 1, -1)) / width**0.5 for t in chunk)
            for q, w in zip(query, weights, strict=True)
        )
        if len(chunk)
        else 0.0
        for chunk in chunks
    ]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=8), st.integers(1, 20), st.integers(1, 5), st.integers(0, 99))
def test_late_interaction_is_the_weighted_sum_of_best_cosines(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], width: int, terms: int, seed: int
) -> None:
    chunks = [unit_rows(size, width, seed + i) for i, size in enumerate(sizes)]
    reader = reader_of(chunks, tmp_path_factory.mktemp("tokens"))
    query = unit_rows(terms, width, seed + 77)
    weights = np.random.default_rng(seed).random(terms).astype(np.float32)
    rows = np.random.default_rng(seed).permutation(len(sizes))
    expected = plain_max_sim(query, weights, [chunks[row] for row in rows])
    np.testing.assert_allclose(max_sim(query, weights, *reader.gather(rows)).whole, expected, atol=1e-4)


def test_late_interaction_over_many_tokens_is_exact(tmp_path: Path) -> None:
    chunks = [unit_rows(size, 384, size) for size in (1, 127, 2048, 2049, 700)]
    query, weights = unit_rows(7, 384, 1), np.ones(7, np.float32)
    expected = plain_max_sim(query, weights, chunks)
    found = max_sim(query, weights, *reader_of(chunks, tmp_path).gather(range(5)))
    np.testing.assert_allclose(found.whole, expected, atol=1e-4)


def test_rounding_the_question_hardly_moves_a_cosine(tmp_path: Path) -> None:
    chunks, query = [unit_rows(1, 384, seed) for seed in range(200)], unit_rows(1, 384, 999)
    found = max_sim(query, np.ones(1, np.float32), *reader_of(chunks, tmp_path).gather(range(200))).whole
    exact = np.concatenate([np.where(chunk > 0, 1, -1) for chunk in chunks]) @ query[0] / 384**0.5
    apart = np.abs(found - exact)
    assert 0 < apart.max() < 3e-3
    assert np.sqrt((apart**2).mean()) < 7e-4


def plain_windows(query: Array, weights: Array, chunks: list[Array]) -> list[float]:
    scores = []
    for chunk in chunks:
        starts = range(0, len(chunk), 16)
        scores.append(max((plain_max_sim(query, weights, [chunk[at : at + 48]])[0] for at in starts), default=0.0))
    return scores


def test_a_window_scores_what_its_48_tokens_alone_would(tmp_path: Path) -> None:
    chunks = [unit_rows(size, 64, size) for size in (0, 1, 15, 16, 17, 48, 49, 200)]
    reader = reader_of(chunks, tmp_path)
    query, weights = unit_rows(5, 64, 1), np.linspace(0.1, 1, 5, dtype=np.float32)
    found = max_sim(query, weights, *reader.gather([7, 0, 1, 2, 3, 4, 5, 6]))
    expected = plain_windows(query, weights, [chunks[row] for row in (7, 0, 1, 2, 3, 4, 5, 6)])
    np.testing.assert_allclose(found.window, expected, atol=1e-4)
    assert (found.window <= found.whole + 1e-5).all()


def test_each_question_token_has_its_own_best_match_in_each_chunk(tmp_path: Path) -> None:
    chunks = [unit_rows(size, 64, size) for size in (0, 1, 17, 0, 200, 0)]
    query, weights = unit_rows(5, 64, 1), np.linspace(0.1, 1, 5, dtype=np.float32)
    reader = reader_of(chunks, tmp_path)
    scores, found = max_sim_and_cosines(query, weights, *reader.gather(range(6)))
    np.testing.assert_allclose(found @ weights, scores.whole, atol=1e-5)
    np.testing.assert_array_equal(scores.window, max_sim(query, weights, *reader.gather(range(6))).window)
    assert found[[0, 3, 5]].tolist() == [[0.0] * 5] * 3
    signs = np.concatenate([np.where(chunk > 0, 1, -1) for chunk in chunks]).astype(np.float32) / np.float32(8)
    exact = max_cosines_of_similarities(signs @ query.T, np.asarray([len(chunk) for chunk in chunks]))
    np.testing.assert_allclose(found, exact, atol=1e-2)


def test_late_interaction_without_rows_or_query_tokens_is_zero(tmp_path: Path) -> None:
    reader = reader_of([unit_rows(2, 16, 0), unit_rows(2, 16, 1)], tmp_path)
    assert max_sim(unit_rows(2, 16, 1), np.ones(2, np.float32), *reader.gather([])).whole.shape == (0,)
    empty = np.empty((0, 16), np.float32)
    assert max_sim(empty, np.empty(0, np.float32), *reader.gather([0, 1])).window.tolist() == [0.0, 0.0]


def test_a_rare_token_weighs_more_than_a_common_one() -> None:
    frequency = chunk_frequency([[1, 2, 2], [1], [1, 3]], 5)
    assert frequency.tolist() == [0, 3, 1, 1, 0]
    weights = idf_weights([1, 2, 4], frequency, 3)
    np.testing.assert_allclose(weights, np.log1p([0.5 / 3.5, 2.5 / 1.5, 3.5 / 0.5]), rtol=1e-6)
    assert (idf_weights([1], frequency, 1) > 0).all()


def test_counts_that_cannot_be_still_give_weights(recwarn: pytest.WarningsRecorder) -> None:
    frequency = np.asarray([-7, 2**31 - 1, 3], np.int32)
    for count in (-5, 0, 4, 2**40):
        weights = idf_weights([0, 1, 2], frequency, count)
        assert np.isfinite(weights).all()
        assert (weights >= 0).all()
    assert not recwarn.list

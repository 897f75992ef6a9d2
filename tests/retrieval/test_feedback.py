"""Feedback moves up what resembles the best documents."""

from __future__ import annotations

import numpy as np
import pytest

from ragcli.retrieval.final_score import feedback_scores


def unit(*rows: list[float]) -> np.ndarray:
    array = np.array(rows, np.float32)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


def test_a_neighbour_of_the_best_chunk_outscores_a_stranger() -> None:
    vectors = unit([1, 0], [0.9, 0.1], [0, 1])
    likeness = feedback_scores(np.array([3.0, -1.0, -1.0]), vectors, ["a", "b", "c"])
    assert likeness[1] > likeness[2]


def test_only_each_documents_best_chunk_leads() -> None:
    vectors = unit([1, 0], [0, 1], [0, 1])
    alone = feedback_scores(np.array([2.0, 1.9, -3.0]), vectors, ["a", "a", "b"])
    apart = feedback_scores(np.array([2.0, 1.9, -3.0]), vectors, ["a", "c", "b"])
    assert alone[2] == pytest.approx(0.0, abs=1e-6)
    assert apart[2] > 0.3


def test_no_more_than_five_documents_lead() -> None:
    vectors = np.eye(7, dtype=np.float32)
    likeness = feedback_scores(np.zeros(7), vectors, list(range(7)))
    assert likeness.tolist() == pytest.approx([0.2] * 5 + [0.0] * 2)


def test_an_empty_pool_has_no_scores() -> None:
    assert feedback_scores(np.zeros(0), np.zeros((0, 4), np.float32), []).size == 0

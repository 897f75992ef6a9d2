"""Word pieces and windows: nothing is dropped, and no window is too long or much shorter than its neighbours."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tiny_models import write_tokenizer

from ragcli.models.wordpiece_tokenizer import WindowedTokenizer, read_tokenizer, window_boundaries


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def pieces(folder: Path) -> WindowedTokenizer:
    return WindowedTokenizer(read_tokenizer(folder), 16)


@given(count=st.integers(2, 5000), limit=st.integers(1, 300), data=st.data())
@settings(max_examples=80, deadline=None)
def test_windows_are_the_fewest_possible_and_about_equal(count: int, limit: int, data: st.DataObject) -> None:
    starts = sorted(data.draw(st.sets(st.integers(1, count - 1), max_size=200)))
    cuts = window_boundaries(count, limit, starts)
    lengths = [end - start for start, end in pairwise([0, *cuts, count])]
    assert len(lengths) == -(-count // limit)
    assert sum(lengths) == count
    assert all(1 <= length <= limit for length in lengths)
    # Each cut may move up to 16 pieces to meet a word's start, so two neighbours differ by at most twice that each.
    assert max(lengths) - min(lengths) <= 2 * 2 * 16 + 1


def test_300_pieces_become_two_halves_and_not_a_full_window_and_a_rest() -> None:
    assert window_boundaries(300, 254, range(1, 300)) == [150]


def test_a_cut_falls_between_words_where_one_is_near() -> None:
    assert window_boundaries(300, 254, [100, 143, 200]) == [143]
    assert window_boundaries(300, 254, [100, 200]) == [150]


@given(texts=st.lists(st.text(max_size=120), max_size=4))
@settings(max_examples=60, deadline=None)
def test_the_windows_together_are_the_whole_text(pieces: WindowedTokenizer, folder: Path, texts: list[str]) -> None:
    whole = WindowedTokenizer(read_tokenizer(folder), 100_000)
    for parts, complete in zip(pieces.split(texts), whole.split(texts), strict=True):
        assert all(len(part) <= pieces.limit for part in parts)
        np.testing.assert_array_equal(np.concatenate(parts), complete[0])


def test_special_tokens_go_around_each_window_and_count_in_its_length(pieces: WindowedTokenizer) -> None:
    window = pieces.split(["cat dog"])[0][0]
    wrapped = pieces.wrap(window)
    assert len(wrapped) == len(window) + 2
    assert pieces.limit == 14


def test_half_a_surrogate_pair_is_read_as_an_unknown_character(pieces: WindowedTokenizer) -> None:
    assert [len(part) for part in pieces.split(["cat \ud800 dog"])[0]] == [3]


def test_a_tokenizer_that_lower_cases_on_request_does_so(folder: Path) -> None:
    import json

    spec = json.loads((folder / "tokenizer.json").read_text())
    spec["normalizer"]["lowercase"] = False
    from tokenizers import Tokenizer

    def read(*, lower_case: bool) -> list[int]:
        tokenizer = Tokenizer.from_str(json.dumps(spec))
        ids: list[int] = WindowedTokenizer(tokenizer, 16, lower_case=lower_case).split(["CAT"])[0][0].tolist()
        return ids

    assert read(lower_case=True) != read(lower_case=False)
    assert read(lower_case=True) == WindowedTokenizer(read_tokenizer(folder), 16).split(["cat"])[0][0].tolist()


def test_stored_truncation_and_padding_are_switched_off(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    tokenizer = read_tokenizer(tmp_path)
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=64)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    windows = WindowedTokenizer(read_tokenizer(tmp_path), 100).split(["cat dog tree fish river bank"])[0]
    assert [len(window) for window in windows] == [6]

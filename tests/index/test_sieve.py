"""The sieve lets every text through that holds a literal, and few others."""

from __future__ import annotations

import random
import string

from hypothesis import given, settings
from hypothesis import strategies as st

from ragcli.index.bit_sliced_bloom_filter import (
    BLOCK_BYTES,
    FILTER_BITS,
    bit_slices,
    candidate_blocks,
    ngram_bits,
    text_blocks,
)
from ragcli.text.text_folding import squeeze


def sift(blocks: list[bytes], literal: bytes) -> list[int]:
    rows = bit_slices(blocks)
    return [block for block in candidate_blocks([rows[place] for place in ngram_bits(literal)]) if block < len(blocks)]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(alphabet="abcdeé漢\U0001f600", max_size=60), min_size=1, max_size=12), st.data())
def test_a_text_that_holds_the_literal_always_comes_through(texts: list[str], data: st.DataObject) -> None:
    blocks = [squeeze(text).encode() for text in texts]
    chosen = data.draw(st.sampled_from(blocks))
    start = data.draw(st.integers(0, len(chosen)))
    literal = chosen[start : data.draw(st.integers(start, len(chosen)))]
    holding = [at for at, block in enumerate(blocks) if literal in block]
    if ngram_bits(literal):
        assert set(holding) <= set(sift(blocks, literal))


def test_a_literal_is_found_in_the_block_it_begins_in_also_across_a_border() -> None:
    text = bytearray(b"x" * (3 * BLOCK_BYTES))
    literal = "".join(random.Random(1).choices(string.ascii_lowercase, k=400)).encode()
    text[BLOCK_BYTES - 5 : BLOCK_BYTES - 5 + len(literal)] = literal
    assert sift(list(text_blocks(bytes(text))), literal) == [0]


def test_texts_without_the_literal_mostly_stay_behind() -> None:
    words = ["".join(random.Random(seed).choices(string.ascii_lowercase, k=7)) for seed in range(4000)]
    chooser = random.Random(3)
    blocks = ["".join(chooser.choices(words, k=1100)).encode() for _ in range(64)]
    blocks[17] += b"traversablewormhole"
    assert 17 in sift(blocks, b"traversablewormhole")
    assert len(sift(blocks, b"traversablewormhole")) <= 3


def test_a_literal_of_two_bytes_tells_nothing_and_of_three_something() -> None:
    assert ngram_bits(b"ab") == ()
    assert len(ngram_bits(b"abc")) == 1
    assert len(ngram_bits(b"x" * 10_000)) <= 64


def test_a_sieve_has_a_row_for_every_place_however_many_blocks() -> None:
    rows = bit_slices([b"abcd"] * 4100)
    assert len(rows) == FILTER_BITS
    assert {len(row) for row in rows} == {4096 // 8 + 8 // 8}
    assert candidate_blocks([rows[place] for place in ngram_bits(b"abc")]) == list(range(4100))


def test_an_empty_text_is_one_block() -> None:
    assert list(text_blocks(b"")) == [b""]

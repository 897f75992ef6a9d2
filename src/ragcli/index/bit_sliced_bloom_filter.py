"""Bit-sliced Bloom filters of character n-grams: which text blocks may hold a literal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

FILTER_BITS: Final = 1 << 14
"""Bits in a block's filter, and rows of bit slices."""

BLOCK_BYTES: Final = 8192
"""Bytes of squeezed text in a block."""

_MAX_LITERAL_BYTES: Final = 256
_MAX_LITERAL_BITS: Final = 64
_NGRAM_SIZES: Final = (4, 3)
_BLOCKS_PER_BATCH: Final = 4096
_SHIFT: Final = 32 - 14
_HASH_MULTIPLIER: Final = 0x9E3779B1
_HASH_SIZE_SALT: Final = 0x85EBCA6B


def ngram_bits(literal: bytes) -> tuple[int, ...]:
    """The places of the bits that are set in every block in which `literal`, which is squeezed, begins.

    There are none for a literal under three bytes. Of a long one, the beginning has to do.
    """
    told = literal[:_MAX_LITERAL_BYTES]
    places = (
        _ngram_hash(int.from_bytes(told[at : at + size], "little"), size)
        for size in _NGRAM_SIZES
        for at in range(len(told) - size + 1)
    )
    return tuple(dict.fromkeys(places))[:_MAX_LITERAL_BITS]


def text_blocks(squeezed: bytes) -> Iterator[bytes]:
    """The blocks of a text, at least one, each with as much of the next as a literal that begins in it is read of."""
    for start in range(0, max(len(squeezed), 1), BLOCK_BYTES):
        yield squeezed[start : start + BLOCK_BYTES + _MAX_LITERAL_BYTES]


def bit_slices(blocks: Iterable[bytes]) -> list[bytes]:
    """The `FILTER_BITS` rows of some blocks' filters: bit i of a row, from the lowest of its first byte, is block i's.

    Works on 64 MB, however many blocks there are.
    """
    import numpy as np

    parts: list[list[bytes]] = [[] for _ in range(FILTER_BITS)]
    rest = iter(blocks)
    while chosen := list(islice(rest, _BLOCKS_PER_BATCH)):
        bits = np.zeros((FILTER_BITS, -(-len(chosen) // 8) * 8), np.bool_)
        for column, block in enumerate(chosen):
            data = np.frombuffer(block, np.uint8).astype(np.uint32)
            for size in _NGRAM_SIZES:
                grams = np.zeros(max(0, len(data) - size + 1), np.uint32)
                for at in range(size):
                    grams |= data[at : at + len(grams)] << np.uint32(8 * at)
                # Wraps around at 32 bits, as `_ngram_hash` does.
                grams = grams * np.uint32(_HASH_MULTIPLIER) + np.uint32(size * _HASH_SIZE_SALT & 0xFFFFFFFF)
                bits[grams >> np.uint32(_SHIFT), column] = True
        for part, row in zip(parts, np.packbits(bits, axis=1, bitorder="little"), strict=True):
            part.append(row.tobytes())
    return [b"".join(part) for part in parts]


def candidate_blocks(rows: Sequence[bytes]) -> list[int]:
    """The blocks whose bit is set in all of the rows, ascending."""
    both = int.from_bytes(rows[0], "little")
    for row in rows[1:]:
        both &= int.from_bytes(row, "little")
    return [at for at, digit in enumerate(reversed(f"{both:b}")) if digit == "1"]


def _ngram_hash(gram: int, size: int) -> int:
    return ((gram * _HASH_MULTIPLIER + size * _HASH_SIZE_SALT) & 0xFFFFFFFF) >> _SHIFT

"""Which texts may hold a literal, told from a few bits of each: what makes exact search quick in large collections.

A text's squeezed form (see `ragcli.index.folding`) is taken in blocks, and every three and four bytes that follow one
another in a block set one of 16,384 bits, chosen by a hash: a Bloom filter (CACM 1970). The filters of thousands of
blocks are stored turned on their side, one row of bits for each of the 16,384 places (Zobel, Moffat and
Ramamohanarao, TODS 1998), so that a search reads a row for each gram of the literal, some kilobytes, and takes the
blocks whose bit is set in all of them. A block in which the literal stands always comes out; one in which it does
not, seldom.

Measured on SciFact's abstracts, share of blocks that come out for phrases of three words, of which 0.4 % hold it:
trigrams in 8,192 bits 15 %, four-grams in 8,192 bits 3.9 %, both in 16,384 bits 2.6 %. The last costs 2 KB for 8 KB
of squeezed text, and serves literals of three letters too. SQLite's own trigram index
(FTS5, `detail=none`) is as large for trigrams alone and takes five times as long to build.

No numpy but for building: exact search imports this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

PLACES: Final = 1 << 14
"""Bits in a block's filter, and rows in a sieve."""

BLOCK: Final = 8192
"""Bytes of squeezed text in a block."""

_REACH: Final = 256
_MOST_PLACES: Final = 64
_SIZES: Final = (4, 3)
_AT_ONCE: Final = 4096
_SHIFT: Final = 32 - 14
_SPREAD: Final = 0x9E3779B1
_APART: Final = 0x85EBCA6B


def places_of(literal: bytes) -> tuple[int, ...]:
    """The places of the bits that are set in every block in which `literal`, which is squeezed, begins.

    None for a literal under three bytes. Of a long one, the beginning has to do.
    """
    told = literal[:_REACH]
    places = (
        _place(int.from_bytes(told[at : at + size], "little"), size)
        for size in _SIZES
        for at in range(len(told) - size + 1)
    )
    return tuple(dict.fromkeys(places))[:_MOST_PLACES]


def blocks_of(squeezed: bytes) -> Iterator[bytes]:
    """The blocks of a text, at least one, each with as much of the next as a literal that begins in it is read of."""
    for start in range(0, max(len(squeezed), 1), BLOCK):
        yield squeezed[start : start + BLOCK + _REACH]


def sieve_rows(blocks: Iterable[bytes]) -> list[bytes]:
    """The `PLACES` rows of a sieve: bit i of each, counted from the lowest of its first byte, belongs to block i.

    Works on 64 MB, however many blocks there are.
    """
    import numpy as np

    parts: list[list[bytes]] = [[] for _ in range(PLACES)]
    rest = iter(blocks)
    while chosen := list(islice(rest, _AT_ONCE)):
        bits = np.zeros((PLACES, -(-len(chosen) // 8) * 8), np.bool_)
        for column, block in enumerate(chosen):
            data = np.frombuffer(block, np.uint8).astype(np.uint32)
            for size in _SIZES:
                grams = np.zeros(max(0, len(data) - size + 1), np.uint32)
                for at in range(size):
                    grams |= data[at : at + len(grams)] << np.uint32(8 * at)
                # Wraps around at 32 bits, as `_place` does.
                grams = grams * np.uint32(_SPREAD) + np.uint32(size * _APART & 0xFFFFFFFF)
                bits[grams >> np.uint32(_SHIFT), column] = True
        for part, row in zip(parts, np.packbits(bits, axis=1, bitorder="little"), strict=True):
            part.append(row.tobytes())
    return [b"".join(part) for part in parts]


def common_blocks(rows: Sequence[bytes]) -> list[int]:
    """The blocks whose bit is set in all of the rows, ascending."""
    both = int.from_bytes(rows[0], "little")
    for row in rows[1:]:
        both &= int.from_bytes(row, "little")
    return [at for at, digit in enumerate(reversed(f"{both:b}")) if digit == "1"]


def _place(gram: int, size: int) -> int:
    return ((gram * _SPREAD + size * _APART) & 0xFFFFFFFF) >> _SHIFT

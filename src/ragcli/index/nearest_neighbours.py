"""Brute-force nearest neighbours by inner product, prefiltered by Hamming distance of signs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ragcli.index.late_interaction import SignBits, pack_signs

if TYPE_CHECKING:
    from ragcli.array_types import BoolArray, Float32Array, Int32Array, Int64Array


SIGN_SCAN_MIN_ROWS: Final = 8192
"""Rows from which signs are worth scanning first: below, the floats are 12 MB and take less than a millisecond."""

_RESCORED: Final = 4096
_RESCORED_SHARE: Final = 8
_RESCORED_PER_WANTED: Final = 32
_BLOCK_BYTES: Final = 8 << 20
_SIGN_BLOCK: Final = 8192
_NO_ROWS: Final[tuple[int, ...]] = ()


def inner_products(vectors: Float32Array, query: Float32Array) -> Float32Array:
    """Inner products (n,) of the unit rows `vectors` (n, d) with the unit vector `query` (d,)."""
    query = np.ascontiguousarray(query, np.float32)
    scores = np.empty(len(vectors), np.float32)
    step = max(1, _BLOCK_BYTES // max(1, 4 * query.size))
    for start in range(0, len(vectors), step):
        np.dot(vectors[start : start + step], query, out=scores[start : start + step])
    return scores


def top_rows(
    vectors: Float32Array, query: Float32Array, k: int, dead: npt.ArrayLike = _NO_ROWS
) -> tuple[Int64Array, Float32Array]:
    """The `k` best rows and their scores, best first, the lower row first among equals.

    Rows in `dead` and rows whose score is not a number are left out; fewer than `k` come back when there are fewer.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        scores = inner_products(vectors, query)
    dead_rows = np.asarray(dead, np.int64)
    if dead_rows.size:
        scores[dead_rows] = np.nan
    return top_k(scores, k)


def top_rows_by_signs(
    vectors: Float32Array, signs: SignBits, query: Float32Array, k: int, dead: npt.ArrayLike = _NO_ROWS
) -> tuple[Int64Array, Float32Array]:
    """As `top_rows`, but only rows whose signs are like the query's are scored; see the module's head.

    `signs` (n, ceil(d / 8)) are `pack_signs(vectors)`. Asked for a large part of all rows, it scores every one.
    """
    rescored = max(min(_RESCORED, len(vectors) // _RESCORED_SHARE), _RESCORED_PER_WANTED * k)
    if rescored * 4 >= len(vectors):
        return top_rows(vectors, query, k, dead)
    apart = hamming_distances(signs, query)
    dead_rows = np.asarray(dead, np.int64)
    if dead_rows.size:
        apart[dead_rows] = np.iinfo(apart.dtype).max
    near = _smallest(apart, rescored)
    with np.errstate(invalid="ignore", over="ignore"):
        scores = np.asarray(vectors[near] @ np.asarray(query, np.float32), np.float32)
    if dead_rows.size:
        scores[np.isin(near, dead_rows)] = np.nan
    places, values = top_k(scores, k)
    return near[places], values


def top_rows_among(
    vectors: Float32Array, signs: SignBits | None, query: Float32Array, k: int, rows: Int64Array
) -> tuple[Int64Array, Float32Array]:
    """As `top_rows`, of the ascending `rows` alone; with `signs`, as `top_rows_by_signs` where they are very many."""
    query = np.asarray(query, np.float32)
    rescored = max(_RESCORED, _RESCORED_PER_WANTED * k)
    if signs is not None and rescored * 4 < len(rows):
        rows = rows[_smallest(hamming_distances(signs[rows], query), rescored)]
    with np.errstate(invalid="ignore", over="ignore"):
        if 2 * len(rows) > len(vectors):
            scores = inner_products(vectors, query)[rows]
        else:
            step = max(1, _BLOCK_BYTES // max(1, 4 * query.size))
            parts = [vectors[rows[start : start + step]] @ query for start in range(0, len(rows), step)]
            scores = np.concatenate(parts) if parts else np.empty(0, np.float32)
    places, values = top_k(scores, k)
    return rows[places], values


def in_sorted(numbers: Int64Array, among: Int64Array | Int32Array) -> BoolArray:
    """Which of the numbers are among these, which ascend."""
    if not len(among):
        return np.zeros(len(numbers), np.bool_)
    # Not by np.isin, which imports the whole of numpy.ma.
    found: BoolArray = among[np.minimum(np.searchsorted(among, numbers), len(among) - 1)] == numbers
    return found


def _smallest(distances: npt.NDArray[np.uint16], count: int) -> Int64Array:
    """The places of the `count` least distances, ascending, the first of equal ones."""
    # np.argpartition takes ten times as long as this.
    limit = np.partition(distances, count - 1)[count - 1]
    below = np.flatnonzero(distances < limit)
    level = np.flatnonzero(distances == limit)[: count - len(below)]
    return np.sort(np.concatenate([below, level]))


def hamming_distances(signs: SignBits, query: Float32Array) -> npt.NDArray[np.uint16]:
    """In how many dimensions each row of signs (n, ceil(d / 8)) differs from those of `query` (d,): (n,)."""
    wanted = pack_signs(np.asarray(query, np.float32)[None])
    width = wanted.shape[1]
    word = next(f"u{size}" for size in (8, 4, 2, 1) if width % size == 0)
    words = np.ascontiguousarray(signs).view(word)
    wanted = wanted.view(word)
    distances = np.empty(len(words), np.uint16)
    for start in range(0, len(words), _SIGN_BLOCK):
        counts = np.bitwise_count(words[start : start + _SIGN_BLOCK] ^ wanted)
        # Summed column by column: numpy's sum over a short axis takes four times as long.
        total = distances[start : start + _SIGN_BLOCK]
        total[...] = counts[:, 0]
        for column in range(1, counts.shape[1]):
            total += counts[:, column]
    return distances


def top_k(scores: npt.NDArray[np.floating], k: int) -> tuple[Int64Array, Float32Array]:
    """Positions and values of the `k` largest scores, largest first, the lower position first among equals."""
    candidates = np.flatnonzero(~np.isnan(scores))
    values = scores[candidates]
    k = min(k, len(values))
    if k <= 0:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    if k < len(values):
        threshold = np.partition(values, len(values) - k)[len(values) - k]
        keep = values >= threshold
        candidates, values = candidates[keep], values[keep]
    order = np.argsort(-values, kind="stable")[:k]
    return candidates[order].astype(np.int64), values[order].astype(np.float32)

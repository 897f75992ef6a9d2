"""Late interaction (ColBERT's MaxSim) over token vectors stored as sign bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import onnxruntime

    from ragcli.array_types import Float32Array, Int32Array, Int64Array

SignBits = npt.NDArray[np.uint8]

_SimilarityType = TypeVar("_SimilarityType", np.float32, np.int32)

_BLOCK: Final = 1024
_LARGEST: Final = 127
# An ONNX model of one node: c = MatMulInteger(a, b), a of unsigned and b of signed 8-bit numbers, c of 32-bit ones.
_MATMUL_MODEL: Final = (
    b'\x08\x07:P\n\x18\n\x01a\n\x01b\x12\x01c"\rMatMulInteger\x12\x01gZ\x0f\n\x01a\x12\n\n\x08\x08\x02\x12\x04\n\x00\n\x00'
    b"Z\x0f\n\x01b\x12\n\n\x08\x08\x03\x12\x04\n\x00\n\x00b\x0f\n\x01c\x12\n\n\x08\x08\x06\x12\x04\n\x00\n\x00B\x04\n\x00\x10\r"
)
_WINDOW_STEP: Final = 16
_WINDOW_STEPS: Final = 3


def pack_signs(tokens: Float32Array) -> SignBits:
    """Sign bits (t, ceil(d / 8)) of token vectors (t, d): 1 where a number is above zero."""
    return np.packbits(np.asarray(tokens) > 0, axis=1)


class TokenBitSource(Protocol):
    """Rows of bits that can be read a stretch at a time; `ragcli.index.append_only_array.RowRangeReader` is one."""

    def read(self, starts: Sequence[int], stops: Sequence[int]) -> SignBits:
        """The rows of each stretch `starts[i]:stops[i]`, one stretch after another."""
        ...


@dataclass(frozen=True, slots=True)
class TokenReader:
    """Packed tokens of many chunks: row r owns the stretch `offsets[r]:offsets[r + 1]` of `bits`.

    `offsets` (rows + 1,) may be a memory map; only what is asked for is read. `check` is given the rows, their bits
    one after another and how many each has, and raises if they are not what was written.
    """

    bits: TokenBitSource
    offsets: Int64Array
    check: Callable[[Sequence[int], SignBits, Sequence[int]], None] | None = None

    def gather(self, rows: Sequence[int] | Int64Array) -> tuple[SignBits, Int64Array]:
        """The bits of the given rows one after another, and the number of tokens of each."""
        wanted = np.asarray(rows, np.int64)
        offsets = np.asarray(self.offsets)
        starts, stops = offsets[wanted], offsets[wanted + 1]
        bits, counts = self.bits.read(starts.tolist(), stops.tolist()), stops - starts
        if self.check is not None:
            self.check(wanted.tolist(), bits, counts.tolist())
        return bits, counts


@dataclass(frozen=True, slots=True)
class LateInteractionScores:
    """Late interaction two ways, float32 (n,) each.

    `whole` lets each query token find its best match anywhere in the passage. `window` wants them near one
    another: it is the best that any stretch of some 48 tokens does alone (passage evidence within a passage:
    Callan, SIGIR 1994).
    """

    whole: Float32Array
    window: Float32Array


def max_sim(
    query_tokens: Float32Array, query_weights: Float32Array, bits: SignBits, counts: Int64Array
) -> LateInteractionScores:
    """Scores for query tokens (q, d), unit rows, with weights (q,), of n chunks with `counts` (n,) tokens each.

    `bits` (t, ceil(d / 8)) are the sign bits of their tokens, chunk after chunk. A chunk without tokens scores 0.
    Weights must not be negative; divide them by their sum for scores in [-1, 1].
    """
    of_block, filled = _cosines_of_blocks(query_tokens, bits, counts)
    return _scores_of_blocks(of_block, filled, query_weights)


def max_sim_and_cosines(
    query_tokens: Float32Array, query_weights: Float32Array, bits: SignBits, counts: Int64Array
) -> tuple[LateInteractionScores, Float32Array]:
    """As `max_sim`, and how near the nearest token of each chunk comes to each of the query: cosines (n, q).

    Of a chunk without any token they are 0.
    """
    of_block, filled = _cosines_of_blocks(query_tokens, bits, counts)
    return _scores_of_blocks(of_block, filled, query_weights), _best_of_chunks(of_block, filled)


def max_cosines_of_similarities(similarities: Float32Array, counts: Int64Array) -> Float32Array:
    """The cosines of `max_sim_and_cosines` from those (tokens, q) of every token of n passages, `counts` (n,) each."""
    return _best_of_chunks(_block_maxima(similarities, counts), counts)


def max_sim_of_similarities(
    similarities: Float32Array, counts: Int64Array, query_weights: Float32Array
) -> LateInteractionScores:
    """Scores from the cosines (tokens, q) of every token of n passages, which have `counts` (n,) tokens each."""
    return _scores_of_blocks(_block_maxima(similarities, counts), counts, query_weights)


def _cosines_of_blocks(
    query_tokens: Float32Array, bits: SignBits, counts: Int64Array
) -> tuple[Float32Array, Int64Array]:
    """The best cosines in each block of tokens of chunks with `counts` tokens, (blocks, q), and those counts.

    Without any tokens, or any of the query's, the counts are all 0.
    """
    query = np.asarray(query_tokens, np.float32)
    if not len(bits) or not len(query):
        return np.zeros((0, len(query)), np.float32), np.zeros(len(counts), np.int64)
    scale = np.maximum(np.abs(query).max(axis=1), np.float32(1e-30)) / np.float32(_LARGEST)
    whole = np.rint(query / scale[:, None]).astype(np.int8)
    best = _block_maxima(_integer_products(whole, bits), counts).astype(np.float32)
    # With bits b in {0, 1}, signs are 2b - 1, so q.s = (2 q.b - sum(q)) / sqrt(d).
    best *= 2 * scale
    # Of the rounded numbers too, so that rounding them all up or down does not shift every cosine.
    best -= whole.sum(axis=1, dtype=np.int32) * scale
    best /= np.sqrt(np.float32(query.shape[1]))
    return best, counts


def _best_of_chunks(of_block: Float32Array, counts: Int64Array) -> Float32Array:
    best = np.zeros((len(counts), of_block.shape[1]), np.float32)
    filled = np.flatnonzero(counts)
    if len(filled):
        blocks = -(-np.asarray(counts)[filled] // _WINDOW_STEP)
        best[filled] = np.maximum.reduceat(of_block, np.cumsum(blocks) - blocks, axis=0)
    return best


def _block_maxima(similarities: npt.NDArray[_SimilarityType], counts: Int64Array) -> npt.NDArray[_SimilarityType]:
    """The columns' maxima over each block of tokens: (blocks, q)."""
    if not len(similarities):
        return similarities
    blocks = -(-counts // _WINDOW_STEP)
    # Block b of passage p begins at p's first token plus _WINDOW_STEP times b.
    within = np.arange(int(blocks.sum())) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    starts = np.repeat(np.cumsum(counts) - counts, blocks) + within * _WINDOW_STEP
    maxima: npt.NDArray[_SimilarityType] = np.maximum.reduceat(similarities, starts, axis=0)
    return maxima


def _scores_of_blocks(of_block: Float32Array, counts: Int64Array, query_weights: Float32Array) -> LateInteractionScores:
    weights = np.asarray(query_weights, np.float32)
    scores = LateInteractionScores(np.zeros(len(counts), np.float32), np.zeros(len(counts), np.float32))
    filled = np.flatnonzero(counts)
    if not len(filled):
        return scores
    blocks = -(-np.asarray(counts)[filled] // _WINDOW_STEP)
    first_blocks = np.cumsum(blocks) - blocks
    scores.whole[filled] = np.maximum.reduceat(of_block, first_blocks, axis=0) @ weights
    left = np.repeat(blocks + first_blocks, blocks) - np.arange(int(blocks.sum()))
    windows = of_block.copy()
    for ahead in range(1, _WINDOW_STEPS):
        inside = np.flatnonzero(left > ahead)
        windows[inside] = np.maximum(windows[inside], of_block[inside + ahead])
    scores.window[filled] = np.maximum.reduceat(windows @ weights, first_blocks)
    return scores


def _integer_products(query: npt.NDArray[np.int8], bits: SignBits) -> Int32Array:
    """For each token the sum of the query's numbers (q, d) where its bit is set: (tokens, q)."""
    width = 8 * bits.shape[1]
    columns = np.zeros((width, len(query)), np.int8)
    columns[: query.shape[1]] = query.T
    overlaps = np.empty((len(bits), len(query)), np.int32)
    product = _matmul_session()
    for start in range(0, len(bits), _BLOCK):
        # Unpacked as one long row, which numpy does faster than many short ones.
        unpacked = np.unpackbits(bits[start : start + _BLOCK].reshape(-1)).reshape(-1, width)
        overlaps[start : start + _BLOCK] = product.run(None, {"a": unpacked, "b": columns})[0]
    return overlaps


@cache
def _matmul_session() -> onnxruntime.InferenceSession:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(_MATMUL_MODEL, options, providers=["CPUExecutionProvider"])


def idf_weights(token_ids: npt.ArrayLike, frequency: Int64Array, chunk_count: int) -> Float32Array:
    """BM25's idf, log(1 + (N - df + 0.5) / (df + 0.5)), of each token id (q,).

    `frequency` (vocabulary,) says in how many of the `chunk_count` chunks a token id stands.
    """
    ids = np.asarray(token_ids, np.int64)
    # Counts that damage has put out of their range must not make weights that are no numbers.
    df = np.clip(np.asarray(frequency)[ids].astype(np.float64), 0.0, max(chunk_count, 0))
    return np.log1p((max(chunk_count, 0) - df + 0.5) / (df + 0.5)).astype(np.float32)


def chunk_frequency(token_ids: Iterable[npt.ArrayLike], vocabulary_size: int) -> Int64Array:
    """In how many of the given chunks each token id stands: (vocabulary_size,), from one id array a chunk."""
    frequency = np.zeros(vocabulary_size, np.int64)
    for ids in token_ids:
        frequency[np.unique(np.asarray(ids, np.int64))] += 1
    return frequency

"""Run exported encoders and cross-encoders on ONNX Runtime, one window per thread.

A first sentence costs about 0.1 s and 65 MB beyond Python and numpy; through sentence-transformers it is 5 s and 600
MB. Each run uses one thread and several runs go on at once: splitting every small operation over the cores gave 21
chunks/s against 40 on two shared cores. The graph is final, so the optimiser stays off and a session is ready in some
30 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from ragcli.models.engine_interface import (
    Encoding,
    ExportError,
    FloatArray,
    IntArray,
    text_vector,
    unit_rows,
    weighted_window,
)
from ragcli.models.wordpiece_tokenizer import WindowedTokenizer, replace_surrogates_for_tokenizer

if TYPE_CHECKING:
    import onnxruntime
    from tokenizers import Tokenizer


ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


def open_session(path: Path) -> onnxruntime.InferenceSession:
    """Load a graph written by `export`; its weights file is mapped, so that only what is used is read.

    Raises ExportError for a graph that is damaged or that this version of the runtime does not know.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    # The runtime has a dozen exception classes with no base of their own.
    except Exception as error:
        raise ExportError(f"ONNX Runtime cannot load its graph ({error})") from None


def map_in_threads(work: Callable[[ItemT], ResultT], items: Sequence[ItemT], workers: int) -> list[ResultT]:
    """`work` of every item, in order, on that many threads. An interrupt stops it after the runs under way."""
    if workers < 2 or len(items) < 2:
        return [work(item) for item in items]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(workers, len(items))) as pool:
        waiting = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


# Texts worked on at once: bounds the memory for pieces and keeps the threads evenly loaded to the end.
_BLOCK = 512


@dataclass(frozen=True, slots=True)
class OnnxEncoder:
    """An exported sentence encoder. Thread-safe."""

    name: str
    fingerprint: str
    dimension: int
    vocabulary_size: int
    pooling: Literal["mean", "cls"]
    pieces: WindowedTokenizer
    session: onnxruntime.InferenceSession
    workers: int
    engine: str = "onnx"

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) unit rows."""
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), _BLOCK):
            windows = self.pieces.split(texts[start : start + _BLOCK])
            for place, shares in enumerate(self._each(windows, lambda states: weighted_window(states, self.pooling))):
                vectors[start + place] = text_vector(shares)
        return vectors

    def encode_tokens(self, texts: Sequence[str]) -> list[Encoding]:
        """Each text's vector and the unit rows of its tokens, in text order across windows."""
        encodings = []
        for start in range(0, len(texts), _BLOCK):
            windows = self.pieces.split(texts[start : start + _BLOCK])
            for ids, parts in zip(windows, self._each(windows, self._share_and_tokens), strict=True):
                vector = text_vector([share for share, _ in parts])
                tokens = [rows for _, rows in parts]
                one = len(parts) == 1
                encodings.append(
                    Encoding(
                        vector=vector,
                        tokens=tokens[0] if one else np.concatenate(tokens),
                        token_ids=ids[0] if one else np.concatenate(ids),
                    )
                )
        return encodings

    def states(self, ids: IntArray) -> FloatArray:
        """(t, d) the last layer's states of one window, special tokens included."""
        states: FloatArray = self.session.run(["states"], {"ids": ids[None]})[0][0]
        return states

    def _share_and_tokens(self, states: FloatArray) -> tuple[FloatArray, FloatArray]:
        inside = states[len(self.pieces.before) : len(states) - len(self.pieces.after)]
        return weighted_window(states, self.pooling), unit_rows(inside)

    def _each(
        self, windows: Sequence[Sequence[IntArray]], reduce: Callable[[FloatArray], ResultT]
    ) -> list[list[ResultT]]:
        """`reduce` of every window's states, grouped by text. Longest first, so that no thread ends up alone."""
        flat = [window for text in windows for window in text]
        order = sorted(range(len(flat)), key=lambda place: -len(flat[place]))
        done = map_in_threads(lambda place: reduce(self.states(self.pieces.wrap(flat[place]))), order, self.workers)
        results = dict(zip(order, done, strict=True))
        places = iter(range(len(flat)))
        return [[results[next(places)] for _ in text] for text in windows]


@dataclass(frozen=True, slots=True)
class OnnxCrossEncoder:
    """An exported cross-encoder. Thread-safe. `squash` is the function its publisher puts on the score."""

    name: str
    tokenizer: Tokenizer
    session: onnxruntime.InferenceSession
    score_activation: Literal["sigmoid", "identity"]
    max_passage_chars: int
    workers: int
    engine: str = "onnx"

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """(n,) the scores of (query, text), of each text's first `passage_characters` characters."""
        raw = self.raw_scores([(query, text[: self.max_passage_chars]) for text in texts])
        if self.score_activation == "identity":
            return raw
        squashed: FloatArray = (1 / (1 + np.exp(-raw.astype(np.float64)))).astype(np.float32)
        return squashed

    def raw_scores(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """(n,) the scores before squashing."""
        inputs = [pair_inputs(self.tokenizer, pair) for pair in pairs]
        order = sorted(range(len(inputs)), key=lambda place: -inputs[place]["ids"].shape[1])
        scores = np.zeros(len(inputs), dtype=np.float32)
        scores[order] = map_in_threads(
            lambda place: float(self.session.run(["score"], inputs[place])[0][0, 0]), order, self.workers
        )
        return scores


def pair_inputs(tokenizer: Tokenizer, pair: tuple[str, str]) -> Mapping[str, IntArray]:
    """The graph's inputs for one (question, passage): token ids and which of the two each belongs to."""
    encoding = tokenizer.encode(replace_surrogates_for_tokenizer(pair[0]), replace_surrogates_for_tokenizer(pair[1]))
    return {"ids": np.asarray([encoding.ids], np.int32), "types": np.asarray([encoding.type_ids], np.int32)}

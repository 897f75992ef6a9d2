"""The engine for machines without a GPU: ONNX Runtime and the tokenizers library, nothing else.

A first sentence costs about 0.1 s and 65 MB beyond Python and numpy; through sentence-transformers it is 5 s and
600 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ragcli.models.pieces import Pieces, encodable
from ragcli.models.pooling import text_vector, unit_rows, weighted_window
from ragcli.models.protocols import Encoding, FloatArray, IntArray
from ragcli.models.session import Result, run_all

if TYPE_CHECKING:
    import onnxruntime
    from tokenizers import Tokenizer

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
    pieces: Pieces
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
        self, windows: Sequence[Sequence[IntArray]], reduce: Callable[[FloatArray], Result]
    ) -> list[list[Result]]:
        """`reduce` of every window's states, grouped by text. Longest first, so that no thread ends up alone."""
        flat = [window for text in windows for window in text]
        order = sorted(range(len(flat)), key=lambda place: -len(flat[place]))
        done = run_all(lambda place: reduce(self.states(self.pieces.wrap(flat[place]))), order, self.workers)
        results = dict(zip(order, done, strict=True))
        places = iter(range(len(flat)))
        return [[results[next(places)] for _ in text] for text in windows]


@dataclass(frozen=True, slots=True)
class OnnxCrossEncoder:
    """An exported cross-encoder. Thread-safe. `squash` is the function its publisher puts on the score."""

    name: str
    tokenizer: Tokenizer
    session: onnxruntime.InferenceSession
    squash: Literal["sigmoid", "identity"]
    passage_characters: int
    workers: int
    engine: str = "onnx"

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """(n,) the scores of (query, text), of each text's first `passage_characters` characters."""
        raw = self.raw_scores([(query, text[: self.passage_characters]) for text in texts])
        if self.squash == "identity":
            return raw
        squashed: FloatArray = (1 / (1 + np.exp(-raw.astype(np.float64)))).astype(np.float32)
        return squashed

    def raw_scores(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """(n,) the scores before squashing."""
        inputs = [pair_inputs(self.tokenizer, pair) for pair in pairs]
        order = sorted(range(len(inputs)), key=lambda place: -inputs[place]["ids"].shape[1])
        scores = np.zeros(len(inputs), dtype=np.float32)
        scores[order] = run_all(
            lambda place: float(self.session.run(["score"], inputs[place])[0][0, 0]), order, self.workers
        )
        return scores


def pair_inputs(tokenizer: Tokenizer, pair: tuple[str, str]) -> Mapping[str, IntArray]:
    """The graph's inputs for one (question, passage): token ids and which of the two each belongs to."""
    encoding = tokenizer.encode(encodable(pair[0]), encodable(pair[1]))
    return {"ids": np.asarray([encoding.ids], np.int32), "types": np.asarray([encoding.type_ids], np.int32)}

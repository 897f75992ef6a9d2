"""Protocols of encoders and rerankers, and the pooling that their engines share.

Two engines stand behind `Encoder`. They share weights, tokens and windows, so a collection made with one can be
queried with the other; `fingerprint` says that it is the same model. A text read in several windows gets the mean
over all windows' token states, as if the model had pooled once over the whole text: each window counts by its tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]
Engine = Literal["auto", "onnx", "torch"]


class ExportError(Exception):
    """The model is not one that can be exported, or its export does not hold. The sentence says why."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """One text, encoded.

    vector: (d,) unit length. tokens: (t, d) unit rows in text order, special tokens left out.
    token_ids: (t,) the word pieces that the rows belong to.
    """

    vector: FloatArray
    tokens: FloatArray
    token_ids: IntArray


class Encoder(Protocol):
    """Turns texts into unit vectors. A text longer than the model reads is read in windows, all of it."""

    @property
    def name(self) -> str:
        """As published, "sentence-transformers/all-MiniLM-L6-v2", or the folder it was loaded from."""

    @property
    def engine(self) -> str:
        """ "onnx" or "torch"."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the weights, hexadecimal; the same whichever engine runs them."""

    @property
    def dimension(self) -> int:
        """d, the length of a text's vector."""

    @property
    def vocabulary_size(self) -> int:
        """Every token id is below it."""

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """(n, d) unit rows, in the order of the texts."""

    def encode_tokens(self, texts: Sequence[str]) -> list[Encoding]:
        """The same vectors with every token's state. About 400 KB a chunk: call it with some hundreds at most."""


class TextReranker(Protocol):
    """Scores passages against a question by reading both at once (a cross-encoder)."""

    @property
    def name(self) -> str:
        """As published, or the folder it was loaded from."""

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """(n,) one score a text, higher is better; on the model's own scale."""


def unit_rows(rows: FloatArray) -> FloatArray:
    """Rows divided by their length; a row of zeros stays zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return np.asarray(rows / lengths, dtype=np.float32)


def weighted_window(states: FloatArray, pooling: str) -> FloatArray:
    """A window's share in its text's vector, (d,): its pooled state times its number of tokens."""
    if pooling == "cls":
        return np.asarray(states[0] * len(states), dtype=np.float32)
    return np.asarray(states.sum(axis=0), dtype=np.float32)


def text_vector(shares: Iterable[FloatArray]) -> FloatArray:
    """The unit vector of a text from its windows' shares. The sum of weights falls away with the length."""
    total = np.sum(np.stack(list(shares)), axis=0, keepdims=True)
    return np.asarray(unit_rows(total)[0], dtype=np.float32)

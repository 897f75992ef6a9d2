"""Late interaction without stored token vectors, and the choice between the rerankers.

Late interaction (ColBERT's MaxSim: Khattab and Zaharia, SIGIR 2020, arXiv:2004.12832) compares the encoder's own
token states, so it needs no second model. Collections keep token vectors as sign bits; where one keeps none, its
pool is encoded on the spot.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragcli.models.find import DEFAULT_CROSS_ENCODER, find_model
from ragcli.models.protocols import Encoder, Encoding, FloatArray

# Passages held as token states at once: 64 of 256 tokens are 25 MB.
_BLOCK = 64


def late_scores(encoder: Encoder, query: Encoding, weights: FloatArray, texts: Sequence[str]) -> FloatArray:
    """(n,) MaxSim of the question with each text, which is encoded here.

    `weights` (t,) says how much each of the question's tokens counts, such as its inverse document frequency. For
    each of them the best cosine to any token of the text is taken; a text without tokens scores the lowest, -1 each.
    """
    scores = np.empty(len(texts), dtype=np.float32)
    for start in range(0, len(texts), _BLOCK):
        for place, passage in enumerate(encoder.encode_tokens(texts[start : start + _BLOCK]), start):
            scores[place] = weights @ (query.tokens @ passage.tokens.T).max(axis=1, initial=-1.0)
    return scores


def choose_reranker(asked: str) -> str:
    """What `auto` means on this machine: the default cross-encoder where its weights are here, else "late".

    Any other name is returned as it is. Looks at files only, never at the network.
    """
    if asked != "auto":
        return asked
    return DEFAULT_CROSS_ENCODER if find_model(DEFAULT_CROSS_ENCODER) is not None else "late"

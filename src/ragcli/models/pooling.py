"""From token states to a text's vector.

A text read in several windows gets the mean over all windows' token states, as if the model had pooled once over
the whole text: each window counts by its tokens, so a last short one does not weigh as much as a full one. With
[CLS] pooling the windows' [CLS] states are averaged with the same weights.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ragcli.models.protocols import FloatArray


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

"""Pseudo-relevance feedback inside the pool: what resembles the best documents moves up.

The best chunk of each of the first five documents is taken for relevant, in proportion to how far it stands out
(softmax of the fused scores), and every candidate is scored by its vectors' cosine to them. This is Rocchio's
feedback (1971) with weights as in relevance models (Lavrenko and Croft, SIGIR 2001), applied to dense vectors and
to the pool alone, so that it costs one small matrix product and no second search. A chunk counts as its own
neighbour; without that the best ones would lose to their likeness.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.retrieval.fusion import Scores

if TYPE_CHECKING:
    from ragcli.models import FloatArray

DOCUMENTS: Final = 5
SHARPNESS: Final = 4.0


def feedback_scores(fused: Scores, vectors: FloatArray, documents: Sequence[Hashable]) -> Scores:
    """Likeness (n,) of each candidate to the best ones.

    `fused` (n,) are z-scores, `vectors` (n, d) unit rows, `documents` says which document each candidate is from.
    """
    leaders: dict[Hashable, int] = {}
    for place in np.argsort(-fused, kind="stable").tolist():
        leaders.setdefault(documents[place], place)
        if len(leaders) == DOCUMENTS:
            break
    places = list(leaders.values())
    if not places:
        return np.zeros(0)
    weights = np.exp(SHARPNESS * (fused[places] - fused[places[0]]))
    likeness: Scores = (vectors @ vectors[places].T) @ (weights / weights.sum())
    return likeness

"""Stage 2: a second, closer look at the pool.

Late interaction needs no second model: the encoder's own token vectors are compared one by one (MaxSim,
Khattab and Zaharia, SIGIR 2020, arXiv:2004.12832), each word piece of the question weighing as much as it is
rare in the collections at hand. The passages' token vectors are kept as sign bits at ingest. A collection
that keeps none has its pool encoded on the spot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ragcli.retrieval.candidates import Pool, Question, StageScores

if TYPE_CHECKING:
    from ragcli.collection import Snapshot
    from ragcli.models import Encoder, TextReranker


def late_scores(
    snapshots: Sequence[Snapshot], pool: Pool, question: Question, encoder: Callable[[], Encoder]
) -> StageScores:
    """MaxSim of the question against each candidate, float64 (n,)."""
    from ragcli.index.tokens import idf_weights, max_sim
    from ragcli.models import late_scores as encode_and_compare

    query = question.encoding
    frequency = np.sum([snapshot.token_frequency for snapshot in snapshots], axis=0)
    total = sum(snapshot.chunk_count for snapshot in snapshots)
    weights = idf_weights(query.token_ids, frequency, total)
    scores = np.zeros(len(pool), dtype=np.float64)
    for owner, snapshot in enumerate(snapshots):
        mine = pool.owners == owner
        if not mine.any():
            continue
        if snapshot.tokens is not None:
            scores[mine] = max_sim(query.tokens, weights, snapshot.tokens, pool.rows[mine])
        else:
            texts = _texts(snapshot, pool.numbers[mine].tolist())
            scores[mine] = encode_and_compare(encoder(), query, weights, texts)
    return scores


def cross_scores(snapshots: Sequence[Snapshot], pool: Pool, reranker: TextReranker, text: str) -> StageScores:
    """A cross-encoder's score of (question, passage) for each candidate, float64 (n,)."""
    passages = np.empty(len(pool), dtype=object)
    for owner, snapshot in enumerate(snapshots):
        mine = np.flatnonzero(pool.owners == owner)
        passages[mine] = _texts(snapshot, pool.numbers[mine].tolist())
    return np.asarray(reranker.score(text, passages.tolist()), dtype=np.float64) if len(pool) else np.zeros(0)


def _texts(snapshot: Snapshot, numbers: list[int]) -> list[str]:
    chunks = snapshot.chunks(numbers)
    return [chunks[number].text for number in numbers]

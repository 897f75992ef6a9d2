"""Stage 2: a second, closer look at the pool.

Late interaction needs no second model: the encoder's own token vectors are compared one by one (MaxSim,
Khattab and Zaharia, SIGIR 2020, arXiv:2004.12832), each word piece of the question weighing as much as it is
rare in the collections at hand. The passages' token vectors are kept as sign bits at ingest. A collection
that keeps none has its pool encoded on the spot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.retrieval.candidates import Pool, Question, StageScores

if TYPE_CHECKING:
    from ragcli.collection import Snapshot
    from ragcli.index.tokens import LateScores
    from ragcli.models import Encoder, Encoding, FloatArray, TextReranker

_ENCODED_AT_ONCE: Final = 32


def late_stage(
    snapshots: Sequence[Snapshot], pool: Pool, question: Question, encoder: Callable[[], Encoder]
) -> dict[str, StageScores]:
    """MaxSim of the question with each candidate as a whole ("rerank") and with its best window ("window")."""
    from ragcli.index.tokens import idf_weights, max_sim

    query = question.encoding
    # An index taken over without its model has counted no word pieces.
    frequency = np.zeros(encoder().vocabulary_size, np.int64)
    for snapshot in snapshots:
        frequency[: len(snapshot.token_frequency)] += snapshot.token_frequency
    weights = idf_weights(query.token_ids, frequency, sum(snapshot.chunk_count for snapshot in snapshots))
    scores = {"rerank": np.zeros(len(pool)), "window": np.zeros(len(pool))}
    for owner, snapshot in enumerate(snapshots):
        mine = pool.owners == owner
        if not mine.any():
            continue
        if snapshot.tokens is not None:
            found = max_sim(query.tokens, weights, snapshot.tokens, pool.rows[mine])
        else:
            found = _encode_and_compare(encoder(), query, weights, _texts(snapshot, pool.numbers[mine].tolist()))
        scores["rerank"][mine], scores["window"][mine] = found.whole, found.window
    return scores


def _encode_and_compare(encoder: Encoder, query: Encoding, weights: FloatArray, texts: Sequence[str]) -> LateScores:
    from ragcli.index.tokens import LateScores, late_scores

    parts = []
    for start in range(0, len(texts), _ENCODED_AT_ONCE):
        passages = encoder.encode_tokens(texts[start : start + _ENCODED_AT_ONCE])
        similarities = np.concatenate([passage.tokens for passage in passages]) @ query.tokens.T
        parts.append(late_scores(similarities, np.asarray([len(passage.tokens) for passage in passages]), weights))
    return LateScores(np.concatenate([part.whole for part in parts]), np.concatenate([part.window for part in parts]))


def cross_scores(snapshots: Sequence[Snapshot], pool: Pool, reranker: TextReranker, text: str) -> StageScores:
    """A cross-encoder's score of (question, passage) for each candidate, float64 (n,)."""
    passages = np.empty(len(pool), dtype=object)
    for owner, snapshot in enumerate(snapshots):
        mine = np.flatnonzero(pool.owners == owner)
        passages[mine] = _texts(snapshot, pool.numbers[mine].tolist())
    return np.asarray(reranker.score(text, passages.tolist()), dtype=np.float64) if len(pool) else np.zeros(0)


def _texts(snapshot: Snapshot, numbers: list[int]) -> list[str]:
    chunks = snapshot.live_chunks(numbers)
    return [chunks[number].text for number in numbers]

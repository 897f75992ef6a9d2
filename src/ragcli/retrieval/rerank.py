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
    from ragcli.models import Encoder, Encoding, FloatArray, IntArray, TextReranker

_ENCODED_AT_ONCE: Final = 32


def late_stage(
    snapshots: Sequence[Snapshot], pool: Pool, question: Question, encoder: Callable[[], Encoder]
) -> dict[str, StageScores]:
    """MaxSim of the question with each candidate as a whole ("rerank") and with its best window ("window")."""
    from ragcli.index.tokens import max_sim_of_all

    query = question.encoding
    weights = piece_weights(snapshots, query.token_ids)
    scores = {"rerank": np.zeros(len(pool)), "window": np.zeros(len(pool))}
    owners = dict.fromkeys(pool.owners.tolist())
    kept = [(owner, reader) for owner in owners if (reader := snapshots[owner].tokens) is not None]
    if kept:
        # Not by np.isin, which imports the whole of numpy.ma.
        whose = {owner for owner, _ in kept}
        mine = np.asarray([owner in whose for owner in pool.owners.tolist()])
        parts = [(reader, pool.rows[pool.owners == owner]) for owner, reader in kept]
        found = max_sim_of_all(query.tokens, weights, parts)
        scores["rerank"][mine], scores["window"][mine] = found.whole, found.window
    for owner in owners:
        if snapshots[owner].tokens is None:
            mine = pool.owners == owner
            texts = _texts(snapshots[owner], pool.numbers[mine].tolist())
            found = compare_with_texts(encoder(), query, weights, texts)
            scores["rerank"][mine], scores["window"][mine] = found.whole, found.window
    return scores


def piece_weights(snapshots: Sequence[Snapshot], token_ids: IntArray) -> FloatArray:
    """How much each word piece of a question (t,) counts: the rarer in these collections together, the more."""
    from ragcli.index.tokens import idf_weights

    frequency = np.zeros(len(token_ids), np.int64)
    for snapshot in snapshots:
        # An index taken over without its model has counted no word pieces.
        if len(snapshot.token_frequency):
            frequency += snapshot.token_frequency[token_ids]
    return idf_weights(range(len(frequency)), frequency, sum(snapshot.chunk_count for snapshot in snapshots))


def compare_with_texts(encoder: Encoder, query: Encoding, weights: FloatArray, texts: Sequence[str]) -> LateScores:
    """Late interaction with texts that are encoded here; `weights` are those of the query's word pieces."""
    from ragcli.index.tokens import LateScores, late_scores

    parts = [LateScores(np.zeros(0, np.float32), np.zeros(0, np.float32))]
    for start in range(0, len(texts), _ENCODED_AT_ONCE):
        passages = encoder.encode_tokens(texts[start : start + _ENCODED_AT_ONCE])
        similarities = np.concatenate([passage.tokens for passage in passages]) @ query.tokens.T
        parts.append(late_scores(similarities, np.asarray([len(passage.tokens) for passage in passages]), weights))
    return LateScores(np.concatenate([part.whole for part in parts]), np.concatenate([part.window for part in parts]))


def cross_scores(snapshots: Sequence[Snapshot], pool: Pool, reranker: TextReranker, text: str) -> StageScores:
    """A cross-encoder's score of (question, passage) for each candidate, float64 (n,)."""
    passages = np.empty(len(pool), dtype=object)
    for owner in dict.fromkeys(pool.owners.tolist()):
        mine = np.flatnonzero(pool.owners == owner)
        passages[mine] = _texts(snapshots[owner], pool.numbers[mine].tolist())
    return np.asarray(reranker.score(text, passages.tolist()), dtype=np.float64) if len(pool) else np.zeros(0)


def _texts(snapshot: Snapshot, numbers: list[int]) -> list[str]:
    chunks = snapshot.live_chunks(numbers)
    return [chunks[number].text for number in numbers]

"""Second stage: late interaction (MaxSim) and cross-encoders over chunks and over sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.config.config_keys import is_remote_reranker
from ragcli.retrieval.stages import CandidatePool, EncodedQuery, StageScores
from ragcli.text.stop_words import content_words
from ragcli.types import NO_ENCODER

if TYPE_CHECKING:
    import numpy.typing as npt

    from ragcli.engines import CollectionReader
    from ragcli.index.late_interaction import LateInteractionScores
    from ragcli.models import Encoder, Encoding, FloatArray, IntArray, TextReranker
    from ragcli.retrieval.search_session import SearchSession
    from ragcli.types import StoredChunk

    Scores = npt.NDArray[np.float64]


_ENCODE_BATCH: Final = 32


def late_interaction_scores(
    readers: Sequence[CollectionReader], pool: CandidatePool, question: EncodedQuery, encoder: Callable[[], Encoder]
) -> dict[str, StageScores]:
    """MaxSim of the question with each candidate as a whole ("rerank") and with its best window ("window")."""
    from ragcli.index.late_interaction import max_sim

    query = question.encoding
    weights = token_weights(readers, query.token_ids)
    scores = {"rerank": np.zeros(len(pool)), "window": np.zeros(len(pool))}
    owners = dict.fromkeys(pool.owners.tolist())
    places = {owner: np.flatnonzero(pool.owners == owner) for owner in owners}
    kept = [owner for owner in owners if readers[owner].has_token_vectors]
    if kept:
        # One product over all collections costs less than many small ones.
        mine = np.concatenate([places[owner] for owner in kept])
        bits, counts = zip(*(readers[owner].token_bits(pool.numbers[places[owner]]) for owner in kept), strict=True)
        found = max_sim(query.tokens, weights, np.concatenate(bits), np.concatenate(counts))
        scores["rerank"][mine], scores["window"][mine] = found.whole, found.window
    for owner in owners:
        if owner not in kept:
            texts = chunk_texts(readers[owner], pool.numbers[places[owner]].tolist())
            found = late_interaction_with_texts(encoder(), query, weights, texts)
            scores["rerank"][places[owner]], scores["window"][places[owner]] = found.whole, found.window
    return scores


def token_weights(readers: Sequence[CollectionReader], token_ids: IntArray) -> FloatArray:
    """How much each word piece of a question (t,) counts: the rarer in these collections together, the more."""
    from ragcli.index.late_interaction import idf_weights

    frequency = np.zeros(len(token_ids), np.int64)
    for reader in readers:
        frequency += reader.token_frequency(token_ids)
    return idf_weights(range(len(frequency)), frequency, sum(reader.chunk_count for reader in readers))


def late_interaction_with_texts(
    encoder: Encoder, query: Encoding, weights: FloatArray, texts: Sequence[str]
) -> LateInteractionScores:
    """Late interaction with texts that are encoded here; `weights` are those of the query's word pieces."""
    from ragcli.index.late_interaction import LateInteractionScores, max_sim_of_similarities

    parts = [LateInteractionScores(np.zeros(0, np.float32), np.zeros(0, np.float32))]
    for start in range(0, len(texts), _ENCODE_BATCH):
        passages = encoder.encode_tokens(texts[start : start + _ENCODE_BATCH])
        similarities = np.concatenate([passage.tokens for passage in passages]) @ query.tokens.T
        parts.append(
            max_sim_of_similarities(similarities, np.asarray([len(passage.tokens) for passage in passages]), weights)
        )
    return LateInteractionScores(
        np.concatenate([part.whole for part in parts]), np.concatenate([part.window for part in parts])
    )


def cross_encoder_scores(
    readers: Sequence[CollectionReader], pool: CandidatePool, reranker: TextReranker, text: str
) -> StageScores:
    """A cross-encoder's score of (question, passage) for each candidate, float64 (n,)."""
    passages = np.empty(len(pool), dtype=object)
    for owner in dict.fromkeys(pool.owners.tolist()):
        mine = np.flatnonzero(pool.owners == owner)
        passages[mine] = chunk_texts(readers[owner], pool.numbers[mine].tolist())
    return np.asarray(reranker.score(text, passages.tolist()), dtype=np.float64) if len(pool) else np.zeros(0)


def chunk_texts(reader: CollectionReader, numbers: Sequence[int]) -> list[str]:
    """The texts (n,) of chunks."""
    chunks = reader.chunks(numbers)
    return [chunks[number].text for number in numbers]


def sentence_scores(
    session: SearchSession, question: str, passages: Sequence[tuple[StoredChunk, Sequence[str]]], reranker: str | None
) -> list[Scores]:
    """How well each sentence answers the question, (n,) for each passage's n sentences; higher is better.

    A cross-encoder on this machine reads question and sentence together. Else late interaction compares their words'
    vectors, the rare words counting more, which gives at most 1; and in a collection without an encoder what counts
    is the share of the question's words that a sentence has, again by how rare they are. Only within one call and
    collections of one encoder can scores be compared.
    """
    if reranker not in (None, "late", "none", "auto") and not is_remote_reranker(str(reranker)):
        model = session.reranker(str(reranker))
        texts = [sentence for _, sentences in passages for sentence in sentences]
        flat = np.asarray(model.score(question, texts), np.float64) if texts else np.zeros(0)
        return np.split(flat, np.cumsum([len(sentences) for _, sentences in passages])[:-1]) if passages else []
    of_name = {reader.name: reader for reader in session.readers}
    found: list[Scores] = [np.zeros(len(sentences)) for _, sentences in passages]
    by_encoder: dict[str, list[int]] = {}
    for place, (chunk, _) in enumerate(passages):
        by_encoder.setdefault(of_name[chunk.collection].settings.encoder, []).append(place)
    for encoder, places in by_encoder.items():
        readers = [each for each in session.readers if each.settings.encoder == encoder and each.chunk_count]
        texts = [sentence for place in places for sentence in passages[place][1]]
        if encoder == NO_ENCODER:
            flat = _sentence_scores_by_terms(readers, question, texts)
        else:
            flat = _sentence_scores_by_vectors(session, encoder, readers, question, texts)
        start = 0
        for place in places:
            stop = start + len(passages[place][1])
            found[place], start = flat[start:stop], stop
    return found


def _sentence_scores_by_vectors(
    session: SearchSession, encoder: str, readers: Sequence[CollectionReader], question: str, texts: Sequence[str]
) -> Scores:
    model = session.encoder(encoder)
    query = model.encode_tokens([question])[0]
    weights = token_weights(readers, query.token_ids)
    weights = weights / max(float(weights.sum()), 1e-9)
    return late_interaction_with_texts(model, query, weights, texts).whole.astype(np.float64)


def _sentence_scores_by_terms(readers: Sequence[CollectionReader], question: str, texts: Sequence[str]) -> Scores:
    def terms(text: str) -> set[str]:
        return set(readers[0].analyze(" ".join(content_words(text))))

    asked = list(terms(question))
    total = sum(reader.chunk_count for reader in readers)
    frequency = np.sum([reader.document_frequency(asked) for reader in readers], axis=0)
    rarity = dict(
        zip(asked, np.log1p((np.maximum(total - frequency, 0) + 0.5) / (frequency + 0.5)).tolist(), strict=True)
    )
    whole = max(sum(rarity.values()), 1e-9)
    return np.asarray([sum(rarity[term] for term in terms(text) & rarity.keys()) / whole for text in texts])

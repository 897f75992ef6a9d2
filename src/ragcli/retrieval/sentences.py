"""How well each sentence of a passage answers a question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ragcli.collection import NO_ENCODER
from ragcli.config.endpoints import is_remote
from ragcli.retrieval.common_words import content_words
from ragcli.retrieval.rerank import compare_with_texts, piece_weights

if TYPE_CHECKING:
    import numpy.typing as npt

    from ragcli.collection import Snapshot
    from ragcli.records import StoredChunk
    from ragcli.retrieval.query import Searcher

    Scores = npt.NDArray[np.float64]


def sentence_scores(
    searcher: Searcher, question: str, passages: Sequence[tuple[StoredChunk, Sequence[str]]], reranker: str | None
) -> list[Scores]:
    """How well each sentence answers the question, (n,) for each passage's n sentences; higher is better.

    A cross-encoder on this machine reads question and sentence together. Else late interaction compares their words'
    vectors, the rare words counting more, which gives at most 1; and in a collection without an encoder what counts
    is the share of the question's words that a sentence has, again by how rare they are. Only within one call and
    collections of one encoder can scores be compared.
    """
    if reranker not in (None, "late", "none", "auto") and not is_remote(str(reranker)):
        model = searcher.reranker(str(reranker))
        texts = [sentence for _, sentences in passages for sentence in sentences]
        flat = np.asarray(model.score(question, texts), np.float64) if texts else np.zeros(0)
        return np.split(flat, np.cumsum([len(sentences) for _, sentences in passages])[:-1]) if passages else []
    of_name = {snapshot.collection: snapshot for snapshot in searcher.snapshots}
    found: list[Scores] = [np.zeros(len(sentences)) for _, sentences in passages]
    by_encoder: dict[str, list[int]] = {}
    for place, (chunk, _) in enumerate(passages):
        by_encoder.setdefault(of_name[chunk.collection].settings.encoder, []).append(place)
    for encoder, places in by_encoder.items():
        snapshots = [each for each in searcher.snapshots if each.settings.encoder == encoder and each.chunk_count]
        texts = [sentence for place in places for sentence in passages[place][1]]
        if encoder == NO_ENCODER:
            flat = _by_words(snapshots, question, texts)
        else:
            flat = _by_meaning(searcher, encoder, snapshots, question, texts)
        start = 0
        for place in places:
            stop = start + len(passages[place][1])
            found[place], start = flat[start:stop], stop
    return found


def _by_meaning(
    searcher: Searcher, encoder: str, snapshots: Sequence[Snapshot], question: str, texts: Sequence[str]
) -> Scores:
    model = searcher.encoder(encoder)
    query = model.encode_tokens([question])[0]
    weights = piece_weights(snapshots, query.token_ids)
    weights = weights / max(float(weights.sum()), 1e-9)
    return compare_with_texts(model, query, weights, texts).whole.astype(np.float64)


def _by_words(snapshots: Sequence[Snapshot], question: str, texts: Sequence[str]) -> Scores:
    from ragcli.index.words import analyser, searchable

    analysis = analyser()

    def terms(text: str) -> set[str]:
        return set(analysis.analyze(searchable(" ".join(content_words(text)), query=True)))

    total = sum(snapshot.chunk_count for snapshot in snapshots)
    rarity = {}
    for term in terms(question):
        frequency = sum(snapshot.lexical.frequency(term) for snapshot in snapshots)
        rarity[term] = float(np.log1p((max(total - frequency, 0) + 0.5) / (frequency + 0.5)))
    whole = max(sum(rarity.values()), 1e-9)
    return np.asarray([sum(rarity[term] for term in terms(text) & rarity.keys()) / whole for text in texts])

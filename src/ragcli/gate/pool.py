"""The pool as a judge's features need it: plain arrays, one line a candidate.

Everything is measured against the question as it was asked. A late-interaction score is divided by the weight of
the question's tokens, so that it is a mean cosine and long questions compare with short ones; a BM25 score by the
most that any chunks together could reach. What a score of nothing looks like in this collection is told by a sample
of its chunks, taken at even distances, which is the same whenever the collection is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ragcli.retrieval.candidates import Pool, pool_documents
from ragcli.retrieval.rerank import piece_weights

if TYPE_CHECKING:
    from ragcli.collection import Snapshot
    from ragcli.models import Encoder, Encoding, FloatArray
    from ragcli.records import Hit
    from ragcli.retrieval.candidates import Question
    from ragcli.retrieval.query import Searcher
    from ragcli.retrieval.request import QueryRequest

Scores = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

POOL: Final = 40
SAMPLE: Final = 200
_ENCODED_SAMPLE: Final = 16
_ENCODED_AT_ONCE: Final = 32
_MOST_TERMS: Final = 48


@dataclass(frozen=True, slots=True)
class Meanings:
    """What an encoder tells of the candidates, float64; `late` and `window` are mean cosines.

    `matches` (n, q) is how near each candidate comes to each of the question's tokens, which weigh `weights` (q,),
    1 together. `dense_noise` and `late_noise` are (mean, deviation) over the collection's sample, `noise` (q,) the
    mean match of each token there.
    """

    dense: Scores
    late: Scores
    window: Scores
    matches: Scores
    weights: Scores
    rarity: float
    dense_noise: tuple[float, float]
    late_noise: tuple[float, float]
    noise: Scores


@dataclass(frozen=True, slots=True)
class JudgedPool:
    """Candidates of one encoder's collections, best first by all stages together.

    `documents` (n,) says which are of one document. `bm25` (n,) are scores; `words` (n, w) says which of the
    question's terms stand in which candidate, `rarity` (w,) is each term's idf, and `common` (w,) in how many chunks
    of the collections it stands.
    """

    documents: IntArray
    bm25: Scores
    words: npt.NDArray[np.bool_]
    rarity: Scores
    common: IntArray
    meanings: Meanings | None

    def __len__(self) -> int:
        return len(self.documents)


def judged_pools(
    searcher: Searcher, request: QueryRequest, question: str, hits: Sequence[Hit] = ()
) -> tuple[JudgedPool, ...]:
    """The pools for a question, one for each encoder, of what `request` may search in; `hits` that lack join them."""
    plain = plain_request(request, question)
    return tuple(
        _judged(searcher, ranked.snapshots, _with_hits(ranked.snapshots, ranked.pool, asked, hits), asked)
        for ranked, asked in searcher.ranked(plain)
    )


def plain_request(request: QueryRequest, question: str, depth: int = POOL) -> QueryRequest:
    """A request for the question's pool: what narrows the search stays, what says how to rank goes."""
    return replace(
        request,
        text=question,
        top=1,
        pipeline="hybrid",
        pool=depth,
        reranker="none",
        fusion="zscore",
        bm25=None,
        dense=None,
        feedback=0.0,
        titles=None,
        rocchio=None,
        expansion=(),
        hypothetical=(),
    )


def _with_hits(snapshots: Sequence[Snapshot], pool: Pool, question: Question, hits: Sequence[Hit]) -> Pool:
    known = set(zip(pool.owners.tolist(), pool.numbers.tolist(), strict=True))
    owners = {snapshot.collection: at for at, snapshot in enumerate(snapshots)}
    new: dict[int, list[int]] = {}
    for hit in hits:
        owner = owners.get(hit.chunk.collection)
        if owner is not None and (owner, hit.chunk.number) not in known:
            new.setdefault(owner, []).append(hit.chunk.number)
    parts = [pool]
    for owner, numbers in new.items():
        snapshot = snapshots[owner]
        rows = snapshot.rows(numbers)
        there, places = np.asarray(list(rows), np.int64), np.asarray(list(rows.values()), np.int64)
        scores = {"bm25": question.lexical_scores(snapshot, there)}
        if "dense" in pool.scores:
            snapshot.check_vectors(places.tolist())
            scores["dense"] = np.asarray(snapshot.vectors[places] @ question.encoding.vector, np.float64)
        parts.append(Pool(np.full(len(there), owner, np.int64), there, places, scores))
    if len(parts) == 1:
        return pool
    return Pool(
        np.concatenate([part.owners for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.rows for part in parts]),
        {
            stage: np.concatenate([part.scores[stage] for part in parts])
            for stage in ("bm25", "dense")
            if stage in pool.scores
        },
    )


def _judged(searcher: Searcher, snapshots: Sequence[Snapshot], pool: Pool, question: Question) -> JudgedPool:
    numbered: dict[tuple[int, int], int] = {}
    documents = [numbered.setdefault(each, len(numbered)) for each in pool_documents(snapshots, pool)]
    words, common = _words(snapshots, pool, question)
    total = sum(snapshot.chunk_count for snapshot in snapshots)
    return JudgedPool(
        documents=np.asarray(documents, np.int64),
        bm25=pool.scores["bm25"],
        words=words,
        rarity=np.log1p((np.maximum(total - common, 0) + 0.5) / (common + 0.5)),
        common=common,
        meanings=_meanings(searcher, snapshots, pool, question) if "dense" in pool.scores else None,
    )


def _words(snapshots: Sequence[Snapshot], pool: Pool, question: Question) -> tuple[npt.NDArray[np.bool_], IntArray]:
    """Which of the question's terms stand in which candidate, and in how many chunks each stands at all."""
    terms = list(dict.fromkeys(term for snapshot in snapshots for term in snapshot.lexical.terms(question.text)))
    terms = terms[:_MOST_TERMS]
    there = np.zeros((len(pool), len(terms)), dtype=bool)
    common = np.zeros(len(terms), np.int64)
    for owner, snapshot in enumerate(snapshots):
        mine = np.flatnonzero(pool.owners == owner)
        for at, term in enumerate(terms):
            count = snapshot.lexical.frequency(term)
            common[at] += count
            if count and len(mine):
                there[mine, at] = snapshot.lexical.scores_of(term, pool.numbers[mine]) > 0
    return there, common


def _meanings(searcher: Searcher, snapshots: Sequence[Snapshot], pool: Pool, question: Question) -> Meanings:
    def encoder() -> Encoder:
        return searcher.encoder(snapshots[0].settings.encoder)

    query = question.encoding
    rarity = piece_weights(snapshots, query.token_ids)
    total = max(float(rarity.sum()), 1e-9)
    matches, window = np.zeros((len(pool), len(query.tokens))), np.zeros(len(pool))
    near, noise = [], []
    for owner, snapshot in enumerate(snapshots):
        mine, sample = np.flatnonzero(pool.owners == owner), _sample(snapshot)
        found, windows = _compared(snapshot, np.concatenate([pool.rows[mine], sample]), query, rarity, encoder)
        matches[mine], window[mine] = found[: len(mine)], windows[: len(mine)]
        noise.append(found[len(mine) :])
        near.append(np.asarray(snapshot.vectors[sample] @ query.vector, np.float64))
    weights = np.asarray(rarity, np.float64) / total
    sample, dense = np.concatenate(noise), np.concatenate(near)
    return Meanings(
        dense=pool.scores["dense"],
        late=matches @ weights,
        window=window / total,
        matches=matches,
        weights=weights,
        rarity=total / max(len(weights), 1),
        dense_noise=_spread(dense),
        late_noise=_spread(sample @ weights),
        noise=sample.mean(axis=0) if len(sample) else np.zeros(len(weights)),
    )


def _compared(
    snapshot: Snapshot, rows: IntArray, query: Encoding, weights: FloatArray, encoder: Callable[[], Encoder]
) -> tuple[FloatArray, FloatArray]:
    """The matches (n, q) of each row's chunk, and the weighted score (n,) of its best window."""
    from ragcli.index.tokens import best_matches, best_of, late_scores, max_sim

    if snapshot.tokens is not None:
        window = max_sim(query.tokens, weights, snapshot.tokens, rows).window
        return best_matches(query.tokens, snapshot.tokens, rows), window
    numbers = np.asarray(snapshot.row_numbers[rows]).tolist()
    chunks = snapshot.live_chunks(numbers)
    matches, windows = [np.zeros((0, len(query.tokens)), np.float32)], [np.zeros(0, np.float32)]
    for start in range(0, len(numbers), _ENCODED_AT_ONCE):
        texts = [chunks[number].text for number in numbers[start : start + _ENCODED_AT_ONCE]]
        passages = encoder().encode_tokens(texts)
        counts = np.asarray([len(passage.tokens) for passage in passages])
        # As they would have been kept, so that a collection's features do not depend on what it keeps.
        signs = np.sign(np.concatenate([passage.tokens for passage in passages])) / np.sqrt(query.tokens.shape[1])
        cosines = np.asarray(signs @ query.tokens.T, np.float32)
        matches.append(best_of(cosines, counts))
        windows.append(late_scores(cosines, counts, weights).window)
    return np.concatenate(matches), np.concatenate(windows)


def _sample(snapshot: Snapshot) -> IntArray:
    """Rows of live chunks at even distances; few where their tokens would have to be encoded."""
    live = np.ones(len(snapshot.row_numbers), dtype=bool)
    # Where there are tenants, another's chunks are among the dead.
    live[snapshot.dead] = False
    rows = np.flatnonzero(live)
    size = min(SAMPLE if snapshot.tokens is not None else _ENCODED_SAMPLE, len(rows))
    if not size:
        return np.zeros(0, np.int64)
    places = np.unique(np.linspace(0, len(rows) - 1, size).astype(np.int64))
    return np.asarray(rows[places], np.int64)


def _spread(values: Scores) -> tuple[float, float]:
    return (float(values.mean()), max(float(values.std()), 1e-3)) if len(values) else (0.0, 1.0)

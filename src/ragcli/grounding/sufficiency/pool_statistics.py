"""Statistics of the candidate pool for the judges: BM25, dense, late interaction, noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ragcli.retrieval.rerank import chunk_texts, token_weights
from ragcli.retrieval.stages import CandidatePool, join_pools, pool_documents

if TYPE_CHECKING:
    from ragcli.engines import CollectionReader
    from ragcli.engines.reader_protocol import Stage
    from ragcli.models import Encoder, Encoding, FloatArray
    from ragcli.retrieval.request import QueryRequest
    from ragcli.retrieval.searcher import Searcher
    from ragcli.retrieval.stages import EncodedQuery
    from ragcli.types import Hit

StatisticArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

JUDGED_CANDIDATES: Final = 40
NOISE_SAMPLE: Final = 200
_ENCODED_NOISE_SAMPLE: Final = 16
_ENCODED_AT_ONCE: Final = 32
_MAX_TERMS: Final = 48


@dataclass(frozen=True, slots=True)
class VectorStatistics:
    """What an encoder tells of the candidates, float64; `late` and `window` are mean cosines.

    `matches` (n, q) is how near each candidate comes to each of the question's tokens, which weigh `weights` (q,),
    1 together. `dense_noise` and `late_noise` are (mean, deviation) over the collection's sample, `noise` (q,) the
    mean match of each token there.
    """

    dense: StatisticArray
    late: StatisticArray
    window: StatisticArray
    matches: StatisticArray
    weights: StatisticArray
    rarity: float
    dense_noise: tuple[float, float]
    late_noise: tuple[float, float]
    noise: StatisticArray


@dataclass(frozen=True, slots=True)
class PoolStatistics:
    """Candidates of one encoder's collections, best first by all stages together.

    `documents` (n,) says which are of one document. `bm25` (n,) are scores; `words` (n, w) says which of the
    question's terms stand in which candidate, `rarity` (w,) is each term's idf, and `common` (w,) in how many chunks
    of the collections it stands.
    """

    documents: IntArray
    bm25: StatisticArray
    words: npt.NDArray[np.bool_]
    rarity: StatisticArray
    common: IntArray
    vectors: VectorStatistics | None

    def __len__(self) -> int:
        return len(self.documents)


def measure_pools(
    searcher: Searcher, request: QueryRequest, question: str, hits: Sequence[Hit] = ()
) -> tuple[PoolStatistics, ...]:
    """The pools for a question, one for each encoder, of what `request` may search in; `hits` that lack join them."""
    plain = canonical_request(request, question)
    return tuple(
        _measured(searcher, ranked.readers, _with_hits(ranked.readers, ranked.pool, asked, hits), asked)
        for ranked, asked in searcher.ranked(plain)
    )


def canonical_request(request: QueryRequest, question: str, depth: int | None = None) -> QueryRequest:
    """A request for the question's pool of `depth`: what narrows the search stays, what says how to rank goes."""
    return replace(
        request.without_techniques(),
        text="" if request.like is not None else question,
        top=1,
        pipeline="hybrid",
        pool=JUDGED_CANDIDATES if depth is None else depth,
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


def _with_hits(
    readers: Sequence[CollectionReader], pool: CandidatePool, question: EncodedQuery, hits: Sequence[Hit]
) -> CandidatePool:
    known = set(zip(pool.owners.tolist(), pool.numbers.tolist(), strict=True))
    owners = {reader.name: at for at, reader in enumerate(readers)}
    new: dict[int, list[int]] = {}
    for hit in hits:
        owner = owners.get(hit.chunk.collection)
        if owner is not None and (owner, hit.chunk.number) not in known:
            new.setdefault(owner, []).append(hit.chunk.number)
    stages: list[Stage] = ["bm25", "dense"] if "dense" in pool.scores else ["bm25"]
    parts = [pool]
    for owner, numbers in new.items():
        there = readers[owner].live(numbers)
        scores: dict[str, StatisticArray] = {stage: readers[owner].scores(stage, question, there) for stage in stages}
        parts.append(CandidatePool(np.full(len(there), owner, np.int64), there, scores))
    return pool if len(parts) == 1 else join_pools(parts, stages)


def _measured(
    searcher: Searcher, readers: Sequence[CollectionReader], pool: CandidatePool, question: EncodedQuery
) -> PoolStatistics:
    numbered: dict[tuple[int, int], int] = {}
    documents = [numbered.setdefault(each, len(numbered)) for each in pool_documents(readers, pool)]
    words, common = _term_statistics(readers, pool, question)
    total = sum(reader.chunk_count for reader in readers)
    return PoolStatistics(
        documents=np.asarray(documents, np.int64),
        bm25=pool.scores["bm25"],
        words=words,
        rarity=np.log1p((np.maximum(total - common, 0) + 0.5) / (common + 0.5)),
        common=common,
        vectors=_vector_statistics(searcher, readers, pool, question) if "dense" in pool.scores else None,
    )


def _term_statistics(
    readers: Sequence[CollectionReader], pool: CandidatePool, question: EncodedQuery
) -> tuple[npt.NDArray[np.bool_], IntArray]:
    """Which of the question's terms stand in which candidate, and in how many chunks each stands at all."""
    terms = list(dict.fromkeys(term for reader in readers for term in reader.analyze(question.text)))[:_MAX_TERMS]
    there = np.zeros((len(pool), len(terms)), dtype=bool)
    common = np.zeros(len(terms), np.int64)
    for owner, reader in enumerate(readers):
        common += reader.document_frequency(terms)
        mine = np.flatnonzero(pool.owners == owner)
        there[mine] = reader.term_presence(terms, pool.numbers[mine])
    return there, common


def _vector_statistics(
    searcher: Searcher, readers: Sequence[CollectionReader], pool: CandidatePool, question: EncodedQuery
) -> VectorStatistics:
    def encoder() -> Encoder:
        return searcher.encoder(readers[0].settings.encoder)

    query = question.encoding
    rarity = token_weights(readers, query.token_ids)
    total = max(float(rarity.sum()), 1e-9)
    matches, window = np.zeros((len(pool), len(query.tokens))), np.zeros(len(pool))
    near, noise = [], []
    for owner, reader in enumerate(readers):
        mine = np.flatnonzero(pool.owners == owner)
        # Few where their tokens would have to be encoded.
        sample = reader.sample(NOISE_SAMPLE if reader.has_token_vectors else _ENCODED_NOISE_SAMPLE)
        found, windows = _token_matches(reader, np.concatenate([pool.numbers[mine], sample]), query, rarity, encoder)
        matches[mine], window[mine] = found[: len(mine)], windows[: len(mine)]
        noise.append(found[len(mine) :])
        near.append(reader.scores("dense", question, sample))
    weights = np.asarray(rarity, np.float64) / total
    of_sample, dense = np.concatenate(noise), np.concatenate(near)
    return VectorStatistics(
        dense=pool.scores["dense"],
        late=matches @ weights,
        window=window / total,
        matches=matches,
        weights=weights,
        rarity=total / max(len(weights), 1),
        dense_noise=_mean_and_deviation(dense),
        late_noise=_mean_and_deviation(of_sample @ weights),
        noise=of_sample.mean(axis=0) if len(of_sample) else np.zeros(len(weights)),
    )


def _token_matches(
    reader: CollectionReader,
    numbers: IntArray,
    query: Encoding,
    weights: FloatArray,
    encoder: Callable[[], Encoder],
) -> tuple[FloatArray, FloatArray]:
    """The matches (n, q) of each chunk, and the weighted score (n,) of its best window."""
    from ragcli.index.late_interaction import max_cosines_of_similarities, max_sim_and_cosines, max_sim_of_similarities

    if reader.has_token_vectors:
        scores, cosines = max_sim_and_cosines(query.tokens, weights, *reader.token_bits(numbers))
        return cosines, scores.window
    texts = chunk_texts(reader, numbers.tolist())
    matches, windows = [np.zeros((0, len(query.tokens)), np.float32)], [np.zeros(0, np.float32)]
    for start in range(0, len(texts), _ENCODED_AT_ONCE):
        passages = encoder().encode_tokens(texts[start : start + _ENCODED_AT_ONCE])
        counts = np.asarray([len(passage.tokens) for passage in passages])
        # As they would have been kept, so that a collection's features do not depend on what it keeps.
        signs = np.sign(np.concatenate([passage.tokens for passage in passages])) / np.sqrt(query.tokens.shape[1])
        cosines = np.asarray(signs @ query.tokens.T, np.float32)
        matches.append(max_cosines_of_similarities(cosines, counts))
        windows.append(max_sim_of_similarities(cosines, counts, weights).window)
    return np.concatenate(matches), np.concatenate(windows)


def _mean_and_deviation(values: StatisticArray) -> tuple[float, float]:
    return (float(values.mean()), max(float(values.std()), 1e-3)) if len(values) else (0.0, 1.0)

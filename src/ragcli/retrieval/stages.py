"""First-stage retrieval: the candidate pool by BM25, TF-IDF and dense vectors over collections."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ragcli.retrieval.identity import ChunkAddress, find_copies, may_be_copies
from ragcli.retrieval.request import MAX_ENCODED_CHARS
from ragcli.types import ScoreType

if TYPE_CHECKING:
    from ragcli.engines import CollectionReader
    from ragcli.engines.reader_protocol import Stage
    from ragcli.filters import Filter
    from ragcli.index.bm25 import ExpansionTerms
    from ragcli.models import Encoding, FloatArray


ChunkNumbers = npt.NDArray[np.int64]
StageScores = npt.NDArray[np.float64]
StageRankings = Sequence[tuple[ChunkNumbers, StageScores]]
"""What one stage puts first in each of several collections: chunk numbers and their scores."""

_ROCCHIO_CHUNKS: Final = 3
_MAX_DOCUMENT_DEPTH: Final = 20_000
"""Chunks of one document, or a few, behind which no other is looked for."""


class EncodedQuery:
    """A question's words, and their encoding, which is made when a stage first asks for it."""

    def __init__(
        self,
        text: str,
        encode: Callable[[str], Encoding],
        *,
        title_weight: float = 0.0,
        expansion: ExpansionTerms = (),
        hypothetical: Sequence[str] = (),
        where: Filter | None = None,
    ) -> None:
        # Half a character, from a shell in another encoding, is nothing that any library takes.
        self.text = text.encode("utf-8", "replace").decode("utf-8")
        self.title_weight = title_weight
        self.expansion = expansion
        self.left_out: Mapping[CollectionReader, frozenset[int]] = {}
        """Chunks that are no answer, by their collection: what the question was taken from."""
        self.where = where
        self._hypothetical = hypothetical
        self._encode = encode

    @cached_property
    def encoding(self) -> Encoding:
        """The unit vector (d,) and the token vectors (t, d)."""
        return self._encode(self.text[:MAX_ENCODED_CHARS])

    @cached_property
    def vector(self) -> FloatArray:
        """What the dense stage looks for, (d,): the encoding's vector, unless something has moved it.

        With hypothetical passages it is the mean of theirs and the question's, of unit length again.
        """
        if not self._hypothetical:
            return self.encoding.vector
        texts = [text.encode("utf-8", "replace").decode("utf-8")[:MAX_ENCODED_CHARS] for text in self._hypothetical]
        mean = np.mean([self.encoding.vector, *(self._encode(text).vector for text in texts)], axis=0)
        return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class CandidatePool:
    """Candidates as parallel arrays: which of the readers each is from, and its chunk number there.

    `scores` has one float64 array per stage that ran, aligned with the candidates, NaN where a stage has none.
    `copies` has the same passages in other collections, by (owner, number), which were left out for it.
    """

    owners: npt.NDArray[np.int64]
    numbers: ChunkNumbers
    scores: dict[str, StageScores]
    copies: Mapping[ChunkAddress, tuple[ChunkAddress, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.numbers.size)


def rank_stage(
    reader: CollectionReader, stage: Stage, question: EncodedQuery, depth: int
) -> tuple[ChunkNumbers, StageScores]:
    """What one stage puts first in one collection, best first, at most `depth`: chunk numbers and their scores.

    Under the question's filter, and without the chunks that the question was taken from.
    """
    return reader.rank(stage, question, depth, where=question.where, exclude=question.left_out.get(reader, ()))


def fill_pool(
    readers: Sequence[CollectionReader],
    stages: Sequence[Stage],
    question: EncodedQuery,
    depth: int,
    *,
    documents: int = 0,
    preferred: Callable[[str], float] | None = None,
) -> CandidatePool:
    """The union of each stage's best `depth` over all collections, every candidate scored by every stage.

    Where those are of fewer than so many `documents`, the best passages of the next documents are candidates too.
    Where a passage is in several collections, only that of the one that is `preferred` most is a candidate; with
    None, all of them are.
    """
    found: dict[Stage, StageRankings] = {
        stage: [_top_with_document_quota(reader, stage, question, depth, documents) for reader in readers]
        for stage in stages
    }
    if len(readers) == 1:
        return _scored(readers[0], 0, stages, question, [each[0][0] for each in found.values()])
    same = find_copies(readers, _possible_copies(found), preferred) if preferred is not None else {}
    dropped = {place for places in same.values() for place in places}
    rankings = [_top_over_collections(readers, each, depth, documents, dropped) for each in found.values()]
    parts = [
        _scored(reader, owner, stages, question, [ranking[owner] for ranking in rankings])
        for owner, reader in enumerate(readers)
        if any(len(ranking[owner]) for ranking in rankings)
    ]
    return replace(join_pools(parts, stages), copies=same)


def _top_with_document_quota(
    reader: CollectionReader, stage: Stage, question: EncodedQuery, depth: int, documents: int
) -> tuple[ChunkNumbers, StageScores]:
    """As `rank_stage`, and behind that the best passage of each next document, until there are so many documents."""
    asked = depth
    while True:
        numbers, scores = rank_stage(reader, stage, question, asked)
        if not documents:
            return numbers, scores
        owners = reader.document_numbers(numbers.tolist())
        if len({*owners.values()}) >= documents or len(numbers) < asked or asked >= _MAX_DOCUMENT_DEPTH:
            kept = _positions_for_quota([owners.get(number) for number in numbers.tolist()], depth, documents)
            return numbers[kept], scores[kept]
        asked *= 4


def _positions_for_quota(owners: Sequence[Hashable], depth: int, documents: int) -> list[int]:
    """The first `depth` places, and of those behind them the first of each other owner, until there are so many."""
    seen = {*owners[:depth]}
    kept = list(range(min(depth, len(owners))))
    for place in range(depth, len(owners)):
        if len(seen) >= documents:
            break
        if owners[place] not in seen:
            seen.add(owners[place])
            kept.append(place)
    return kept


def _top_over_collections(
    readers: Sequence[CollectionReader], found: StageRankings, depth: int, documents: int, dropped: set[ChunkAddress]
) -> list[ChunkNumbers]:
    """Of several collections' best those that are among the best `depth` of all, by collection.

    Behind those the best passage of each next document, until there are so many documents.
    """
    owners, numbers, scores = _flattened(found)
    order = np.argsort(-scores, kind="stable")
    if dropped:
        places = zip(owners[order].tolist(), numbers[order].tolist(), strict=True)
        order = order[[place not in dropped for place in places]]
    if documents:
        known = [reader.document_numbers(each.tolist()) for reader, (each, _) in zip(readers, found, strict=True)]
        places = zip(owners[order].tolist(), numbers[order].tolist(), strict=True)
        order = order[
            _positions_for_quota([(owner, known[owner].get(number)) for owner, number in places], depth, documents)
        ]
    else:
        order = order[:depth]
    return [numbers[order[owners[order] == owner]] for owner in range(len(found))]


def _possible_copies(found: Mapping[Stage, StageRankings]) -> list[ChunkAddress]:
    """What may be the same passage in two collections."""
    if "dense" in found:
        owners, numbers, scores = _flattened(found["dense"])
        places = may_be_copies(owners, scores)
        return list(zip(owners[places].tolist(), numbers[places].tolist(), strict=True))
    return list(
        dict.fromkeys(
            (owner, number)
            for each in found.values()
            for owner, (numbers, _) in enumerate(each)
            for number in numbers.tolist()
        )
    )


def _flattened(found: StageRankings) -> tuple[npt.NDArray[np.int64], ChunkNumbers, StageScores]:
    owners = np.repeat(np.arange(len(found)), [len(numbers) for numbers, _ in found])
    return owners, np.concatenate([numbers for numbers, _ in found]), np.concatenate([scores for _, scores in found])


def _scored(
    reader: CollectionReader,
    owner: int,
    stages: Sequence[Stage],
    question: EncodedQuery,
    rankings: Sequence[ChunkNumbers],
) -> CandidatePool:
    """The chunks of one collection that this state knows, with every stage's score."""
    # Not by np.unique, which imports the whole of numpy.ma: 30 ms.
    union = sorted({number for ranking in rankings for number in ranking.tolist()})
    numbers = np.asarray(union, dtype=np.int64)
    scores: dict[str, StageScores] = {stage: reader.scores(stage, question, numbers) for stage in stages}
    return CandidatePool(np.full(numbers.size, owner, dtype=np.int64), numbers, scores)


def join_pools(parts: Sequence[CandidatePool], stages: Iterable[str]) -> CandidatePool:
    """The candidates of several pools one after another, with the scores of some stages, that all of them have."""
    if not parts:
        none: ChunkNumbers = np.empty(0, dtype=np.int64)
        return CandidatePool(none, none, {stage: np.zeros(0) for stage in stages})
    return CandidatePool(
        np.concatenate([part.owners for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        {stage: np.concatenate([part.scores[stage] for part in parts]) for stage in stages},
    )


def rocchio_vector(readers: Sequence[CollectionReader], question: EncodedQuery, share: float) -> FloatArray:
    """The question's vector moved towards its three nearest chunks: `share` of it stays (Rocchio 1971)."""
    near: list[FloatArray] = []
    for reader in readers:
        numbers, _ = reader.rank("dense", question, _ROCCHIO_CHUNKS, where=question.where)
        near += list(reader.vectors(numbers))
    near.sort(key=lambda vector: -float(vector @ question.vector))
    if not near:
        return question.vector
    moved = share * question.vector + (1.0 - share) * np.mean(near[:_ROCCHIO_CHUNKS], axis=0)
    return np.asarray(moved / max(float(np.linalg.norm(moved)), 1e-12), dtype=np.float32)


def pool_vectors(readers: Sequence[CollectionReader], pool: CandidatePool) -> FloatArray:
    """The candidates' unit vectors (n, d)."""
    vectors = np.empty((len(pool), readers[0].dimension), dtype=np.float32)
    for owner in dict.fromkeys(pool.owners.tolist()):
        mine = pool.owners == owner
        vectors[mine] = readers[owner].vectors(pool.numbers[mine])
    return vectors


def pool_documents(readers: Sequence[CollectionReader], pool: CandidatePool) -> list[tuple[int, int]]:
    """Which document each candidate is from, as (reader, document number)."""
    found = {
        owner: readers[owner].document_numbers(pool.numbers[pool.owners == owner].tolist())
        for owner in dict.fromkeys(pool.owners.tolist())
    }
    places = zip(pool.owners.tolist(), pool.numbers.tolist(), strict=True)
    return [(owner, found[owner][number]) for owner, number in places]


@dataclass(frozen=True, slots=True)
class RankedPool:
    """The candidates of one encoder's collections in final order, with the scores that led there.

    `question` is what these collections were asked.
    """

    readers: Sequence[CollectionReader]
    pool: CandidatePool
    order: list[int]
    final: StageScores
    score_type: ScoreType
    reranker: str | None
    question: EncodedQuery

    def reader_of(self, place: int) -> CollectionReader:
        """The reader of the collection that a candidate is from."""
        return self.readers[int(self.pool.owners[place])]

    def number_of(self, place: int) -> int:
        """The chunk number of a candidate."""
        return int(self.pool.numbers[place])


class Candidate(NamedTuple):
    """The candidate at `place` of a pool. A tuple, because a query makes many of them and shows few.

    `source_score` is the score before a merging, if there was one; `mmr` what it was chosen by, where hits are
    diversified.
    """

    group: RankedPool
    place: int
    score: float
    score_type: ScoreType
    source_score: float | None = None
    mmr: float | None = None

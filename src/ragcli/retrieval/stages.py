"""First-stage retrieval: the candidate pool by BM25, TF-IDF and dense vectors over collections."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ragcli.retrieval.identity import ChunkAddress, find_copies, may_be_copies
from ragcli.retrieval.pipelines import Stage
from ragcli.retrieval.request import MAX_ENCODED_CHARS
from ragcli.types import ScoreType

if TYPE_CHECKING:
    from ragcli.collection import Snapshot
    from ragcli.filters import Filter
    from ragcli.index.bm25 import ExpansionTerms, FieldBoosts
    from ragcli.models import Encoding, FloatArray


ChunkNumbers = npt.NDArray[np.int64]
StageScores = npt.NDArray[np.float64]
StageRankings = Sequence[tuple[ChunkNumbers, npt.NDArray[np.floating]]]
"""What one stage puts first in each of several collections: chunk numbers and their scores."""

_ROCCHIO_CHUNKS: Final = 3
_MAX_DOCUMENT_DEPTH: Final = 20_000
"""Chunks of one document, or a few, behind which no other is looked for."""
_MAX_NAMED_CHUNKS: Final = 20_000
"""Chunks that are looked for by their numbers, when a filter leaves no more."""


class EncodedQuery:
    """A question's words, and their encoding, which is made when a stage first asks for it."""

    def __init__(
        self,
        text: str,
        encode: Callable[[str], Encoding],
        *,
        titles: float = 0.0,
        expansion: ExpansionTerms = (),
        hypothetical: Sequence[str] = (),
        where: Filter | None = None,
    ) -> None:
        # Half a character, from a shell in another encoding, is nothing that any library takes.
        self.text = text.encode("utf-8", "replace").decode("utf-8")
        self.titles = titles
        self.expansion = expansion
        self.left_out: Mapping[Path, frozenset[int]] = {}
        """Chunks that are no answer, by the folder of their collection: what the question was taken from."""
        self.where = where
        self._hypothetical = hypothetical
        self._encode = encode
        self._bm25: dict[Path, tuple[dict[int, float], bool]] = {}

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

    def lexical_best(
        self, snapshot: Snapshot, depth: int, among: ChunkNumbers | None = None
    ) -> tuple[ChunkNumbers, StageScores]:
        """The BM25 index's best `depth` with their scores, best first, whatever this state knows of them.

        `among` are the ascending numbers of the chunks to choose from, if not all are.
        """
        numbers, scores = snapshot.lexical.search(
            self.text, depth, boosts=self._boosts(), expansion=self.expansion, among=among
        )
        known = dict(zip(numbers.tolist(), scores.tolist(), strict=True))
        # Where fewer came than were asked for, no other chunk has a word of the question.
        self._bm25[snapshot.folder] = known, len(numbers) < depth
        return numbers, scores.astype(np.float64)

    def lexical_scores(self, snapshot: Snapshot, numbers: ChunkNumbers) -> StageScores:
        """BM25 scores (n,) of some chunks; those that the last search has told are not computed again."""
        known, are_all = self._bm25.get(snapshot.folder, ({}, False))
        otherwise = 0.0 if are_all else np.nan
        scores = np.asarray([known.get(number, otherwise) for number in numbers.tolist()], dtype=np.float64)
        missing = np.flatnonzero(np.isnan(scores))
        if not missing.size:
            return scores
        scores[missing] = snapshot.lexical.scores_of(
            self.text, numbers[missing], boosts=self._boosts(), expansion=self.expansion
        )
        return scores

    def _boosts(self) -> FieldBoosts:
        from ragcli.index.bm25 import FieldBoosts

        return FieldBoosts(title=self.titles, heading=self.titles)


@dataclass(frozen=True, slots=True)
class CandidatePool:
    """Candidates as parallel arrays: the snapshot each is from, its chunk number and its row there.

    `scores` has one float64 array per stage that ran, aligned with the candidates, NaN where a stage has none.
    `copies` has the same passages in other collections, by (owner, number), which were left out for it.
    """

    owners: npt.NDArray[np.int64]
    numbers: ChunkNumbers
    rows: npt.NDArray[np.int64]
    scores: dict[str, StageScores]
    copies: Mapping[ChunkAddress, tuple[ChunkAddress, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.numbers.size)


def stage_ranking(snapshot: Snapshot, stage: Stage, question: EncodedQuery, depth: int) -> ChunkNumbers:
    """Numbers of the chunks that one stage puts first in one collection, best first, at most `depth`."""
    return stage_top_scored(snapshot, stage, question, depth)[0]


def stage_top_scored(
    snapshot: Snapshot, stage: Stage, question: EncodedQuery, depth: int
) -> tuple[ChunkNumbers, npt.NDArray[np.floating]]:
    """What one stage puts first in one collection, best first, at most `depth`: chunk numbers and their scores."""
    left_out = question.left_out.get(snapshot.folder, ())
    numbers, scores = _stage_top_scored(snapshot, stage, question, depth + len(left_out))
    if not left_out:
        return numbers, scores
    kept = [place for place, number in enumerate(numbers.tolist()) if number not in left_out][:depth]
    return numbers[kept], scores[kept]


def _stage_top_scored(
    snapshot: Snapshot, stage: Stage, question: EncodedQuery, depth: int
) -> tuple[ChunkNumbers, npt.NDArray[np.floating]]:
    if stage == "dense":
        rows, scores = _nearest_rows(snapshot, question, depth)
        return np.asarray(snapshot.row_numbers[rows], dtype=np.int64), scores
    if stage == "tfidf":
        if snapshot.tfidf is None:
            return _no_numbers(), np.zeros(0)
        chosen = snapshot.matching(question.where)
        return snapshot.tfidf.rank(question.text, depth, among=None if chosen is None else chosen.numbers)
    return _lexical_ranking(snapshot, question, depth)


def _nearest_rows(
    snapshot: Snapshot, question: EncodedQuery, depth: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    from ragcli.index.nearest_neighbours import SIGN_SCAN_MIN_ROWS, top_rows, top_rows_among, top_rows_by_signs

    chosen = snapshot.matching(question.where)
    if chosen is not None:
        signs = snapshot.signs if len(snapshot.vectors) >= SIGN_SCAN_MIN_ROWS else None
        return top_rows_among(snapshot.vectors, signs, question.vector, depth, chosen.rows)
    if len(snapshot.vectors) < SIGN_SCAN_MIN_ROWS:
        return top_rows(snapshot.vectors, question.vector, depth, snapshot.dead)
    return top_rows_by_signs(snapshot.vectors, snapshot.signs, question.vector, depth, snapshot.dead)


def _lexical_ranking(snapshot: Snapshot, question: EncodedQuery, depth: int) -> tuple[ChunkNumbers, StageScores]:
    chosen = snapshot.matching(question.where)
    if chosen is not None:
        return _filtered_lexical_ranking(snapshot, question, depth, chosen.numbers)
    # The lexical index may hold chunks that the store has dropped or not yet committed: ask for more until
    # enough known ones have come.
    asked = depth
    while True:
        numbers, scores = question.lexical_best(snapshot, asked)
        known = snapshot.rows(numbers.tolist())
        kept = [place for place, number in enumerate(numbers.tolist()) if number in known]
        if len(kept) >= depth or len(numbers) < asked:
            return np.asarray(numbers[kept[:depth]], dtype=np.int64), scores[kept[:depth]]
        asked *= 2


def _filtered_lexical_ranking(
    snapshot: Snapshot, question: EncodedQuery, depth: int, chosen: ChunkNumbers
) -> tuple[ChunkNumbers, StageScores]:
    """As `_lexical_ranking`, of the chosen chunks alone."""
    from ragcli.index.nearest_neighbours import in_sorted

    # Naming each takes longer than asking for more than is wanted, if those that are chosen are many.
    asked = depth if len(chosen) <= _MAX_NAMED_CHUNKS else 2 * depth * max(1, snapshot.chunk_count // len(chosen))
    named = chosen if len(chosen) <= _MAX_NAMED_CHUNKS else None
    while True:
        numbers, scores = question.lexical_best(snapshot, asked, named)
        kept = np.flatnonzero(in_sorted(numbers, chosen))[:depth]
        if len(kept) == depth or len(numbers) < asked:
            return numbers[kept], scores[kept]
        # Where the chosen are not among what the question finds, they will not be further down either.
        asked, named = (4 * asked, None) if asked < _MAX_NAMED_CHUNKS else (depth, chosen)


def fill_pool(
    snapshots: Sequence[Snapshot],
    stages: Sequence[Stage],
    question: EncodedQuery,
    depth: int,
    *,
    documents: int = 0,
    preferred: Callable[[str], float] | None = None,
) -> CandidatePool:
    """The union of each stage's best `depth` over all snapshots, every candidate scored by every stage.

    Where those are of fewer than so many `documents`, the best passages of the next documents are candidates too.
    Where a passage is in several collections, only that of the one that is `preferred` most is a candidate; with
    None, all of them are.
    """
    found: dict[Stage, StageRankings] = {
        stage: [_top_with_document_quota(snapshot, stage, question, depth, documents) for snapshot in snapshots]
        for stage in stages
    }
    if len(snapshots) == 1:
        return _scored(snapshots[0], 0, stages, question, [each[0][0] for each in found.values()])
    same = find_copies(snapshots, _possible_copies(found), preferred) if preferred is not None else {}
    dropped = {place for places in same.values() for place in places}
    rankings = [_top_over_collections(snapshots, each, depth, documents, dropped) for each in found.values()]
    parts = [
        _scored(snapshot, owner, stages, question, [ranking[owner] for ranking in rankings])
        for owner, snapshot in enumerate(snapshots)
        if any(len(ranking[owner]) for ranking in rankings)
    ]
    return replace(_joined(parts, stages), copies=same)


def _top_with_document_quota(
    snapshot: Snapshot, stage: Stage, question: EncodedQuery, depth: int, documents: int
) -> tuple[ChunkNumbers, npt.NDArray[np.floating]]:
    """As `stage_best`, and behind that the best passage of each next document, until there are so many documents."""
    asked = depth
    while True:
        numbers, scores = stage_top_scored(snapshot, stage, question, asked)
        if not documents:
            return numbers, scores
        owners = snapshot.document_numbers(numbers.tolist())
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
    snapshots: Sequence[Snapshot], found: StageRankings, depth: int, documents: int, dropped: set[ChunkAddress]
) -> list[ChunkNumbers]:
    """Of several collections' best those that are among the best `depth` of all, by collection, and as `_spread`."""
    owners, numbers, scores = _flattened(found)
    order = np.argsort(-scores, kind="stable")
    if dropped:
        places = zip(owners[order].tolist(), numbers[order].tolist(), strict=True)
        order = order[[place not in dropped for place in places]]
    if documents:
        known = [snapshot.document_numbers(each.tolist()) for snapshot, (each, _) in zip(snapshots, found, strict=True)]
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


def _flattened(found: StageRankings) -> tuple[npt.NDArray[np.int64], ChunkNumbers, npt.NDArray[np.floating]]:
    owners = np.repeat(np.arange(len(found)), [len(numbers) for numbers, _ in found])
    return owners, np.concatenate([numbers for numbers, _ in found]), np.concatenate([scores for _, scores in found])


def _scored(
    snapshot: Snapshot, owner: int, stages: Sequence[Stage], question: EncodedQuery, rankings: Sequence[ChunkNumbers]
) -> CandidatePool:
    """The chunks of one collection that this state knows, with every stage's score."""
    # Not by np.unique, which imports the whole of numpy.ma: 30 ms.
    union = sorted({number for ranking in rankings for number in ranking.tolist()})
    rows_of = snapshot.rows(union)
    numbers = np.asarray([number for number in union if number in rows_of], dtype=np.int64)
    rows = np.asarray([rows_of[number] for number in numbers.tolist()], dtype=np.int64)
    scores: dict[str, StageScores] = {
        stage: _stage_scores(snapshot, stage, question, numbers, rows) for stage in stages
    }
    return CandidatePool(np.full(numbers.size, owner, dtype=np.int64), numbers, rows, scores)


def _joined(parts: Sequence[CandidatePool], stages: Sequence[Stage]) -> CandidatePool:
    if not parts:
        return CandidatePool(_no_numbers(), _no_numbers(), _no_numbers(), {stage: np.zeros(0) for stage in stages})
    return CandidatePool(
        np.concatenate([part.owners for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.rows for part in parts]),
        {stage: np.concatenate([part.scores[stage] for part in parts]) for stage in stages},
    )


def _stage_scores(
    snapshot: Snapshot,
    stage: Stage,
    question: EncodedQuery,
    numbers: ChunkNumbers,
    rows: npt.NDArray[np.int64],
) -> StageScores:
    if stage == "dense":
        # A damaged vector may be nearest to everything.
        snapshot.check_vectors(rows.tolist())
        return np.asarray(snapshot.vectors[rows] @ question.vector, dtype=np.float64)
    if stage == "bm25":
        return question.lexical_scores(snapshot, numbers)
    if snapshot.tfidf is None:
        return np.full(numbers.size, np.nan)
    cosines = np.asarray(snapshot.tfidf.cosines(question.text, numbers), dtype=np.float64)
    unknown = np.flatnonzero(np.isnan(cosines))
    if unknown.size:
        chunks = snapshot.live_chunks(numbers[unknown].tolist())
        texts = [chunks[number].text for number in numbers[unknown].tolist()]
        cosines[unknown] = snapshot.tfidf.cosine(question.text, texts)
    return cosines


def _no_numbers() -> ChunkNumbers:
    return np.empty(0, dtype=np.int64)


def rocchio_vector(snapshots: Sequence[Snapshot], question: EncodedQuery, share: float) -> FloatArray:
    """The question's vector moved towards its three nearest chunks: `share` of it stays (Rocchio 1971)."""
    near: list[FloatArray] = []
    for snapshot in snapshots:
        rows = _nearest_rows(snapshot, question, _ROCCHIO_CHUNKS)[0]
        snapshot.check_vectors(rows.tolist())
        near += list(np.asarray(snapshot.vectors[rows]))
    near.sort(key=lambda vector: -float(vector @ question.vector))
    if not near:
        return question.vector
    moved = share * question.vector + (1.0 - share) * np.mean(near[:_ROCCHIO_CHUNKS], axis=0)
    return np.asarray(moved / max(float(np.linalg.norm(moved)), 1e-12), dtype=np.float32)


def pool_vectors(snapshots: Sequence[Snapshot], pool: CandidatePool) -> FloatArray:
    """The candidates' unit vectors (n, d)."""
    vectors = np.empty((len(pool), snapshots[0].vectors.shape[1]), dtype=np.float32)
    for owner in dict.fromkeys(pool.owners.tolist()):
        mine = pool.owners == owner
        vectors[mine] = snapshots[owner].vectors[pool.rows[mine]]
    return vectors


def pool_documents(snapshots: Sequence[Snapshot], pool: CandidatePool) -> list[tuple[int, int]]:
    """Which document each candidate is from, as (snapshot, document number)."""
    found = {
        owner: snapshots[owner].document_numbers(pool.numbers[pool.owners == owner].tolist())
        for owner in dict.fromkeys(pool.owners.tolist())
    }
    places = zip(pool.owners.tolist(), pool.numbers.tolist(), strict=True)
    return [(owner, found[owner][number]) for owner, number in places]


@dataclass(frozen=True, slots=True)
class RankedPool:
    """The candidates of one encoder's collections in final order, with the scores that led there.

    `words` are those of the question, as these collections were asked it.
    """

    snapshots: Sequence[Snapshot]
    pool: CandidatePool
    order: list[int]
    final: StageScores
    score_type: ScoreType
    reranker: str | None
    words: str = ""

    def snapshot_of(self, place: int) -> Snapshot:
        """The collection state that a candidate is from."""
        return self.snapshots[int(self.pool.owners[place])]

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

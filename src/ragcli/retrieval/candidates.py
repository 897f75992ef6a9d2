"""Stage 1: the pool of candidates out of one or several collections that share an encoder.

Collections with the same encoder compete in one pool: each stage takes its best over all of them together. What a
word weighs for BM25 is still told by its own collection, so scores of different collections are alike, not equal.
Every candidate then gets every stage's score, also from the stage that did not find it, because the fusion
compares scores and a gap would have to be guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ragcli.retrieval.identity import Place, copies, may_be_copies
from ragcli.retrieval.pipelines import Stage
from ragcli.retrieval.request import LONGEST_ENCODED

if TYPE_CHECKING:
    from ragcli.collection import Snapshot
    from ragcli.filters import Filter
    from ragcli.index.lexical import Boosts, Expansion
    from ragcli.models import Encoding, FloatArray

Numbers = npt.NDArray[np.int64]
StageScores = npt.NDArray[np.float64]
Found = Sequence[tuple[Numbers, npt.NDArray[np.floating]]]
"""What one stage puts first in each of several collections: chunk numbers and their scores."""

_ROCCHIO_CHUNKS: Final = 3
_DEEPEST: Final = 20_000
"""Chunks of one document, or a few, behind which no other is looked for."""
_NAMED: Final = 20_000
"""Chunks that are looked for by their numbers, when a filter leaves no more."""


class Question:
    """A question's words, and their encoding, which is made when a stage first asks for it."""

    def __init__(
        self,
        text: str,
        encode: Callable[[str], Encoding],
        *,
        titles: float = 0.0,
        expansion: Expansion = (),
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
        return self._encode(self.text[:LONGEST_ENCODED])

    @cached_property
    def vector(self) -> FloatArray:
        """What the dense stage looks for, (d,): the encoding's vector, unless something has moved it.

        With hypothetical passages it is the mean of theirs and the question's, of unit length again.
        """
        if not self._hypothetical:
            return self.encoding.vector
        texts = [text.encode("utf-8", "replace").decode("utf-8")[:LONGEST_ENCODED] for text in self._hypothetical]
        mean = np.mean([self.encoding.vector, *(self._encode(text).vector for text in texts)], axis=0)
        return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), dtype=np.float32)

    def lexical_best(self, snapshot: Snapshot, depth: int, among: Numbers | None = None) -> tuple[Numbers, StageScores]:
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

    def lexical_scores(self, snapshot: Snapshot, numbers: Numbers) -> StageScores:
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

    def _boosts(self) -> Boosts:
        from ragcli.index.lexical import Boosts

        return Boosts(title=self.titles, heading=self.titles)


@dataclass(frozen=True, slots=True)
class Pool:
    """Candidates as parallel arrays: the snapshot each is from, its chunk number and its row there.

    `scores` has one float64 array per stage that ran, aligned with the candidates, NaN where a stage has none.
    `copies` has the same passages in other collections, by (owner, number), which were left out for it.
    """

    owners: npt.NDArray[np.int64]
    numbers: Numbers
    rows: npt.NDArray[np.int64]
    scores: dict[str, StageScores]
    copies: Mapping[Place, tuple[Place, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return int(self.numbers.size)


def stage_ranking(snapshot: Snapshot, stage: Stage, question: Question, depth: int) -> Numbers:
    """Numbers of the chunks that one stage puts first in one collection, best first, at most `depth`."""
    return stage_best(snapshot, stage, question, depth)[0]


def stage_best(
    snapshot: Snapshot, stage: Stage, question: Question, depth: int
) -> tuple[Numbers, npt.NDArray[np.floating]]:
    """What one stage puts first in one collection, best first, at most `depth`: chunk numbers and their scores."""
    left_out = question.left_out.get(snapshot.folder, ())
    numbers, scores = _stage_best(snapshot, stage, question, depth + len(left_out))
    if not left_out:
        return numbers, scores
    kept = [place for place, number in enumerate(numbers.tolist()) if number not in left_out][:depth]
    return numbers[kept], scores[kept]


def _stage_best(
    snapshot: Snapshot, stage: Stage, question: Question, depth: int
) -> tuple[Numbers, npt.NDArray[np.floating]]:
    if stage == "dense":
        rows, scores = _near_rows(snapshot, question, depth)
        return np.asarray(snapshot.row_numbers[rows], dtype=np.int64), scores
    if stage == "tfidf":
        if snapshot.tfidf is None:
            return _no_numbers(), np.zeros(0)
        chosen = snapshot.matching(question.where)
        return snapshot.tfidf.rank(question.text, depth, among=None if chosen is None else chosen.numbers)
    return _lexical_ranking(snapshot, question, depth)


def _near_rows(
    snapshot: Snapshot, question: Question, depth: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    from ragcli.index.dense import SIGNS_FROM, top_rows, top_rows_among, top_rows_by_signs

    chosen = snapshot.matching(question.where)
    if chosen is not None:
        signs = snapshot.signs if len(snapshot.vectors) >= SIGNS_FROM else None
        return top_rows_among(snapshot.vectors, signs, question.vector, depth, chosen.rows)
    if len(snapshot.vectors) < SIGNS_FROM:
        return top_rows(snapshot.vectors, question.vector, depth, snapshot.dead)
    return top_rows_by_signs(snapshot.vectors, snapshot.signs, question.vector, depth, snapshot.dead)


def _lexical_ranking(snapshot: Snapshot, question: Question, depth: int) -> tuple[Numbers, StageScores]:
    chosen = snapshot.matching(question.where)
    if chosen is not None:
        return _chosen_ranking(snapshot, question, depth, chosen.numbers)
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


def _chosen_ranking(snapshot: Snapshot, question: Question, depth: int, chosen: Numbers) -> tuple[Numbers, StageScores]:
    """As `_lexical_ranking`, of the chosen chunks alone."""
    from ragcli.index.dense import members

    # Naming each takes longer than asking for more than is wanted, if those that are chosen are many.
    asked = depth if len(chosen) <= _NAMED else 2 * depth * max(1, snapshot.chunk_count // len(chosen))
    named = chosen if len(chosen) <= _NAMED else None
    while True:
        numbers, scores = question.lexical_best(snapshot, asked, named)
        kept = np.flatnonzero(members(numbers, chosen))[:depth]
        if len(kept) == depth or len(numbers) < asked:
            return numbers[kept], scores[kept]
        # Where the chosen are not among what the question finds, they will not be further down either.
        asked, named = (4 * asked, None) if asked < _NAMED else (depth, chosen)


def fill_pool(
    snapshots: Sequence[Snapshot],
    stages: Sequence[Stage],
    question: Question,
    depth: int,
    *,
    documents: int = 0,
    preferred: Callable[[str], float] | None = None,
) -> Pool:
    """The union of each stage's best `depth` over all snapshots, every candidate scored by every stage.

    Where those are of fewer than so many `documents`, the best passages of the next documents are candidates too.
    Where a passage is in several collections, only that of the one that is `preferred` most is a candidate; with
    None, all of them are.
    """
    found: dict[Stage, Found] = {
        stage: [_spread(snapshot, stage, question, depth, documents) for snapshot in snapshots] for stage in stages
    }
    if len(snapshots) == 1:
        return _scored(snapshots[0], 0, stages, question, [each[0][0] for each in found.values()])
    same = copies(snapshots, _doubtful(found), preferred) if preferred is not None else {}
    dropped = {place for places in same.values() for place in places}
    rankings = [_best_of_all(snapshots, each, depth, documents, dropped) for each in found.values()]
    parts = [
        _scored(snapshot, owner, stages, question, [ranking[owner] for ranking in rankings])
        for owner, snapshot in enumerate(snapshots)
        if any(len(ranking[owner]) for ranking in rankings)
    ]
    return replace(_joined(parts, stages), copies=same)


def _spread(
    snapshot: Snapshot, stage: Stage, question: Question, depth: int, documents: int
) -> tuple[Numbers, npt.NDArray[np.floating]]:
    """As `stage_best`, and behind that the best passage of each next document, until there are so many documents."""
    asked = depth
    while True:
        numbers, scores = stage_best(snapshot, stage, question, asked)
        if not documents:
            return numbers, scores
        owners = snapshot.document_numbers(numbers.tolist())
        if len({*owners.values()}) >= documents or len(numbers) < asked or asked >= _DEEPEST:
            kept = _spread_places([owners.get(number) for number in numbers.tolist()], depth, documents)
            return numbers[kept], scores[kept]
        asked *= 4


def _spread_places(owners: Sequence[Hashable], depth: int, documents: int) -> list[int]:
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


def _best_of_all(
    snapshots: Sequence[Snapshot], found: Found, depth: int, documents: int, dropped: set[Place]
) -> list[Numbers]:
    """Of several collections' best those that are among the best `depth` of all, by collection, and as `_spread`."""
    owners, numbers, scores = _in_a_row(found)
    order = np.argsort(-scores, kind="stable")
    if dropped:
        places = zip(owners[order].tolist(), numbers[order].tolist(), strict=True)
        order = order[[place not in dropped for place in places]]
    if documents:
        known = [snapshot.document_numbers(each.tolist()) for snapshot, (each, _) in zip(snapshots, found, strict=True)]
        places = zip(owners[order].tolist(), numbers[order].tolist(), strict=True)
        order = order[_spread_places([(owner, known[owner].get(number)) for owner, number in places], depth, documents)]
    else:
        order = order[:depth]
    return [numbers[order[owners[order] == owner]] for owner in range(len(found))]


def _doubtful(found: Mapping[Stage, Found]) -> list[Place]:
    """What may be the same passage in two collections."""
    if "dense" in found:
        owners, numbers, scores = _in_a_row(found["dense"])
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


def _in_a_row(found: Found) -> tuple[npt.NDArray[np.int64], Numbers, npt.NDArray[np.floating]]:
    owners = np.repeat(np.arange(len(found)), [len(numbers) for numbers, _ in found])
    return owners, np.concatenate([numbers for numbers, _ in found]), np.concatenate([scores for _, scores in found])


def _scored(
    snapshot: Snapshot, owner: int, stages: Sequence[Stage], question: Question, rankings: Sequence[Numbers]
) -> Pool:
    """The chunks of one collection that this state knows, with every stage's score."""
    # Not by np.unique, which imports the whole of numpy.ma: 30 ms.
    union = sorted({number for ranking in rankings for number in ranking.tolist()})
    rows_of = snapshot.rows(union)
    numbers = np.asarray([number for number in union if number in rows_of], dtype=np.int64)
    rows = np.asarray([rows_of[number] for number in numbers.tolist()], dtype=np.int64)
    scores: dict[str, StageScores] = {
        stage: _stage_scores(snapshot, stage, question, numbers, rows) for stage in stages
    }
    return Pool(np.full(numbers.size, owner, dtype=np.int64), numbers, rows, scores)


def _joined(parts: Sequence[Pool], stages: Sequence[Stage]) -> Pool:
    if not parts:
        return Pool(_no_numbers(), _no_numbers(), _no_numbers(), {stage: np.zeros(0) for stage in stages})
    return Pool(
        np.concatenate([part.owners for part in parts]),
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.rows for part in parts]),
        {stage: np.concatenate([part.scores[stage] for part in parts]) for stage in stages},
    )


def _stage_scores(
    snapshot: Snapshot,
    stage: Stage,
    question: Question,
    numbers: Numbers,
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


def _no_numbers() -> Numbers:
    return np.empty(0, dtype=np.int64)


def moved_vector(snapshots: Sequence[Snapshot], question: Question, share: float) -> FloatArray:
    """The question's vector moved towards its three nearest chunks: `share` of it stays (Rocchio 1971)."""
    near: list[FloatArray] = []
    for snapshot in snapshots:
        rows = _near_rows(snapshot, question, _ROCCHIO_CHUNKS)[0]
        snapshot.check_vectors(rows.tolist())
        near += list(np.asarray(snapshot.vectors[rows]))
    near.sort(key=lambda vector: -float(vector @ question.vector))
    if not near:
        return question.vector
    moved = share * question.vector + (1.0 - share) * np.mean(near[:_ROCCHIO_CHUNKS], axis=0)
    return np.asarray(moved / max(float(np.linalg.norm(moved)), 1e-12), dtype=np.float32)


def pool_vectors(snapshots: Sequence[Snapshot], pool: Pool) -> FloatArray:
    """The candidates' unit vectors (n, d)."""
    vectors = np.empty((len(pool), snapshots[0].vectors.shape[1]), dtype=np.float32)
    for owner in dict.fromkeys(pool.owners.tolist()):
        mine = pool.owners == owner
        vectors[mine] = snapshots[owner].vectors[pool.rows[mine]]
    return vectors


def pool_documents(snapshots: Sequence[Snapshot], pool: Pool) -> list[tuple[int, int]]:
    """Which document each candidate is from, as (snapshot, document number)."""
    found = {
        owner: snapshots[owner].document_numbers(pool.numbers[pool.owners == owner].tolist())
        for owner in dict.fromkeys(pool.owners.tolist())
    }
    places = zip(pool.owners.tolist(), pool.numbers.tolist(), strict=True)
    return [(owner, found[owner][number]) for owner, number in places]

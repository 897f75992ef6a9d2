"""Stage 1: the pool of candidates out of one or several collections that share an encoder.

Collections with the same encoder compete in one pool: each stage takes its best over all of them together.
Every candidate then gets every stage's score, also from the stage that did not find it, because the fusion
compares scores and a gap would have to be guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ragcli.retrieval.pipelines import Stage
from ragcli.retrieval.request import LONGEST_ENCODED

if TYPE_CHECKING:
    from ragcli.collection import Snapshot
    from ragcli.index.lexical import Boosts, Expansion
    from ragcli.models import Encoding, FloatArray

Numbers = npt.NDArray[np.int64]
StageScores = npt.NDArray[np.float64]

_ROCCHIO_CHUNKS: Final = 3
_SMALL: Final = 512


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
    ) -> None:
        # Half a character, from a shell in another encoding, is nothing that any library takes.
        self.text = text.encode("utf-8", "replace").decode("utf-8")
        self.titles = titles
        self.expansion = expansion
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

    def lexical_best(self, snapshot: Snapshot, depth: int) -> tuple[Numbers, StageScores]:
        """The BM25 index's best `depth` with their scores, best first, whatever this state knows of them."""
        # Of a small index all that match are asked for, which takes less time than asking for some of them again.
        asked = max(depth, _SMALL) if snapshot.chunk_count <= _SMALL else depth
        numbers, scores = snapshot.lexical.search(self.text, asked, boosts=self._boosts(), expansion=self.expansion)
        known = dict(zip(numbers.tolist(), scores.tolist(), strict=True))
        self._bm25[snapshot.folder] = known, len(numbers) < asked
        return numbers[:depth], scores[:depth].astype(np.float64)

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
    """

    owners: npt.NDArray[np.int64]
    numbers: Numbers
    rows: npt.NDArray[np.int64]
    scores: dict[str, StageScores]

    def __len__(self) -> int:
        return int(self.numbers.size)


def stage_ranking(snapshot: Snapshot, stage: Stage, question: Question, depth: int) -> Numbers:
    """Numbers of the chunks that one stage puts first in one collection, best first, at most `depth`."""
    return stage_best(snapshot, stage, question, depth)[0]


def stage_best(
    snapshot: Snapshot, stage: Stage, question: Question, depth: int
) -> tuple[Numbers, npt.NDArray[np.floating]]:
    """What one stage puts first in one collection, best first, at most `depth`: chunk numbers and their scores."""
    if stage == "dense":
        rows, scores = _near_rows(snapshot, question.vector, depth)
        return np.asarray(snapshot.row_numbers[rows], dtype=np.int64), scores
    if stage == "tfidf":
        return snapshot.tfidf.rank(question.text, depth) if snapshot.tfidf else (_no_numbers(), np.zeros(0))
    return _lexical_ranking(snapshot, question, depth)


def _near_rows(
    snapshot: Snapshot, vector: FloatArray, depth: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    from ragcli.index.dense import SIGNS_FROM, top_rows, top_rows_by_signs

    if len(snapshot.vectors) < SIGNS_FROM:
        return top_rows(snapshot.vectors, vector, depth, snapshot.dead)
    return top_rows_by_signs(snapshot.vectors, snapshot.signs, vector, depth, snapshot.dead)


def _lexical_ranking(snapshot: Snapshot, question: Question, depth: int) -> tuple[Numbers, StageScores]:
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


def fill_pool(snapshots: Sequence[Snapshot], stages: Sequence[Stage], question: Question, depth: int) -> Pool:
    """The union of each stage's best `depth` over all snapshots, every candidate scored by every stage."""
    chosen: list[set[int]] = [set() for _ in snapshots]
    for stage in stages:
        found = [stage_best(snapshot, stage, question, depth) for snapshot in snapshots]
        for owner, numbers in enumerate(_best_of_all(found, depth)):
            chosen[owner].update(numbers)
    parts = [
        (owner, _scored(snapshot, stages, question, sorted(chosen[owner])))
        for owner, snapshot in enumerate(snapshots)
        if chosen[owner]
    ]
    if len(snapshots) == 1 and parts:
        return parts[0][1]
    if not parts:
        nothing = np.zeros(0, dtype=np.int64)
        return Pool(nothing, nothing, nothing, {stage: np.zeros(0) for stage in stages})
    return Pool(
        np.concatenate([np.full(len(part), owner, dtype=np.int64) for owner, part in parts]),
        np.concatenate([part.numbers for _, part in parts]),
        np.concatenate([part.rows for _, part in parts]),
        {stage: np.concatenate([part.scores[stage] for _, part in parts]) for stage in stages},
    )


def _best_of_all(found: Sequence[tuple[Numbers, npt.NDArray[np.floating]]], depth: int) -> list[list[int]]:
    """Of several collections' best those that are among the best `depth` of all, by collection."""
    if len(found) == 1:
        return [found[0][0].tolist()]
    scores = np.concatenate([scores for _, scores in found])
    kept = np.zeros(len(scores), dtype=bool)
    kept[np.argsort(-scores, kind="stable")[:depth]] = True
    ends = np.cumsum([len(numbers) for numbers, _ in found]).tolist()
    return [numbers[kept[end - len(numbers) : end]].tolist() for (numbers, _), end in zip(found, ends, strict=True)]


def _scored(snapshot: Snapshot, stages: Sequence[Stage], question: Question, chosen: Sequence[int]) -> Pool:
    """The chosen chunks that this state knows, with every stage's score."""
    rows_of = snapshot.rows(chosen)
    numbers = np.asarray([number for number in chosen if number in rows_of], dtype=np.int64)
    rows = np.asarray([rows_of[number] for number in numbers.tolist()], dtype=np.int64)
    scores: dict[str, StageScores] = {
        stage: _stage_scores(snapshot, stage, question, numbers, rows) for stage in stages
    }
    return Pool(np.zeros(numbers.size, dtype=np.int64), numbers, rows, scores)


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
        rows = _near_rows(snapshot, question.vector, _ROCCHIO_CHUNKS)[0]
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

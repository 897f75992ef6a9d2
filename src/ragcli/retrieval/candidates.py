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
        self._bm25: dict[Path, dict[int, float]] = {}

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

    def lexical_numbers(self, snapshot: Snapshot, depth: int) -> Numbers:
        """The BM25 index's best `depth`, best first, whatever this state knows of them."""
        numbers, scores = snapshot.lexical.search(self.text, depth, boosts=self._boosts(), expansion=self.expansion)
        self._bm25[snapshot.folder] = dict(zip(numbers.tolist(), scores.tolist(), strict=True))
        return numbers

    def lexical_scores(self, snapshot: Snapshot, numbers: Numbers) -> StageScores:
        """BM25 scores (n,) of some chunks; those that the last search has told are not computed again."""
        known = self._bm25.get(snapshot.folder, {})
        scores = np.asarray([known.get(number, np.nan) for number in numbers.tolist()], dtype=np.float64)
        missing = np.flatnonzero(np.isnan(scores))
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
    if stage == "dense":
        rows = _near_rows(snapshot, question.vector, depth)
        return np.asarray(snapshot.row_numbers[rows], dtype=np.int64)
    if stage == "tfidf":
        return (
            np.asarray(snapshot.tfidf.rank(question.text, depth)[0], dtype=np.int64)
            if snapshot.tfidf
            else _no_numbers()
        )
    return _lexical_ranking(snapshot, question, depth)


def _near_rows(snapshot: Snapshot, vector: FloatArray, depth: int) -> npt.NDArray[np.int64]:
    from ragcli.index.dense import SIGNS_FROM, top_rows, top_rows_by_signs

    if len(snapshot.vectors) < SIGNS_FROM:
        return top_rows(snapshot.vectors, vector, depth, snapshot.dead)[0]
    return top_rows_by_signs(snapshot.vectors, snapshot.signs, vector, depth, snapshot.dead)[0]


def _lexical_ranking(snapshot: Snapshot, question: Question, depth: int) -> Numbers:
    # The lexical index may hold chunks that the store has dropped or not yet committed: ask for more until
    # enough known ones have come.
    asked = depth
    while True:
        numbers = question.lexical_numbers(snapshot, asked)
        known = snapshot.rows(numbers.tolist())
        kept = [number for number in numbers.tolist() if number in known]
        if len(kept) >= depth or len(numbers) < asked:
            return np.asarray(kept[:depth], dtype=np.int64)
        asked *= 2


def fill_pool(snapshots: Sequence[Snapshot], stages: Sequence[Stage], question: Question, depth: int) -> Pool:
    """The union of each stage's best `depth` over all snapshots, every candidate scored by every stage."""
    parts = [_pool_of(snapshot, stages, question, depth) for snapshot in snapshots]
    if len(parts) == 1:
        return parts[0]
    whole = Pool(
        np.concatenate([np.full(len(part), owner, dtype=np.int64) for owner, part in enumerate(parts)]),
        np.concatenate([part.numbers for part in parts]),
        np.concatenate([part.rows for part in parts]),
        {stage: np.concatenate([part.scores[stage] for part in parts]) for stage in stages},
    )
    return _best_over_all(whole, depth)


def _pool_of(snapshot: Snapshot, stages: Sequence[Stage], question: Question, depth: int) -> Pool:
    rankings = [stage_ranking(snapshot, stage, question, depth) for stage in stages]
    # Not by np.unique, which imports the whole of numpy.ma: 30 ms.
    union = sorted({number for ranking in rankings for number in ranking.tolist()})
    rows_of = snapshot.rows(union)
    numbers = np.asarray([number for number in union if number in rows_of], dtype=np.int64)
    rows = np.asarray([rows_of[number] for number in numbers.tolist()], dtype=np.int64)
    scores: dict[str, StageScores] = {
        stage: _stage_scores(snapshot, stage, question, numbers, rows) for stage in stages
    }
    return Pool(np.zeros(numbers.size, dtype=np.int64), numbers, rows, scores)


def _best_over_all(pool: Pool, depth: int) -> Pool:
    keep = np.zeros(len(pool), dtype=bool)
    for scores in pool.scores.values():
        keep[np.argsort(-np.nan_to_num(scores, nan=-np.inf), kind="stable")[:depth]] = True
    return Pool(
        pool.owners[keep],
        pool.numbers[keep],
        pool.rows[keep],
        {stage: scores[keep] for stage, scores in pool.scores.items()},
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
        rows = _near_rows(snapshot, question.vector, _ROCCHIO_CHUNKS)
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
    for owner, snapshot in enumerate(snapshots):
        mine = pool.owners == owner
        vectors[mine] = snapshot.vectors[pool.rows[mine]]
    return vectors


def pool_documents(snapshots: Sequence[Snapshot], pool: Pool) -> list[tuple[int, int]]:
    """Which document each candidate is from, as (snapshot, document number)."""
    found = [
        snapshot.document_numbers(pool.numbers[pool.owners == owner].tolist())
        for owner, snapshot in enumerate(snapshots)
    ]
    places = zip(pool.owners.tolist(), pool.numbers.tolist(), strict=True)
    return [(owner, found[owner][number]) for owner, number in places]

"""What the stages of ranking hand to one another: a pool in its final order, and a candidate on its way to a hit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ragcli.records import ScoreType
from ragcli.retrieval.candidates import Pool, StageScores

if TYPE_CHECKING:
    from ragcli.collection import Snapshot


@dataclass(frozen=True, slots=True)
class Ranked:
    """The candidates of one encoder's collections in final order, with the scores that led there.

    `words` are those of the question, as these collections were asked it.
    """

    snapshots: Sequence[Snapshot]
    pool: Pool
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

    group: Ranked
    place: int
    score: float
    score_type: ScoreType
    source_score: float | None = None
    mmr: float | None = None

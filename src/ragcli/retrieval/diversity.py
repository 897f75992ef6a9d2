"""Hits that say different things: maximal marginal relevance, and passages that say the same shown once.

MMR (Carbonell and Goldstein, SIGIR 1998) takes one hit after another, each time the one with the best
(1 - d) x relevance - d x likeness to the nearest hit taken before. Relevance is the score, scaled to 0..1 over the
candidates; likeness is the cosine of the chunks' vectors, 0 between vectors of different encoders.

Two passages are near-duplicates when the vectors of both have a cosine of 0.9 or more and four fifths of the shorter
one's runs of five words (shingles: Broder, SEQUENCES 1997) stand in the other. Neighbouring chunks, which share their
overlap, are far from that; another version of the same paper is not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.errors import UsageError
from ragcli.retrieval.candidates import pool_vectors
from ragcli.retrieval.fusion import min_max
from ragcli.retrieval.ranked import Candidate

if TYPE_CHECKING:
    from ragcli.models import FloatArray
    from ragcli.retrieval.ranked import Ranked

ALIKE: Final = 0.9
"""Cosine of two passages' vectors from which their words are compared."""
SHARED: Final = 0.8
"""Share of the shorter passage's runs of words that makes it a near-duplicate of the other."""
RUN: Final = 5
_WORD: Final = re.compile(r"\w+")


def diversified(candidates: Iterable[Candidate], share: float) -> list[Candidate]:
    """The candidates in the order of MMR, `share` being that of novelty. UsageError where there are no vectors."""
    given = list(candidates)
    if not given:
        return []
    vectors = _vectors(given)
    relevance = min_max([candidate.score for candidate in given])
    groups = np.asarray([id(candidate.group) for candidate in given])
    nearest = np.zeros(len(given))
    left = np.ones(len(given), dtype=bool)
    taken = []
    for _ in given:
        values = np.where(left, (1.0 - share) * relevance - share * nearest, -np.inf)
        best = int(np.argmax(values))
        taken.append(given[best]._replace(mmr=float(values[best])))
        left[best] = False
        same = np.flatnonzero(left & (groups == groups[best]))
        nearest[same] = np.maximum(nearest[same], [vectors[at] @ vectors[best] for at in same.tolist()])
    return taken


def _vectors(candidates: list[Candidate]) -> list[FloatArray]:
    of_pools: dict[int, FloatArray] = {}
    for candidate in candidates:
        group = candidate.group
        if id(group) not in of_pools:
            if not group.snapshots[0].record.dimension:
                raise UsageError(
                    f"--diversity compares vectors, and the collection '{group.snapshots[0].collection}' was made"
                    " without an encoder."
                )
            of_pools[id(group)] = pool_vectors(group.snapshots, group.pool)
    return [of_pools[id(candidate.group)][candidate.place] for candidate in candidates]


@dataclass(frozen=True, slots=True)
class _Kept:
    group: Ranked
    vector: FloatArray | None
    text: str


class Repeats:
    """The passages taken so far, to compare others with."""

    def __init__(self) -> None:
        self._kept: list[_Kept] = []
        self._runs: dict[str, frozenset[tuple[str, ...]]] = {}

    def find(self, candidate: Candidate, text: str) -> int | None:
        """Which of those taken, counted from 0, says the same; otherwise None, and it is taken itself."""
        group = candidate.group
        vector = _vector_of(candidate)
        for at, kept in enumerate(self._kept):
            comparable = vector is not None and kept.vector is not None and kept.group is group
            if comparable and float(np.dot(vector, kept.vector)) < ALIKE:  # type: ignore[arg-type]
                continue
            if self._says_the_same(text, kept.text):
                return at
        self._kept.append(_Kept(group, vector, text))
        return None

    def _says_the_same(self, one: str, other: str) -> bool:
        first, second = self._runs_of(one), self._runs_of(other)
        return len(first & second) >= SHARED * max(min(len(first), len(second)), 1)

    def _runs_of(self, text: str) -> frozenset[tuple[str, ...]]:
        if text not in self._runs:
            words = _WORD.findall(text.casefold())
            runs = zip(*(words[at:] for at in range(RUN)), strict=False)
            self._runs[text] = frozenset(runs) or frozenset([tuple(words)])
        return self._runs[text]


def _vector_of(candidate: Candidate) -> FloatArray | None:
    snapshot = candidate.group.snapshot_of(candidate.place)
    if not snapshot.record.dimension:
        return None
    vector: FloatArray = snapshot.vectors[int(candidate.group.pool.rows[candidate.place])]
    return vector

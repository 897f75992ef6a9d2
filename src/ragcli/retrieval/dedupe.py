"""Near-duplicate removal by shingles, MMR diversity, and the pool size that these need."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.errors import UsageError
from ragcli.retrieval.fusion import min_max
from ragcli.retrieval.stages import Candidate, pool_vectors

if TYPE_CHECKING:
    from ragcli.retrieval.pipelines import Pipeline
    from ragcli.retrieval.request import QueryRequest
    from ragcli.retrieval.stages import RankedPool
    from ragcli.types import Hit


if TYPE_CHECKING:
    import numpy.typing as npt

    from ragcli.models import FloatArray
    from ragcli.retrieval.stages import RankedPool

    IntArray = npt.NDArray[np.int64]

NEAR_DUPLICATE_COSINE: Final = 0.9
"""Cosine of two passages' vectors from which their words are compared."""
SHINGLE_OVERLAP: Final = 0.8
"""Share of the shorter passage's runs of words that makes it a near-duplicate of the other."""
SHINGLE_LENGTH: Final = 5
MAX_PAIRWISE: Final = 16
"""Passages that are near enough to be compared one by one; more of them are looked up by their words."""
Shingle = tuple[str, ...]
_WORD: Final = re.compile(r"\w+")


def maximal_marginal_relevance(candidates: Iterable[Candidate], share: float) -> list[Candidate]:
    """The candidates in the order of MMR, `share` being that of novelty. UsageError where there are no vectors."""
    given = list(candidates)
    if not given:
        return []
    relevance = min_max([candidate.score for candidate in given])
    groups = _vectors(given)
    nearest = np.zeros(len(given))
    left = np.ones(len(given), dtype=bool)
    taken = []
    for _ in given:
        values = np.where(left, (1.0 - share) * relevance - share * nearest, -np.inf)
        best = int(np.argmax(values))
        taken.append(given[best]._replace(mmr=float(values[best])))
        left[best] = False
        places, vectors, rows = groups[id(given[best].group)]
        nearest[places] = np.maximum(nearest[places], vectors @ vectors[rows[best]])
    return taken


def _vectors(candidates: list[Candidate]) -> dict[int, tuple[IntArray, FloatArray, dict[int, int]]]:
    """By group: which candidates are of it, their vectors (n, d), and in which row of those each candidate's is."""
    members: dict[int, list[int]] = {}
    for at, candidate in enumerate(candidates):
        members.setdefault(id(candidate.group), []).append(at)
    found = {}
    for key, places in members.items():
        group = candidates[places[0]].group
        if not group.readers[0].dimension:
            raise UsageError(
                f"--diversity compares vectors, and the collection '{group.readers[0].name}' was made"
                " without an encoder."
            )
        vectors = pool_vectors(group.readers, group.pool)[[candidates[at].place for at in places]]
        found[key] = np.asarray(places), vectors, {at: row for row, at in enumerate(places)}
    return found


class NearDuplicates:
    """The passages taken so far, to compare others with.

    `by_words` is for passages whose vectors cannot be compared, because there are none or they are of different
    encoders: then all passages that share runs of words are looked up by those.
    """

    def __init__(self, *, by_words: bool) -> None:
        self._by_words = by_words
        self._kept: list[tuple[RankedPool, FloatArray | None, str]] = []
        self._vectors: FloatArray = np.empty((0, 0), np.float32)
        self._runs: dict[str, frozenset[Shingle]] = {}
        self._holders: dict[Shingle, list[int]] = {}
        self._looked_up = 0

    def find(self, group: RankedPool, vector: FloatArray | None, text: str) -> int | None:
        """Which of those taken, counted from 0, says the same; otherwise None, and it is taken itself."""
        near = None if self._by_words or vector is None else self._near(vector)
        alike = self._sharing(text) if near is None or len(near) > MAX_PAIRWISE else self._saying_the_same(near, text)
        for at in alike:
            if not self._apart(at, group, vector):
                return at
        self._keep(group, vector, text)
        return None

    def _near(self, vector: FloatArray) -> list[int]:
        count = len(self._kept)
        found: list[int] = (
            np.flatnonzero(self._vectors[:count] @ vector >= NEAR_DUPLICATE_COSINE).tolist() if count else []
        )
        return found

    def _saying_the_same(self, suspects: list[int], text: str) -> Iterator[int]:
        """Those of the suspects, compared one by one."""
        for at in suspects:
            # Mostly there are none, and then no text is taken apart.
            runs, other = self._runs_of(text), self._runs_of(self._kept[at][2])
            if _are_near_duplicates(len(runs & other), runs, other):
                yield at

    def _sharing(self, text: str) -> Iterator[int]:
        """Those of all taken, looked up by their runs."""
        for at in range(self._looked_up, len(self._kept)):
            for run in self._runs_of(self._kept[at][2]):
                self._holders.setdefault(run, []).append(at)
        self._looked_up = len(self._kept)
        runs = self._runs_of(text)
        shared = Counter(chain.from_iterable(self._holders.get(run, ()) for run in runs))
        for at in sorted(shared):
            if _are_near_duplicates(shared[at], runs, self._runs_of(self._kept[at][2])):
                yield at

    def _apart(self, at: int, group: RankedPool, vector: FloatArray | None) -> bool:
        """Whether vectors that can be compared say that the two are different."""
        other_group, other, _ = self._kept[at]
        if vector is None or other is None or other_group is not group:
            return False
        return float(np.dot(vector, other)) < NEAR_DUPLICATE_COSINE

    def _keep(self, group: RankedPool, vector: FloatArray | None, text: str) -> None:
        count = len(self._kept)
        self._kept.append((group, vector, text))
        if self._by_words or vector is None:
            return
        if count >= len(self._vectors):
            grown = np.zeros((max(8, 2 * count), len(vector)), np.float32)
            if known := len(self._vectors):
                grown[:known] = self._vectors
            self._vectors = grown
        self._vectors[count] = vector

    def _runs_of(self, text: str) -> frozenset[Shingle]:
        if text not in self._runs:
            words = _WORD.findall(text.casefold())
            runs = zip(*(words[at:] for at in range(SHINGLE_LENGTH)), strict=False)
            self._runs[text] = frozenset(runs) or frozenset([tuple(words)])
        return self._runs[text]


def _are_near_duplicates(shared: int, runs: frozenset[Shingle], others: frozenset[Shingle]) -> bool:
    return shared >= SHINGLE_OVERLAP * min(len(runs), len(others))


_MAX_POOL: Final = 400
"""Candidates of each stage from which on no more are looked for in place of those that say the same."""


def documents_needed(request: QueryRequest) -> int:
    """How many documents the candidates must be of for `top` hits, where one document may not have them all."""
    return request.top if request.group or request.max_per_source is not None else 0


def pool_for_duplicates(
    request: QueryRequest, pipeline: Pipeline, groups: Sequence[RankedPool], hits: Sequence[Hit]
) -> int | None:
    """How large a pool has room for others, where passages that say the same have filled it and too few hits came.

    None where the hits are enough, there is nothing more to find, or a reranker would take seconds for so many.
    """
    depth = max(request.pool or pipeline.pool, request.top)
    if len(hits) >= request.top or depth >= _MAX_POOL or not any(hit.duplicates for hit in hits):
        return None
    if any(group.reranker not in (None, "late") for group in groups):
        return None
    return 4 * depth if any(len(group.pool) >= depth for group in groups) else None

"""Rank and score fusion: z-score, min-max, convex, RRF; merge collections and sub-queries."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import numpy.typing as npt

from ragcli.errors import UsageError
from ragcli.retrieval.request import DeepRanking, QueryRequest, QueryResult, RankedChunk
from ragcli.retrieval.stages import Candidate, RankedPool
from ragcli.types import Hit, StoredChunk

if TYPE_CHECKING:
    from ragcli.retrieval.request import SubQuery


ScoreArray = npt.NDArray[np.float64]

RRF_K: Final = 60


def z_scores(scores: npt.ArrayLike) -> ScoreArray:
    """Scores minus their mean, over their standard deviation; all zero where they do not vary.

    A missing score (NaN) counts as the lowest one present: the list did not find that candidate.
    """
    filled = _fill_missing(scores)
    if filled.size == 0:
        return filled
    spread = float(filled.std())
    # Below this the differences are rounding noise of float32 scores and must not be blown up.
    if not np.isfinite(spread) or spread <= 1e-6 * max(1.0, float(np.abs(filled).max())):
        return np.zeros_like(filled)
    standard: ScoreArray = (filled - filled.mean()) / spread
    return standard


def min_max(scores: npt.ArrayLike) -> ScoreArray:
    """Scores mapped onto [0, 1]; all zero where they do not vary. A missing score becomes 0."""
    filled = _fill_missing(scores)
    if filled.size == 0:
        return filled
    low, high = float(filled.min()), float(filled.max())
    return np.zeros_like(filled) if high <= low else (filled - low) / (high - low)


def weighted_sum(lists: Mapping[str, npt.ArrayLike], weights: Mapping[str, float]) -> ScoreArray:
    """The sum of each list's z-scores times its weight (1 where no weight is named)."""
    parts = [weights.get(name, 1.0) * z_scores(scores) for name, scores in lists.items()]
    return np.sum(parts, axis=0) if parts else np.zeros(0)


def convex_combination(sparse: npt.ArrayLike, dense: npt.ArrayLike, alpha: float = 0.5) -> ScoreArray:
    """alpha x dense + (1 - alpha) x sparse, each min-max scaled. alpha 0 is sparse alone, 1 dense alone.

    Raises ValueError when alpha is outside [0, 1].
    """
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha}")
    return alpha * min_max(dense) + (1.0 - alpha) * min_max(sparse)


def reciprocal_rank_fusion(
    lists: Mapping[str, npt.ArrayLike], weights: Mapping[str, float] | None = None, k: int = RRF_K
) -> ScoreArray:
    """Reciprocal rank fusion: the sum over lists of weight / (k + rank), ranks from 1; missing adds nothing."""
    total: ScoreArray | None = None
    for name, scores in lists.items():
        values = np.asarray(scores, dtype=np.float64)
        present = ~np.isnan(values)
        order = np.argsort(-values[present], kind="stable")
        ranks = np.empty(order.size, dtype=np.float64)
        ranks[order] = np.arange(1, order.size + 1)
        part = np.zeros_like(values)
        part[present] = (weights or {}).get(name, 1.0) / (k + ranks)
        total = part if total is None else total + part
    return total if total is not None else np.zeros(0)


def pooled_union(rankings: Sequence[Sequence[int]], depth: int) -> list[int]:
    """The distinct members of each ranking's first `depth`, in order of first appearance."""
    return list(dict.fromkeys(member for ranking in rankings for member in ranking[:depth]))


def _fill_missing(scores: npt.ArrayLike) -> ScoreArray:
    values = np.array(scores, dtype=np.float64)
    missing = np.isnan(values)
    if missing.any():
        values[missing] = values[~missing].min() if not missing.all() else 0.0
    return values


def check_weights(weights: Mapping[str, float], collections: Iterable[str]) -> None:
    """UsageError when a weight is given to a collection that is not searched."""
    names = list(collections)
    for name in weights:
        if name not in names:
            raise UsageError(f"--weight names the collection '{name}', which is not searched ({', '.join(names)} are).")


def merge_encoder_groups(groups: Sequence[RankedPool], weights: Mapping[str, float]) -> Iterable[Candidate]:
    """All candidates, best first; equal ones in the order of their collections."""
    if len(groups) == 1 and not weights:
        group = groups[0]
        return (Candidate(group, place, float(group.final[place]), group.score_type) for place in group.order)
    if len(groups) == 1:
        return _collection_weighted(groups[0], weights)
    merged = [
        Candidate(
            group,
            place,
            weights.get(group.reader_of(place).name, 1.0) / (RRF_K + rank),
            "fused",
            float(group.final[place]),
        )
        for group in groups
        for rank, place in enumerate(group.order, 1)
    ]
    return sorted(merged, key=lambda candidate: -candidate.score)


def _collection_weighted(group: RankedPool, weights: Mapping[str, float]) -> list[Candidate]:
    of_owner = np.asarray([weights.get(reader.name, 1.0) for reader in group.readers])
    scores = min_max(group.final) * of_owner[group.pool.owners] if len(group.pool) else group.final
    order = sorted(group.order, key=lambda place: -float(scores[place]))
    return [Candidate(group, place, float(scores[place]), "fused", float(group.final[place])) for place in order]


ChunkKey = tuple[str, str]
Rankable = TypeVar("Rankable", bound=Hashable)

# Below the depth to which rankings are merged, places only order what none of them has higher up.
_BELOW_DEPTH_FACTOR: Final = 1e-3
# Less than what parts two places of a turn, however many parts there are.
_SHARED_BONUS: Final = 1e-4


def merge_hits(
    queries: Sequence[SubQuery], results: Sequence[QueryResult], request: QueryRequest
) -> tuple[tuple[Hit, ...], list[int]]:
    """The merged hits, as many and as few from one document as the request says, and the part each belongs to.

    A hit is the one of the query that speaks loudest for it in that part, with the merged score. Where one query shows
    a copy of what another shows, they are one hit.
    """
    found: dict[ChunkKey, list[tuple[float, Hit, int]]] = {}
    same: dict[ChunkKey, ChunkKey] = {}
    orders: list[list[ChunkKey]] = []
    for query, result in zip(queries, results, strict=True):
        orders.append([])
        for hit in result.hits:
            copies = [_chunk_key(each) for each in (hit.chunk, *hit.duplicates)]
            place = next((same[each] for each in copies if each in same), copies[0])
            for each in copies:
                same.setdefault(each, place)
            orders[-1].append(place)
            found.setdefault(place, []).append((query.weight / (RRF_K + hit.rank), hit, query.part))
    scores = _merged_scores(queries, orders)
    chosen = _MergedSelection(request)
    for place in sorted(scores, key=lambda place: -scores[place][0]):
        score, part = scores[place]
        hit = max((each for each in found[place] if each[2] == part), key=lambda each: each[0])[1]
        before = hit.source_score if hit.source_score is not None else hit.score
        chosen.offer(replace(hit, score=score, score_type="fused", source_score=before), part)
        if chosen.full:
            break
    return chosen.hits(), chosen.parts


class _MergedSelection:
    """Merged hits as they are chosen, best first."""

    def __init__(self, request: QueryRequest) -> None:
        self._request = request
        self._shown: list[list[Hit]] = []
        self._of_document: dict[ChunkKey, list[Hit]] = {}
        self._taken: Counter[ChunkKey] = Counter()
        self.parts: list[int] = []

    @property
    def full(self) -> bool:
        return len(self._shown) == self._request.top and not self._request.group

    def offer(self, hit: Hit, part: int) -> None:
        document = hit.chunk.collection, hit.chunk.document_id
        limit = self._request.max_per_source
        if limit is not None and self._taken[document] >= limit:
            return
        leader = self._of_document.get(document)
        if self._request.group and leader is not None:
            leader.append(hit)
        elif len(self._shown) < self._request.top:
            self._shown.append([hit])
            self._of_document.setdefault(document, self._shown[-1])
            self.parts.append(part)
        else:
            return
        self._taken[document] += 1

    def hits(self) -> tuple[Hit, ...]:
        ranked = []
        for rank, (hit, *others) in enumerate(self._shown, 1):
            below = tuple(replace(other, rank=rank) for other in others)
            ranked.append(replace(hit, rank=rank, others=below))
        return tuple(ranked)


def _chunk_key(chunk: StoredChunk) -> ChunkKey:
    return chunk.collection, chunk.chunk_id


def merge_rankings(
    queries: Sequence[SubQuery], rankings: Sequence[DeepRanking], *, depth: int
) -> tuple[RankedChunk, ...]:
    """Deep rankings merged as `merge_hits` does down to `depth`, and on below it."""
    chunks = {chunk.chunk_id: chunk for ranking in reversed(rankings) for chunk in ranking.chunks}
    scores = _merged_scores(queries, [[chunk.chunk_id for chunk in ranking.chunks] for ranking in rankings], depth)
    order = sorted(scores, key=lambda key: -scores[key][0])
    return tuple(replace(chunks[key], score=scores[key][0]) for key in order)


def _merged_scores(
    queries: Sequence[SubQuery], orders: Sequence[Sequence[Rankable]], depth: int | None = None
) -> dict[Rankable, tuple[float, int]]:
    """The merged score of each item, and the part that it is for. Beyond `depth` an order counts next to nothing."""
    of_part: dict[int, defaultdict[Rankable, float]] = {}
    near: dict[int, set[Rankable]] = {}
    for query, order in zip(queries, orders, strict=True):
        scores = of_part.setdefault(query.part, defaultdict(float))
        near.setdefault(query.part, set()).update(order[:depth])
        for rank, item in enumerate(order, 1):
            scores[item] += (
                query.weight / (RRF_K + rank) * (1.0 if depth is None or rank <= depth else _BELOW_DEPTH_FACTOR)
            )
    if len(of_part) == 1:
        return {item: (score, part) for part, scores in of_part.items() for item, score in scores.items()}
    ranked = {part: sorted(scores, key=lambda item: -scores[item]) for part, scores in of_part.items()}
    voices: defaultdict[Rankable, float] = defaultdict(float)
    for part, items in ranked.items():
        for rank, item in enumerate(items, 1):
            voices[item] += 1.0 / (RRF_K + rank) if item in near[part] else 0.0
    return {
        item: (1.0 / (RRF_K + turn) + _SHARED_BONUS * voices[item], part) for item, turn, part in _round_robin(ranked)
    }


def _round_robin(ranked: Mapping[int, Sequence[Rankable]]) -> Iterator[tuple[Rankable, int, int]]:
    """Each item once, with its turn and the part that took it: in every turn each part takes its best that is left."""
    taken: set[Rankable] = set()
    queues = {part: iter(items) for part, items in ranked.items()}
    turn = 0
    while queues:
        turn += 1
        for part, queue in list(queues.items()):
            item = next((each for each in queue if each not in taken), None)
            if item is None:
                del queues[part]
                continue
            taken.add(item)
            yield item, turn, part

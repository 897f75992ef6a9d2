"""Several queries' rankings as one, by weighted reciprocal ranks.

RRF: Cormack, Clarke and Buettcher, SIGIR 2009. What several queries find rises, and how high each ranks it counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ragcli.records import Hit, StoredChunk
from ragcli.retrieval.fusion import RRF_K
from ragcli.retrieval.request import QueryRequest, QueryResult, RankedChunk, RankedChunks

if TYPE_CHECKING:
    from ragcli.retrieval.techniques.values import Query

Place = tuple[str, str]

# Below the depth to which rankings are merged, places only order what none of them has higher up.
_BELOW: Final = 1e-3


def merge_hits(
    queries: Sequence[Query], results: Sequence[QueryResult], request: QueryRequest
) -> tuple[tuple[Hit, ...], list[int]]:
    """The merged hits, as many and as few from one document as the request says, and the part each belongs to.

    A hit is the one of the query that speaks loudest for it, with the merged score. Where one query shows a copy of
    what another shows, they are one hit.
    """
    scores: defaultdict[Place, float] = defaultdict(float)
    loudest: dict[Place, tuple[float, Hit, int]] = {}
    same: dict[Place, Place] = {}
    for query, result in zip(queries, results, strict=True):
        for hit in result.hits:
            copies = [_place(each) for each in (hit.chunk, *hit.duplicates)]
            place = next((same[each] for each in copies if each in same), copies[0])
            for each in copies:
                same.setdefault(each, place)
            voice = query.weight / (RRF_K + hit.rank)
            scores[place] += voice
            if place not in loudest or voice > loudest[place][0]:
                loudest[place] = voice, hit, query.part
    chosen = _Chosen(request)
    for place in sorted(scores, key=lambda place: -scores[place]):
        _, hit, part = loudest[place]
        before = hit.source_score if hit.source_score is not None else hit.score
        chosen.offer(replace(hit, score=scores[place], score_type="fused", source_score=before), part)
        if chosen.full:
            break
    return chosen.hits(), chosen.parts


class _Chosen:
    """Merged hits as they are chosen, best first."""

    def __init__(self, request: QueryRequest) -> None:
        self._request = request
        self._shown: list[list[Hit]] = []
        self._of_document: dict[Place, list[Hit]] = {}
        self._taken: Counter[Place] = Counter()
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


def _place(chunk: StoredChunk) -> Place:
    return chunk.collection, chunk.chunk_id


def merge_rankings(
    queries: Sequence[Query], rankings: Sequence[RankedChunks], *, depth: int
) -> tuple[RankedChunk, ...]:
    """Deep rankings merged as `merge_hits` does down to `depth`, and on below it."""
    scores: defaultdict[str, float] = defaultdict(float)
    chunks: dict[str, RankedChunk] = {}
    for query, ranking in zip(queries, rankings, strict=True):
        for rank, chunk in enumerate(ranking.chunks, 1):
            scores[chunk.chunk_id] += query.weight / (RRF_K + rank) * (1.0 if rank <= depth else _BELOW)
            chunks.setdefault(chunk.chunk_id, chunk)
    order = sorted(scores, key=lambda key: -scores[key])
    return tuple(replace(chunks[key], score=scores[key]) for key in order)

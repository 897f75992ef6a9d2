"""Several queries' rankings as one.

The queries for one part of a question are merged by weighted reciprocal ranks (RRF: Cormack, Clarke and Buettcher,
SIGIR 2009): what several of them find rises. Parts take turns, as each wants its answer: in every turn each part gives
its best hit that no other has given, and of the hits of one turn those come first that several parts have found.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from ragcli.records import Hit, StoredChunk
from ragcli.retrieval.fusion import RRF_K
from ragcli.retrieval.request import QueryRequest, QueryResult, RankedChunk, RankedChunks

if TYPE_CHECKING:
    from ragcli.retrieval.techniques.values import Query

Place = tuple[str, str]
Item = TypeVar("Item", bound=Hashable)

# Below the depth to which rankings are merged, places only order what none of them has higher up.
_BELOW: Final = 1e-3
# Less than what parts two places of a turn, however many parts there are.
_ALSO: Final = 1e-4


def merge_hits(
    queries: Sequence[Query], results: Sequence[QueryResult], request: QueryRequest
) -> tuple[tuple[Hit, ...], list[int]]:
    """The merged hits, as many and as few from one document as the request says, and the part each belongs to.

    A hit is the one of the query that speaks loudest for it in that part, with the merged score. Where one query shows
    a copy of what another shows, they are one hit.
    """
    found: dict[Place, list[tuple[float, Hit, int]]] = {}
    same: dict[Place, Place] = {}
    orders: list[list[Place]] = []
    for query, result in zip(queries, results, strict=True):
        orders.append([])
        for hit in result.hits:
            copies = [_place(each) for each in (hit.chunk, *hit.duplicates)]
            place = next((same[each] for each in copies if each in same), copies[0])
            for each in copies:
                same.setdefault(each, place)
            orders[-1].append(place)
            found.setdefault(place, []).append((query.weight / (RRF_K + hit.rank), hit, query.part))
    scores = _scores(queries, orders)
    chosen = _Chosen(request)
    for place in sorted(scores, key=lambda place: -scores[place][0]):
        score, part = scores[place]
        hit = max((each for each in found[place] if each[2] == part), key=lambda each: each[0])[1]
        before = hit.source_score if hit.source_score is not None else hit.score
        chosen.offer(replace(hit, score=score, score_type="fused", source_score=before), part)
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
    chunks = {chunk.chunk_id: chunk for ranking in reversed(rankings) for chunk in ranking.chunks}
    scores = _scores(queries, [[chunk.chunk_id for chunk in ranking.chunks] for ranking in rankings], depth)
    order = sorted(scores, key=lambda key: -scores[key][0])
    return tuple(replace(chunks[key], score=scores[key][0]) for key in order)


def _scores(
    queries: Sequence[Query], orders: Sequence[Sequence[Item]], depth: int | None = None
) -> dict[Item, tuple[float, int]]:
    """The merged score of each item, and the part that it is for. Beyond `depth` an order counts next to nothing."""
    of_part: dict[int, defaultdict[Item, float]] = {}
    near: dict[int, set[Item]] = {}
    for query, order in zip(queries, orders, strict=True):
        scores = of_part.setdefault(query.part, defaultdict(float))
        near.setdefault(query.part, set()).update(order[:depth])
        for rank, item in enumerate(order, 1):
            scores[item] += query.weight / (RRF_K + rank) * (1.0 if depth is None or rank <= depth else _BELOW)
    if len(of_part) == 1:
        return {item: (score, part) for part, scores in of_part.items() for item, score in scores.items()}
    ranked = {part: sorted(scores, key=lambda item: -scores[item]) for part, scores in of_part.items()}
    voices: defaultdict[Item, float] = defaultdict(float)
    for part, items in ranked.items():
        for rank, item in enumerate(items, 1):
            voices[item] += 1.0 / (RRF_K + rank) if item in near[part] else 0.0
    return {item: (1.0 / (RRF_K + turn) + _ALSO * voices[item], part) for item, turn, part in _turns(ranked)}


def _turns(ranked: Mapping[int, Sequence[Item]]) -> Iterator[tuple[Item, int, int]]:
    """Each item once, with its turn and the part that took it: in every turn each part takes its best that is left."""
    taken: set[Item] = set()
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

"""Several queries' rankings as one, by weighted reciprocal ranks.

RRF: Cormack, Clarke and Buettcher, SIGIR 2009. What several queries find rises, and how high each ranks it counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ragcli.records import Hit
from ragcli.retrieval.fusion import RRF_K
from ragcli.retrieval.request import QueryRequest, QueryResult, RankedChunk, RankedChunks

if TYPE_CHECKING:
    from ragcli.retrieval.techniques.values import Query

# Below the depth to which rankings are merged, places only order what none of them has higher up.
_BELOW: Final = 1e-3


def merge_hits(
    queries: Sequence[Query], results: Sequence[QueryResult], request: QueryRequest
) -> tuple[tuple[Hit, ...], list[int]]:
    """The merged hits, as many and as few from one document as the request says, and the part each belongs to.

    A hit is the one of the query that speaks loudest for it, with the merged score.
    """
    scores: defaultdict[tuple[str, str], float] = defaultdict(float)
    loudest: dict[tuple[str, str], tuple[float, Hit, int]] = {}
    for query, result in zip(queries, results, strict=True):
        for hit in result.hits:
            key = hit.chunk.collection, hit.chunk.chunk_id
            voice = query.weight / (RRF_K + hit.rank)
            scores[key] += voice
            if key not in loudest or voice > loudest[key][0]:
                loudest[key] = voice, hit, query.part
    hits: list[Hit] = []
    parts: list[int] = []
    taken: Counter[tuple[str, str]] = Counter()
    for key in sorted(scores, key=lambda key: -scores[key]):
        _, hit, part = loudest[key]
        document = hit.chunk.collection, hit.chunk.document_id
        if request.max_per_source is not None and taken[document] >= request.max_per_source:
            continue
        taken[document] += 1
        before = hit.source_score if hit.source_score is not None else hit.score
        hits.append(replace(hit, rank=len(hits) + 1, score=scores[key], score_type="fused", source_score=before))
        parts.append(part)
        if len(hits) == request.top:
            break
    return tuple(hits), parts


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

"""From ranked candidates to hits: merge what cannot be compared, keep to the caps, read the texts.

Only what will be shown is read from the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ragcli.records import Hit, ScoreType, StoredChunk
from ragcli.retrieval.candidates import Pool, StageScores
from ragcli.retrieval.fusion import reciprocal_ranks

if TYPE_CHECKING:
    from ragcli.collection import Snapshot
    from ragcli.retrieval.request import QueryRequest


@dataclass(frozen=True, slots=True)
class Ranked:
    """The candidates of one encoder's collections in final order, with the scores that led there."""

    snapshots: Sequence[Snapshot]
    pool: Pool
    order: list[int]
    final: StageScores
    score_type: ScoreType
    reranker: str | None

    def snapshot_of(self, place: int) -> Snapshot:
        """The collection state that a candidate is from."""
        return self.snapshots[int(self.pool.owners[place])]


def cut_hits(groups: Sequence[Ranked], request: QueryRequest) -> tuple[Hit, ...]:
    """The first `request.top` hits, with at most `max_per_source` from one document."""
    merged = [(group, place, float(group.final[place]), group.score_type) for group in groups for place in group.order]
    if len(groups) > 1:
        # Different encoders: raw scores mean different things, so only the places within each group count.
        merged = _merge_by_rank(groups)
    hits: list[Hit] = []
    taken: Counter[str] = Counter()
    # Chunks are read a screenful at a time: without a cap the first batch is all that is needed.
    for batch in _batches(merged, max(request.top, 1)):
        wanted: dict[Snapshot, list[int]] = {}
        for group, place, _, _ in batch:
            wanted.setdefault(group.snapshot_of(place), []).append(int(group.pool.numbers[place]))
        found = {snapshot: snapshot.live_chunks(numbers) for snapshot, numbers in wanted.items()}
        cosines = {snapshot: _cosines(snapshot, request.text, chunks) for snapshot, chunks in found.items()}
        for group, place, score, score_type in batch:
            snapshot = group.snapshot_of(place)
            chunk = found[snapshot][int(group.pool.numbers[place])]
            key = f"{chunk.collection}\0{chunk.document_id}"
            if request.max_per_source is not None and taken[key] >= request.max_per_source:
                continue
            taken[key] += 1
            scores = {
                stage: None if np.isnan(values[place]) else float(values[place])
                for stage, values in group.pool.scores.items()
            }
            hits.append(
                Hit(
                    rank=len(hits) + 1,
                    chunk=chunk,
                    score=score,
                    score_type=score_type,
                    cosine=cosines[snapshot][chunk.number],
                    reranker=group.reranker,
                    scores={
                        stage: scores.get(stage) for stage in ("bm25", "tfidf", "dense", "rerank", "window", "feedback")
                    }
                    | {"fused": float(group.final[place]) if group.score_type == "fused" else None},
                )
            )
            if len(hits) == request.top:
                return tuple(hits)
    return tuple(hits)


def _merge_by_rank(groups: Sequence[Ranked]) -> list[tuple[Ranked, int, float, ScoreType]]:
    places = [(group, place) for group in groups for place in group.order]
    lists = {}
    start = 0
    for at, group in enumerate(groups):
        # Scores that fall with the place: what reciprocal ranks need to know, and no more.
        lists[str(at)] = np.full(len(places), np.nan)
        lists[str(at)][start : start + len(group.order)] = -np.arange(len(group.order))
        start += len(group.order)
    fused = reciprocal_ranks(lists)
    order = np.argsort(-fused, kind="stable").tolist()
    return [(*places[at], float(fused[at]), "fused") for at in order]


def _batches(
    items: list[tuple[Ranked, int, float, ScoreType]], size: int
) -> Iterator[list[tuple[Ranked, int, float, ScoreType]]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _cosines(snapshot: Snapshot, text: str, chunks: Mapping[int, StoredChunk]) -> dict[int, float]:
    """The TF-IDF cosine of the question with each chunk, by number; 0 where nothing was fitted."""
    if snapshot.tfidf is None:
        return dict.fromkeys(chunks, 0.0)
    known = dict(zip(chunks, snapshot.tfidf.cosines(text, list(chunks)).tolist(), strict=True))
    # Taken in after the last fit: weighed on the spot by what was learned then.
    later = [number for number, cosine in known.items() if np.isnan(cosine)]
    if later:
        weighed = snapshot.tfidf.cosine(text, [chunks[number].text for number in later])
        known |= dict(zip(later, weighed.tolist(), strict=True))
    return known

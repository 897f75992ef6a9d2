"""Build hits from ranked candidates: caps per document, grouping, duplicates, texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.retrieval.dedupe import NearDuplicates, maximal_marginal_relevance
from ragcli.retrieval.fusion import merge_encoder_groups
from ragcli.retrieval.identity import IDENTITY_KINDS, IdentityKey, document_identities
from ragcli.retrieval.stages import Candidate, EncodedQuery, RankedPool
from ragcli.types import Hit, StoredChunk

if TYPE_CHECKING:
    from ragcli.engines import CollectionReader
    from ragcli.models import FloatArray
    from ragcli.retrieval.request import QueryRequest

_SCORE_NAMES: Final = ("bm25", "tfidf", "dense", "rerank", "window", "feedback")


def ordered_candidates(groups: Sequence[RankedPool], request: QueryRequest) -> Iterable[Candidate]:
    """All candidates in the order in which they are to be shown, before anything is left out."""
    merged = merge_encoder_groups(groups, dict(request.weights))
    return merged if request.diversity is None else maximal_marginal_relevance(merged, request.diversity)


def build_hits(groups: Sequence[RankedPool], request: QueryRequest) -> tuple[Hit, ...]:
    """The first `request.top` hits, with at most `max_per_source` from one document, each document and text once."""
    comparable = len(groups) == 1 and bool(groups[0].readers[0].dimension)
    chosen = _HitSelection(request, NearDuplicates(by_words=not comparable) if not request.keep_duplicates else None)
    several = sum(len(group.readers) for group in groups) > 1
    for batch in _batches(ordered_candidates(groups, request), max(request.top, 1)):
        for found in _with_texts(batch, request, several=several):
            chosen.offer(found)
            if chosen.full:
                return chosen.hits()
    return chosen.hits()


@dataclass(slots=True)
class _HitDraft:
    """A candidate with its text, what its document is known by, and what was folded under it."""

    candidate: Candidate
    chunk: StoredChunk
    cosine: float
    key: IdentityKey
    vector: FloatArray | None
    duplicates: list[StoredChunk] = field(default_factory=list)
    others: list[_HitDraft] = field(default_factory=list)

    def hit(self, rank: int) -> Hit:
        """As it is shown."""
        group, place, score, score_type, source_score, mmr = self.candidate
        stages = {
            stage: None if np.isnan(values[place]) else float(values[place])
            for stage, values in group.pool.scores.items()
        }
        scores: dict[str, float | None] = {stage: stages.get(stage) for stage in _SCORE_NAMES}
        if "recency" in stages:
            scores["recency"] = stages["recency"]
        scores["fused"] = float(group.final[place]) if group.score_type == "fused" else None
        if mmr is not None:
            scores["mmr"] = mmr
        return Hit(
            rank,
            self.chunk,
            score,
            score_type,
            self.cosine,
            group.reranker,
            scores,
            source_score,
            duplicates=tuple(_copies(self.candidate)) + tuple(self.duplicates),
            others=tuple(other.hit(rank) for other in self.others),
        )


class _HitSelection:
    """The hits as they are chosen, one after another."""

    def __init__(self, request: QueryRequest, repeats: NearDuplicates | None) -> None:
        self._request = request
        self._repeats = repeats
        self._kept: list[_HitDraft] = []
        self._shown: list[_HitDraft] = []
        self._by_document: dict[IdentityKey, list[_HitDraft]] = {}
        self._homes: dict[IdentityKey, tuple[str, str]] = {}
        self._taken: Counter[IdentityKey] = Counter()

    @property
    def full(self) -> bool:
        """Whether nothing more can be shown. Grouped hits go on collecting others of their documents."""
        return not self._request.group and len(self._shown) == self._request.top

    def hits(self) -> tuple[Hit, ...]:
        """What was chosen, in order."""
        return tuple(found.hit(rank) for rank, found in enumerate(self._shown, 1))

    def offer(self, found: _HitDraft) -> None:
        """Take it as a hit, fold it under one, or leave it out."""
        mine = self._by_document.get(found.key, [])
        home = (found.chunk.collection, found.chunk.document_id)
        if self._homes.setdefault(found.key, home) != home:
            # Another copy of a document that is shown already.
            for other in [each for each in mine if each.chunk.text == found.chunk.text][:1] or mine[:1]:
                other.duplicates.append(found.chunk)
            return
        limit = self._request.max_per_source
        if limit is not None and self._taken[found.key] >= limit:
            return
        leads = not (self._request.group and mine)
        if leads and len(self._shown) == self._request.top:
            return
        if self._repeats is not None:
            repeated = self._repeats.find(found.candidate.group, found.vector, found.chunk.text)
            if repeated is not None:
                self._kept[repeated].duplicates.append(found.chunk)
                return
        self._kept.append(found)
        self._taken[found.key] += 1
        self._by_document.setdefault(found.key, []).append(found)
        if leads:
            self._shown.append(found)
        else:
            mine[0].others.append(found)


def _with_texts(batch: Sequence[Candidate], request: QueryRequest, *, several: bool) -> Iterator[_HitDraft]:
    wanted: dict[CollectionReader, list[int]] = {}
    questions: dict[CollectionReader, EncodedQuery] = {}
    for candidate in batch:
        reader = candidate.group.reader_of(candidate.place)
        wanted.setdefault(reader, []).append(candidate.group.number_of(candidate.place))
        questions[reader] = candidate.group.question
    found = {reader: reader.chunks(numbers) for reader, numbers in wanted.items()}
    cosines = {
        reader: dict(
            zip(numbers, np.nan_to_num(reader.scores("tfidf", questions[reader], numbers)).tolist(), strict=True)
        )
        for reader, numbers in wanted.items()
    }
    vectors: dict[CollectionReader, dict[int, FloatArray]] = {
        reader: dict(zip(numbers, reader.vectors(numbers), strict=True)) if reader.dimension else {}
        for reader, numbers in wanted.items()
    }
    # Within one collection every document has a place of its own, unless one is told what else makes it the same.
    identity = request.identity if several or request.identity not in IDENTITY_KINDS else "none"
    keys = {reader: document_identities(reader, chunks, identity) for reader, chunks in found.items()}
    for candidate in batch:
        reader, number = candidate.group.reader_of(candidate.place), candidate.group.number_of(candidate.place)
        yield _HitDraft(
            candidate, found[reader][number], cosines[reader][number], keys[reader][number], vectors[reader].get(number)
        )


def _cosines(reader: CollectionReader, question: EncodedQuery, numbers: Sequence[int]) -> dict[int, float]:
    """The TF-IDF cosine of the question with each chunk, by number; 0 where nothing was fitted."""
    return dict(zip(numbers, np.nan_to_num(reader.scores("tfidf", question, numbers)).tolist(), strict=True))


def _copies(candidate: Candidate) -> Iterator[StoredChunk]:
    """The same passage in other collections, which was left out of the pool."""
    group, place, *_ = candidate
    for owner, number in group.pool.copies.get((int(group.pool.owners[place]), group.number_of(place)), ()):
        yield from group.readers[owner].chunks([number]).values()


def _batches(items: Iterable[Candidate], size: int) -> Iterator[list[Candidate]]:
    left = iter(items)
    while batch := list(islice(left, size)):
        yield batch

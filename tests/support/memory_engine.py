"""A search engine that keeps a collection in memory: dicts, brute force and a naive BM25, for the reader protocol.

It shares with the local engine what defines the results (chunking, the analysis of words, filters' meaning), and none
of what makes them fast or durable.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection as Container
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from ragcli.collection import DocumentRow, DocumentText, MetadataField, Provenance, hash_text
from ragcli.documents import chunk_document, embedding_text
from ragcli.engines.reader_protocol import Stage, StageQuery
from ragcli.errors import CollectionError, MissingCollection
from ragcli.filters import Filter
from ragcli.filters.expression_tree import keys_of
from ragcli.filters.predicate_evaluation import matches
from ragcli.index.late_interaction import pack_signs
from ragcli.index.term_analysis import pretokenize, tantivy_analyzer
from ragcli.models import Encoder, Encoding
from ragcli.text.text_folding import squeeze
from ragcli.types import CollectionSettings, Document, StoredChunk

Array = npt.NDArray[Any]
_K1, _B = 1.2, 0.75


@dataclass(frozen=True)
class _Kept:
    chunk: StoredChunk
    document: int
    terms: Counter[str]
    title_terms: frozenset[str]
    encoding: Encoding | None


class MemoryReader:
    """A `CollectionReader` of documents, each under an id that is its source too; it was never fitted for TF-IDF."""

    def __init__(
        self, name: str, documents: Mapping[str, Document], settings: CollectionSettings, encoder: Encoder | None
    ) -> None:
        self.name, self.settings = name, settings
        self.dimension = encoder.dimension if encoder is not None else 0
        self.fingerprint = encoder.fingerprint if encoder is not None else None
        self.has_token_vectors = settings.token_vectors == "bits" and encoder is not None  # noqa: S105
        self._documents = documents
        self._analyser = tantivy_analyzer()
        self._kept: dict[int, _Kept] = {}
        self._rows: dict[str, DocumentRow] = {}
        for at, (source, document) in enumerate(documents.items(), 1):
            cut = chunk_document(document, size=settings.chunk_size, overlap=settings.overlap)
            for chunk in cut:
                text = document.text[chunk.start : chunk.end]
                stored = StoredChunk(
                    number=len(self._kept) + 1,
                    chunk_id=f"{source}:{chunk.ordinal}",
                    document_id=source,
                    collection=name,
                    source=source,
                    path=None,
                    title=document.title,
                    text=text,
                    ordinal=chunk.ordinal,
                    start=chunk.start,
                    end=chunk.end,
                    page_start=chunk.page_start,
                    page_end=chunk.page_end,
                    heading=chunk.heading,
                    metadata=document.metadata,
                )
                given = embedding_text(text, title=document.title, heading=chunk.heading, context=settings.context)
                self._kept[stored.number] = _Kept(
                    stored,
                    at,
                    Counter(self._analyser.analyze(pretokenize(text))),
                    frozenset(self._analyser.analyze(pretokenize(f"{document.title or ''} {chunk.heading or ''}"))),
                    encoder.encode_tokens([given])[0] if encoder is not None else None,
                )
            self._rows[source] = DocumentRow(
                number=at,
                document_id=source,
                source=source,
                path=None,
                record_id=source,
                kind=document.kind,
                title=document.title,
                characters=len(document.text),
                pages=len(document.pages),
                chunks=len(cut),
                ingested_at="2026-01-01T00:00:00+00:00",
                metadata=document.metadata,
            )
        self.chunk_count = len(self._kept)

    def rank(
        self, stage: Stage, query: StageQuery, depth: int, *, where: Filter | None = None, exclude: Container[int] = ()
    ) -> tuple[Array, Array]:
        meeting = {row.number for row in self.documents(where)}
        numbers = [number for number, kept in self._kept.items() if kept.document in meeting and number not in exclude]
        scores = self.scores(stage, query, numbers)
        found = sorted(zip(-scores, numbers, strict=True))
        if stage != "dense":
            found = [(score, number) for score, number in found if score < 0]
        best = found[:depth]
        return np.asarray([number for _, number in best], np.int64), np.asarray([-score for score, _ in best], float)

    def scores(self, stage: Stage, query: StageQuery, numbers: Sequence[int] | Array) -> Array:
        if stage == "dense":
            return np.asarray(self.vectors(numbers) @ query.vector, np.float64)
        if stage == "tfidf":
            return np.full(len(numbers), np.nan)
        weights: Counter[str] = Counter(dict.fromkeys(self.analyze(query.text), 1))
        scores = np.asarray([self._bm25(self._known(number), weights, query.title_weight) for number in numbers], float)
        for word, weight in query.expansion:
            extra = Counter(dict.fromkeys(self.analyze(word), 1))
            scores += [weight * self._bm25(self._known(number), extra, query.title_weight) for number in numbers]
        return scores

    def _bm25(self, kept: _Kept, terms: Counter[str], title_weight: float) -> float:
        mean = sum(each.terms.total() for each in self._kept.values()) / max(self.chunk_count, 1)
        frequency = dict(zip(terms, self.document_frequency(list(terms)).tolist(), strict=True))
        total = 0.0
        for term in terms:
            idf = math.log(1 + (self.chunk_count - frequency[term] + 0.5) / (frequency[term] + 0.5))
            here = kept.terms[term]
            total += idf * here * (_K1 + 1) / (here + _K1 * (1 - _B + _B * kept.terms.total() / max(mean, 1)))
            total += title_weight * idf * (term in kept.title_terms)
        return total

    def live(self, numbers: Sequence[int]) -> Array:
        return np.asarray([number for number in numbers if number in self._kept], np.int64)

    def vectors(self, numbers: Sequence[int] | Array) -> Array:
        found = [kept.encoding.vector for number in numbers if (kept := self._known(number)).encoding is not None]
        return np.asarray(found, np.float32).reshape(len(numbers), self.dimension)

    def token_bits(self, numbers: Sequence[int] | Array) -> tuple[Array, Array]:
        tokens = [kept.encoding.tokens for number in numbers if (kept := self._known(number)).encoding is not None]
        flat = np.concatenate([np.zeros((0, self.dimension), np.float32), *tokens])
        return pack_signs(flat), np.asarray([len(each) for each in tokens], np.int64)

    def sample(self, size: int) -> Array:
        numbers = np.asarray(list(self._kept), np.int64)
        return numbers[np.linspace(0, len(numbers) - 1, min(size, len(numbers))).astype(int)]

    def analyze(self, text: str) -> list[str]:
        return list(dict.fromkeys(self._analyser.analyze(pretokenize(text, query=True))))

    def document_frequency(self, terms: Sequence[str]) -> Array:
        return np.asarray([sum(term in kept.terms for kept in self._kept.values()) for term in terms], np.int64)

    def term_presence(self, terms: Sequence[str], numbers: Sequence[int] | Array) -> Array:
        there = [[term in self._known(number).terms for term in terms] for number in numbers]
        return np.asarray(there, bool).reshape(len(numbers), len(terms))

    def token_frequency(self, token_ids: Sequence[int] | Array) -> Array:
        having = [set(kept.encoding.token_ids.tolist()) for kept in self._kept.values() if kept.encoding is not None]
        return np.asarray([sum(int(each) in ids for ids in having) for each in token_ids], np.int64)

    def chunks(self, numbers: Sequence[int]) -> dict[int, StoredChunk]:
        return {int(number): self._known(number).chunk for number in numbers}

    def document_numbers(self, numbers: Sequence[int]) -> dict[int, int]:
        return {int(number): self._known(number).document for number in numbers}

    def provenance(self, numbers: Sequence[int]) -> dict[int, Provenance]:
        places = {}
        for number, chunk in self.chunks(numbers).items():
            text = hash_text(self._documents[chunk.source].text)
            places[number] = Provenance(text, chunk.start, chunk.end, b"-", chunk.source)
        return places

    def dates(self, numbers: Sequence[int]) -> dict[int, float]:  # noqa: ARG002
        return {}

    def same_text(self, text_hash: bytes, characters: int) -> list[tuple[int, int, int]]:
        chunks = [kept.chunk for kept in self._kept.values()]
        texts = {each.number: self._documents[each.source].text for each in chunks}
        return [
            (each.number, each.start, each.end)
            for each in chunks
            if len(texts[each.number]) == characters and hash_text(texts[each.number]) == text_hash
        ]

    def document(self, wanted: str) -> DocumentRow:
        if wanted not in self._rows:
            raise MissingCollection(f"The collection '{self.name}' has no document '{wanted}'.")
        return self._rows[wanted]

    def documents(self, where: Filter | None = None) -> Iterator[DocumentRow]:
        for _, row in sorted(self._rows.items()):
            if where is None or matches(where, row.metadata):
                yield row

    def document_chunks(self, document_id: str) -> tuple[StoredChunk, ...]:
        return tuple(kept.chunk for kept in self._kept.values() if kept.chunk.document_id == document_id)

    def document_texts(self, prefilter: str | None = None, where: Filter | None = None) -> Iterator[DocumentText]:
        meeting = {row.source for row in self.documents(where)}
        for source, document in self._documents.items():
            if source in meeting and (prefilter is None or prefilter in squeeze(document.text)):
                cut = chunk_document(document, size=self.settings.chunk_size, overlap=self.settings.overlap)
                yield DocumentText(
                    source, source, None, document.title, document.text, document.joins, document.pages, cut
                )

    def find_chunk(self, chunk_id: str) -> StoredChunk | None:
        return next((kept.chunk for kept in self._kept.values() if kept.chunk.chunk_id == chunk_id), None)

    def neighbours(self, chunk: StoredChunk, around: int) -> tuple[StoredChunk, ...]:
        near = self.document_chunks(chunk.document_id)
        return tuple(each for each in near if abs(each.ordinal - chunk.ordinal) <= around)

    def page_of(self, chunk: StoredChunk, offset: int) -> int | None:
        pages = self._documents[chunk.source].pages
        at = chunk.start + offset
        return next((span.number for span in reversed(pages) if span.start <= at), None)

    def prepare(self, where: Filter) -> None:
        """There is nothing to look up."""

    def unknown_keys(self, where: Filter) -> tuple[tuple[str, ...], tuple[str, ...]]:
        known = sorted({key for row in self._rows.values() for key in row.metadata})
        unknown = tuple(key for key in dict.fromkeys(keys_of(where)) if key not in known)
        return unknown, tuple(known) if unknown else ()

    def fields(self, *, examples: int = 3) -> tuple[MetadataField, ...]:
        found = []
        for key in sorted({key for row in self._rows.values() for key in row.metadata}):
            values = [row.metadata[key] for row in self._rows.values() if key in row.metadata]
            kinds = {
                "boolean" if isinstance(each, bool) else "text" if isinstance(each, str) else "number"
                for each in values
            }
            found.append(MetadataField(key, len(values), tuple(sorted(kinds)), tuple(values[:examples])))
        return tuple(found)

    def structure_bytes(self) -> Mapping[str, int]:
        return {"bm25": 0, "tfidf": 0, "dense": 4 * self.dimension * self.chunk_count, "late": 0}

    def close(self) -> None:
        """There is nothing to close."""

    def __enter__(self) -> MemoryReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _known(self, number: int) -> _Kept:
        if int(number) not in self._kept:
            raise CollectionError(f"The collection '{self.name}' has no chunk {number}.")
        return self._kept[int(number)]

"""The engine of collections on this machine's disk: documents from SQLite, ranking from arrays and indexes.

This module imports no numpy: exact search and lists of documents read through it.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection as Container
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from ragcli.array_types import BoolArray, ByteArray, Float32Array, Float64Array, Int32Array, Int64Array
    from ragcli.collection import DocumentRow, DocumentText, MetadataField, Provenance, Snapshot
    from ragcli.engines.local_arrays import LocalArrays
    from ragcli.engines.reader_protocol import Stage, StageQuery
    from ragcli.filters import Filter
    from ragcli.types import CollectionSettings, StoredChunk


class LocalReader:
    """A `CollectionReader` of a snapshot, which it closes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        record = snapshot.record
        self.name: str = snapshot.collection
        self.settings: CollectionSettings = record.settings
        self.chunk_count: int = record.chunks
        self.dimension: int = record.dimension
        self.fingerprint: str | None = record.fingerprint
        self.has_token_vectors: bool = bool(record.keeps_bits and record.rows and record.dimension)

    @cached_property
    def _arrays(self) -> LocalArrays:
        from ragcli.engines.local_arrays import LocalArrays

        return LocalArrays(self._snapshot)

    def rank(
        self, stage: Stage, query: StageQuery, depth: int, *, where: Filter | None = None, exclude: Container[int] = ()
    ) -> tuple[Int64Array, Float64Array]:
        return self._arrays.rank(stage, query, depth, where, exclude)

    def scores(self, stage: Stage, query: StageQuery, numbers: Sequence[int] | Int64Array) -> Float64Array:
        return self._arrays.scores(stage, query, numbers)

    def live(self, numbers: Sequence[int]) -> Int64Array:
        return self._arrays.live(numbers)

    def vectors(self, numbers: Sequence[int] | Int64Array) -> Float32Array:
        return self._arrays.vectors(numbers)

    def token_bits(self, numbers: Sequence[int] | Int64Array) -> tuple[ByteArray, Int64Array]:
        return self._arrays.token_bits(numbers)

    def sample(self, size: int) -> Int64Array:
        return self._arrays.sample(size)

    def analyze(self, text: str) -> list[str]:
        return self._snapshot.lexical.terms(text)

    def document_frequency(self, terms: Sequence[str]) -> Int64Array:
        return self._arrays.document_frequency(terms)

    def term_presence(self, terms: Sequence[str], numbers: Sequence[int] | Int64Array) -> BoolArray:
        return self._arrays.term_presence(terms, numbers)

    def token_frequency(self, token_ids: Sequence[int] | Int32Array | Int64Array) -> Int64Array:
        return self._arrays.token_frequency(token_ids)

    def chunks(self, numbers: Sequence[int]) -> dict[int, StoredChunk]:
        return self._snapshot.live_chunks(numbers)

    def document_numbers(self, numbers: Sequence[int]) -> dict[int, int]:
        return self._snapshot.document_numbers(numbers)

    def provenance(self, numbers: Sequence[int]) -> dict[int, Provenance]:
        return self._snapshot.provenance(numbers)

    def dates(self, numbers: Sequence[int]) -> dict[int, float]:
        return self._snapshot.dates(numbers)

    def same_text(self, text_hash: bytes, characters: int) -> list[tuple[int, int, int]]:
        return self._snapshot.same_text(text_hash, characters)

    def document(self, wanted: str) -> DocumentRow:
        return self._snapshot.document(wanted)

    def documents(self, where: Filter | None = None) -> Iterator[DocumentRow]:
        return self._snapshot.documents(where)

    def document_chunks(self, document_id: str) -> tuple[StoredChunk, ...]:
        return self._snapshot.document_chunks(document_id)

    def document_texts(self, prefilter: str | None = None, where: Filter | None = None) -> Iterator[DocumentText]:
        return self._snapshot.texts(prefilter, where)

    def find_chunk(self, chunk_id: str) -> StoredChunk | None:
        return self._snapshot.find_chunk(chunk_id)

    def neighbours(self, chunk: StoredChunk, around: int) -> tuple[StoredChunk, ...]:
        return self._snapshot.neighbours(chunk, around)

    def page_of(self, chunk: StoredChunk, offset: int) -> int | None:
        return self._snapshot.page_of(chunk, offset)

    def prepare(self, where: Filter) -> None:
        self._snapshot.matching(where)

    def unknown_keys(self, where: Filter) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self._snapshot.unknown_keys(where)

    def fields(self, *, examples: int = 3) -> tuple[MetadataField, ...]:
        return self._snapshot.fields(examples=examples)

    def structure_bytes(self) -> Mapping[str, int]:
        return self._arrays.structure_bytes()

    def close(self) -> None:
        self._snapshot.close()

    def __enter__(self) -> LocalReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

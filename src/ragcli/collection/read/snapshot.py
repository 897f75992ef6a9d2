"""Snapshot of a collection: one committed generation for reading.

The store's read transaction fixes the generation; its record says which files hold it and how many rows of each.
Files are opened when first asked for, however late, because the shared readers' lock, taken before the transaction,
keeps writers from removing what the record names: exact search opens no array and imports no numpy. Nothing is read
per chunk at opening.

The lexical index alone is not versioned: it holds every chunk of this state and perhaps others, newer or already
dropped. `rows` says which numbers this state knows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ragcli.collection.read import document_queries
from ragcli.collection.read.document_queries import DocumentRow, DocumentText, MetadataField
from ragcli.collection.store.generation_record import read_generation
from ragcli.collection.store.locks import share_readers_lock
from ragcli.collection.store.sqlite_connection import open_for_reading, translated_errors, translated_read_errors
from ragcli.errors import CollectionError, MissingCollection
from ragcli.types import CollectionSettings, StoredChunk

if TYPE_CHECKING:
    from types import TracebackType

    import numpy as np
    import numpy.typing as npt

    from ragcli.collection.read.document_queries import Provenance
    from ragcli.collection.read.metadata_filter import FilteredChunks
    from ragcli.collection.store.chunk_arrays import ChunkNumbers, FloatArray, IntArray, SignArray
    from ragcli.filters import Filter
    from ragcli.index.bm25 import LexicalIndex
    from ragcli.index.late_interaction import TokenReader
    from ragcli.index.tfidf import TfidfReader


_FILTERS_KEPT: Final = 64
"""Filters whose chunks are remembered: a snapshot may be kept for as long as a server runs."""


class Snapshot:
    """One generation of a collection. A context manager; may be handed from thread to thread, not shared.

    Of a collection that has tenants it is what one of them may read, and TenantNeeded without one. `everything` is
    for what checks or copies a collection as a whole and shows nothing of it. `connection` has the read transaction
    open; `record` is the state's generation record, with the counts of the tenant where there is one.
    """

    def __init__(self, folder: Path, tenant: str | None = None, *, everything: bool = False) -> None:
        self.folder = folder
        self.collection = folder.name
        self._selections: dict[str, FilteredChunks] = {}
        self._lock: int | None = share_readers_lock(folder)
        try:
            self.connection = open_for_reading(folder)
            try:
                with translated_errors(folder):
                    self.connection.execute("BEGIN")
                    self.record = read_generation(self.connection)
                    key = self.record.settings.tenant_key
                    self.restricted = key is not None and not everything
                    if self.restricted:
                        from ragcli.collection.read.tenant_views import restrict_to_tenant

                        self.record = restrict_to_tenant(self.connection, self.record, self.collection, tenant)
            except BaseException:
                self.connection.close()
                raise
        except BaseException:
            self._unlock()
            raise

    @property
    def settings(self) -> CollectionSettings:
        """What was fixed when the collection was made."""
        return self.record.settings

    @property
    def generation(self) -> int:
        """Number of the committed state. A greater one is newer."""
        return self.record.generation

    @property
    def chunk_count(self) -> int:
        """Chunks that are alive."""
        return self.record.chunks

    @cached_property
    def vectors(self) -> FloatArray:
        """(rows, d) unit vectors, mapped from disk, the dead rows included."""
        import numpy as np

        from ragcli.collection.store.chunk_arrays import vector_file

        if not self.record.dimension:
            return np.empty((self.record.rows, 0), np.float32)
        return vector_file(self.record.dimension).open(self.folder, self.record)

    @cached_property
    def signs(self) -> SignArray:
        """(rows, ceil(d / 8)) the sign bits of `vectors`, mapped from disk."""
        import numpy as np

        from ragcli.collection.store.chunk_arrays import sign_bits_file

        if not self.record.dimension:
            return np.empty((self.record.rows, 0), np.uint8)
        return sign_bits_file(self.record.dimension).open(self.folder, self.record)

    @cached_property
    def _sums(self) -> npt.NDArray[np.uint32]:
        from ragcli.collection.store.chunk_arrays import ROW_CHECKSUMS

        return ROW_CHECKSUMS.open(self.folder, self.record)

    def check_vectors(self, rows: Iterable[int]) -> None:
        """CollectionError if the vector of one of these rows is not what was written, or is another chunk's."""
        import numpy as np

        wanted = list(rows)
        if self.record.dimension and wanted:
            found = np.ascontiguousarray(self.vectors[wanted]).reshape(len(wanted), -1).view(np.uint8)
            self._check(wanted, found, [1] * len(wanted), "vector")

    def _check_tokens(self, rows: Sequence[int], bits: SignArray, counts: Sequence[int]) -> None:
        self._check(rows, bits, counts, "bits")

    def _check(
        self, rows: Sequence[int], found: SignArray, counts: Sequence[int], part: Literal["vector", "bits"]
    ) -> None:
        """`found` has as many lines of each row's bytes, one row after another, as `counts` says."""
        from ragcli.collection.store.chunk_arrays import CHECKSUM_PARTS, row_part_checksum

        numbers, sums = self.row_numbers[rows].tolist(), self._sums[rows, CHECKSUM_PARTS.index(part)].tolist()
        # Slices of plain memory, because making those of arrays takes longer than the sums.
        memory, width = found.reshape(-1).data, found.shape[1]
        stop = 0
        for number, expected, count in zip(numbers, sums, counts, strict=True):
            start, stop = stop, stop + count * width
            if row_part_checksum(number, memory[start:stop]) != expected:
                raise CollectionError(
                    f"The vectors of the collection '{self.collection}' are damaged;"
                    f" `ragcli collections verify {self.collection} --repair` makes them anew."
                )

    @cached_property
    def row_numbers(self) -> ChunkNumbers:
        """(rows,) the chunk number of each row, ascending."""
        from ragcli.collection.store.chunk_arrays import CHUNK_NUMBERS

        return CHUNK_NUMBERS.open(self.folder, self.record)

    @cached_property
    def dead(self) -> IntArray:
        """Rows that belong to no chunk of this state, ascending; where there are tenants, of another's chunk too."""
        from ragcli.collection.store.chunk_arrays import read_integers

        with translated_read_errors(self.folder):
            if self.own_numbers is None:
                return read_integers(self.connection, "dead")
        from ragcli.collection.read.tenant_views import foreign_rows

        return foreign_rows(self.row_numbers, self.own_numbers)

    @cached_property
    def own_numbers(self) -> ChunkNumbers | None:
        """(n,) the numbers of the tenant's chunks, ascending; None where the collection has no tenants."""
        if not self.restricted:
            return None
        from ragcli.collection.read.tenant_views import tenant_chunk_numbers

        with translated_read_errors(self.folder):
            return tenant_chunk_numbers(self.connection)

    @cached_property
    def tokens(self) -> TokenReader | None:
        """The token vectors' sign bits by row, None if the collection keeps none."""
        from ragcli.collection.store.chunk_arrays import TOKEN_OFFSETS, token_bits_file
        from ragcli.index.late_interaction import TokenReader

        record = self.record
        if not (record.keeps_bits and record.rows and record.dimension):
            return None
        bits = token_bits_file(record.dimension).spans(self.folder, record)
        return TokenReader(bits, TOKEN_OFFSETS.open(self.folder, record), self._check_tokens)

    @cached_property
    def token_frequency(self) -> IntArray:
        """(vocabulary,) in how many chunks of this state each word piece stands."""
        import numpy as np

        from ragcli.collection.store.chunk_arrays import read_integers

        if self.restricted and self.record.dimension:
            from ragcli.collection.store.chunk_arrays import count_token_frequency

            return count_token_frequency(self.folder, self.record, self.dead)
        with translated_read_errors(self.folder):
            frequency = read_integers(self.connection, "frequency")
        return frequency if len(frequency) else np.zeros(self.record.vocabulary, np.int32)

    @cached_property
    def lexical(self) -> LexicalIndex:
        """The BM25 index. What it finds may be unknown to this state: keep to the numbers that `rows` knows."""
        from ragcli.index.bm25 import LexicalIndex

        return LexicalIndex(self.folder / self.record.lexical_name, own=self.own_numbers)

    @cached_property
    def tfidf(self) -> TfidfReader | None:
        """The fitted TF-IDF, None if it was never fitted. It may be of an older generation: see `tfidf_stale`."""
        from ragcli.index.tfidf import TfidfReader

        name = self.record.tfidf_name
        return None if name is None else TfidfReader(self.folder / name, own=self.own_numbers)

    @property
    def tfidf_stale(self) -> bool:
        """Have chunks come or gone since TF-IDF was fitted?"""
        return self.record.tfidf_stale

    def chunks(self, numbers: Sequence[int]) -> dict[int, StoredChunk]:
        """Chunks by number, in the order asked for; numbers unknown to this state are left out."""
        with translated_read_errors(self.folder):
            return document_queries.read_chunks(self.connection, self.collection, numbers)

    def live_chunks(self, numbers: Sequence[int]) -> dict[int, StoredChunk]:
        """The chunks of live rows. CollectionError if the store has lost one of them."""
        found = self.chunks(numbers)
        self._check_kept(len(found), numbers)
        return found

    def document_numbers(self, numbers: Sequence[int]) -> dict[int, int]:
        """The number of the document that each chunk is from, for chunks of live rows; as `live_chunks`."""
        with translated_errors(self.folder):
            found = document_queries.document_numbers(self.connection, numbers)
        self._check_kept(len(found), numbers)
        return found

    def provenance(self, numbers: Sequence[int]) -> dict[int, Provenance]:
        """Where chunks come from, by number; numbers unknown to this state are left out."""
        from ragcli.collection.read.document_queries import provenance

        with translated_read_errors(self.folder):
            return provenance(self.connection, numbers)

    def same_text(self, text: bytes, characters: int) -> list[tuple[int, int, int]]:
        """The chunks of documents whose whole text has that hash and length: each one's number and stretch."""
        from ragcli.collection.read.document_queries import same_text

        with translated_read_errors(self.folder):
            return same_text(self.connection, text, characters)

    def dates(self, numbers: Sequence[int]) -> dict[int, float]:
        """When the documents of chunks are from, in seconds since 1970, by number, where that is known."""
        from ragcli.collection.read.document_queries import dates

        with translated_read_errors(self.folder):
            return dates(self.connection, numbers)

    def _check_kept(self, found: int, numbers: Sequence[int]) -> None:
        if found < len({*numbers}):
            raise CollectionError(
                f"The store of the collection at {self.folder} has lost chunks that it should have;"
                f" `ragcli collections verify {self.collection}` says what is damaged."
            )

    def rows(self, numbers: Sequence[int]) -> dict[int, int]:
        """The row of each live chunk among the numbers, in the order asked for."""
        import numpy as np

        wanted = np.asarray(numbers, np.int64)
        known = self.row_numbers
        if not len(wanted) or not len(known):
            return {}
        rows = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        there = known[rows] == wanted
        if len(self.dead):
            # Not by np.isin, which sorts all dead rows, and of a collection with tenants most may be.
            there &= self.dead[np.minimum(np.searchsorted(self.dead, rows), len(self.dead) - 1)] != rows
        return dict(zip(wanted[there].tolist(), rows[there].tolist(), strict=True))

    def matching(self, where: Filter | None) -> FilteredChunks | None:
        """The documents that meet a filter, and their chunks; None stands for all of them.

        Looked up once a filter. FilterError if the filter is too large.
        """
        if where is None:
            return None
        from ragcli.collection.read.metadata_filter import FilteredChunks, cache_key

        key = cache_key(where)
        if key not in self._selections:
            if len(self._selections) >= _FILTERS_KEPT:
                self._selections.clear()
            self._selections[key] = FilteredChunks(self, self.connection, where)
        return self._selections[key]

    def unknown_keys(self, where: Filter) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The keys in a filter that no document has; if there are any, also those that documents have."""
        from ragcli.collection.read.metadata_filter import known_keys, unknown_keys

        with translated_read_errors(self.folder):
            unknown = unknown_keys(self.connection, where)
            return unknown, known_keys(self.connection) if unknown else ()

    def documents(self, where: Filter | None = None) -> Iterator[DocumentRow]:
        """Every document, or those that meet the filter, by source."""
        chosen = self.matching(where)
        with translated_read_errors(self.folder):
            yield from document_queries.all_documents(self.connection, None if chosen is None else chosen.documents)

    def fields(self, *, examples: int = 3) -> tuple[MetadataField, ...]:
        """The keys that documents' metadata have, by name, with their types and commonest values."""
        with translated_read_errors(self.folder):
            return tuple(document_queries.metadata_fields(self.connection, examples))

    def document(self, wanted: str) -> DocumentRow:
        """The document with that id, source or path. MissingCollection if there is none."""
        with translated_read_errors(self.folder):
            found = document_queries.find_document(self.connection, wanted)
        if found is None:
            raise MissingCollection(
                f"The collection '{self.collection}' has no document '{wanted}';"
                f" `ragcli documents -c {self.collection}` lists them."
            )
        return found

    def find_chunk(self, chunk_id: str) -> StoredChunk | None:
        """The chunk with that id ("document:ordinal"), or None."""
        document, _, ordinal = chunk_id.rpartition(":")
        if not document or not (ordinal.isascii() and ordinal.isdigit() and len(ordinal) < 10):
            return None
        with translated_read_errors(self.folder):
            found = document_queries.read_chunk_range(
                self.connection, self.collection, document, int(ordinal), int(ordinal)
            )
        return found[0] if found else None

    def neighbours(self, chunk: StoredChunk, around: int) -> tuple[StoredChunk, ...]:
        """The chunk with up to `around` chunks before and after it, in reading order."""
        first, last = max(0, chunk.ordinal - around), chunk.ordinal + around
        with translated_read_errors(self.folder):
            return document_queries.read_chunk_range(self.connection, self.collection, chunk.document_id, first, last)

    def document_chunks(self, document_id: str) -> tuple[StoredChunk, ...]:
        """All chunks of a document, in reading order."""
        with translated_read_errors(self.folder):
            return document_queries.read_chunk_range(self.connection, self.collection, document_id, 0, 2**62)

    def page_of(self, chunk: StoredChunk, offset: int) -> int | None:
        """The page that has character `offset` of a chunk; None for a document without pages."""
        if chunk.page_start is None or chunk.page_start == chunk.page_end:
            return chunk.page_start
        from ragcli.collection.store.document_text import document_pages

        with translated_read_errors(self.folder):
            spans = document_pages(self.connection, chunk.document_id)
        at = chunk.start + offset
        return next((span.number for span in reversed(spans) if span.start <= at), chunk.page_start)

    def texts(self, prefilter: str | None = None, where: Filter | None = None) -> Iterator[DocumentText]:
        """Whole documents, in order of ingestion; with `prefilter`, those whose folded text holds it.

        With `where`, only documents that meet the filter are looked into.
        """
        chosen = self.matching(where)
        with translated_read_errors(self.folder):
            yield from document_queries.read_texts(
                self.connection, prefilter, None if chosen is None else chosen.documents
            )

    def close(self) -> None:
        """End the read. Arrays already handed out stay usable."""
        self.connection.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

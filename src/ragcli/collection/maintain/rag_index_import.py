"""Import an index saved by `ia_utils.rag.save_index` (chunks.json, embeddings.npy).

Its pickles are never opened: they could run code, and what they hold is made anew from the chunks. Documents are put
together again by laying each overlapping chunk over the end of the one before; every chunk stays, verbatim, a slice
of its document.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ragcli.collection.ingest_events import ChunksEmbedded, Committed, IngestListener, IngestReport, ignore_event
from ragcli.errors import CollectionError, InputError, ModelUnavailable
from ragcli.types import Chunk, Document

if TYPE_CHECKING:
    from ragcli.collection.handle import Collection
    from ragcli.collection.store.chunk_arrays import ChunkArrayRow, FloatArray
    from ragcli.collection.write.collection_writer import CollectionWriter
    from ragcli.collection.write.commit_steps import CommitStep
    from ragcli.collection.write.prepared_documents import SourceFile
    from ragcli.models.engine_interface import Encoder

CHUNKS_FILE: Final = "chunks.json"
EMBEDDINGS_FILE: Final = "embeddings.npy"
OVERLAP_MIN: Final = 16
"""Characters that two chunks must share to be taken as overlapping; fewer may be chance."""


def join_chunks(texts: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """One text in which every chunk is a slice, and where each is, as (start, end)."""
    before = ""
    places: list[tuple[int, int]] = []
    parts: list[str] = []
    length = 0
    for text in texts:
        shared = _overlap(before, text)
        if parts and not shared:
            parts.append("\n")
            length += 1
        parts.append(text[shared:])
        places.append((length - shared, length - shared + len(text)))
        length += len(text) - shared
        before = text
    return "".join(parts), places


def _overlap(before: str, after: str) -> int:
    """Characters at the end of one chunk that begin the next; 0 if too few to be sure."""
    if len(after) < len(before) and before.endswith(after):
        return len(after)
    longest = min(len(before), len(after)) - 1
    return next((k for k in range(longest, OVERLAP_MIN - 1, -1) if before.endswith(after[:k])), 0)


def import_index(
    folder: Path,
    collection: Collection,
    encoder: Callable[[], Encoder],
    listener: IngestListener = ignore_event,
) -> IngestReport:
    """Put a saved index into an empty collection, one document for each of its sources.

    The stored embeddings are the chunks' vectors if they have the encoder's dimension; otherwise, and where there
    are none, chunks are embedded. Token vectors need the encoder; without it the vectors alone are taken over, into
    a collection made with `token_vectors="none"`. Raises InputError for files that are not such an index,
    CollectionError if the collection has documents, ModelUnavailable if it can't do without the encoder.
    """
    from ragcli.collection.store.sqlite_connection import translated_errors
    from ragcli.collection.write.collection_writer import open_writer

    started = time.monotonic()
    sources = _read_chunks(folder / CHUNKS_FILE)
    count = sum(len(texts) for texts in sources.values())
    vectors = _read_vectors(folder / EMBEDDINGS_FILE, count)
    with open_writer(collection.path) as writer, translated_errors(collection.path):
        if writer.record.documents:
            raise CollectionError(f"The collection '{collection.name}' has documents already; import into a new one.")
        taken = _RagIndexImport(writer, _load(writer, encoder, vectors), vectors, listener)
        taken.run(_source_file(folder / CHUNKS_FILE), sources)
        return IngestReport(
            collection=collection.name,
            added=tuple(sources),
            documents=len(sources),
            chunks=count,
            embedded=taken.embedded,
            reused=count - taken.embedded,
            seconds=time.monotonic() - started,
            generation=writer.record.generation,
        )


def _load(writer: CollectionWriter, encoder: Callable[[], Encoder], vectors: FloatArray | None) -> Encoder | None:
    if not writer.has_encoder:
        return None
    try:
        return encoder()
    except ModelUnavailable:
        if vectors is None or writer.record.keeps_bits:
            raise
        return None


class _RagIndexImport:
    def __init__(
        self, writer: CollectionWriter, model: Encoder | None, vectors: FloatArray | None, listener: IngestListener
    ) -> None:
        self._writer = writer
        self._model = model
        self._vectors = vectors
        self._listener = listener
        self.embedded = 0
        if model is not None:
            writer.accept_encoder(model)
            if vectors is not None and vectors.shape[1] != model.dimension:
                self._vectors = None
        elif writer.has_encoder and vectors is not None:
            writer.accept_dimension(int(vectors.shape[1]))

    def run(self, file: SourceFile, sources: dict[str, list[tuple[int, str]]]) -> None:
        """Take in all documents, some at a time."""
        from ragcli.collection.ingestion.document_ingester import COMMIT_CHUNKS
        from ragcli.collection.store.row_hash import hash_bytes
        from ragcli.collection.write.commit_steps import FileIngested
        from ragcli.collection.write.compaction import finish_run
        from ragcli.collection.write.embedding_batches import EMBED_BATCH
        from ragcli.collection.write.prepared_documents import (
            ChunkedDocument,
            PreparedDocument,
            clean_document,
            embedding_inputs,
            hash_document_content,
        )

        steps: list[CommitStep] = []
        for source, placed in sources.items():
            text, places = join_chunks([text for _, text in placed])
            document = clean_document(Document(text, "text", record_id=source))
            chunks = tuple(Chunk(at, start, end) for at, (start, end) in enumerate(places))
            inputs = list(embedding_inputs(document, chunks, self._writer.record.settings))
            input_hashes = tuple(hash_bytes(each.encode()) for each in inputs)
            cut = ChunkedDocument(document, chunks, input_hashes, self._writer.reserve(len(chunks)))
            for first in range(0, len(inputs), EMBED_BATCH):
                last = min(first + EMBED_BATCH, len(inputs))
                rows = self._rows(inputs[first:last], [position for position, _ in placed[first:last]])
                self._writer.append(list(cut.numbers[first:last]), input_hashes[first:last], rows)
            steps.append(PreparedDocument(file, cut, hash_document_content(document), None))
            if self._writer.uncommitted >= COMMIT_CHUNKS:
                self._commit(steps)
                steps = []
        steps.append(FileIngested(file, len(sources), (), (), None))
        self._commit(steps)
        finish_run(self._writer, self._listener)

    def _commit(self, steps: list[CommitStep]) -> None:
        record = self._writer.commit(steps)
        self._listener(Committed(record.generation, record.documents, record.chunks))

    def _rows(self, inputs: list[str], positions: list[int]) -> list[ChunkArrayRow]:
        import numpy as np

        from ragcli.collection.store.chunk_arrays import ChunkArrayRow, empty_row, row_from_encoding

        if self._model is not None:
            rows = [row_from_encoding(encoding) for encoding in self._model.encode_tokens(inputs)]
            self._listener(ChunksEmbedded(len(rows), 0))
        elif self._vectors is not None:
            nothing = np.empty((0, 0), np.uint8)
            rows = [ChunkArrayRow(vector, nothing, np.empty(0, np.int32)) for vector in self._vectors[positions]]
        else:
            return [empty_row() for _ in inputs]
        if self._vectors is None:
            self.embedded += len(rows)
            return rows
        return [
            ChunkArrayRow(vector, row.bits, row.pieces)
            for vector, row in zip(self._vectors[positions], rows, strict=True)
        ]


def _read_chunks(path: Path) -> dict[str, list[tuple[int, str]]]:
    """(position, text) of the chunks of each source, sources in order of their first chunk."""
    try:
        records = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path.parent} has no {CHUNKS_FILE}, so it is no index saved by save_index.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error}).") from error
    sources: dict[str, list[tuple[int, str]]] = {}
    if not isinstance(records, list) or not records:
        raise InputError(f"{path} should hold a list of chunks, and does not.")
    for position, record in enumerate(records):
        match record:
            case {"text": str(text), "source": str(source)} if text:
                sources.setdefault(source, []).append((position, text))
            case _:
                raise InputError(f"{path}: entry {position} is not a chunk with a text and a source.")
    return sources


def _read_vectors(path: Path, count: int) -> FloatArray | None:
    """Unit vectors (count, d), None if the index was saved without."""
    import numpy as np

    if not path.exists():
        return None
    try:
        vectors = np.asarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path} is not an array of numbers ({error}).") from error
    if vectors.ndim != 2 or len(vectors) != count or not np.issubdtype(vectors.dtype, np.floating):
        raise InputError(f"{path} should have {count} rows, one for each chunk, and has the shape {vectors.shape}.")
    vectors = vectors.astype(np.float32)
    if not np.isfinite(vectors).all():
        raise InputError(f"{path} has entries that are no numbers.")
    unit: FloatArray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))
    return unit


def _source_file(path: Path) -> SourceFile:
    from ragcli.collection.read.file_state import hash_file, size_and_times
    from ragcli.collection.write.prepared_documents import SourceFile

    state = path.stat()
    place = os.path.abspath(path)  # noqa: PTH100 (symlinks must stay as named)
    return SourceFile(place, path.name, hash_file(path), *size_and_times(state), engine="")

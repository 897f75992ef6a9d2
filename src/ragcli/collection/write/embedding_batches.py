"""Queue that embeds the chunks of pending commit steps in batches, reusing equal rows.

Steps wait in order. A chunk whose embedding input is byte for byte that of another chunk, committed or just embedded,
takes over its row; the others are embedded a batch at a time. A document is ready when all its chunks have rows,
which go to the array files as soon as they are made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragcli.collection.ingest_events import ChunksEmbedded, IngestListener
from ragcli.collection.store.chunk_arrays import ChunkArrayRow, empty_row, row_from_encoding
from ragcli.collection.write.collection_writer import interrupts_deferred
from ragcli.collection.write.commit_steps import CommitStep, chunked_documents_of

if TYPE_CHECKING:
    from ragcli.collection.write.collection_writer import CollectionWriter
    from ragcli.models.engine_interface import Encoder

EMBED_BATCH: Final = 128
"""Chunks embedded in one call: many enough to sort by length, few enough for Ctrl-C and memory."""


@dataclass(frozen=True, slots=True)
class _PendingChunk:
    number: int
    input_hash: bytes
    text: str


class EmbeddingQueue:
    """The steps between reading and commit. `encoder` is called when the first chunk must really be embedded."""

    def __init__(self, writer: CollectionWriter, encoder: Callable[[], Encoder], listener: IngestListener) -> None:
        self._writer = writer
        self._make_encoder = encoder
        self._encoder: Encoder | None = None
        self._listener = listener
        self._steps: deque[CommitStep] = deque()
        self._waiting: list[_PendingChunk] = []
        self._recent: dict[bytes, ChunkArrayRow] = {}
        self._embedded_below = 0
        self.embedded = 0
        self.reused = 0

    def add(self, step: CommitStep, inputs: tuple[str, ...] = ()) -> None:
        """Queue a step; for chunks to embed, `inputs` is what the encoder reads for each of its chunks."""
        self._steps.append(step)
        for cut in chunked_documents_of([step]):
            for number, input_hash, text in zip(cut.numbers, cut.input_hashes, inputs, strict=True):
                self._waiting.append(_PendingChunk(number, input_hash, text))
                if len(self._waiting) >= EMBED_BATCH:
                    self.embed()

    def embed(self) -> None:
        """Give rows to all chunks that wait."""
        waiting = self._waiting
        if not waiting:
            return
        rows = self._find_rows(waiting)
        missing = {each.input_hash: each.text for each in waiting if each.input_hash not in rows}
        if missing:
            rows |= dict(zip(missing, self._encode(list(missing.values())), strict=True))
        with interrupts_deferred():
            self._writer.append(
                [each.number for each in waiting],
                [each.input_hash for each in waiting],
                [rows[each.input_hash] for each in waiting],
            )
            self._recent |= rows
            self._embedded_below = waiting[-1].number + 1
            self._waiting = []
        reused = len(waiting) - len(missing) if self._writer.has_encoder else 0
        self.embedded += len(missing)
        self.reused += reused
        self._listener(ChunksEmbedded(len(missing), reused))

    def pop_ready(self) -> list[CommitStep]:
        """The steps that can be committed now, in order; they leave the queue."""
        ready: list[CommitStep] = []
        while self._steps:
            if any(
                cut.chunks and cut.numbers.stop > self._embedded_below for cut in chunked_documents_of([self._steps[0]])
            ):
                break
            ready.append(self._steps.popleft())
        self._recent = {}
        return ready

    def _find_rows(self, waiting: list[_PendingChunk]) -> dict[bytes, ChunkArrayRow]:
        if not self._writer.has_encoder:
            return {each.input_hash: empty_row() for each in waiting}
        found: dict[bytes, ChunkArrayRow] = {}
        for each in waiting:
            if each.input_hash not in found:
                row = self._recent.get(each.input_hash) or self._writer.find_row(each.input_hash)
                if row is not None:
                    found[each.input_hash] = row
        return found

    def _encode(self, texts: list[str]) -> list[ChunkArrayRow]:
        if self._encoder is None:
            encoder = self._make_encoder()
            self._writer.accept_encoder(encoder)
            self._encoder = encoder
        return [row_from_encoding(encoding) for encoding in self._encoder.encode_tokens(texts)]

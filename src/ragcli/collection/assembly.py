"""Drafts on their way from the reader into a commit: chunks get their rows in batches.

Steps wait in order. A chunk whose embedding input is byte for byte that of another chunk, committed or just
embedded, takes over its row; the others are embedded a batch at a time. A draft is ready when all its chunks have
rows. Rows go to the array files as soon as they are made, so a long document takes no room here but its text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragcli.collection.events import ChunksEmbedded, Listener
from ragcli.collection.rows import Row, empty_row, row_of
from ragcli.collection.steps import Step, cuts_of
from ragcli.collection.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from ragcli.collection.writer import Writer
    from ragcli.models.protocols import Encoder

EMBED_BATCH: Final = 128
"""Chunks embedded in one call: many enough to sort by length, few enough for Ctrl-C and memory."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    number: int
    digest: bytes
    text: str


class Assembly:
    """The steps between reading and commit. `encoder` is called when the first chunk must really be embedded."""

    def __init__(self, writer: Writer, encoder: Callable[[], Encoder], listener: Listener) -> None:
        self._writer = writer
        self._make_encoder = encoder
        self._encoder: Encoder | None = None
        self._listener = listener
        self._steps: deque[Step] = deque()
        self._waiting: list[_Waiting] = []
        self._recent: dict[bytes, Row] = {}
        self._embedded_below = 0
        self.embedded = 0
        self.reused = 0

    def add(self, step: Step, inputs: tuple[str, ...] = ()) -> None:
        """Queue a step; for a draft, `inputs` is what the encoder reads for each of its chunks."""
        self._steps.append(step)
        for cut in cuts_of([step]):
            for number, digest, text in zip(cut.numbers, cut.digests, inputs, strict=True):
                self._waiting.append(_Waiting(number, digest, text))
                if len(self._waiting) >= EMBED_BATCH:
                    self.embed()

    def embed(self) -> None:
        """Give rows to all chunks that wait."""
        waiting = self._waiting
        if not waiting:
            return
        rows = self._find_rows(waiting)
        missing = {each.digest: each.text for each in waiting if each.digest not in rows}
        if missing:
            rows |= dict(zip(missing, self._encode(list(missing.values())), strict=True))
        with uninterrupted():
            self._writer.append(
                [each.number for each in waiting],
                [each.digest for each in waiting],
                [rows[each.digest] for each in waiting],
            )
            self._recent |= rows
            self._embedded_below = waiting[-1].number + 1
            self._waiting = []
        reused = len(waiting) - len(missing) if self._writer.has_encoder else 0
        self.embedded += len(missing)
        self.reused += reused
        self._listener(ChunksEmbedded(len(missing), reused))

    def take_ready(self) -> list[Step]:
        """The steps that can be committed now, in order; they leave the queue."""
        ready: list[Step] = []
        while self._steps:
            if any(cut.chunks and cut.numbers.stop > self._embedded_below for cut in cuts_of([self._steps[0]])):
                break
            ready.append(self._steps.popleft())
        self._recent = {}
        return ready

    def _find_rows(self, waiting: list[_Waiting]) -> dict[bytes, Row]:
        if not self._writer.has_encoder:
            return {each.digest: empty_row() for each in waiting}
        found: dict[bytes, Row] = {}
        for each in waiting:
            if each.digest not in found:
                row = self._recent.get(each.digest) or self._writer.find_row(each.digest)
                if row is not None:
                    found[each.digest] = row
        return found

    def _encode(self, texts: list[str]) -> list[Row]:
        if self._encoder is None:
            encoder = self._make_encoder()
            self._writer.adopt(encoder)
            self._encoder = encoder
        return [row_of(encoding) for encoding in self._encoder.encode_tokens(texts)]

"""The single writer of a collection: appends, indexes and commits a new generation.

The order of a commit makes a crash harmless: arrays are appended and synced, chunks are added to the lexical index
and that is committed, and only then the store commits, with the counts of both. Dead chunks leave the lexical index
afterwards, when no reader is left in an older generation. So the lexical index always holds every chunk the store
knows, and perhaps some it does not.

Chunk numbers are reserved in the store before any is used; the next writer finds the reserved range of one that died
and deletes its uncommitted chunks. A writer works on the current state or on the one that a reindex is building
beside it.
"""

from __future__ import annotations

import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.collection.store.chunk_arrays import (
    ChunkArrayRow,
    ChunkArrayWriter,
    DamagedRow,
    IntArray,
    Segment,
    put_integers,
    put_segments,
    read_integers,
    update_token_frequency,
)
from ragcli.collection.store.generation_record import (
    CURRENT,
    NO_ENCODER,
    Generation,
    Slot,
    next_generation,
    read_generation,
    write_generation,
)
from ragcli.collection.store.locks import try_exclusive_readers_lock, writer_lock
from ragcli.collection.store.sqlite_connection import open_for_writing, transaction, translated_errors
from ragcli.collection.store.stored_calibration import drop_calibration
from ragcli.collection.write.commit_steps import CommitStep, apply_step, chunked_documents_of, switch_to_rebuilt_chunks
from ragcli.collection.write.prepared_documents import ChunkedDocument
from ragcli.errors import CollectionError

if TYPE_CHECKING:
    from ragcli.index.bm25 import LexicalEntry, LexicalWriter
    from ragcli.models.engine_interface import Encoder


RESERVED_NUMBERS: Final = 4096
"""How many chunk numbers are reserved at a time, at least."""


class CollectionWriter:
    """Writes one state of a collection. After an exception out of `commit` it must not be used again.

    `fallback_row` is a function that may know the row of an embedding input from elsewhere.
    """

    def __init__(
        self,
        folder: Path,
        connection: sqlite3.Connection,
        slot: Slot = CURRENT,
        fallback_row: Callable[[bytes], ChunkArrayRow | None] = lambda _input_hash: None,
    ) -> None:
        self.folder = folder
        self.connection = connection
        self.slot = slot
        self.record = read_generation(connection, slot)
        self.dead = read_integers(connection, "dead", slot)
        self._fallback_row = fallback_row
        self._chunk_table = "chunks" if slot == CURRENT else "next_chunks"
        self._rows: ChunkArrayWriter | None = None
        self._lexical: LexicalWriter | None = None
        self._next = read_generation(connection).next_number
        self._frequency = read_integers(connection, "frequency", slot)
        self._appended: list[tuple[int, bytes]] = []

    @property
    def rows(self) -> ChunkArrayWriter:
        """The arrays, open for appending. In a collection that is empty yet, `accept_encoder` must have been called."""
        if self._rows is None:
            self._rows = ChunkArrayWriter(self.folder, self.record)
        return self._rows

    @property
    def lexical(self) -> LexicalWriter:
        """The lexical index, open for writing."""
        from ragcli.index.bm25 import LexicalWriter

        if self._lexical is None:
            self._lexical = LexicalWriter(self.folder / self.record.lexical_name)
        return self._lexical

    @property
    def uncommitted(self) -> int:
        """Rows appended since the last commit."""
        return len(self._appended)

    @property
    def has_encoder(self) -> bool:
        """Are there vectors at all?"""
        return self.record.settings.encoder != NO_ENCODER

    def accept_encoder(self, encoder: Encoder) -> None:
        """Make sure the vectors to come are of the kind that is here. CollectionError if they are not."""
        record = self.record
        if record.fingerprint is None and record.dimension in (0, encoder.dimension):
            self.record = replace(
                record,
                fingerprint=encoder.fingerprint,
                dimension=encoder.dimension,
                vocabulary=encoder.vocabulary_size,
            )
        elif (encoder.fingerprint, encoder.dimension) != (record.fingerprint, record.dimension):
            raise CollectionError(
                f"The model '{record.settings.encoder}' is not the one that the collection '{self.folder.name}' was"
                f" made with: its weights have another checksum. `ragcli reindex -c {self.folder.name}` embeds"
                " everything anew."
            )
        if len(self._frequency) < self.record.vocabulary:
            self._frequency = np.pad(self._frequency, (0, self.record.vocabulary - len(self._frequency)))

    def accept_dimension(self, dimension: int) -> None:
        """Take vectors of that dimension whose model is not at hand; the first encoder that fits is adopted later."""
        self.record = replace(self.record, dimension=dimension)

    def reserve(self, count: int) -> int:
        """The first of `count` chunk numbers in a row that nobody had or will have."""
        first = self._next
        committed = read_generation(self.connection)
        if first + count > committed.next_number:
            # Written at once: the numbers must be spoken for before the lexical index sees one of them.
            committed = replace(
                committed,
                next_number=first + max(count, RESERVED_NUMBERS),
                reserved_from=first if committed.reserved_from is None else committed.reserved_from,
            )
            with transaction(self.connection):
                write_generation(self.connection, committed)
            if self.slot == CURRENT:
                self.record = replace(
                    self.record, next_number=committed.next_number, reserved_from=committed.reserved_from
                )
        self._next = first + count
        return first

    def append(self, numbers: Sequence[int], input_hashes: Sequence[bytes], rows: Sequence[ChunkArrayRow]) -> None:
        """Append rows for chunks, in order of numbers. They count when a commit takes in their documents."""
        self.rows.append(numbers, rows)
        self._appended += zip(numbers, input_hashes, strict=True)

    def find_row(self, input_hash: bytes) -> ChunkArrayRow | None:
        """The committed row of any chunk whose embedding input has that hash."""
        for query in (
            f"SELECT number FROM {self._chunk_table} WHERE input_hash = ? LIMIT 1",  # noqa: S608
            f"SELECT number FROM uncommitted_rows WHERE slot = {self.slot} AND input_hash = ? LIMIT 1",  # noqa: S608
        ):
            found = self.connection.execute(query, (input_hash,)).fetchone()
            if found is not None:
                row = self.rows.find(found[0])
                if row is not None:
                    # A damaged row is embedded anew rather than handed on.
                    with suppress(DamagedRow):
                        return self.rows.read(row)
        return self._fallback_row(input_hash)

    def commit(self, steps: Sequence[CommitStep]) -> Generation:
        """Carry out the steps, all or none, as a new generation. Rows whose documents are not there yet are kept."""
        cuts = chunked_documents_of(steps)
        with interrupts_deferred(), translated_errors(self.folder):
            segments = self._rows.sync() if self._rows is not None else ()
            self._index(cuts)
            with transaction(self.connection):
                gone = [chunk for step in steps for chunk in apply_step(self.connection, step)]
                record = self._count(cuts, gone)
                self._save_arrays(segments, [number for cut in cuts for number in cut.numbers], gone)
                write_generation(self.connection, record, self.slot)
            self.record = record
            self._appended = []
        return record

    def settle(self, record: Generation) -> None:
        """Commit a record that differs from the present one in other things than documents."""
        with interrupts_deferred(), translated_errors(self.folder):
            with transaction(self.connection):
                write_generation(self.connection, record, self.slot)
            self.record = record

    def replace_arrays(self, record: Generation, segments: Sequence[Segment], frequency: IntArray | None) -> None:
        """Commit a new edition of the arrays that has live rows only, and with it new counts of word pieces."""
        with interrupts_deferred(), translated_errors(self.folder):
            with transaction(self.connection):
                drop_segments(self.connection, self.record)
                put_segments(self.connection, record.arrays, segments)
                put_integers(self.connection, "dead", np.empty(0, np.int32), self.slot)
                if frequency is not None:
                    put_integers(self.connection, "frequency", frequency, self.slot)
                    self._frequency = frequency
                write_generation(self.connection, record, self.slot)
            self.record = record
            self.dead = np.empty(0, np.int32)
            if self._rows is not None:
                self._rows.close()
                self._rows = None

    def take_over(self, record: Generation, tfidf: Sequence[Segment], dead: IntArray, frequency: IntArray) -> None:
        """Commit the state that was built in the second slot as the current one, under this record."""
        with interrupts_deferred(), translated_errors(self.folder):
            with transaction(self.connection):
                switch_to_rebuilt_chunks(self.connection)
                if record.fingerprint != self.record.fingerprint:
                    drop_calibration(self.connection)
                drop_segments(self.connection, self.record)
                self.connection.execute("DELETE FROM segments WHERE file LIKE 'tfidf/%'")
                put_segments(self.connection, record.tfidf or 0, tfidf)
                put_integers(self.connection, "dead", dead)
                put_integers(self.connection, "frequency", frequency)
                write_generation(self.connection, record)
            self.close()
            self.record, self.dead, self._frequency = record, dead, frequency

    def delete_dead_from_lexical(self) -> None:
        """Take dead chunks out of the lexical index, unless a reader may still want them."""
        # Never a chunk that is here, whatever a damaged list of debts may say.
        query = "SELECT number FROM lexical_deletes WHERE number NOT IN (SELECT number FROM chunks)"
        numbers = [row[0] for row in self.connection.execute(query)]
        if not numbers:
            return
        with try_exclusive_readers_lock(self.folder) as alone:
            if not alone:
                return
            self.lexical.delete(numbers)
            self.lexical.commit()
        with transaction(self.connection):
            self.connection.executemany("DELETE FROM lexical_deletes WHERE number = ?", ((each,) for each in numbers))

    def delete_uncommitted_from_lexical(self) -> None:
        """Take out of the lexical index what a writer that died had added without committing it to the store."""
        record = self.record
        if record.reserved_from is None:
            return
        known = self.connection.execute("SELECT number FROM chunks WHERE number >= ?", (record.reserved_from,))
        strays = sorted(set(range(record.reserved_from, record.next_number)) - {number for (number,) in known})
        if strays:
            self.lexical.delete(strays)
            self.lexical.commit()
        self.settle(replace(record, reserved_from=None))

    def drop_uncommitted_rows(self) -> None:
        """Give up rows that were embedded for documents which never came; compaction removes them."""
        self.connection.execute("DELETE FROM uncommitted_rows WHERE slot = ?", (self.slot,))

    def without_reserved_numbers(self) -> Generation:
        """The record without the reserve of numbers that was not needed."""
        return replace(self.record, next_number=self._next, reserved_from=None)

    def close(self) -> None:
        """Let go of the files; what was not committed is lost."""
        # Where the disk is full even closing fails; what counts is committed already or not at all.
        rows, lexical = self._rows, self._lexical
        self._rows = self._lexical = None
        with suppress(OSError):
            if rows is not None:
                rows.close()
        with suppress(CollectionError):
            if lexical is not None:
                lexical.close()

    def _index(self, cuts: Sequence[ChunkedDocument]) -> None:
        if any(cut.chunks for cut in cuts):
            for cut in cuts:
                self.lexical.add(lexical_entries(cut))
            self.lexical.commit()

    def _count(self, cuts: Sequence[ChunkedDocument], gone: Sequence[int]) -> Generation:
        (documents,) = self.connection.execute("SELECT count(*) FROM documents").fetchone()
        come = sum(len(cut.chunks) for cut in cuts)
        open_from = cuts[-1].numbers.stop if cuts else self.record.reserved_from
        return replace(
            next_generation(self.record, same_chunks=not gone and not come),
            rows=self._rows.rows if self._rows is not None else self.record.rows,
            tokens=self._rows.tokens if self._rows is not None else self.record.tokens,
            documents=documents,
            chunks=self.record.chunks + come - len(gone),
            reserved_from=open_from if self.record.reserved_from is not None else None,
        )

    def _save_arrays(self, segments: Sequence[Segment], come: Sequence[int], gone: Sequence[int]) -> None:
        """Segments, uncommitted rows, dead rows and document frequencies of this commit, inside its transaction."""
        put_segments(self.connection, self.record.arrays, segments)
        if self._rows is None and not gone:
            return
        rows, alive = self.rows, set(come)
        waiting = [each for each in self._appended if each[0] not in alive]
        mine = ((self.slot, each) for each in come)
        self.connection.executemany("DELETE FROM uncommitted_rows WHERE slot = ? AND number = ?", mine)
        kept = ((self.slot, *each) for each in waiting)
        self.connection.executemany("INSERT INTO uncommitted_rows (slot, number, input_hash) VALUES (?, ?, ?)", kept)
        come_rows, gone_rows = rows.find_all(come), rows.find_all(gone)
        waiting_rows = rows.find_all([number for number, _ in waiting])
        dead = np.union1d(self.dead, np.asarray(gone_rows + waiting_rows, np.int32))
        dead = np.setdiff1d(dead, np.asarray(come_rows, np.int32)).astype(np.int32)
        if self.record.dimension:
            update_token_frequency(self._frequency, (rows.pieces(row) for row in come_rows), 1)
            update_token_frequency(self._frequency, (rows.pieces(row) for row in gone_rows), -1)
            put_integers(self.connection, "frequency", self._frequency, self.slot)
        if not np.array_equal(dead, self.dead):
            put_integers(self.connection, "dead", dead, self.slot)
        self.dead = dead


@contextmanager
def open_writer(
    folder: Path, *, wait: bool = False, notify: Callable[[str], None] | None = None
) -> Iterator[CollectionWriter]:
    """Be the collection's writer, after putting right what one that died has left.

    Raises CollectionBusy when another process is, unless `wait`.
    """
    with open_writer_without_recovery(folder, wait=wait, notify=notify) as writer:
        with translated_errors(folder):
            writer.delete_uncommitted_from_lexical()
            writer.delete_dead_from_lexical()
        yield writer


@contextmanager
def open_writer_without_recovery(
    folder: Path, *, wait: bool = False, notify: Callable[[str], None] | None = None
) -> Iterator[CollectionWriter]:
    """As `open_writer`, but nothing but the store is touched before it is asked for."""
    with writer_lock(folder, wait=wait, notify=notify), closing(open_for_writing(folder)) as connection:
        with translated_errors(folder):
            writer = CollectionWriter(folder, connection)
        try:
            yield writer
        finally:
            writer.close()


def lexical_entries(cut: ChunkedDocument) -> Iterator[LexicalEntry]:
    """What the lexical index is given of each chunk."""
    from ragcli.index.bm25 import LexicalEntry
    from ragcli.index.term_analysis import lexical_text

    document = cut.document
    for at, (number, chunk) in enumerate(zip(cut.numbers, cut.chunks, strict=True)):
        body = lexical_text(cut.text(at), document.joins, chunk.start)
        yield LexicalEntry(number, body, document.title or "", chunk.heading or "")


def drop_segments(connection: sqlite3.Connection, record: Generation) -> None:
    """Forget the checksums of an edition of the arrays, inside the caller's transaction."""
    connection.execute("DELETE FROM segments WHERE edition = ? AND file NOT LIKE 'tfidf/%'", (record.arrays,))


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Ctrl-C inside takes effect at the end. Only Python's main thread gets signals; elsewhere nothing is to do."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    pressed: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: pressed.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if pressed:
        handler(*pressed[0])

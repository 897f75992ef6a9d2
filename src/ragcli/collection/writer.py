"""The one writer of a collection: it takes steps and makes of them a new generation.

The order of a commit is what makes a crash harmless. Arrays are appended and synced, chunks are added to the
lexical index and that is committed, and only then the store commits, with the counts of both. Dead chunks leave
the lexical index afterwards, when no reader is there that still lives in an older generation. So the lexical index
always holds every chunk the store knows, and perhaps some it does not; readers leave those out.

Chunk numbers are reserved in the store before any is used, so that a number in the lexical index of a writer that
died is never given to another chunk; the next writer finds the reserved range and takes the strays out.

A writer works on one of two states: the current one, or the one that a reindex is building beside it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.collection.blobs import count_pieces, put_integers, put_segments, read_integers
from ragcli.collection.calibration import drop_calibration
from ragcli.collection.drafts import Cut
from ragcli.collection.generation import (
    CURRENT,
    NO_ENCODER,
    Generation,
    Slot,
    read_generation,
    successor,
    write_generation,
)
from ragcli.collection.lock import no_readers, writer_lock
from ragcli.collection.rowfiles import DamagedRow, RowFiles, Segment
from ragcli.collection.rows import IntArray, Row
from ragcli.collection.steps import Step, cuts_of, switch_tables, take_step
from ragcli.collection.store import explained, open_for_writing, transaction
from ragcli.collection.uninterrupted import uninterrupted
from ragcli.errors import CollectionError

if TYPE_CHECKING:
    from ragcli.index.lexical import Entry, LexicalWriter
    from ragcli.models.protocols import Encoder

NUMBER_BLOCK: Final = 4096
"""How many chunk numbers are reserved at a time, at least."""


class Writer:
    """Writes one state of a collection. After an exception out of `commit` it must not be used again.

    `spare` is a function that may know the row of an embedding input from elsewhere.
    """

    def __init__(
        self,
        folder: Path,
        connection: sqlite3.Connection,
        slot: Slot = CURRENT,
        spare: Callable[[bytes], Row | None] = lambda _digest: None,
    ) -> None:
        self.folder = folder
        self.connection = connection
        self.slot = slot
        self.record = read_generation(connection, slot)
        self.dead = read_integers(connection, "dead", slot)
        self._spare = spare
        self._chunk_table = "chunks" if slot == CURRENT else "next_chunks"
        self._rows: RowFiles | None = None
        self._lexical: LexicalWriter | None = None
        self._next = read_generation(connection).next_number
        self._frequency = read_integers(connection, "frequency", slot)
        self._appended: list[tuple[int, bytes]] = []

    @property
    def rows(self) -> RowFiles:
        """The arrays, open for appending. In a collection that is empty yet, `adopt` must have been called."""
        if self._rows is None:
            self._rows = RowFiles(self.folder, self.record)
        return self._rows

    @property
    def lexical(self) -> LexicalWriter:
        """The lexical index, open for writing."""
        from ragcli.index.lexical import LexicalWriter

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

    def adopt(self, encoder: Encoder) -> None:
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

    def adopt_dimension(self, dimension: int) -> None:
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
                next_number=first + max(count, NUMBER_BLOCK),
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

    def append(self, numbers: Sequence[int], digests: Sequence[bytes], rows: Sequence[Row]) -> None:
        """Append rows for chunks, in order of numbers. They count when a commit takes in their documents."""
        self.rows.append(numbers, rows)
        self._appended += zip(numbers, digests, strict=True)

    def find_row(self, digest: bytes) -> Row | None:
        """The committed row of any chunk whose embedding input has that digest."""
        for query in (
            f"SELECT number FROM {self._chunk_table} WHERE digest = ? LIMIT 1",  # noqa: S608
            f"SELECT number FROM parked WHERE slot = {self.slot} AND digest = ? LIMIT 1",  # noqa: S608
        ):
            found = self.connection.execute(query, (digest,)).fetchone()
            if found is not None:
                row = self.rows.find(found[0])
                if row is not None:
                    # A damaged row is embedded anew rather than handed on.
                    with suppress(DamagedRow):
                        return self.rows.read(row)
        return self._spare(digest)

    def commit(self, steps: Sequence[Step]) -> Generation:
        """Carry out the steps, all or none, as a new generation. Rows whose documents are not there yet are parked."""
        cuts = cuts_of(steps)
        with uninterrupted(), explained(self.folder):
            segments = self._rows.sync() if self._rows is not None else ()
            self._index(cuts)
            with transaction(self.connection):
                gone = [chunk for step in steps for chunk in take_step(self.connection, step)]
                record = self._count(cuts, gone)
                self._save_arrays(segments, [number for cut in cuts for number in cut.numbers], gone)
                write_generation(self.connection, record, self.slot)
            self.record = record
            self._appended = []
        return record

    def settle(self, record: Generation) -> None:
        """Commit a record that differs from the present one in other things than documents."""
        with uninterrupted(), explained(self.folder):
            with transaction(self.connection):
                write_generation(self.connection, record, self.slot)
            self.record = record

    def replace_arrays(self, record: Generation, segments: Sequence[Segment], frequency: IntArray | None) -> None:
        """Commit a new edition of the arrays that has live rows only, and with it new counts of word pieces."""
        with uninterrupted(), explained(self.folder):
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
        with uninterrupted(), explained(self.folder):
            with transaction(self.connection):
                switch_tables(self.connection)
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

    def pay_lexical_debts(self) -> None:
        """Take dead chunks out of the lexical index, unless a reader may still want them."""
        # Never a chunk that is here, whatever a damaged list of debts may say.
        query = "SELECT number FROM lexical_deletes WHERE number NOT IN (SELECT number FROM chunks)"
        numbers = [row[0] for row in self.connection.execute(query)]
        if not numbers:
            return
        with no_readers(self.folder) as alone:
            if not alone:
                return
            self.lexical.delete(numbers)
            self.lexical.commit()
        with transaction(self.connection):
            self.connection.executemany("DELETE FROM lexical_deletes WHERE number = ?", ((each,) for each in numbers))

    def remove_strays(self) -> None:
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

    def forget_parked(self) -> None:
        """Give up rows that were embedded for documents which never came; compaction removes them."""
        self.connection.execute("DELETE FROM parked WHERE slot = ?", (self.slot,))

    def release_numbers(self) -> Generation:
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

    def _index(self, cuts: Sequence[Cut]) -> None:
        if any(cut.chunks for cut in cuts):
            for cut in cuts:
                self.lexical.add(lexical_entries(cut))
            self.lexical.commit()

    def _count(self, cuts: Sequence[Cut], gone: Sequence[int]) -> Generation:
        (documents,) = self.connection.execute("SELECT count(*) FROM documents").fetchone()
        come = sum(len(cut.chunks) for cut in cuts)
        open_from = cuts[-1].numbers.stop if cuts else self.record.reserved_from
        return replace(
            successor(self.record, same_chunks=not gone and not come),
            rows=self._rows.rows if self._rows is not None else self.record.rows,
            tokens=self._rows.tokens if self._rows is not None else self.record.tokens,
            documents=documents,
            chunks=self.record.chunks + come - len(gone),
            reserved_from=open_from if self.record.reserved_from is not None else None,
        )

    def _save_arrays(self, segments: Sequence[Segment], come: Sequence[int], gone: Sequence[int]) -> None:
        """Segments, parked rows, dead rows and document frequencies of this commit, inside its transaction."""
        put_segments(self.connection, self.record.arrays, segments)
        if self._rows is None and not gone:
            return
        rows, alive = self.rows, set(come)
        parked = [each for each in self._appended if each[0] not in alive]
        mine = ((self.slot, each) for each in come)
        self.connection.executemany("DELETE FROM parked WHERE slot = ? AND number = ?", mine)
        parking = ((self.slot, *each) for each in parked)
        self.connection.executemany("INSERT INTO parked (slot, number, digest) VALUES (?, ?, ?)", parking)
        come_rows, gone_rows = rows.find_all(come), rows.find_all(gone)
        parked_rows = rows.find_all([number for number, _ in parked])
        dead = np.union1d(self.dead, np.asarray(gone_rows + parked_rows, np.int32))
        dead = np.setdiff1d(dead, np.asarray(come_rows, np.int32)).astype(np.int32)
        if self.record.dimension:
            count_pieces(self._frequency, (rows.pieces(row) for row in come_rows), 1)
            count_pieces(self._frequency, (rows.pieces(row) for row in gone_rows), -1)
            put_integers(self.connection, "frequency", self._frequency, self.slot)
        if not np.array_equal(dead, self.dead):
            put_integers(self.connection, "dead", dead, self.slot)
        self.dead = dead


@contextmanager
def open_writer(folder: Path, *, wait: bool = False, notify: Callable[[str], None] | None = None) -> Iterator[Writer]:
    """Be the collection's writer, after putting right what one that died has left.

    Raises CollectionBusy when another process is, unless `wait`.
    """
    with bare_writer(folder, wait=wait, notify=notify) as writer:
        with explained(folder):
            writer.remove_strays()
            writer.pay_lexical_debts()
        yield writer


@contextmanager
def bare_writer(folder: Path, *, wait: bool = False, notify: Callable[[str], None] | None = None) -> Iterator[Writer]:
    """As `open_writer`, but nothing but the store is touched before it is asked for."""
    with writer_lock(folder, wait=wait, notify=notify), closing(open_for_writing(folder)) as connection:
        with explained(folder):
            writer = Writer(folder, connection)
        try:
            yield writer
        finally:
            writer.close()


def lexical_entries(cut: Cut) -> Iterator[Entry]:
    """What the lexical index is given of each chunk."""
    from ragcli.index.lexical import Entry
    from ragcli.index.words import lexical_text

    document = cut.document
    for at, (number, chunk) in enumerate(zip(cut.numbers, cut.chunks, strict=True)):
        body = lexical_text(cut.text(at), document.joins, chunk.start)
        yield Entry(number, body, document.title or "", chunk.heading or "")


def drop_segments(connection: sqlite3.Connection, record: Generation) -> None:
    """Forget the checksums of an edition of the arrays, inside the caller's transaction."""
    connection.execute("DELETE FROM segments WHERE edition = ? AND file NOT LIKE 'tfidf/%'", (record.arrays,))

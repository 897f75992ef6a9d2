"""The one writer of a collection: it takes steps and makes of them a new generation.

The order of a commit is what makes a crash harmless. Arrays are appended and synced, chunks are added to the
lexical index and that is committed, and only then the store commits, with the counts of both. Dead chunks leave
the lexical index afterwards, when no reader is there that still lives in an older generation. So the lexical index
always holds every chunk the store knows, and perhaps some it does not; readers leave those out.

Chunk numbers are reserved in the store before any is used, so that a number in the lexical index of a writer that
died is never given to another chunk; the next writer finds the reserved range and takes the strays out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.collection.blobs import count_pieces, put_integers, put_segments, read_integers
from ragcli.collection.drafts import Draft
from ragcli.collection.generation import (
    BUILDING,
    Generation,
    find_generation,
    read_generation,
    successor,
    write_generation,
)
from ragcli.collection.lock import no_readers, writer_lock
from ragcli.collection.rowfiles import IntArray, Row, RowFiles, Segment
from ragcli.collection.steps import Step, take_step
from ragcli.collection.store import explained, open_for_writing, transaction
from ragcli.collection.uninterrupted import uninterrupted
from ragcli.errors import CollectionError

if TYPE_CHECKING:
    from ragcli.index.lexical import Entry, LexicalWriter
    from ragcli.models.protocols import Encoder

NUMBER_BLOCK: Final = 4096
"""How many chunk numbers are reserved at a time, at least."""


class Writer:
    """Writes one collection. Made by `open_writer`; after an exception out of `commit` it must not be used again."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self.connection = connection
        self.record = read_generation(connection)
        self._rows: RowFiles | None = None
        self._next = self.record.next_number
        self._dead = read_integers(connection, "dead")
        self._frequency = read_integers(connection, "frequency")
        self._appended: list[tuple[int, bytes]] = []
        self._lexical: LexicalWriter | None = None

    @property
    def rows(self) -> RowFiles:
        """The arrays, open for appending. `adopt` must have been called in an empty collection."""
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

    def adopt(self, encoder: Encoder) -> None:
        """Make sure the vectors to come are of the kind that is here. CollectionError if they are not."""
        record = self.record
        if record.fingerprint is None:
            self.record = replace(
                record,
                fingerprint=encoder.fingerprint,
                dimension=encoder.dimension,
                vocabulary=encoder.vocabulary_size,
            )
            self._frequency = np.zeros(encoder.vocabulary_size, np.int32)
        elif (encoder.fingerprint, encoder.dimension) != (record.fingerprint, record.dimension):
            raise CollectionError(
                f"The model '{record.settings.encoder}' is not the one that the collection '{self.folder.name}' was"
                f" made with: its weights have another checksum. `ragcli reindex -c {self.folder.name}` embeds"
                " everything anew."
            )

    def reserve(self, count: int) -> int:
        """The first of `count` chunk numbers in a row that nobody had or will have."""
        first = self._next
        if first + count > self.record.next_number:
            # Written at once: the numbers must be spoken for before the lexical index sees one of them.
            committed = read_generation(self.connection)
            reserved = replace(
                committed,
                next_number=first + max(count, NUMBER_BLOCK),
                reserved_from=first if committed.reserved_from is None else committed.reserved_from,
            )
            with transaction(self.connection):
                write_generation(self.connection, reserved)
            self.record = replace(self.record, next_number=reserved.next_number, reserved_from=reserved.reserved_from)
        self._next = first + count
        return first

    def append(self, numbers: Sequence[int], digests: Sequence[bytes], rows: Sequence[Row]) -> None:
        """Append rows for chunks, in order of numbers. They count when a commit takes in their drafts."""
        self.rows.append(numbers, rows)
        self._appended += zip(numbers, digests, strict=True)

    def find_row(self, digest: bytes) -> Row | None:
        """The committed row of any chunk whose embedding input has that digest."""
        for query in (
            "SELECT number FROM chunks WHERE digest = ? LIMIT 1",
            "SELECT number FROM parked WHERE slot = 1 AND digest = ? LIMIT 1",
        ):
            found = self.connection.execute(query, (digest,)).fetchone()
            if found is not None:
                row = self.rows.find(found[0])
                return None if row is None else self.rows.read(row)
        return None

    def commit(self, steps: Sequence[Step]) -> Generation:
        """Carry out the steps, all or none, as a new generation. Rows whose drafts are not among them are parked."""
        drafts = [step for step in steps if isinstance(step, Draft)]
        with uninterrupted(), explained(self.folder):
            segments = self._rows.sync() if self._rows is not None else ()
            self._index(drafts)
            with transaction(self.connection):
                gone = [chunk for step in steps for chunk in take_step(self.connection, step)]
                record = self._count(drafts, gone)
                self._save_arrays(segments, [number for draft in drafts for number in draft.numbers], gone)
                write_generation(self.connection, record)
            self.record = record
            self._appended = []
        return record

    def settle(self, record: Generation) -> None:
        """Commit a record that differs from the present one in other things than documents."""
        with uninterrupted(), explained(self.folder):
            with transaction(self.connection):
                write_generation(self.connection, record)
            self.record = record

    def replace_arrays(self, record: Generation, segments: Sequence[Segment]) -> None:
        """Commit a new edition of the arrays that has only live rows."""
        with uninterrupted(), explained(self.folder):
            with transaction(self.connection):
                self.connection.execute("DELETE FROM segments WHERE arrays = ?", (self.record.arrays,))
                put_segments(self.connection, record.arrays, segments)
                put_integers(self.connection, "dead", np.empty(0, np.int32))
                write_generation(self.connection, record)
            self.record = record
            self._dead = np.empty(0, np.int32)
            if self._rows is not None:
                self._rows.close()
                self._rows = None

    def pay_lexical_debts(self) -> None:
        """Take dead chunks out of the lexical index, unless a reader may still want them."""
        numbers = [row[0] for row in self.connection.execute("SELECT number FROM lexical_deletes")]
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
        self.connection.execute("DELETE FROM parked WHERE slot = 1")

    def release_numbers(self) -> Generation:
        """The record without the reserve of numbers that was not needed."""
        return replace(self.record, next_number=self._next, reserved_from=None)

    @property
    def building(self) -> Generation | None:
        """What a reindex has begun and not finished, if any."""
        return find_generation(self.connection, BUILDING)

    @property
    def dead(self) -> IntArray:
        """Rows that no chunk has any more, or not yet."""
        return self._dead

    def close(self) -> None:
        """Let go of the files; what was not committed is lost."""
        if self._rows is not None:
            self._rows.close()
        if self._lexical is not None:
            self._lexical.close()

    def _index(self, drafts: Sequence[Draft]) -> None:
        if any(draft.chunks for draft in drafts):
            for draft in drafts:
                self.lexical.add(lexical_entries(draft))
            self.lexical.commit()

    def _count(self, drafts: Sequence[Draft], gone: Sequence[int]) -> Generation:
        (documents,) = self.connection.execute("SELECT count(*) FROM documents").fetchone()
        chunks = self.record.chunks + sum(len(draft.chunks) for draft in drafts) - len(gone)
        open_from = drafts[-1].numbers.stop if drafts else self.record.reserved_from
        return replace(
            successor(self.record, same_chunks=not gone and not any(draft.chunks for draft in drafts)),
            rows=self._rows.rows if self._rows is not None else self.record.rows,
            tokens=self._rows.tokens if self._rows is not None else self.record.tokens,
            documents=documents,
            chunks=chunks,
            reserved_from=open_from if self.record.reserved_from is not None else None,
        )

    def _save_arrays(self, segments: Sequence[Segment], come: Sequence[int], gone: Sequence[int]) -> None:
        """Segments, parked rows, dead rows and document frequencies of this commit, inside its transaction."""
        put_segments(self.connection, self.record.arrays, segments)
        if self._rows is None and not gone:
            return
        rows, alive = self.rows, set(come)
        parked = [each for each in self._appended if each[0] not in alive]
        self.connection.executemany("DELETE FROM parked WHERE slot = 1 AND number = ?", ((each,) for each in come))
        self.connection.executemany("INSERT INTO parked (slot, number, digest) VALUES (1, ?, ?)", parked)
        come_rows, gone_rows = rows.find_all(come), rows.find_all(gone)
        parked_rows = rows.find_all([number for number, _ in parked])
        dead = np.union1d(self._dead, np.asarray(gone_rows + parked_rows, np.int32))
        dead = np.setdiff1d(dead, np.asarray(come_rows, np.int32)).astype(np.int32)
        if self.record.dimension:
            count_pieces(self._frequency, (rows.pieces(row) for row in come_rows), 1)
            count_pieces(self._frequency, (rows.pieces(row) for row in gone_rows), -1)
            put_integers(self.connection, "frequency", self._frequency)
        if not np.array_equal(dead, self._dead):
            put_integers(self.connection, "dead", dead)
        self._dead = dead


@contextmanager
def open_writer(folder: Path, *, wait: bool = False, notify: Callable[[str], None] | None = None) -> Iterator[Writer]:
    """Be the collection's writer, after putting right what one that died has left.

    Raises CollectionBusy when another process is, unless `wait`.
    """
    with writer_lock(folder, wait=wait, notify=notify), closing(open_for_writing(folder)) as connection:
        with explained(folder):
            writer = Writer(folder, connection)
        try:
            with explained(folder):
                writer.remove_strays()
                writer.pay_lexical_debts()
            yield writer
        finally:
            writer.close()


def lexical_entries(draft: Draft) -> Iterator[Entry]:
    """What the lexical index is given of each chunk."""
    from ragcli.index.lexical import Entry
    from ragcli.index.words import lexical_text

    document = draft.document
    for number, chunk in zip(draft.numbers, draft.chunks, strict=True):
        body = lexical_text(document.text[chunk.start : chunk.end], document.joins, chunk.start)
        yield Entry(number, body, document.title or "", chunk.heading or "")

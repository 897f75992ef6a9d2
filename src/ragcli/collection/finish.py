"""What is left to do when the last document is in: drop what is dead, refit TF-IDF, make sieves, tidy up.

None of it changes what the collection says, so all of it may be put off: an interrupted ingest skips it, and the
next one that gets to its end does it.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np

from ragcli.collection.blobs import put_segments
from ragcli.collection.catalogue import chunk_texts
from ragcli.collection.drafts import ChunkTable
from ragcli.collection.events import Listener, PhaseStarted
from ragcli.collection.generation import BUILDING, edition_name, find_generation, now, successor, write_generation
from ragcli.collection.housekeeping import next_edition, remove_old_files
from ragcli.collection.manifest import write_manifest
from ragcli.collection.names import sweep
from ragcli.collection.rowfiles import STEMS, DamagedRow, RowFiles, Segment
from ragcli.collection.schema import DIGEST
from ragcli.collection.sieves import make_sieves
from ragcli.collection.store import explained, transaction
from ragcli.collection.writer import Writer

TFIDF_LIMIT: Final = 50_000
"""Chunks up to which TF-IDF is refitted after every ingest (3 s for 10,000); above, only a reindex does it."""

DEAD_SHARE: Final = 5
DEAD_LEAST: Final = 100
_BLOCK: Final = 1024


def finish(writer: Writer, listener: Listener) -> None:
    """Bring a run that was not interrupted to its end."""
    with explained(writer.folder):
        writer.forget_parked()
        writer.pay_lexical_debts()
        if len(writer.dead) >= DEAD_LEAST and len(writer.dead) * DEAD_SHARE >= writer.record.rows:
            listener(PhaseStarted("compacting"))
            compact(writer)
        record = writer.record
        if record.tfidf_stale and record.chunks <= TFIDF_LIMIT:
            listener(PhaseStarted("fitting"))
            refit(writer)
        make_sieves(writer.connection)
        writer.settle(replace(writer.release_numbers(), last_ingest=now()))
        tidy(writer)


def tidy(writer: Writer) -> None:
    """Write the manifest and remove what nobody needs: files that no generation names, and dead collections."""
    write_manifest(writer.folder, writer.connection, writer.record)
    remove_old_files(writer.folder, writer.record, find_generation(writer.connection, BUILDING))
    sweep(writer.folder.parent)


def refit(writer: Writer) -> None:
    """Fit TF-IDF to the chunks as they are and commit it."""
    edition, segments = fit(writer, "chunks")
    fitted = successor(writer.record, same_chunks=True)
    fitted = replace(fitted, tfidf=edition, tfidf_generation=fitted.generation)
    with transaction(writer.connection):
        writer.connection.execute("DELETE FROM segments WHERE file LIKE 'tfidf/%'")
        put_segments(writer.connection, edition, segments)
        write_generation(writer.connection, fitted)
    writer.record = fitted


def fit(writer: Writer, table: ChunkTable) -> tuple[int, tuple[Segment, ...]]:
    """Fit TF-IDF to the chunks of a table, in a new folder; its edition, and the checksums of its files."""
    from ragcli.index.tfidf import fit_tfidf

    edition = next_edition(writer.folder, "tfidf", writer.record.tfidf)
    folder = writer.folder / edition_name("tfidf", "", edition)
    numbers = [row[0] for row in writer.connection.execute(f"SELECT number FROM {table} ORDER BY number")]  # noqa: S608
    fit_tfidf(folder, numbers, (text for _, text in chunk_texts(writer.connection, table)))
    return edition, tuple(whole_file(path) for path in sorted(folder.iterdir()))


def whole_file(path: Path) -> Segment:
    """The checksum of a TF-IDF file."""
    data = path.read_bytes()
    return Segment(f"tfidf/{path.name}", 0, len(data), blake2b(data, digest_size=DIGEST).digest())


def compact(writer: Writer) -> None:
    """Write the live rows into a new edition of the arrays and commit that."""
    record, rows = writer.record, writer.rows
    edition = new_arrays(writer)
    live = np.ones(record.rows, np.bool_)
    live[writer.dead] = False
    with RowFiles(writer.folder, replace(record, arrays=edition, rows=0, tokens=0)) as fresh:
        try:
            for first in range(0, record.rows, _BLOCK):
                fresh.copy(rows, first, live[first : first + _BLOCK])
        except DamagedRow:
            # Nothing is worse than it was; `verify` tells what is damaged, and repairing it compacts as well.
            return
        segments = fresh.sync()
        compacted = successor(record, same_chunks=True)
        compacted = replace(compacted, arrays=edition, rows=fresh.rows, tokens=fresh.tokens)
        writer.replace_arrays(compacted, segments, None)


def new_arrays(writer: Writer) -> int:
    """An edition number that no array file has."""
    return max(next_edition(writer.folder, stem, writer.record.arrays) for stem in STEMS)

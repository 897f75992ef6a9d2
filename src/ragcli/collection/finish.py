"""What is left to do when the last document is in: drop what is dead, refit TF-IDF, tidy up.

None of it changes what the collection says, so all of it may be put off: an interrupted ingest skips it, and the
next one that gets to its end does it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from ragcli.collection.catalogue import chunk_texts
from ragcli.collection.events import Listener, PhaseStarted
from ragcli.collection.generation import edition_name, now, successor
from ragcli.collection.housekeeping import next_edition, remove_old_files
from ragcli.collection.manifest import write_manifest
from ragcli.collection.rowfiles import RowFiles
from ragcli.collection.store import explained
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
            fit(writer)
        writer.settle(replace(writer.release_numbers(), last_ingest=now()))
        write_manifest(writer.folder, writer.connection, writer.record)
        remove_old_files(writer.folder, writer.record, writer.building)


def fit(writer: Writer) -> None:
    """Fit TF-IDF to the chunks as they are, in a new folder, and commit it."""
    from ragcli.index.tfidf import fit_tfidf

    record = writer.record
    edition = next_edition(writer.folder, "tfidf", record.tfidf)
    numbers = [number for (number,) in writer.connection.execute("SELECT number FROM chunks ORDER BY number")]
    fit_tfidf(
        writer.folder / edition_name("tfidf", "", edition),
        numbers,
        (text for _, text in chunk_texts(writer.connection)),
    )
    fitted = successor(record, same_chunks=True)
    writer.settle(replace(fitted, tfidf=edition, tfidf_generation=fitted.generation))


def compact(writer: Writer) -> None:
    """Write the live rows into a new edition of the arrays and commit that."""
    record, rows = writer.record, writer.rows
    edition = max(next_edition(writer.folder, stem, record.arrays) for stem in ("rows", "vectors", "tokens"))
    live = np.setdiff1d(np.arange(record.rows), writer.dead)
    # Live rows mostly lie side by side; each stretch is copied as one.
    stretches = np.split(live, np.flatnonzero(np.diff(live) != 1) + 1) if len(live) else []
    with RowFiles(writer.folder, replace(record, arrays=edition, rows=0, tokens=0)) as fresh:
        for stretch in stretches:
            for first in range(int(stretch[0]), int(stretch[-1]) + 1, _BLOCK):
                fresh.copy(rows, first, min(_BLOCK, int(stretch[-1]) + 1 - first))
        segments = fresh.sync()
        compacted = successor(record, same_chunks=True)
        writer.replace_arrays(replace(compacted, arrays=edition, rows=fresh.rows, tokens=fresh.tokens), segments)

"""End of a write run: compaction, TF-IDF refit, bloom filters, removal of unreferenced files.

None of it changes what the collection says, so all of it may be put off: an interrupted ingest skips it, and the next
one does it. Old files go when the new generation is committed and no reader is left who might open them.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Final

from ragcli.collection.data_directory import sweep
from ragcli.collection.ingest_events import IngestListener, PhaseStarted
from ragcli.collection.read.document_bloom_filters import build_bloom_filters
from ragcli.collection.read.document_queries import chunk_texts
from ragcli.collection.store.chunk_arrays import (
    ARRAY_NAMES,
    ChunkArrayWriter,
    DamagedRow,
    Segment,
    copy_live_rows,
    file_segment,
    put_segments,
)
from ragcli.collection.store.generation_record import (
    BUILDING,
    Generation,
    edition_name,
    find_generation,
    next_generation,
    utc_now,
    write_generation,
    write_manifest,
)
from ragcli.collection.store.locks import try_exclusive_readers_lock
from ragcli.collection.store.sqlite_connection import transaction, translated_errors
from ragcli.collection.write.collection_writer import CollectionWriter
from ragcli.collection.write.prepared_documents import ChunkTable

TFIDF_REFIT_MAX_CHUNKS: Final = 50_000
"""Chunks up to which TF-IDF is refitted after every ingest (3 s for 10,000); above, only a reindex does it."""

DEAD_ROW_DIVISOR: Final = 5
DEAD_ROW_MIN: Final = 100


def finish_run(writer: CollectionWriter, listener: IngestListener) -> None:
    """Bring a run that was not interrupted to its end."""
    with translated_errors(writer.folder):
        writer.drop_uncommitted_rows()
        writer.delete_dead_from_lexical()
        if len(writer.dead) >= DEAD_ROW_MIN and len(writer.dead) * DEAD_ROW_DIVISOR >= writer.record.rows:
            listener(PhaseStarted("compacting"))
            compact_arrays(writer)
        record = writer.record
        if record.tfidf_stale and record.chunks <= TFIDF_REFIT_MAX_CHUNKS:
            listener(PhaseStarted("fitting"))
            commit_refitted_tfidf(writer)
        build_bloom_filters(writer.connection)
        writer.settle(replace(writer.without_reserved_numbers(), last_ingest=utc_now()))
        clean_up(writer)


def clean_up(writer: CollectionWriter) -> None:
    """Write the manifest and remove what nobody needs: files that no generation names, and dead collections."""
    write_manifest(writer.folder, writer.connection, writer.record)
    remove_unreferenced_files(writer.folder, writer.record, find_generation(writer.connection, BUILDING))
    sweep(writer.folder.parent)


def commit_refitted_tfidf(writer: CollectionWriter) -> None:
    """Fit TF-IDF to the chunks as they are and commit it."""
    edition, segments = fit_generation_tfidf(writer, "chunks")
    fitted = next_generation(writer.record, same_chunks=True)
    fitted = replace(fitted, tfidf=edition, tfidf_generation=fitted.generation)
    with transaction(writer.connection):
        writer.connection.execute("DELETE FROM segments WHERE file LIKE 'tfidf/%'")
        put_segments(writer.connection, edition, segments)
        write_generation(writer.connection, fitted)
    writer.record = fitted


def fit_generation_tfidf(writer: CollectionWriter, table: ChunkTable) -> tuple[int, tuple[Segment, ...]]:
    """Fit TF-IDF to the chunks of a table, as a new edition; its number, and the checksums of its files."""
    edition = next_edition(writer.folder, "tfidf", writer.record.tfidf)
    folder = writer.folder / edition_name("tfidf", "", edition)
    return edition, fit_stored_chunks(writer.connection, folder, table)


def fit_stored_chunks(
    connection: sqlite3.Connection, folder: Path, table: ChunkTable = "chunks"
) -> tuple[Segment, ...]:
    """Fit TF-IDF to the chunks of a table, in a new folder; the checksums of its files."""
    from ragcli.index.tfidf import fit_tfidf

    numbers = [number for (number,) in connection.execute(f"SELECT number FROM {table} ORDER BY number")]  # noqa: S608
    fit_tfidf(folder, numbers, (text for _, text in chunk_texts(connection, table)))
    return tuple(file_segment(path) for path in sorted(folder.iterdir()))


def compact_arrays(writer: CollectionWriter) -> None:
    """Write the live rows into a new edition of the arrays and commit that."""
    record, rows = writer.record, writer.rows
    edition = next_array_edition(writer)
    with ChunkArrayWriter(writer.folder, replace(record, arrays=edition, rows=0, tokens=0)) as fresh:
        try:
            copy_live_rows(rows, fresh, record.rows, writer.dead)
        except DamagedRow:
            # Nothing is worse than it was; `verify` tells what is damaged, and repairing it compacts as well.
            return
        segments = fresh.sync()
        compacted = next_generation(record, same_chunks=True)
        compacted = replace(compacted, arrays=edition, rows=fresh.rows, tokens=fresh.tokens)
        writer.replace_arrays(compacted, segments, None)


def next_array_edition(writer: CollectionWriter) -> int:
    """An edition number that no array file has."""
    return max(next_edition(writer.folder, stem, writer.record.arrays) for stem, _ in ARRAY_NAMES)


_DERIVED_FILE: Final = re.compile(
    "|".join(rf"{stem}(?:-\d+)?{re.escape(suffix)}" for stem, suffix in ARRAY_NAMES)
    + r"|lexical(?:-\d+)?|tfidf(?:-\d+)?(?:\.new|\.old)?|manifest\.json\.new"
)


def remove_unreferenced_files(folder: Path, *kept: Generation | None) -> None:
    """Remove derived files that belong to none of the kept generations. Does nothing while readers are there."""
    names = {name for record in kept if record is not None for name in _referenced_names(record)}
    old = [entry for entry in folder.iterdir() if _DERIVED_FILE.fullmatch(entry.name) and entry.name not in names]
    if not old:
        return
    with try_exclusive_readers_lock(folder) as alone:
        if not alone:
            return
        for entry in old:
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


def next_edition(folder: Path, stem: str, current: int | None) -> int:
    """An edition number above the current one and above every file of that stem that still lies there."""
    numbered = re.compile(rf"{stem}(?:-(\d+))?(?:\..*)?")
    taken = [current or 0]
    for entry in folder.iterdir():
        found = numbered.fullmatch(entry.name)
        if found:
            taken.append(int(found[1] or 1))
    return max(taken) + 1


def _referenced_names(record: Generation) -> set[str]:
    names = {edition_name(stem, suffix, record.arrays) for stem, suffix in ARRAY_NAMES}
    names.add(record.lexical_name)
    if record.tfidf_name is not None:
        names.add(record.tfidf_name)
    return names

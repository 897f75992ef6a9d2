"""Repair a collection: rebuild arrays, lexical index, TF-IDF and manifest from the store.

Intact rows are kept; only chunks whose row is damaged are embedded again. A document damaged in the store itself is
removed and its file marked to be read again by the next ingest.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ragcli.collection.handle import Collection
from ragcli.collection.ingest_events import ChunksEmbedded, IngestListener, ignore_event
from ragcli.collection.maintain.verification import (
    damaged_byte_ranges,
    damaged_calibration,
    damaged_documents,
    damaged_rows_of,
    find_problems,
    intact_rows,
)
from ragcli.collection.read.document_bloom_filters import drop_bloom_filters
from ragcli.collection.read.document_queries import document_chunks
from ragcli.collection.store.chunk_arrays import (
    CHUNK_NUMBERS,
    ChunkArrayReader,
    ChunkArrayRow,
    ChunkArrayWriter,
    empty_row,
    row_from_encoding,
    update_token_frequency,
)
from ragcli.collection.store.generation_record import edition_name, next_generation, utc_now
from ragcli.collection.store.row_hash import update_row_hash
from ragcli.collection.store.schema import altered_definitions
from ragcli.collection.store.sqlite_connection import transaction, translated_errors
from ragcli.collection.store.stored_calibration import drop_calibration
from ragcli.collection.write.collection_writer import CollectionWriter, lexical_entries, open_writer_without_recovery
from ragcli.collection.write.commit_steps import DamagedDocumentRemoved, apply_step
from ragcli.collection.write.compaction import commit_refitted_tfidf, finish_run, next_array_edition, next_edition
from ragcli.collection.write.embedding_batches import EMBED_BATCH
from ragcli.collection.write.prepared_documents import ChunkedDocument, embedding_inputs, read_document
from ragcli.errors import CollectionError

if TYPE_CHECKING:
    from ragcli.models.engine_interface import Encoder


def repair(
    collection: Collection,
    encoder: Callable[[], Encoder],
    listener: IngestListener = ignore_event,
    *,
    wait: bool = False,
    notify: Callable[[str], None] | None = None,
) -> tuple[str, ...]:
    """Mend what `verify` finds; a sentence for each thing that was done.

    `encoder` is called only if chunks must be embedded again. CollectionError if the store's own structure is
    damaged, because there is nothing to rebuild it from but the documents themselves.
    """
    folder = collection.path
    done: list[str] = []
    with open_writer_without_recovery(folder, wait=wait, notify=notify) as writer, translated_errors(folder):
        done += _repair_structure(writer.connection, collection.name)
        parts = {problem.part for problem in find_problems(folder, writer.connection, writer.record)}
        if "store" in parts:
            done += [
                f"the document '{source}' was taken out; the next ingest reads its file again"
                for source in _drop_damaged(writer)
            ]
            done += _repair_records(writer.connection)
            if damaged_calibration(writer.connection):
                drop_calibration(writer.connection)
                done.append("the gate's calibration was dropped; `ragcli eval --calibrate-gate` makes a new one")
        if "bloom_filters" in parts:
            drop_bloom_filters(writer.connection)
            done.append("the bloom filters of exact search were made anew")
        if parts & {"store", "arrays"}:
            kept, embedded = _rebuild_arrays(writer, encoder, listener)
            done.append(f"the arrays were written anew: {kept:,} rows kept, {embedded:,} chunks embedded again")
        if "lexical" in parts:
            _rebuild_lexical(writer)
            done.append("the lexical index was built anew")
        writer.delete_uncommitted_from_lexical()
        if "tfidf" in parts:
            commit_refitted_tfidf(writer)
            done.append("TF-IDF was fitted anew")
        finish_run(writer, listener)
        if "manifest" in parts:
            done.append("the manifest was written anew")
    return tuple(done)


def _repair_structure(connection: sqlite3.Connection, name: str) -> list[str]:
    """What the tables are found by is made anew from the tables if it is damaged; more can't be done for a store."""
    complaints = _structure_errors(connection)
    if not complaints:
        return []
    try:
        with transaction(connection):
            connection.execute("REINDEX")
        left = _structure_errors(connection)
    except sqlite3.DatabaseError as error:
        left = [str(error)]
    if left:
        raise CollectionError(
            f"The store of '{name}' is damaged itself ({left[0]}), and everything else is made from it:"
            f" `ragcli collections delete {name}` and ingest the documents again."
        )
    return ["the store's own indexes were made anew"]


def _structure_errors(connection: sqlite3.Connection) -> list[str]:
    try:
        found = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
        found += [f"the definition of {name}" for name in altered_definitions(connection)]
        return found + [f"row {row[1]} of {row[0]}" for row in connection.execute("PRAGMA foreign_key_check")]
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        return [str(error)]


def _repair_records(connection: sqlite3.Connection) -> Iterator[str]:
    """Forget what is damaged in the records of files and failures, so that the next ingest reads those files again."""
    failures, files = list(damaged_rows_of(connection, "failures")), list(damaged_rows_of(connection, "files"))
    with transaction(connection):
        if failures:
            # Whose failure it was is perhaps what is damaged: all files that failed are tried again.
            query = "SELECT number FROM files WHERE failed_hash IS NOT NULL OR number IN (SELECT file FROM failures)"
            again = {number for (number,) in connection.execute(query)} - {number for number, _ in files}
            files += [(number, "") for number in sorted(again)]
        for number, _ in failures:
            connection.execute("DELETE FROM failures WHERE number = ?", (number,))
        for number, _ in files:
            connection.execute("UPDATE files SET hash = NULL, failed_hash = NULL WHERE number = ?", (number,))
            connection.execute("UPDATE files SET ingested_at = ? WHERE number = ?", (utc_now(), number))
            update_row_hash(connection, "files", number)
            # Where not even the path can be trusted, its documents are gone already.
            query = "DELETE FROM files WHERE number = ? AND number NOT IN (SELECT file FROM documents)"
            connection.execute(query, (number,))
        query = "SELECT ifnull(max(number), 0) FROM documents UNION ALL SELECT ifnull(max(last), 0) FROM bloom_filters"
        last = max(row[0] for row in connection.execute(query))
        connection.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'documents'", (last,))
        connection.execute(
            "INSERT INTO sqlite_sequence SELECT 'documents', ?"
            " WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'documents')",
            (last,),
        )
    for source in (source for _, source in files if source):
        yield f"the record of the file '{source}' was renewed; the next ingest reads it again"
    for _, source in failures:
        yield f"the record of the failure of '{source}' was dropped"


def _drop_damaged(writer: CollectionWriter) -> list[str]:
    """Take damaged documents out of the store and count anew; their sources. The arrays must be rebuilt after."""
    lost = list(damaged_documents(writer.connection))
    with transaction(writer.connection):
        for number, _ in lost:
            apply_step(writer.connection, DamagedDocumentRemoved(number))
    (documents,) = writer.connection.execute("SELECT count(*) FROM documents").fetchone()
    (chunks,) = writer.connection.execute("SELECT count(*) FROM chunks").fetchone()
    record = next_generation(writer.record, same_chunks=not lost)
    writer.settle(replace(record, documents=documents, chunks=chunks))
    return [source for _, source in lost]


def _rebuild_arrays(
    writer: CollectionWriter, encoder: Callable[[], Encoder], listener: IngestListener
) -> tuple[int, int]:
    """Write the row of every chunk into a new edition; how many were kept, and how many embedded again."""
    record = writer.record
    sound = intact_rows(writer.folder, record, damaged_byte_ranges(writer.folder, writer.connection, record))
    old = ChunkArrayReader(writer.folder, record)
    rows_of = dict(_intact_numbers(old, sound))
    fresh_record = replace(
        next_generation(record, same_chunks=True), arrays=next_array_edition(writer), rows=0, tokens=0
    )
    frequency = np.zeros(record.vocabulary, np.int32)
    model: Encoder | None = None
    kept = embedded = 0
    with ChunkArrayWriter(writer.folder, fresh_record) as fresh:
        for batch in _batches(writer, rows_of):
            texts = [text for _, text in batch if text is not None]
            encoded: Iterator[ChunkArrayRow] = iter(())
            if texts and writer.has_encoder:
                if model is None:
                    model = encoder()
                    writer.accept_encoder(model)
                encoded = iter([row_from_encoding(each) for each in model.encode_tokens(texts)])
                listener(ChunksEmbedded(len(texts), 0))
            rows = [
                old.read(rows_of[number], checked=False) if text is None else next(encoded, empty_row())
                for number, text in batch
            ]
            update_token_frequency(frequency, (row.pieces for row in rows), 1)
            fresh.append([number for number, _ in batch], rows)
            kept += len(batch) - len(texts)
            embedded += len(texts)
        segments = fresh.sync()
        writer.replace_arrays(replace(fresh_record, rows=fresh.rows, tokens=fresh.tokens), segments, frequency)
    old.close()
    writer.drop_uncommitted_rows()
    return kept, embedded


def _intact_numbers(old: ChunkArrayReader, sound: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    for row in np.flatnonzero(sound).tolist():
        yield int(old.block(CHUNK_NUMBERS, row, 1)[0]), row


def _batches(writer: CollectionWriter, rows_of: dict[int, int]) -> Iterator[list[tuple[int, str | None]]]:
    """(number, text to embed or None) of all chunks in order of numbers, some at a time."""
    batch: list[tuple[int, str | None]] = []
    missing = 0
    for cut in stored_chunked_documents(writer.connection):
        inputs: list[str] | None = None
        for at, number in enumerate(cut.numbers):
            if number in rows_of:
                batch.append((number, None))
            else:
                inputs = inputs or list(embedding_inputs(cut.document, cut.chunks, writer.record.settings))
                batch.append((number, inputs[at]))
                missing += 1
            if missing >= EMBED_BATCH or len(batch) >= 8 * EMBED_BATCH:
                yield batch
                batch, missing = [], 0
    if batch:
        yield batch


def stored_chunked_documents(connection: sqlite3.Connection) -> Iterator[ChunkedDocument]:
    """Every document as it is cut now, in order of chunk numbers."""
    rows = connection.execute("SELECT document, min(number) FROM chunks GROUP BY document ORDER BY 2").fetchall()
    for document, first in rows:
        chunks = document_chunks(connection, document)
        yield ChunkedDocument(read_document(connection, document), chunks, (b"",) * len(chunks), first)


def build_lexical_index(place: Path, connection: sqlite3.Connection) -> None:
    """Build a lexical index of all chunks in the store."""
    from ragcli.index.bm25 import LexicalWriter

    with LexicalWriter(place) as lexical:
        for cut in stored_chunked_documents(connection):
            lexical.add(lexical_entries(cut))
        lexical.commit()


def _rebuild_lexical(writer: CollectionWriter) -> None:
    edition = next_edition(writer.folder, "lexical", writer.record.lexical)
    build_lexical_index(writer.folder / edition_name("lexical", "", edition), writer.connection)
    with transaction(writer.connection):
        writer.connection.execute("DELETE FROM lexical_deletes")
    writer.settle(replace(next_generation(writer.record, same_chunks=True), lexical=edition, reserved_from=None))

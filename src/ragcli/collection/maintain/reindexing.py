"""Rebuild a collection from its stored texts with other settings or another model.

The new state is built beside the present one and replaces it in one commit; an interrupted build is resumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ragcli.collection.ingest_events import (
    Committed,
    FileRead,
    FilesPlanned,
    IngestListener,
    IngestReport,
    PhaseStarted,
    ignore_event,
)
from ragcli.collection.store.generation_record import (
    BUILDING,
    NO_ENCODER,
    Generation,
    find_generation,
    utc_now,
    write_generation,
)
from ragcli.errors import UsageError

if TYPE_CHECKING:
    from ragcli.collection.handle import Collection
    from ragcli.collection.store.chunk_arrays import ChunkArrayRow, IntArray
    from ragcli.collection.write.collection_writer import CollectionWriter
    from ragcli.collection.write.embedding_batches import EmbeddingQueue
    from ragcli.models.engine_interface import Encoder
    from ragcli.types import CollectionSettings


def reindex(
    collection: Collection,
    settings: CollectionSettings,
    encoder: Callable[[], Encoder],
    listener: IngestListener = ignore_event,
    *,
    wait: bool = False,
    notify: Callable[[str], None] | None = None,
) -> IngestReport:
    """Rebuild everything but the texts with these settings, and switch to it in one commit.

    Ctrl-C leaves the old state in force and keeps what was built: the same call goes on from there. Raises
    UsageError for settings that make no sense, CollectionBusy, ModelUnavailable from `encoder`.
    """
    from ragcli.collection.handle import check_settings
    from ragcli.collection.store.sqlite_connection import translated_errors
    from ragcli.collection.write.collection_writer import open_writer

    check_settings(settings)
    if settings.tenant_key != collection.settings.tenant_key:
        raise UsageError(f"Who may read what in '{collection.name}' is fixed for good; its tenant key stays.")
    started = time.monotonic()
    with open_writer(collection.path, wait=wait, notify=notify) as base, translated_errors(collection.path):
        model = encoder() if settings.encoder != NO_ENCODER else None
        build = _ReindexBuild(base, settings, model, listener)
        try:
            interrupted = build.run()
        finally:
            build.close()
        return IngestReport(
            collection=collection.name,
            documents=base.record.documents,
            chunks=build.chunks,
            embedded=build.embedded,
            reused=build.reused,
            seconds=time.monotonic() - started,
            generation=base.record.generation,
            interrupted=interrupted,
        )


class _ReindexBuild:
    """One reindex. `base` is the writer of the present state, which lends it rows and takes over at the end."""

    def __init__(
        self, base: CollectionWriter, settings: CollectionSettings, model: Encoder | None, listener: IngestListener
    ) -> None:
        from ragcli.collection.write.collection_writer import CollectionWriter
        from ragcli.collection.write.embedding_batches import EmbeddingQueue
        from ragcli.index.tantivy_integrity import changed_index_files

        self._base = base
        self._listener = listener
        self._settings = settings
        fingerprint = None if model is None else model.fingerprint
        begun = find_generation(base.connection, BUILDING)
        if (
            begun is None
            or begun.settings != settings
            or begun.fingerprint not in (None, fingerprint)
            # Damage to what nobody reads yet is nobody's concern.
            or changed_index_files(base.folder / begun.lexical_name, to_write=True)
        ):
            begun = _begin_build(base, settings)
        same_model = model is not None and base.record.fingerprint == fingerprint
        fallback_row: Callable[[bytes], ChunkArrayRow | None] = base.find_row if same_model else lambda _: None
        self._writer = CollectionWriter(base.folder, base.connection, BUILDING, fallback_row)
        self._queue: EmbeddingQueue = EmbeddingQueue(self._writer, lambda: _required_encoder(model), listener)
        if model is not None:
            self._writer.accept_encoder(model)
        # What a build that was killed had added and not committed.
        (last,) = base.connection.execute("SELECT ifnull(max(number), 0) FROM next_chunks").fetchone()
        self._writer.lexical.delete_above(last)
        self._writer.lexical.commit()
        self.chunks = 0

    @property
    def embedded(self) -> int:
        """Chunks that went through the model."""
        return self._queue.embedded

    @property
    def reused(self) -> int:
        """Chunks that took over the row of an equal one."""
        return self._queue.reused

    def run(self) -> bool:
        """Build and switch; was it interrupted?"""
        try:
            self._cut_all()
            self._queue.embed()
            self._commit()
            self._switch()
        except KeyboardInterrupt:
            self._commit()
            return True
        return False

    def close(self) -> None:
        """Let go of the files of the new state."""
        self._writer.close()

    def _cut_all(self) -> None:
        from ragcli.collection.ingestion.document_ingester import COMMIT_CHUNKS
        from ragcli.collection.write.commit_steps import RechunkedDocument
        from ragcli.collection.write.prepared_documents import embedding_inputs, read_document, split_document

        connection = self._base.connection
        rows = connection.execute(
            "SELECT number, source FROM documents d WHERE NOT EXISTS"
            " (SELECT 1 FROM next_chunks c WHERE c.document = d.number) ORDER BY number"
        ).fetchall()
        self._listener(FilesPlanned(len(rows), len(rows)))
        self._listener(PhaseStarted("reading"))
        for number, source in rows:
            document = read_document(connection, number)
            cut = split_document(document, self._settings, self._base.reserve)
            inputs = tuple(embedding_inputs(document, cut.chunks, self._settings))
            self._queue.add(RechunkedDocument(number, cut), inputs)
            self._listener(FileRead(source, 1, len(document.pages), len(cut.chunks), failed=False))
            if self._writer.uncommitted >= COMMIT_CHUNKS:
                self._commit()

    def _commit(self) -> None:
        steps = self._queue.pop_ready()
        if steps or self._writer.uncommitted:
            record = self._writer.commit(steps)
            self._listener(Committed(record.generation, record.documents, record.chunks))

    def _switch(self) -> None:
        """Put the new state in the place of the old, in one commit."""
        from ragcli.collection.write.compaction import finish_run, fit_generation_tfidf

        base, writer = self._base, self._writer
        (self.chunks,) = base.connection.execute("SELECT count(*) FROM next_chunks").fetchone()
        self._listener(PhaseStarted("fitting"))
        edition, segments = fit_generation_tfidf(base, "next_chunks") if self.chunks else (None, ())
        dead, frequency = _dead_rows_and_frequency(writer)
        generation = base.record.generation + 1
        record = replace(
            writer.record,
            generation=generation,
            committed_at=utc_now(),
            tfidf=edition,
            tfidf_generation=generation,
            documents=base.record.documents,
            chunks=self.chunks,
            next_number=base.without_reserved_numbers().next_number,
            reserved_from=None,
            last_ingest=base.record.last_ingest,
        )
        writer.close()
        base.take_over(record, segments, dead, frequency)
        finish_run(base, self._listener)


def _begin_build(base: CollectionWriter, settings: CollectionSettings) -> Generation:
    """Forget a build with other settings, if there was one, and start a new one."""
    from ragcli.collection.store.generation_record import first_generation
    from ragcli.collection.store.sqlite_connection import transaction
    from ragcli.collection.write.collection_writer import drop_segments
    from ragcli.collection.write.compaction import next_array_edition, next_edition

    earlier = find_generation(base.connection, BUILDING)
    record = replace(
        first_generation(settings),
        arrays=next_array_edition(base),
        lexical=next_edition(base.folder, "lexical", base.record.lexical),
    )
    with transaction(base.connection):
        if earlier is not None:
            drop_segments(base.connection, earlier)
        base.connection.execute("DELETE FROM next_chunks")
        base.connection.execute("DELETE FROM uncommitted_rows WHERE slot = ?", (BUILDING,))
        base.connection.execute("DELETE FROM blobs WHERE slot = ?", (BUILDING,))
        write_generation(base.connection, record, BUILDING)
    return record


def _dead_rows_and_frequency(writer: CollectionWriter) -> tuple[IntArray, IntArray]:
    """Dead rows and counts of word pieces of the new state, without the documents that went while it was built."""
    import numpy as np

    from ragcli.collection.store.chunk_arrays import count_token_frequency, read_integers

    live = np.fromiter(
        (row[0] for row in writer.connection.execute("SELECT number FROM next_chunks ORDER BY number")), np.int64
    )
    numbers = writer.rows.numbers
    dead = np.flatnonzero(~np.isin(numbers, live)).astype(np.int32)
    writer.lexical.delete(numbers[dead].tolist())
    writer.lexical.commit()
    if np.array_equal(dead, writer.dead) or not writer.record.dimension:
        return dead, read_integers(writer.connection, "frequency", BUILDING)
    return dead, count_token_frequency(writer.folder, writer.record, dead)


def _required_encoder(model: Encoder | None) -> Encoder:
    if model is None:
        raise ValueError("a collection without an encoder has nothing to embed")
    return model

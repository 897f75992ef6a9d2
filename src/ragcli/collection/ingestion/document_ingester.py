"""Ingest parsed documents: prepare, queue for embedding, commit when due, count.

A file with many records (JSONL) is read as a stream. Until its last record its hash is not recorded, so an
interrupted run reads it again and skips the records whose content is already in.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from os import fsencode
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ragcli.collection.ingest_events import Committed, FileRead, IngestListener
from ragcli.collection.ingestion.change_detection import failure_settings
from ragcli.collection.read.document_queries import STDIN_PATH
from ragcli.collection.read.file_state import size_and_times
from ragcli.collection.store.metadata_layers import ExternalMetadata, MetadataPatch
from ragcli.collection.write.collection_writer import CollectionWriter
from ragcli.collection.write.commit_steps import (
    CommitStep,
    DocumentMetadataChanged,
    FileIngested,
    ParserVersionChanged,
)
from ragcli.collection.write.embedding_batches import EmbeddingQueue
from ragcli.collection.write.prepared_documents import (
    PreparedDocument,
    SourceFile,
    clean_document,
    embedding_inputs,
    hash_document_content,
    reading_versions,
    split_document,
)
from ragcli.errors import DocumentError
from ragcli.text.characters import replace_surrogates
from ragcli.types import CollectionSettings, Document, Failure

if TYPE_CHECKING:
    from ragcli.collection.ingestion.change_detection import IngestPlan
    from ragcli.documents.formats.jsonl_parser import ByteStream
    from ragcli.documents.parse_options import ReadOptions
    from ragcli.documents.workers.parallel_parsing import ParsedFile
    from ragcli.models.engine_interface import Encoder

COMMIT_CHUNKS: Final = 512
COMMIT_MAX_CHUNKS: Final = 4096
COMMIT_MIN_SECONDS: Final = 1.0
COMMIT_MAX_SECONDS: Final = 10.0


class DocumentIngester:
    """What one run takes in, and the tally of it. The plan says which of the files that it reads were in before.

    `meta` is said of the records that come through standard input; files bring what is said of them.
    """

    def __init__(
        self,
        writer: CollectionWriter,
        encoder: Callable[[], Encoder],
        options: ReadOptions,
        listener: IngestListener,
        plan: IngestPlan,
        meta: MetadataPatch,
    ) -> None:
        self._writer = writer
        self._options = options
        self._listener = listener
        self._changed = {file.path for file in plan.changed}
        self._refreshed = {file.path for file in plan.refreshed}
        self._meta = meta
        self._queue = EmbeddingQueue(writer, encoder, listener)
        self._committed_at = time.monotonic()
        self.added: list[str] = []
        self.changed: list[str] = []
        self.refreshed: list[str] = []
        self.failures: list[Failure] = []
        self.warnings: list[Failure] = []
        self.documents = 0
        self.pages = 0
        self.chunks = 0

    @property
    def embedded(self) -> int:
        """Chunks that went through the model."""
        return self._queue.embedded

    @property
    def reused(self) -> int:
        """Chunks that took over the row of an equal one."""
        return self._queue.reused

    def add(self, steps: Iterable[CommitStep]) -> None:
        """Queue steps that need no reading."""
        for step in steps:
            self._queue.add(step)

    def fail(self, files: Iterable[tuple[SourceFile, str]]) -> None:
        """Record files that could not even be opened."""
        for file, reason in files:
            self._finish(file, 0, (), [(file.source, reason)], None)

    def read(self, files: Sequence[SourceFile]) -> None:
        """Read files and take in what they hold, in the order in which the workers are done with them."""
        from ragcli.documents.file_access import HashingStream, open_regular_file
        from ragcli.documents.parser_registry import kind_of
        from ragcli.documents.workers.parallel_parsing import read_files

        of_records = [file for file in files if kind_of(Path(file.path)) == "jsonl"]
        others = {file.path: file for file in files if kind_of(Path(file.path)) != "jsonl"}
        if others:
            # Closing the generator ends the workers, whatever ends the loop.
            with closing(read_files([Path(path) for path in others], self._options)) as readings:
                for each in readings:
                    file = others[str(each.path)]
                    self._take(
                        file, ((0, _with_file_source(item, file)) for item in each.items), partial(_content, each)
                    )
        for file in of_records:
            try:
                with open_regular_file(Path(file.path)) as opened:
                    stream = HashingStream(opened)
                    self.read_records(stream, file.source, file, stream.content)
            except DocumentError as error:
                self.fail([(file, str(error))])
            except OSError as error:
                self.fail([(file, f"it cannot be read: {error.strerror or error}")])

    def read_records(
        self,
        lines: Iterable[bytes] | ByteStream,
        source: str,
        file: SourceFile | None = None,
        content: Callable[[], bytes | None] = lambda: None,
    ) -> None:
        """Take in JSONL lines, of a file or, without one, of standard input, whose older records stay.

        `content` gives the hash of what was read, when all is.
        """
        from ragcli.documents.workers.parallel_parsing import read_lines

        file = file or SourceFile(
            STDIN_PATH.decode(),
            source,
            None,
            0,
            0,
            0,
            self._options.pdf_engine,
            outside=ExternalMetadata(meta=self._meta),
        )
        with closing(read_lines(lines, source, self._options)) as records:
            self._take(file, records, content)

    def complete(self) -> None:
        """Embed and commit all that is left."""
        self._queue.embed()
        self.commit()

    def commit(self) -> None:
        """Commit every step that is ready."""
        steps = self._queue.pop_ready()
        self._committed_at = time.monotonic()
        if not steps and not self._writer.uncommitted:
            return
        record = self._writer.commit(steps)
        for step in steps:
            if isinstance(step, PreparedDocument):
                self.documents += 1
                document = step.cut.document
                self.pages += len(document.pages)
                self.chunks += len(step.cut.chunks)
                self.warnings += [
                    Failure(replace_surrogates(step.file.source), warning) for warning in document.warnings
                ]
            elif isinstance(step, FileIngested):
                self.failures += [Failure(source, reason) for source, reason in step.failures]
                if step.documents:
                    self._names(step.file).append(replace_surrogates(step.file.source))
        self._listener(Committed(record.generation, record.documents, record.chunks))

    def _names(self, file: SourceFile) -> list[str]:
        if file.path in self._changed:
            return self.changed
        return self.refreshed if file.path in self._refreshed else self.added

    def _take(
        self,
        file: SourceFile,
        items: Iterable[tuple[int, Document | Failure]],
        content: Callable[[], bytes | None],
    ) -> None:
        """Take in a file's documents, each with the number of its line in a file that has one a line."""
        seen = _SeenRecords(self._writer.connection)
        failures: list[tuple[str, str]] = []
        pages = chunks = 0
        for line, item in items:
            if isinstance(item, Failure):
                failures.append((item.source, item.reason))
                continue
            document = clean_document(item)
            if not document.text.strip():
                where = file.source if document.record_id is None else f"{file.source}, id '{document.record_id}'"
                failures.append((where, "it has no text"))
                continue
            earlier = seen.add(document.record_id or "", line)
            if earlier is not None:
                reason = f"line {line} has the id '{document.record_id}', which line {earlier} took already"
                failures.append((f"{file.source}:{line}", reason))
                continue
            prepared = self._prepare(file, document)
            if prepared is not None:
                pages += len(document.pages)
                chunks += len(prepared.cut.chunks)
                self._queue.add(prepared, tuple(embedding_inputs(document, prepared.cut.chunks, self._settings)))
                self._commit_if_due()
        documents = seen.count
        keep = documents == 0 or file.path == STDIN_PATH.decode()
        dropped = () if keep else seen.others(file)
        self._finish(self._as_read(file, content()), documents, dropped, failures, failure_settings(self._options))
        self._listener(FileRead(replace_surrogates(file.source), documents, pages, chunks, documents == 0))
        self._commit_if_due()

    def _as_read(self, file: SourceFile, content: bytes | None) -> SourceFile:
        """The file, without its hash if it changed while it was read: then the next ingest reads it again."""
        if file.path == STDIN_PATH.decode():
            return file
        try:
            state = Path(file.path).stat()
        except OSError:
            return replace(file, hash=None)
        same = size_and_times(state) == (file.size, file.mtime_ns, file.ctime_ns)
        if same and content in (None, file.hash):
            return file
        self.warnings.append(
            Failure(replace_surrogates(file.source), "changed while it was read; the next ingest reads it again")
        )
        return replace(file, hash=None)

    def _finish(
        self,
        file: SourceFile,
        documents: int,
        dropped: tuple[int, ...],
        failures: Sequence[tuple[str, str]],
        failed_with: str | None,
    ) -> None:
        told = tuple((replace_surrogates(source), replace_surrogates(reason)) for source, reason in failures)
        if not documents and not told:
            told = ((replace_surrogates(file.source), "it has no documents in it"),)
        self._queue.add(FileIngested(file, documents, dropped, told, failed_with))

    @property
    def _settings(self) -> CollectionSettings:
        return self._writer.record.settings

    def _prepare(self, file: SourceFile, document: Document) -> PreparedDocument | None:
        """Prepare the document for a commit; None if it is in the collection exactly so."""
        said = hash_document_content(document)
        old = self._writer.connection.execute(
            "SELECT d.number, d.hash, d.chunker_version, d.parser, d.parser_version FROM documents d"
            " JOIN files f ON f.number = d.file WHERE f.path = ? AND ifnull(d.record_id, '') = ?",
            (fsencode(file.path), document.record_id or ""),
        ).fetchone()
        parser, version, chunker = reading_versions(document.kind)
        if old is not None and old[1:3] == (said, chunker):
            if old[3:] != (parser, version):
                self._queue.add(ParserVersionChanged(old[0], parser, version))
            if file.path == STDIN_PATH.decode() and file.outside.meta:
                self._queue.add(DocumentMetadataChanged(old[0], file.outside))
            return None
        cut = split_document(document, self._settings, self._writer.reserve)
        return PreparedDocument(file, cut, said, None if old is None else old[0])

    def _commit_if_due(self) -> None:
        waiting, waited = self._writer.uncommitted, time.monotonic() - self._committed_at
        # A commit waits for the disk a dozen times; where chunks come fast, that must not be all there is time for.
        enough = waiting >= COMMIT_CHUNKS and waited >= COMMIT_MIN_SECONDS
        if enough or waiting >= COMMIT_MAX_CHUNKS or (waiting and waited >= COMMIT_MAX_SECONDS):
            self.commit()


class _SeenRecords:
    """The record ids of the file that is being read. In a temporary table: there may be millions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute("CREATE TEMP TABLE IF NOT EXISTS seen (record TEXT PRIMARY KEY, line INTEGER)")
        connection.execute("DELETE FROM temp.seen")
        self.count = 0

    def add(self, record: str, line: int) -> int | None:
        """Note a record; the line where it was seen before, if it was."""
        try:
            self._connection.execute("INSERT INTO temp.seen VALUES (?, ?)", (record, line))
        except sqlite3.IntegrityError:
            query = "SELECT line FROM temp.seen WHERE record = ?"
            earlier: int = self._connection.execute(query, (record,)).fetchone()[0]
            return earlier
        self.count += 1
        return None

    def others(self, file: SourceFile) -> tuple[int, ...]:
        """Documents that the store has of the file and that were not seen in it."""
        rows = self._connection.execute(
            "SELECT d.number FROM documents d JOIN files f ON f.number = d.file WHERE f.path = ?"
            " AND NOT EXISTS (SELECT 1 FROM temp.seen s WHERE s.record = ifnull(d.record_id, ''))",
            (fsencode(file.path),),
        )
        return tuple(number for (number,) in rows)


def _content(reading: ParsedFile) -> bytes | None:
    return reading.content


def _with_file_source(item: Document | Failure, file: SourceFile) -> Document | Failure:
    return Failure(file.source, item.reason) if isinstance(item, Failure) else item

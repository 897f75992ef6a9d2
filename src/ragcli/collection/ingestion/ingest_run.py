"""Ingest files, folders or a JSONL stream: plan, parse in workers, embed, commit in batches.

Every few hundred chunks, or few seconds, what is complete is committed, so a run that is killed loses little and the
next goes on where it stopped. Nothing holds all texts at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ragcli.collection.ingest_events import FilesPlanned, IngestListener, IngestReport, PhaseStarted, ignore_event
from ragcli.collection.store.sqlite_connection import open_for_reading, translated_errors
from ragcli.text.characters import replace_surrogates
from ragcli.types import Failure, MetadataValue

if TYPE_CHECKING:
    from ragcli.collection.handle import Collection
    from ragcli.collection.ingestion.change_detection import IngestPlan
    from ragcli.collection.ingestion.document_ingester import DocumentIngester
    from ragcli.collection.write.collection_writer import CollectionWriter
    from ragcli.documents.discovery import Discovery
    from ragcli.documents.parse_options import ReadOptions
    from ragcli.models.engine_interface import Encoder

STDIN_SOURCE: Final = "stdin"


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How to take documents in.

    `prune` drops documents whose file, under the folders named, is gone. `refresh` reads files anew that an older
    version of their parser or of the chunker has read, though they did not change. `dry_run` only tells what would
    happen. `wait` waits for another writer, telling `notify` so, instead of failing. `read` None means the defaults.
    `meta` is said of every document that is found, new or not, and holds until something else is said; None takes a
    key away.
    """

    prune: bool = False
    refresh: bool = False
    dry_run: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    read: ReadOptions | None = None
    wait: bool = False
    notify: Callable[[str], None] | None = None
    meta: Mapping[str, MetadataValue | None] = field(default_factory=lambda: MappingProxyType({}))


def ingest(
    collection: Collection,
    roots: Sequence[Path],
    encoder: Callable[[], Encoder],
    options: IngestOptions = IngestOptions(),
    listener: IngestListener = ignore_event,
) -> IngestReport:
    """Bring a collection up to date with files and folders.

    `encoder` is called only if something must be embedded. Ctrl-C ends the run early with what was committed,
    and the report says so; no other exception leaves the collection half changed either. Raises InputError for a
    root that is not there, CollectionBusy when another process writes, ModelUnavailable from `encoder`.
    """
    from ragcli.documents.discovery import discover

    roots = [Path(os.path.abspath(root)) for root in roots]  # noqa: PTH100 (symlinks must stay as named)
    found = discover(roots, include=options.include, exclude=options.exclude)
    return _ingest_found(collection, roots, found, None, encoder, options, listener)


def ingest_jsonl(
    collection: Collection,
    lines: Iterable[bytes],
    encoder: Callable[[], Encoder],
    options: IngestOptions = IngestOptions(),
    listener: IngestListener = ignore_event,
) -> IngestReport:
    """Take in a stream of JSONL records. Records with ids that came this way before are replaced, others stay.

    Otherwise as `ingest`; a dry run can't foretell a stream and takes nothing from it.
    """
    from ragcli.documents.discovery import Discovery

    return _ingest_found(collection, (), Discovery((), {}), lines, encoder, options, listener)


def _ingest_found(
    collection: Collection,
    roots: Sequence[Path],
    found: Discovery,
    records: Iterable[bytes] | None,
    encoder: Callable[[], Encoder],
    options: IngestOptions,
    listener: IngestListener,
) -> IngestReport:
    from ragcli.collection.ingestion.change_detection import plan_ingest
    from ragcli.collection.ingestion.document_ingester import DocumentIngester
    from ragcli.collection.store.metadata_layers import clean_patch
    from ragcli.collection.write.collection_writer import open_writer
    from ragcli.documents.parse_options import ReadOptions

    started = time.monotonic()
    reading, meta = options.read or ReadOptions(), clean_patch(options.meta)
    listener(PhaseStarted("checking"))
    if options.dry_run:
        with closing(open_for_reading(collection.path)) as connection, translated_errors(collection.path):
            plan = plan_ingest(connection, found.files, roots, reading, meta, refresh=options.refresh)
        unreadable = (Failure(replace_surrogates(file.source), reason) for file, reason in plan.unreadable)
        return replace(
            _planned_report(collection.name, plan, found, options),
            added=tuple(file.source for file in plan.added),
            changed=tuple(file.source for file in plan.changed),
            refreshed=tuple(file.source for file in plan.refreshed),
            failures=(*plan.failed_before, *unreadable),
            seconds=time.monotonic() - started,
            dry_run=True,
        )
    with open_writer(collection.path, wait=options.wait, notify=options.notify) as writer:
        with translated_errors(collection.path):
            plan = plan_ingest(writer.connection, found.files, roots, reading, meta, refresh=options.refresh)
        listener(FilesPlanned(len(found.files), len(plan.to_read) + (records is not None)))
        ingester = DocumentIngester(writer, encoder, reading, listener, plan, meta)
        with translated_errors(collection.path):
            interrupted = _apply_plan(writer, plan, ingester, records, options, listener)
        return replace(
            _planned_report(collection.name, plan, found, options),
            added=tuple(ingester.added),
            changed=tuple(ingester.changed),
            refreshed=tuple(ingester.refreshed),
            failures=(*ingester.failures, *plan.failed_before),
            warnings=(*plan.warnings, *ingester.warnings, *_warn_without_tenant(writer, collection.name)),
            documents=ingester.documents,
            pages=ingester.pages,
            chunks=ingester.chunks,
            embedded=ingester.embedded,
            reused=ingester.reused,
            seconds=time.monotonic() - started,
            generation=writer.record.generation,
            interrupted=interrupted,
        )


def _planned_report(name: str, plan: IngestPlan, found: Discovery, options: IngestOptions) -> IngestReport:
    """What the plan says already, whatever comes of the files to be read."""
    gone = tuple(file.source for file in plan.gone)
    return IngestReport(
        collection=name,
        moved=tuple((known.source, file.source) for known, file in plan.moved),
        described=tuple(file.source for _, file in plan.described),
        removed=gone if options.prune else (),
        gone=() if options.prune else gone,
        unchanged=plan.unchanged,
        outdated=plan.outdated,
        known_failures=len(plan.failed_before),
        warnings=tuple(plan.warnings),
        skipped=found.skipped,
    )


def _warn_without_tenant(writer: CollectionWriter, name: str) -> Iterator[Failure]:
    """A remark on documents that no tenant can read."""
    key = writer.record.settings.tenant_key
    if key is None:
        return
    from ragcli.collection.read.tenant_views import count_without_tenant

    count = count_without_tenant(writer.connection, key)
    if count:
        documents = "1 document has" if count == 1 else f"{count:,} documents have"
        yield Failure(name, f"{documents} no '{key}' that names a tenant, so no tenant can read them; see --meta")


def _apply_plan(
    writer: CollectionWriter,
    plan: IngestPlan,
    ingester: DocumentIngester,
    records: Iterable[bytes] | None,
    options: IngestOptions,
    listener: IngestListener,
) -> bool:
    """Carry out the plan; was it interrupted?"""
    from ragcli.collection.write.commit_steps import FileMetadataChanged, FileMoved, FileRemoved
    from ragcli.collection.write.compaction import finish_run

    try:
        ingester.add(FileMoved(known.number, file) for known, file in plan.moved)
        ingester.add(FileMetadataChanged(known.number, file) for known, file in (*plan.described, *plan.touched))
        if options.prune:
            ingester.add(FileRemoved(file.number) for file in plan.gone)
        ingester.fail(plan.unreadable)
        if plan.to_read or records is not None:
            listener(PhaseStarted("reading"))
            ingester.read(plan.to_read)
            if records is not None:
                ingester.read_records(records, STDIN_SOURCE)
        ingester.complete()
        finish_run(writer, listener)
    except KeyboardInterrupt:
        ingester.commit()
        return True
    return False

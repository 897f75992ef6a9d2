"""Taking documents in: find what changed, read it, cut it, embed it, commit it, a batch at a time.

Reading runs in worker processes beside the embedding here. Every few hundred chunks, or few seconds, what is
complete is committed, so a run that is killed loses little and the next one goes on where it stopped. A document
is replaced in the commit that brings its new version. Nothing holds all texts at once.
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

from ragcli.collection.events import FilesPlanned, IngestReport, Listener, PhaseStarted, ignore
from ragcli.collection.store import explained, open_for_reading
from ragcli.collection.texts import clean
from ragcli.records import Failure, MetadataValue

if TYPE_CHECKING:
    from ragcli.collection.collection import Collection
    from ragcli.collection.intake import Intake
    from ragcli.collection.scan import Plan
    from ragcli.collection.writer import Writer
    from ragcli.documents.discover import Discovery
    from ragcli.documents.options import ReadOptions
    from ragcli.models.protocols import Encoder

STDIN_SOURCE: Final = "stdin"


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """How to take documents in.

    `prune` drops documents whose file, under the folders named, is gone. `dry_run` only tells what would happen.
    `wait` waits for another writer, telling `notify` so, instead of failing. `read` None means the defaults.
    `meta` is said of every document that is found, new or not, and holds until something else is said; None takes a
    key away.
    """

    prune: bool = False
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
    listener: Listener = ignore,
) -> IngestReport:
    """Bring a collection up to date with files and folders.

    `encoder` is called only if something must be embedded. Ctrl-C ends the run early with what was committed,
    and the report says so; no other exception leaves the collection half changed either. Raises InputError for a
    root that is not there, CollectionBusy when another process writes, ModelUnavailable from `encoder`.
    """
    from ragcli.documents.discover import discover

    roots = [Path(os.path.abspath(root)) for root in roots]  # noqa: PTH100 (symlinks must stay as named)
    found = discover(roots, include=options.include, exclude=options.exclude)
    return _bring_in(collection, roots, found, None, encoder, options, listener)


def ingest_jsonl(
    collection: Collection,
    lines: Iterable[bytes],
    encoder: Callable[[], Encoder],
    options: IngestOptions = IngestOptions(),
    listener: Listener = ignore,
) -> IngestReport:
    """Take in a stream of JSONL records. Records with ids that came this way before are replaced, others stay.

    Otherwise as `ingest`; a dry run can't foretell a stream and takes nothing from it.
    """
    from ragcli.documents.discover import Discovery

    return _bring_in(collection, (), Discovery((), {}), lines, encoder, options, listener)


def _bring_in(
    collection: Collection,
    roots: Sequence[Path],
    found: Discovery,
    records: Iterable[bytes] | None,
    encoder: Callable[[], Encoder],
    options: IngestOptions,
    listener: Listener,
) -> IngestReport:
    from ragcli.collection.intake import Intake
    from ragcli.collection.metadata import clean_said
    from ragcli.collection.scan import make_plan
    from ragcli.collection.writer import open_writer
    from ragcli.documents.options import ReadOptions

    started = time.monotonic()
    reading, meta = options.read or ReadOptions(), clean_said(options.meta)
    listener(PhaseStarted("checking"))
    if options.dry_run:
        with closing(open_for_reading(collection.path)) as connection, explained(collection.path):
            plan = make_plan(connection, found.files, roots, reading, meta)
        return replace(_foretell(collection, plan, found, options), seconds=time.monotonic() - started)
    with open_writer(collection.path, wait=options.wait, notify=options.notify) as writer:
        with explained(collection.path):
            plan = make_plan(writer.connection, found.files, roots, reading, meta)
        listener(FilesPlanned(len(found.files), len(plan.to_read) + (records is not None)))
        intake = Intake(writer, encoder, reading, listener, {file.path for file in plan.changed}, meta)
        with explained(collection.path):
            interrupted = _run(writer, plan, intake, records, options, listener)
        return IngestReport(
            collection=collection.name,
            added=tuple(intake.added),
            changed=tuple(intake.changed),
            moved=tuple((known.source, file.source) for known, file in plan.moved),
            described=tuple(file.source for _, file in plan.described),
            removed=tuple(file.source for file in plan.gone) if options.prune else (),
            gone=() if options.prune else tuple(file.source for file in plan.gone),
            unchanged=plan.unchanged,
            failures=(*intake.failures, *plan.failed_before),
            known_failures=len(plan.failed_before),
            warnings=(*plan.warnings, *intake.warnings, *_of_nobody(writer, collection.name)),
            skipped=found.skipped,
            documents=intake.documents,
            pages=intake.pages,
            chunks=intake.chunks,
            embedded=intake.embedded,
            reused=intake.reused,
            seconds=time.monotonic() - started,
            generation=writer.record.generation,
            interrupted=interrupted,
        )


def _of_nobody(writer: Writer, name: str) -> Iterator[Failure]:
    """A remark on documents that no tenant can read."""
    key = writer.record.settings.tenant_key
    if key is None:
        return
    from ragcli.collection.tenants import ownerless

    count = ownerless(writer.connection, key)
    if count:
        documents = "1 document has" if count == 1 else f"{count:,} documents have"
        yield Failure(name, f"{documents} no '{key}' that names a tenant, so no tenant can read them; see --meta")


def _run(
    writer: Writer,
    plan: Plan,
    intake: Intake,
    records: Iterable[bytes] | None,
    options: IngestOptions,
    listener: Listener,
) -> bool:
    """Carry out the plan; was it interrupted?"""
    from ragcli.collection.finish import finish
    from ragcli.collection.steps import FileDescribed, FileMoved, FileRemoved

    try:
        intake.add(FileMoved(known.number, file) for known, file in plan.moved)
        intake.add(FileDescribed(known.number, file) for known, file in (*plan.described, *plan.touched))
        if options.prune:
            intake.add(FileRemoved(file.number) for file in plan.gone)
        intake.fail(plan.unreadable)
        if plan.to_read or records is not None:
            listener(PhaseStarted("reading"))
            intake.read(plan.to_read)
            if records is not None:
                intake.read_records(records, STDIN_SOURCE)
        intake.complete()
        finish(writer, listener)
    except KeyboardInterrupt:
        intake.commit()
        return True
    return False


def _foretell(collection: Collection, plan: Plan, found: Discovery, options: IngestOptions) -> IngestReport:
    return IngestReport(
        collection=collection.name,
        added=tuple(file.source for file in plan.added),
        changed=tuple(file.source for file in plan.changed),
        moved=tuple((known.source, file.source) for known, file in plan.moved),
        described=tuple(file.source for _, file in plan.described),
        warnings=plan.warnings,
        removed=tuple(file.source for file in plan.gone) if options.prune else (),
        gone=() if options.prune else tuple(file.source for file in plan.gone),
        unchanged=plan.unchanged,
        failures=(*plan.failed_before, *(Failure(clean(file.source), reason) for file, reason in plan.unreadable)),
        known_failures=len(plan.failed_before),
        skipped=found.skipped,
        dry_run=True,
    )

"""Progress events and the final report of an ingest or reindex."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from ragcli.types import Failure

IngestPhase = Literal["checking", "reading", "fitting", "compacting"]


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """A part of the work begins: checking files for changes, reading and embedding, fitting TF-IDF, compacting."""

    phase: IngestPhase


@dataclass(frozen=True, slots=True)
class FilesPlanned:
    """How many files were found, and how many of them must be read."""

    found: int
    to_read: int


@dataclass(frozen=True, slots=True)
class FileRead:
    """One more file was read: its documents, their pages, and the chunks they were cut into."""

    source: str
    documents: int
    pages: int
    chunks: int
    failed: bool


@dataclass(frozen=True, slots=True)
class ChunksEmbedded:
    """Some more chunks have their vectors: so many by the model, so many taken over from equal chunks."""

    embedded: int
    reused: int


@dataclass(frozen=True, slots=True)
class Committed:
    """Everything up to here is safe on the disk, as this generation."""

    generation: int
    documents: int
    chunks: int


IngestEvent = PhaseStarted | FilesPlanned | FileRead | ChunksEmbedded | Committed
IngestListener = Callable[[IngestEvent], None]


def ignore_event(_event: IngestEvent) -> None:
    """A listener for callers who don't care."""


@dataclass(frozen=True, slots=True)
class IngestReport:
    """What an ingest did, or with `dry_run` would do. File names are sources, as people see them.

    Of files that did not change, `refreshed` were read anew by a newer parser, and `outdated` counts the documents of
    the others that an older one has read. Of `described` only the metadata changed, by a sidecar or by `--meta`; they
    count as unchanged, too. `gone` are files of the collection that are no longer there and were kept for want of
    `prune`. `failures` has all files of this run that are not in the collection as they are now, also those known to
    fail from an earlier run and not tried again (`known_failures` of them). Counts of documents, pages and chunks are
    of what this run read and committed.
    """

    collection: str
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    refreshed: tuple[str, ...] = ()
    moved: tuple[tuple[str, str], ...] = ()
    described: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    unchanged: int = 0
    outdated: int = 0
    failures: tuple[Failure, ...] = ()
    known_failures: int = 0
    warnings: tuple[Failure, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    documents: int = 0
    pages: int = 0
    chunks: int = 0
    embedded: int = 0
    reused: int = 0
    seconds: float = 0.0
    generation: int = 0
    dry_run: bool = False
    interrupted: bool = False

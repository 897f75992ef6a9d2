"""Durable collections: a SQLite store, generations, and the ingest that makes them.

`Collection` is a handle, `Snapshot` one committed state for reading, `ingest` the way in. Importing this loads
neither numpy nor any model.
"""

from ragcli.collection.catalogue import DocumentRow, DocumentText, StoredFailure
from ragcli.collection.changes import changed_sources
from ragcli.collection.collection import Collection, CollectionInfo
from ragcli.collection.events import (
    ChunksEmbedded,
    Committed,
    FileRead,
    FilesPlanned,
    IngestEvent,
    IngestReport,
    PhaseStarted,
)
from ragcli.collection.generation import NO_ENCODER
from ragcli.collection.ingestion import IngestOptions, ingest, ingest_jsonl
from ragcli.collection.names import check_name, list_collections
from ragcli.collection.reindexing import reindex
from ragcli.collection.snapshot import Snapshot
from ragcli.collection.takeover import import_index

__all__ = [
    "NO_ENCODER",
    "ChunksEmbedded",
    "Collection",
    "CollectionInfo",
    "Committed",
    "DocumentRow",
    "DocumentText",
    "FileRead",
    "FilesPlanned",
    "IngestEvent",
    "IngestOptions",
    "IngestReport",
    "PhaseStarted",
    "Snapshot",
    "StoredFailure",
    "changed_sources",
    "check_name",
    "import_index",
    "ingest",
    "ingest_jsonl",
    "list_collections",
    "reindex",
]

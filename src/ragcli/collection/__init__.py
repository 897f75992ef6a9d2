"""Durable collections: a SQLite store, generations, and the ingest that makes them.

`Collection` is a handle, `Snapshot` one committed state for reading, `ingest` the way in. What reading needs is
imported here, without numpy; everything that writes is imported when it is first asked for, because `ragcli grep`
is judged by how fast it starts.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ragcli.collection.catalogue import DocumentRow, DocumentText, Field, StoredFailure
from ragcli.collection.collection import Collection, CollectionInfo
from ragcli.collection.generation import NO_ENCODER
from ragcli.collection.names import check_name, list_collections
from ragcli.collection.snapshot import Snapshot

if TYPE_CHECKING:
    from ragcli.collection.changes import changed_sources
    from ragcli.collection.events import (
        ChunksEmbedded,
        Committed,
        FileRead,
        FilesPlanned,
        IngestEvent,
        IngestReport,
        PhaseStarted,
    )
    from ragcli.collection.exporting import Transfer, export_collection
    from ragcli.collection.importing import import_collection
    from ragcli.collection.ingestion import IngestOptions, ingest, ingest_jsonl
    from ragcli.collection.reindexing import reindex
    from ragcli.collection.repairing import repair
    from ragcli.collection.takeover import import_index

__all__ = [
    "NO_ENCODER",
    "ChunksEmbedded",
    "Collection",
    "CollectionInfo",
    "Committed",
    "DocumentRow",
    "DocumentText",
    "Field",
    "FileRead",
    "FilesPlanned",
    "IngestEvent",
    "IngestOptions",
    "IngestReport",
    "PhaseStarted",
    "Snapshot",
    "StoredFailure",
    "Transfer",
    "changed_sources",
    "check_name",
    "export_collection",
    "import_collection",
    "import_index",
    "ingest",
    "ingest_jsonl",
    "list_collections",
    "reindex",
    "repair",
]

_WHERE: Final = MappingProxyType(
    {
        "changed_sources": "changes",
        "ChunksEmbedded": "events",
        "Committed": "events",
        "FileRead": "events",
        "FilesPlanned": "events",
        "IngestEvent": "events",
        "IngestReport": "events",
        "PhaseStarted": "events",
        "Transfer": "exporting",
        "export_collection": "exporting",
        "import_collection": "importing",
        "IngestOptions": "ingestion",
        "ingest": "ingestion",
        "ingest_jsonl": "ingestion",
        "reindex": "reindexing",
        "repair": "repairing",
        "import_index": "takeover",
    }
)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)

"""Durable collections: a SQLite store with generations, readers, one writer, ingest, maintenance.

What reading needs is imported here, without numpy; everything that writes is imported when it is first asked for,
because `ragcli grep` is judged by how fast it starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragcli.collection.data_directory import check_name, list_collections
from ragcli.collection.handle import Collection, CollectionInfo
from ragcli.collection.read.document_queries import (
    DocumentRow,
    DocumentText,
    MetadataField,
    Provenance,
    StoredFailure,
)
from ragcli.collection.read.snapshot import Snapshot
from ragcli.collection.store.generation_record import NO_ENCODER
from ragcli.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ragcli.collection.ingest_events import (
        ChunksEmbedded,
        Committed,
        FileRead,
        FilesPlanned,
        IngestEvent,
        IngestReport,
        PhaseStarted,
    )
    from ragcli.collection.ingestion.ingest_run import IngestOptions, ingest, ingest_jsonl
    from ragcli.collection.maintain.archive_transfer import TransferReport, export_collection, import_collection
    from ragcli.collection.maintain.rag_index_import import import_index
    from ragcli.collection.maintain.reindexing import reindex
    from ragcli.collection.maintain.repairing import repair
    from ragcli.collection.read.file_state import changed_sources
    from ragcli.collection.store.metadata_layers import MetadataPatch
    from ragcli.collection.store.row_hash import hash_text
    from ragcli.collection.store.schema import STORE_FORMAT

__all__ = [
    "NO_ENCODER",
    "STORE_FORMAT",
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
    "MetadataField",
    "MetadataPatch",
    "PhaseStarted",
    "Provenance",
    "Snapshot",
    "StoredFailure",
    "TransferReport",
    "changed_sources",
    "check_name",
    "export_collection",
    "hash_text",
    "import_collection",
    "import_index",
    "ingest",
    "ingest_jsonl",
    "list_collections",
    "reindex",
    "repair",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "ingest_events": "ChunksEmbedded Committed FileRead FilesPlanned IngestEvent IngestReport PhaseStarted",
        "ingestion.ingest_run": "IngestOptions ingest ingest_jsonl",
        "maintain.archive_transfer": "TransferReport export_collection import_collection",
        "maintain.rag_index_import": "import_index",
        "maintain.reindexing": "reindex",
        "maintain.repairing": "repair",
        "read.file_state": "changed_sources",
        "store.metadata_layers": "MetadataPatch",
        "store.row_hash": "hash_text",
        "store.schema": "STORE_FORMAT",
    },
)

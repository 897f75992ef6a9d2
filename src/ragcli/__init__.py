"""ragcli finds the right passage in your own papers and notes.

The names below are loaded when first used, so that `import ragcli` and the command line start at once. No module of
this package is called like one of them: importing it would put it in the place of the function.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ragcli._version import __version__
from ragcli.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ragcli.collection import Collection, CollectionInfo, IngestOptions, IngestReport
    from ragcli.compat.ia_utils_rag import (
        RagIndex,
        build_index,
        chunk_text,
        load_index,
        save_index,
        search,
        search_exact,
    )
    from ragcli.library import ask, check, grep, ingest, query
    from ragcli.retrieval.exact_search import GrepRequest
    from ragcli.retrieval.request import QueryRequest, QueryResult
    from ragcli.retrieval.searcher import Searcher
    from ragcli.types import CollectionSettings, GrepHit, Hit

# ONNX Runtime, unless told otherwise before it is loaded, reports its use to its makers.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__all__ = [
    "Collection",
    "CollectionInfo",
    "CollectionSettings",
    "GrepHit",
    "GrepRequest",
    "Hit",
    "IngestOptions",
    "IngestReport",
    "QueryRequest",
    "QueryResult",
    "RagIndex",
    "Searcher",
    "__version__",
    "ask",
    "build_index",
    "check",
    "chunk_text",
    "grep",
    "ingest",
    "load_index",
    "query",
    "save_index",
    "search",
    "search_exact",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "collection": "Collection CollectionInfo IngestOptions IngestReport",
        "compat.ia_utils_rag": "RagIndex build_index chunk_text load_index save_index search search_exact",
        "library": "ask check grep ingest query",
        "retrieval.exact_search": "GrepRequest",
        "retrieval.request": "QueryRequest QueryResult",
        "retrieval.searcher": "Searcher",
        "types": "CollectionSettings GrepHit Hit",
    },
)

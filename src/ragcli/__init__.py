"""ragcli finds the right passage in your own papers and notes.

The names below are loaded when first used, so that `import ragcli` and the command line start at once.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from ragcli._version import __version__

if TYPE_CHECKING:
    from ragcli.collection import Collection as Collection
    from ragcli.compat.ia_utils_rag import RagIndex as RagIndex
    from ragcli.compat.ia_utils_rag import build_index as build_index
    from ragcli.compat.ia_utils_rag import chunk_text as chunk_text
    from ragcli.compat.ia_utils_rag import load_index as load_index
    from ragcli.compat.ia_utils_rag import save_index as save_index
    from ragcli.compat.ia_utils_rag import search as search
    from ragcli.compat.ia_utils_rag import search_exact as search_exact

# ONNX Runtime, unless told otherwise before it is loaded, reports its use to its makers.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

__all__ = [
    "Collection",
    "RagIndex",
    "__version__",
    "build_index",
    "chunk_text",
    "load_index",
    "save_index",
    "search",
    "search_exact",
]


def __getattr__(name: str) -> object:
    if name.startswith("_") or name not in __all__:
        raise AttributeError(f"module 'ragcli' has no attribute '{name}'")
    return getattr(import_module("ragcli.collection" if name == "Collection" else "ragcli.compat.ia_utils_rag"), name)

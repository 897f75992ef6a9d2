"""Files in, documents and chunks out.

`discover` finds the files, `read_files` reads them in worker processes (`read_file` in this one, `read_jsonl` lines
from anywhere), and `chunk_document` cuts a document into passages. The names are loaded when they are first used,
so that importing this package costs nothing. `discover` is named like its module and is imported from there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragcli.documents.chunking import chunk_document, embedding_text
    from ragcli.documents.discover import Discovery, FoundFile
    from ragcli.documents.jsonl import read_jsonl
    from ragcli.documents.options import ReadOptions
    from ragcli.documents.read import SUFFIXES, kind_of, read_file
    from ragcli.documents.workers import read_files

__all__ = [
    "SUFFIXES",
    "Discovery",
    "FoundFile",
    "ReadOptions",
    "chunk_document",
    "embedding_text",
    "kind_of",
    "read_file",
    "read_files",
    "read_jsonl",
]

_HOMES = {
    "SUFFIXES": "read",
    "Discovery": "discover",
    "FoundFile": "discover",
    "ReadOptions": "options",
    "chunk_document": "chunking",
    "embedding_text": "chunking",
    "kind_of": "read",
    "read_file": "read",
    "read_files": "workers",
    "read_jsonl": "jsonl",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

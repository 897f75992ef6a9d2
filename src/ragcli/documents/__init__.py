"""Files in, documents and chunks out.

`discover` finds the files, `read_files` reads them in worker processes (`read_file` in this one, `read_jsonl` lines
from anywhere), and `chunk_document` cuts a document into passages. The names are loaded when they are first used,
so that importing this package costs nothing. `discover` is named like its module and is imported from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragcli.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ragcli.documents.chunking import chunk_document, embedding_text
    from ragcli.documents.discovery import Discovery, FoundFile
    from ragcli.documents.formats.jsonl_parser import read_jsonl
    from ragcli.documents.parse_options import ReadOptions
    from ragcli.documents.parser_registry import FORMAT_OF_SUFFIX, kind_of, read_file
    from ragcli.documents.workers.parallel_parsing import read_files

__all__ = [
    "FORMAT_OF_SUFFIX",
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

__getattr__ = lazy_exports(
    __name__,
    {
        "chunking": "chunk_document embedding_text",
        "discovery": "Discovery FoundFile",
        "formats.jsonl_parser": "read_jsonl",
        "parse_options": "ReadOptions",
        "parser_registry": "FORMAT_OF_SUFFIX kind_of read_file",
        "workers.parallel_parsing": "read_files",
    },
)

"""One file in, its documents out.

A table of suffixes decides how a file is read. Reading happens in the calling process: `workers` is where a file
that hangs or crashes its reader is kept from costing more than itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from stat import S_ISREG
from types import MappingProxyType
from typing import BinaryIO, Literal

from ragcli.documents.options import AS_IT_COMES, ReadOptions, called, shown
from ragcli.errors import DocumentError
from ragcli.records import Document, Failure

Kind = Literal["pdf", "markdown", "text", "html", "jsonl"]

SUFFIXES: Mapping[str, Kind] = MappingProxyType(
    {
        ".pdf": "pdf",
        ".md": "markdown",
        ".markdown": "markdown",
        ".mdown": "markdown",
        ".mkd": "markdown",
        ".qmd": "markdown",
        ".rmd": "markdown",
        ".txt": "text",
        ".text": "text",
        ".rst": "text",
        ".org": "text",
        ".adoc": "text",
        ".tex": "text",
        ".html": "html",
        ".htm": "html",
        ".xhtml": "html",
        ".jsonl": "jsonl",
        ".ndjson": "jsonl",
    }
)
"""What is read, and as what. Suffixes are compared in lower case."""


def kind_of(path: Path) -> Kind | None:
    """How the file would be read by its suffix; None if it wouldn't be."""
    return SUFFIXES.get(path.suffix.lower())


def _opened(path: Path) -> BinaryIO:
    try:
        if not S_ISREG(path.stat().st_mode):
            raise DocumentError(f"{called(path)} is not a regular file, so it is not read.")
        return path.open("rb")
    except OSError as error:
        raise DocumentError(f"{called(path)} cannot be opened: {error.strerror or error}.") from error


def read_file(
    path: Path,
    options: ReadOptions = AS_IT_COMES,
    *,
    pages_known: Callable[[int, int], None] | None = None,
) -> Iterator[Document | Failure]:
    """The documents of one file: one, or many for JSONL, where a bad line gives a `Failure` and the rest go on.

    `pages_known` is told the number of a PDF's pages, and of those to be read by OCR, before they are read. Raises
    DocumentError, of which PasswordNeeded is one, if the file cannot be read.
    """
    kind = kind_of(path)
    if kind is None:
        raise DocumentError(f"{called(path)}: files ending in {path.suffix or 'nothing'!r} are not read.")
    if kind == "jsonl":
        from ragcli.documents.jsonl import read_jsonl

        with _opened(path) as lines:
            yield from read_jsonl(lines, shown(path))
        return
    with _opened(path) as file:
        data = file.read()
    if kind == "pdf":
        from ragcli.documents.pdf import read_pdf

        yield read_pdf(data, path, options, pages_known=pages_known)
    elif kind == "markdown":
        from ragcli.documents.markdown import read_markdown

        yield read_markdown(data, path)
    elif kind == "html":
        from ragcli.documents.html import read_html

        yield read_html(data, path)
    else:
        from ragcli.documents.plain import read_plain

        yield read_plain(data, path)

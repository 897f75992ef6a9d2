"""One file in, its documents out.

A table of suffixes decides how a file is read. Reading happens in the calling process: `workers` is where a file
that hangs or crashes its reader is kept from costing more than itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from ragcli.documents.content import open_regular
from ragcli.documents.limits import within_limits
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


def load(path: Path) -> bytes:
    """A file's bytes. Raises DocumentError if there are none to be had, or if it is no regular file."""
    with open_regular(path) as file:
        try:
            return file.read()
        except OSError as error:
            raise DocumentError(f"{called(path)} cannot be read: {error.strerror or error}.") from error


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
    if kind_of(path) == "jsonl":
        from ragcli.documents.jsonl import read_jsonl

        with open_regular(path) as lines:
            yield from read_jsonl(lines, shown(path))
    else:
        yield parse(load(path), path, options, pages_known=pages_known)


def parse(
    data: bytes,
    path: Path,
    options: ReadOptions = AS_IT_COMES,
    *,
    pages_known: Callable[[int, int], None] | None = None,
) -> Document:
    """The document in a file's bytes, which is read as its suffix says. Not for JSONL; otherwise as `read_file`."""
    kind = kind_of(path)
    if kind == "pdf":
        from ragcli.documents.pdf import read_pdf

        document = read_pdf(data, path, options, pages_known=pages_known)
    elif kind == "markdown":
        from ragcli.documents.markdown import read_markdown

        document = read_markdown(data, path)
    elif kind == "html":
        from ragcli.documents.html import read_html

        document = read_html(data, path)
    elif kind == "text":
        from ragcli.documents.plain import read_plain

        document = read_plain(data, path)
    else:
        if not path.suffix:
            raise DocumentError(f"{called(path)}: its name has no ending, such as .pdf or .md, that says what it is.")
        raise DocumentError(f"{called(path)}: files ending in {path.suffix!r} are not read.")
    return within_limits(document, called(path))

"""Parser registry: choose a document's parser by the suffix of its file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from ragcli.documents.file_access import display_name, open_regular_file, printable_path, read_bytes
from ragcli.documents.parse_options import DEFAULT_READ_OPTIONS, ReadOptions, apply_size_limits
from ragcli.errors import DocumentError
from ragcli.types import Document, Failure

DocumentFormat = Literal["pdf", "markdown", "text", "html", "jsonl"]

FORMAT_OF_SUFFIX: Mapping[str, DocumentFormat] = MappingProxyType(
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


PARSER_VERSIONS: Mapping[str, str] = MappingProxyType(dict.fromkeys(("pdf", "markdown", "text", "html", "jsonl"), "1"))
"""The version of each parser, raised when it makes another document of the same file; collections record it."""


def parser_version(kind: str) -> str:
    """The version of what reads documents of that kind now."""
    return PARSER_VERSIONS.get(kind, "")


def kind_of(path: Path) -> DocumentFormat | None:
    """How the file would be read by its suffix; None if it wouldn't be."""
    return FORMAT_OF_SUFFIX.get(path.suffix.lower())


def read_file(
    path: Path,
    options: ReadOptions = DEFAULT_READ_OPTIONS,
    *,
    on_page_count: Callable[[int, int], None] | None = None,
) -> Iterator[Document | Failure]:
    """The documents of one file: one, or many for JSONL, where a bad line gives a `Failure` and the rest go on.

    `pages_known` is told the number of a PDF's pages, and of those to be read by OCR, before they are read. Raises
    DocumentError, of which PasswordNeeded is one, if the file cannot be read.
    """
    if kind_of(path) == "jsonl":
        from ragcli.documents.formats.jsonl_parser import read_jsonl

        with open_regular_file(path) as lines:
            yield from read_jsonl(lines, printable_path(path))
    else:
        yield parse_document(read_bytes(path), path, options, on_page_count=on_page_count)


def parse_document(
    data: bytes,
    path: Path,
    options: ReadOptions = DEFAULT_READ_OPTIONS,
    *,
    on_page_count: Callable[[int, int], None] | None = None,
) -> Document:
    """The document in a file's bytes, which is read as its suffix says. Not for JSONL; otherwise as `read_file`."""
    kind = kind_of(path)
    if kind == "pdf":
        from ragcli.documents.pdf.pdf_parser import read_pdf

        document = read_pdf(data, path, options, on_page_count=on_page_count)
    elif kind == "markdown":
        from ragcli.documents.formats.markdown_parser import read_markdown

        document = read_markdown(data, path)
    elif kind == "html":
        from ragcli.documents.formats.html_parser import read_html

        document = read_html(data, path)
    elif kind == "text":
        from ragcli.documents.formats.plain_text_parser import read_plain_text

        document = read_plain_text(data, path)
    else:
        if not path.suffix:
            raise DocumentError(
                f"{display_name(path)}: its name has no ending, such as .pdf or .md, that says what it is."
            )
        raise DocumentError(f"{display_name(path)}: files ending in {path.suffix!r} are not read.")
    return apply_size_limits(document, display_name(path))

"""Parser registry: choose a document's parser by the suffix of its file.

Built-in parsers and those of installed packages (entry point group `ragcli.parsers`, see `ragcli.plugins`) are one
kind of function, `DocumentParser`. A plugin's name is the suffix that it reads, so that a file's type is known
without loading it; it is loaded in the worker process that meets the file, within the limits of time and memory that
hold for all. A suffix that is built in stays with its built-in parser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol

from ragcli.documents.file_access import display_name, open_regular_file, printable_path, read_bytes
from ragcli.documents.parse_options import DEFAULT_READ_OPTIONS, ReadOptions, apply_size_limits
from ragcli.errors import DocumentError
from ragcli.plugins import PLUGIN_PREFIX, Registry, find_plugin, installed_plugins, is_plugin_name, split_plugin_name
from ragcli.types import Document, Failure

PageCountListener = Callable[[int, int], None]


class DocumentParser(Protocol):
    """Turns the bytes of one file into documents."""

    def __call__(
        self, content: bytes, path: Path, options: ReadOptions, on_page_count: PageCountListener
    ) -> Iterable[Document]:
        """The documents in `content`; each of several has a `record_id` of its own. Their kind is the plugin's name.

        `path` is where the content was read from, for its name. `on_page_count(pages, pages for OCR)`, where the
        format has pages, is called before they are parsed: each page adds `options.timeout_per_page` to the time
        that the file may take. Raises DocumentError with a sentence if the file cannot be read; any other exception
        costs that file alone, too.
        """


FORMAT_OF_SUFFIX: Mapping[str, str] = MappingProxyType(
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
"""The suffixes that are built in, and the parser of each. Suffixes are compared in lower case."""


PARSER_VERSIONS: Final[Mapping[str, str]] = MappingProxyType(
    {"pdf": "1", "markdown": "1", "html": "1", "text": "1", "jsonl": "1"}
)
"""A built-in parser's version: raised when the same file gives other text, pages, headings or metadata."""


def _pdf_parser() -> DocumentParser:
    from ragcli.documents.pdf.pdf_parser import read_pdf

    return lambda content, path, options, on_page_count: [read_pdf(content, path, options, on_page_count=on_page_count)]


def _markdown_parser() -> DocumentParser:
    from ragcli.documents.formats.markdown_parser import read_markdown

    return lambda content, path, _options, _on_page_count: [read_markdown(content, path)]


def _html_parser() -> DocumentParser:
    from ragcli.documents.formats.html_parser import read_html

    return lambda content, path, _options, _on_page_count: [read_html(content, path)]


def _text_parser() -> DocumentParser:
    from ragcli.documents.formats.plain_text_parser import read_plain_text

    return lambda content, path, _options, _on_page_count: [read_plain_text(content, path)]


PARSERS: Final[Registry[DocumentParser]] = Registry(
    "parsers", {"pdf": _pdf_parser, "markdown": _markdown_parser, "html": _html_parser, "text": _text_parser}
)
"""Every parser of whole files. JSONL is read as a stream, see `documents.formats.jsonl_parser`."""


def kind_of(path: Path) -> str | None:
    """The name of the parser for the file's suffix, `plugin:SUFFIX` for a plugin's; None if it wouldn't be read.

    Where the suffix is not built in, the entry points of installed packages are looked at; nothing is loaded.
    """
    suffix = path.suffix.lower()
    if suffix in FORMAT_OF_SUFFIX or not suffix:
        return FORMAT_OF_SUFFIX.get(suffix)
    here = any((each.group, each.name) == ("parsers", suffix[1:]) for each in installed_plugins())
    return f"{PLUGIN_PREFIX}{suffix[1:]}" if here else None


def parser_version(kind: str) -> str:
    """The version of what parses documents of that kind now; a plugin's is that of its package, "" if it is gone.

    A document that a plugin parsed has the plugin's name as its kind.
    """
    if kind in PARSER_VERSIONS:
        return PARSER_VERSIONS[kind]
    plugin = find_plugin("parsers", kind)
    return plugin.version if plugin is not None else ""


def read_file(
    path: Path,
    options: ReadOptions = DEFAULT_READ_OPTIONS,
    *,
    on_page_count: PageCountListener | None = None,
) -> Iterator[Document | Failure]:
    """The documents of one file: one, or many for JSONL, where a bad line gives a `Failure` and the rest go on.

    `on_page_count` is told the number of a PDF's pages, and of those to be read by OCR, before they are read. Raises
    DocumentError, of which PasswordNeeded is one, if the file cannot be read.
    """
    if kind_of(path) == "jsonl":
        from ragcli.documents.formats.jsonl_parser import read_jsonl

        with open_regular_file(path) as lines:
            yield from read_jsonl(lines, printable_path(path))
    else:
        yield from parse_documents(read_bytes(path), path, options, on_page_count=on_page_count)


def parse_documents(
    content: bytes,
    path: Path,
    options: ReadOptions = DEFAULT_READ_OPTIONS,
    *,
    on_page_count: PageCountListener | None = None,
) -> list[Document]:
    """The documents in a file's bytes, parsed as its suffix says. Not for JSONL; errors as for `read_file`.

    Raises PluginError, too, if the suffix is a plugin's that cannot be loaded.
    """
    name, kind = display_name(path), kind_of(path)
    if kind is None:
        if not path.suffix:
            raise DocumentError(f"{name}: its name has no ending, such as .pdf or .md, that says what it is.")
        raise DocumentError(f"{name}: files ending in {path.suffix!r} are not read.")
    documents = PARSERS.get(kind)(content, path, options, on_page_count or _ignore_page_count)
    if is_plugin_name(kind):
        documents = _checked_documents(documents, name, kind)
    return [apply_size_limits(document, name) for document in documents]


def _checked_documents(documents: Iterable[object], name: str, kind: str) -> list[Document]:
    """What a plugin gave, if a collection can hold it. DocumentError says what it cannot."""
    from ragcli.documents.metadata_normalization import typed_metadata

    parser, _ = split_plugin_name(kind)
    plugin = find_plugin("parsers", parser)
    checked: list[Document] = []
    for each in documents:
        reason = _invalid_document_reason(each) if isinstance(each, Document) else f"a {type(each).__name__}"
        if not isinstance(each, Document) or reason is not None:
            raise DocumentError(f"{name} cannot be read: {plugin} gave {reason} in place of a document.")
        checked.append(replace(each, kind=parser, metadata=typed_metadata(each.metadata)))
    if len(checked) > 1 and len({each.record_id for each in checked} - {None, ""}) < len(checked):
        raise DocumentError(f"{name} cannot be read: {plugin} gave several documents without a record_id each.")
    return checked


def _invalid_document_reason(given: Document) -> str | None:
    if not isinstance(given.text, str):
        return "a text that is none"
    length = len(given.text)
    ranges = [*((page.start, page.end) for page in given.pages), *given.spans]
    ranges += [(start, start) for start in (*given.joins, *(heading.start for heading in given.headings))]
    if not all(0 <= start <= end <= length for start, end in ranges):
        return "pages, headings, spans or joins outside the text"
    return None


def _ignore_page_count(_pages: int, _pages_for_ocr: int) -> None:
    """Hears the number of pages where nothing limits the time that they may take."""

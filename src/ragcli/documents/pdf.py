"""PDF files: opening them, choosing the engine, and saying what could not be read.

PDFium reads text some twenty times as fast as pypdf, and it also gives the outline, the page labels and the file's
information at no further cost, while pypdf would parse the file a second time for them. So PDFium does it all, and
pypdf does it all where PDFium refuses the file or where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragcli.documents.characters import clean_line, plain, readable
from ragcli.documents.columns import settled
from ragcli.documents.flow import run_together
from ragcli.documents.furniture import without_furniture
from ragcli.documents.headings import OutlineEntry, find_headings
from ragcli.documents.lines import PageLines, median_size
from ragcli.documents.options import ReadOptions, called, password_sentence
from ragcli.documents.paper import describe
from ragcli.documents.pdfium import PageReader
from ragcli.documents.raw import RawPdf
from ragcli.documents.xmp import xmp_information
from ragcli.errors import DocumentError, PasswordNeeded
from ragcli.records import Document

if TYPE_CHECKING:
    from ragcli.documents.ocr import Recognizer

_PASSWORD_ERROR = 4
_LONGEST_OUTLINE = 5_000
_LONGEST_LABEL = 40


def read_pdf(
    data: bytes,
    path: Path,
    options: ReadOptions,
    *,
    pages_known: Callable[[int, int], None] | None = None,
) -> Document:
    """The document in a PDF's bytes. Raises DocumentError if it has no text, PasswordNeeded if it is locked."""
    name = called(path)
    if b"%PDF-" not in data[:1024]:
        raise DocumentError(f"{name} is not a PDF{_looks_like(data)}.")
    raw, warnings = _read_raw(data, name, options, pages_known)
    told = {key: value for key, value in raw.information.items() if value.strip()}
    raw = replace(raw, information={**xmp_information(data), **told})
    return _document(_presentable(raw), name, warnings, options)


def _read_raw(
    data: bytes, name: str, options: ReadOptions, pages_known: Callable[[int, int], None] | None
) -> tuple[RawPdf, list[str]]:
    if options.pdf_engine == "pdfium":
        opened = _open_pdfium(data, name, options.passwords)
        if not isinstance(opened, str):
            with closing(opened):
                return _by_pdfium(opened, name, options, pages_known), []
        refusal = opened
        try:
            from ragcli.documents.pypdf_engine import read_by_pypdf

            raw = read_by_pypdf(data, name, options, pages_known)
        except PasswordNeeded:
            raise
        except DocumentError:
            raise DocumentError(f"{name} cannot be read as a PDF: {refusal}.") from None
        return raw, [f"read by pypdf, because PDFium says: {refusal}"]
    from ragcli.documents.pypdf_engine import read_by_pypdf

    return read_by_pypdf(data, name, options, pages_known), []


def _open_pdfium(data: bytes, name: str, passwords: Sequence[str]) -> Any:
    """The opened document, or PDFium's reason for refusing it."""
    import pypdfium2

    for password in (None, *passwords):
        try:
            return pypdfium2.PdfDocument(data, password=password)
        except pypdfium2.PdfiumError as error:
            if getattr(error, "err_code", None) != _PASSWORD_ERROR:
                return _reason(str(error))
    raise PasswordNeeded(password_sentence(name, given=bool(passwords)))


def _by_pdfium(
    document: Any, name: str, options: ReadOptions, pages_known: Callable[[int, int], None] | None
) -> RawPdf:
    count = len(document)
    if pages_known is not None:
        pages_known(count, 0)
    labels = [_told(document.get_page_label, index) or None for index in range(count)]
    reader = PageReader()
    pages = [_page(document, index, label, reader) for index, label in enumerate(labels)]
    if options.ocr == "on":
        pages = _recognized(document, pages, name, pages_known)
    information = {key: told for key in document.METADATA_KEYS if (told := _told(document.get_metadata_value, key))}
    return RawPdf(tuple(pages), _outline(document), information)


def _page(document: Any, index: int, label: str | None, reader: PageReader) -> PageLines:
    import pypdfium2

    try:
        with closing(document[index]) as page:
            return reader.read(page, label)
    except pypdfium2.PdfiumError:  # a broken page costs itself
        return PageLines((), 612.0, 792.0, label)


def _presentable(raw: RawPdf) -> RawPdf:
    """Labels, bookmarks and information in characters that can be stored: a file may say anything in them."""
    return RawPdf(
        tuple(
            replace(page, label=clean_line(page.label)[:_LONGEST_LABEL] or None) if page.label else page
            for page in raw.pages
        ),
        tuple(replace(entry, title=clean_line(entry.title)) for entry in raw.outline),
        {key: plain(value)[0] for key, value in raw.information.items()},
    )


def _told(ask: Callable[..., str], *about: object) -> str:
    """What PDFium says, with U+FFFD for half a character, over which its Python wrapper stumbles."""
    try:
        return ask(*about)
    except UnicodeDecodeError as error:
        return error.object.decode("utf-16-le", "replace")


def _outline(document: Any) -> tuple[OutlineEntry, ...]:
    entries: list[OutlineEntry] = []
    for bookmark in document.get_toc():
        target = bookmark.get_dest()
        title = _told(bookmark.get_title)
        entries.append(OutlineEntry(bookmark.level + 1, title, target.get_index() if target else None))
        if len(entries) >= _LONGEST_OUTLINE:
            break
    return tuple(entries)


def has_text(page: PageLines) -> bool:
    """False for a page that is blank, scanned, or whose letters have no meaning outside their font."""
    return readable("".join(line.text for line in page.lines)) or any(map(readable, page.aside))


def _recognized(
    document: Any, pages: list[PageLines], name: str, pages_known: Callable[[int, int], None] | None
) -> list[PageLines]:
    _, silent = _own_text([settled(page) for page in pages])
    blank = sorted(silent)
    if not blank:
        return pages
    from ragcli.documents.ocr import open_recognizer

    if pages_known is not None:
        pages_known(len(pages), len(blank))
    recognizer: Recognizer = open_recognizer(name)
    out = list(pages)
    for index in blank:
        page = document[index]
        try:
            out[index] = recognizer.read(page, pages[index].label)
        finally:
            page.close()
    return out


def _document(raw: RawPdf, name: str, warnings: list[str], options: ReadOptions) -> Document:
    pages = [settled(page) for page in raw.pages]
    kept, silent = _own_text(pages)
    if len(silent) == len(pages):
        raise DocumentError(_no_text(name, len(pages), options))
    if silent:
        warnings.append(f"{len(silent)} of {len(pages)} pages have no text (scanned?)")
    furniture = [
        line.text for before, after in zip(pages[:2], kept[:2], strict=True) for line in _missing(before, after)
    ]
    kept = _plain_body(kept)
    body = median_size(kept)
    flow = run_together(kept, body)
    paper = describe(kept, furniture, flow, raw.information, body)
    return Document(
        text=flow.text,
        kind="pdf",
        title=paper.title,
        metadata=paper.metadata,
        pages=flow.pages,
        headings=find_headings(flow, raw.outline, body),
        joins=flow.joins,
        warnings=tuple(warnings),
    )


def _plain_body(pages: list[PageLines]) -> list[PageLines]:
    """The pages with nothing bold, if most of their text is: then bold means nothing in this document."""
    bold = sum(len(line.text) for page in pages for line in page.lines if line.bold)
    if 2 * bold < sum(len(line.text) for page in pages for line in page.lines):
        return pages
    return [replace(page, lines=tuple(replace(line, bold=False) for line in page.lines)) for page in pages]


def _own_text(pages: list[PageLines]) -> tuple[list[PageLines], set[int]]:
    """The pages without what is printed on every page, and the indexes of those that have no text of their own.

    A download stamp is not a scanned page's text. But if all pages say the same and nothing else, that is the text.
    """
    bare = without_furniture(pages)
    if not any(page.lines for page in bare):
        bare = pages
    silent = {
        index
        for index, (page, own) in enumerate(zip(pages, bare, strict=True))
        if not has_text(page) or (page.lines and not own.lines)
    }
    return [replace(page, lines=()) if index in silent else page for index, page in enumerate(bare)], silent


def _missing(before: PageLines, after: PageLines) -> list[Any]:
    if before is after:
        return []
    kept = set(map(id, after.lines))
    return [line for line in before.lines if id(line) not in kept]


def _no_text(name: str, count: int, options: ReadOptions) -> str:
    pages = "its one page has no text" if count == 1 else f"none of its {count} pages has text"
    if options.ocr == "on":
        return f"{name}: {pages}, and OCR found none either."
    return (
        f"{name}: {pages} (scanned?); `ragcli ingest --ocr` reads it, with the extra 'ocr' "
        "(pip install 'ragcli[ocr]') or the tesseract program."
    )


def _reason(message: str) -> str:
    """PDFium's words without its own name and full stop."""
    inside = message.rsplit("PDFium:", 1)[-1].strip(" ).")
    return inside[:1].lower() + inside[1:]


def _looks_like(data: bytes) -> str:
    start = data[:512].lstrip().lower()
    if not start:
        return ": it is empty"
    if start.startswith((b"<!doctype html", b"<html")):
        return ": it holds a web page, perhaps the download page instead of the paper"
    if start.startswith(b"%!ps"):
        return ": it is PostScript; convert it with ps2pdf"
    return ""

"""Parse PDF files: open them, choose the engine, extract text, report what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragcli.documents.character_repair import is_readable, repair_line, sanitize_text
from ragcli.documents.file_access import display_name
from ragcli.documents.parse_options import ReadOptions
from ragcli.documents.pdf.bibliographic_metadata import extract_paper_metadata, read_xmp
from ragcli.documents.pdf.heading_detection import find_headings
from ragcli.documents.pdf.page_layout import order_lines, remove_running_heads
from ragcli.documents.pdf.page_model import ExtractedPdf, OutlineEntry, PageLines, median_font_size, password_message
from ragcli.documents.pdf.pdfium_engine import PdfiumPageReader
from ragcli.documents.pdf.reflow import reflow
from ragcli.errors import DocumentError, PasswordNeeded
from ragcli.types import Document

if TYPE_CHECKING:
    from ragcli.documents.pdf.ocr import OcrEngine

_PASSWORD_ERROR = 4
_LONGEST_OUTLINE = 5_000
_LONGEST_LABEL = 40


def read_pdf(
    data: bytes,
    path: Path,
    options: ReadOptions,
    *,
    on_page_count: Callable[[int, int], None] | None = None,
) -> Document:
    """The document in a PDF's bytes. Raises DocumentError if it has no text, PasswordNeeded if it is locked."""
    name = display_name(path)
    if b"%PDF-" not in data[:1024]:
        raise DocumentError(f"{name} is not a PDF{_looks_like(data)}.")
    raw, warnings = _extract(data, name, options, on_page_count)
    told = {key: value for key, value in raw.information.items() if value.strip()}
    raw = replace(raw, information={**read_xmp(data), **told})
    return _document(_sanitized(raw), name, warnings, options)


def _extract(
    data: bytes, name: str, options: ReadOptions, on_page_count: Callable[[int, int], None] | None
) -> tuple[ExtractedPdf, list[str]]:
    if options.pdf_engine == "pdfium":
        opened = _open_pdfium(data, name, options.passwords)
        if not isinstance(opened, str):
            with closing(opened):
                return _extract_by_pdfium(opened, name, options, on_page_count), []
        refusal = opened
        try:
            from ragcli.documents.pdf.pypdf_engine import extract_by_pypdf

            raw = extract_by_pypdf(data, name, options, on_page_count)
        except PasswordNeeded:
            raise
        except DocumentError:
            raise DocumentError(f"{name} cannot be read as a PDF: {refusal}.") from None
        return raw, [f"read by pypdf, because PDFium says: {refusal}"]
    from ragcli.documents.pdf.pypdf_engine import extract_by_pypdf

    return extract_by_pypdf(data, name, options, on_page_count), []


def _open_pdfium(data: bytes, name: str, passwords: Sequence[str]) -> Any:
    """The opened document, or PDFium's reason for refusing it."""
    import pypdfium2

    for password in (None, *passwords):
        try:
            return pypdfium2.PdfDocument(data, password=password)
        except pypdfium2.PdfiumError as error:
            if getattr(error, "err_code", None) != _PASSWORD_ERROR:
                return _reason(str(error))
    raise PasswordNeeded(password_message(name, given=bool(passwords)))


def _extract_by_pdfium(
    document: Any, name: str, options: ReadOptions, on_page_count: Callable[[int, int], None] | None
) -> ExtractedPdf:
    count = len(document)
    if on_page_count is not None:
        on_page_count(count, 0)
    labels = [_pdfium_string(document.get_page_label, index) or None for index in range(count)]
    reader = PdfiumPageReader()
    pages = [_page(document, index, label, reader) for index, label in enumerate(labels)]
    if options.ocr == "on":
        pages = _with_ocr(document, pages, name, on_page_count)
    information = {
        key: told for key in document.METADATA_KEYS if (told := _pdfium_string(document.get_metadata_value, key))
    }
    return ExtractedPdf(tuple(pages), _outline(document), information)


def _page(document: Any, index: int, label: str | None, reader: PdfiumPageReader) -> PageLines:
    import pypdfium2

    try:
        with closing(document[index]) as page:
            return reader.read(page, label)
    except pypdfium2.PdfiumError:  # a broken page costs itself
        return PageLines((), 612.0, 792.0, label)


def _sanitized(raw: ExtractedPdf) -> ExtractedPdf:
    """Labels, bookmarks and information in characters that can be stored: a file may say anything in them."""
    return ExtractedPdf(
        tuple(
            replace(page, label=repair_line(page.label)[:_LONGEST_LABEL] or None) if page.label else page
            for page in raw.pages
        ),
        tuple(replace(entry, title=repair_line(entry.title)) for entry in raw.outline),
        {key: sanitize_text(value)[0] for key, value in raw.information.items()},
    )


def _pdfium_string(ask: Callable[..., str], *about: object) -> str:
    """What PDFium says, with U+FFFD for half a character, over which its Python wrapper stumbles."""
    try:
        return ask(*about)
    except UnicodeDecodeError as error:
        return error.object.decode("utf-16-le", "replace")


def _outline(document: Any) -> tuple[OutlineEntry, ...]:
    entries: list[OutlineEntry] = []
    for bookmark in document.get_toc():
        target = bookmark.get_dest()
        title = _pdfium_string(bookmark.get_title)
        entries.append(OutlineEntry(bookmark.level + 1, title, target.get_index() if target else None))
        if len(entries) >= _LONGEST_OUTLINE:
            break
    return tuple(entries)


def has_text(page: PageLines) -> bool:
    """False for a page that is blank, scanned, or whose letters have no meaning outside their font."""
    return is_readable("".join(line.text for line in page.lines)) or any(map(is_readable, page.aside))


def _with_ocr(
    document: Any, pages: list[PageLines], name: str, on_page_count: Callable[[int, int], None] | None
) -> list[PageLines]:
    _, silent = _own_text([order_lines(page) for page in pages])
    blank = sorted(silent)
    if not blank:
        return pages
    from ragcli.documents.pdf.ocr import open_ocr_engine

    if on_page_count is not None:
        on_page_count(len(pages), len(blank))
    recognizer: OcrEngine = open_ocr_engine(name)
    out = list(pages)
    for index in blank:
        page = document[index]
        try:
            out[index] = recognizer.read(page, pages[index].label)
        finally:
            page.close()
    return out


def _document(raw: ExtractedPdf, name: str, warnings: list[str], options: ReadOptions) -> Document:
    pages = [order_lines(page) for page in raw.pages]
    kept, silent = _own_text(pages)
    if len(silent) == len(pages):
        raise DocumentError(_no_text(name, len(pages), options))
    if silent:
        warnings.append(f"{len(silent)} of {len(pages)} pages have no text (scanned?)")
    running_heads = [
        line.text for before, after in zip(pages[:2], kept[:2], strict=True) for line in _removed_lines(before, after)
    ]
    kept = _without_body_bold(kept)
    body = median_font_size(kept)
    flow = reflow(kept, body)
    paper = extract_paper_metadata(kept, running_heads, flow, raw.information, body)
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


def _without_body_bold(pages: list[PageLines]) -> list[PageLines]:
    """The pages with nothing bold, if most of their text is: then bold means nothing in this document."""
    bold = sum(len(line.text) for page in pages for line in page.lines if line.bold)
    if 2 * bold < sum(len(line.text) for page in pages for line in page.lines):
        return pages
    return [replace(page, lines=tuple(replace(line, bold=False) for line in page.lines)) for page in pages]


def _own_text(pages: list[PageLines]) -> tuple[list[PageLines], set[int]]:
    """The pages without what is printed on every page, and the indexes of those that have no text of their own.

    A download stamp is not a scanned page's text. But if all pages say the same and nothing else, that is the text.
    """
    bare = remove_running_heads(pages)
    if not any(page.lines for page in bare):
        bare = pages
    silent = {
        index
        for index, (page, own) in enumerate(zip(pages, bare, strict=True))
        if not has_text(page) or (page.lines and not own.lines)
    }
    return [replace(page, lines=()) if index in silent else page for index, page in enumerate(bare)], silent


def _removed_lines(before: PageLines, after: PageLines) -> list[Any]:
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

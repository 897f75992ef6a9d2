"""Options of parsing, and the size limits on what a parser may return."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from ragcli.errors import DocumentError
from ragcli.text.characters import truncate
from ragcli.types import Document


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read. Times are seconds, memory is bytes; `workers` None means one for each core.

    No `workers` at all, 0, means to read in the caller's own process, where nothing limits time and memory and a crash
    is the caller's: for files that one has made oneself, and for debugging.

    A document may take `timeout` and `timeout_per_page` for each of its pages, a scanned page that is to be read by
    OCR `timeout_per_ocr_page` more.
    """

    pdf_engine: Literal["pdfium", "pypdf"] = "pdfium"
    ocr: Literal["off", "on"] = "off"
    passwords: tuple[str, ...] = ()
    timeout: float = 60.0
    timeout_per_page: float = 1.0
    timeout_per_ocr_page: float = 120.0
    memory_limit: int = 2 << 30
    workers: int | None = None

    def time_limit(self, pages: int, ocr_pages: int) -> float:
        """The seconds that a document of so many pages may take, `ocr_pages` of them scanned."""
        return self.timeout + self.timeout_per_page * pages + self.timeout_per_ocr_page * ocr_pages


DEFAULT_READ_OPTIONS = ReadOptions()
"""How a file is read when nothing is asked for."""


MAX_TEXT_CHARS: Final = 64_000_000
"""Characters in a document's text: some 25,000 printed pages."""
MAX_LINE_BYTES: Final = 64 << 20
"""Bytes in a line of a JSONL file."""
MAX_REPLY_BYTES: Final = 1 << 30
"""Bytes that a worker process may answer with."""
MAX_TITLE_CHARS: Final = 300
"""Characters of a title or heading; the text keeps all of it."""


def apply_size_limits(document: Document, name: str) -> Document:
    """The document, its title and headings cut to a length that can stand before a passage.

    Raises DocumentError if its text is longer than any document's.
    """
    if len(document.text) > MAX_TEXT_CHARS:
        raise DocumentError(
            f"{name} has {len(document.text):,} characters of text, and one document may have {MAX_TEXT_CHARS:,}; "
            "split it."
        )
    title = document.title and truncate(document.title, MAX_TITLE_CHARS)
    headings = (replace(each, title=truncate(each.title, MAX_TITLE_CHARS)) for each in document.headings)
    return replace(document, title=title, headings=tuple(headings))

"""Extract a PDF's text with pypdf: slower and without positions, for files that PDFium refuses."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Sequence
from typing import Any

from ragcli.documents.parse_options import ReadOptions
from ragcli.documents.pdf.page_model import ExtractedPdf, Line, OutlineEntry, PageLines, password_message
from ragcli.errors import DocumentError, PasswordNeeded


def extract_by_pypdf(
    data: bytes, name: str, options: ReadOptions, on_page_count: Callable[[int, int], None] | None
) -> ExtractedPdf:
    """Reads the whole file. Raises DocumentError with pypdf's reason if it can't."""
    import pypdf
    from pypdf.errors import DependencyError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # its warnings are about the file's innards
    try:
        reader = pypdf.PdfReader(io.BytesIO(data), strict=False)
        if reader.is_encrypted and not any(reader.decrypt(word) for word in ("", *options.passwords)):
            raise PasswordNeeded(password_message(name, given=bool(options.passwords)))
        count = len(reader.pages)
        if on_page_count is not None:
            on_page_count(count, 0)
        labels = _labels(reader, count)
        pages = tuple(_page(reader, index, labels[index]) for index in range(count))
        return ExtractedPdf(pages, _outline(reader), _information(reader))
    except DependencyError as error:
        raise DocumentError(f"{name} is encrypted in a way that pypdf cannot open here: {error}.") from error
    except (PasswordNeeded, MemoryError):
        raise
    except Exception as error:  # what pypdf raises on broken files is whatever Python raised inside it
        raise DocumentError(f"{name} cannot be read as a PDF: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")[:200] or type(error).__name__


def _page(reader: Any, index: int, label: str | None) -> PageLines:
    try:
        text = reader.pages[index].extract_text()
    except Exception:
        text = ""
    lines = tuple(Line(line.strip(), 0.0, 0.0, 0.0, 0.0) for line in text.splitlines() if line.strip())
    return PageLines(lines, 612.0, 792.0, label, placed=False)


def _labels(reader: Any, count: int) -> Sequence[str | None]:
    try:
        labels = list(reader.page_labels)
    except Exception:
        return [None] * count
    if labels == [str(number + 1) for number in range(count)]:  # what pypdf makes up where there are none
        return [None] * count
    return (labels + [None] * count)[:count]


def _information(reader: Any) -> dict[str, str]:
    try:
        found = reader.metadata or {}
        return {str(key).lstrip("/"): str(value) for key, value in found.items() if value}
    except Exception:
        return {}


def _outline(reader: Any) -> tuple[OutlineEntry, ...]:
    entries: list[OutlineEntry] = []

    def walk(nodes: Sequence[Any], level: int) -> None:
        for node in nodes:
            if isinstance(node, list):
                walk(node, level + 1)
            else:
                entries.append(OutlineEntry(level, str(node.title), reader.get_destination_page_number(node)))

    try:
        walk(reader.outline, 1)
    except Exception:
        return tuple(entries)
    return tuple(entries)

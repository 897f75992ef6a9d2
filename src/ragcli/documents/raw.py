"""What the PDF engines have in common: the value that each of them gives."""

from __future__ import annotations

from dataclasses import dataclass

from ragcli.documents.headings import OutlineEntry
from ragcli.documents.lines import PageLines


@dataclass(frozen=True, slots=True)
class RawPdf:
    """What an engine gives: pages, outline, and the file's own information."""

    pages: tuple[PageLines, ...]
    outline: tuple[OutlineEntry, ...]
    information: dict[str, str]

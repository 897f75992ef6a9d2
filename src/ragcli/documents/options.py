"""How documents are to be read, and how messages call them: what every reader needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


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


AS_IT_COMES = ReadOptions()
"""How a file is read when nothing is asked for."""


def shown(path: Path) -> str:
    """The path as it can be printed and stored, whatever bytes its name has."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def called(path: Path) -> str:
    """The file's name, as messages about it have it; where it lies is for the one who shows them to say."""
    return shown(Path(path.name))


def password_sentence(name: str, *, given: bool) -> str:
    """What to tell the owner of a locked document."""
    if given:
        return f"{name} is encrypted and none of the given passwords opens it."
    return f"{name} is encrypted; give its password with --password."

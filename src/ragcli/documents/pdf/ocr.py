"""Optical character recognition of pages without text, by RapidOCR or tesseract."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from ragcli.documents.pdf.page_model import Line, PageLines, median
from ragcli.errors import DocumentError

_DOTS_PER_INCH = 200
_LEAST_CONFIDENCE = 50.0
"""Tesseract's confidence, of 100, below which a word is noise. RapidOCR drops such lines itself."""

_Box = tuple[float, float, float, float]
"""Left, top, right, bottom in pixels from the picture's top left corner."""


class OcrEngine(Protocol):
    """Reads a PDFium page's picture."""

    def read(self, page: Any, label: str | None) -> PageLines:
        """The page's lines in reading order."""
        ...


def open_ocr_engine(name: str) -> OcrEngine:
    """The best recognizer that is installed. Raises DocumentError, naming the extra, if none is."""
    if _rapidocr_with_models():
        return _RapidOcr()
    program = shutil.which("tesseract")
    if program is not None:
        return _Tesseract(program)
    raise DocumentError(
        f"{name} has pages without text and nothing here can read pictures of text; "
        "install the extra 'ocr' (pip install 'ragcli[ocr]') or the tesseract program."
    )


def _rapidocr_with_models() -> bool:
    """True if RapidOCR and its models are here; without them it would want to download some."""
    found = find_spec("rapidocr")
    if found is None or found.origin is None:
        return False
    names = [model.name for model in Path(found.origin).with_name("models").glob("*.onnx")]
    return any("det" in name for name in names) and any("rec" in name for name in names)


class _RapidOcr:
    def __init__(self) -> None:
        from rapidocr import RapidOCR

        self._engine: Any = RapidOCR(params={"Global.log_level": "critical"})

    def read(self, page: Any, label: str | None) -> PageLines:
        """The page's lines in reading order."""
        picture = page.render(scale=_DOTS_PER_INCH / 72).to_numpy()
        found = self._engine(picture)
        width, height = page.get_size()
        if found.txts is None:
            return PageLines((), width, height, label)
        boxes = [(box[:, 0].min(), box[:, 1].min(), box[:, 0].max(), box[:, 1].max()) for box in found.boxes]
        return _page(list(zip(found.txts, boxes, strict=True)), width, height, label)


class _Tesseract:
    def __init__(self, program: str) -> None:
        self._program = program

    def read(self, page: Any, label: str | None) -> PageLines:
        """The page's lines in reading order."""
        picture = page.render(scale=_DOTS_PER_INCH / 72, grayscale=True).to_numpy()
        rows, columns = picture.shape[:2]
        width, height = page.get_size()
        done = subprocess.run(
            [self._program, "stdin", "stdout", "--dpi", str(_DOTS_PER_INCH), "tsv"],
            input=b"P5 %d %d 255\n" % (columns, rows) + picture.tobytes(),
            capture_output=True,
            check=False,
        )
        if done.returncode:
            reason = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise DocumentError(f"tesseract failed: {reason[-1] if reason else 'no reason given'}")
        return _page(_tesseract_lines(done.stdout.decode("utf-8", "replace")), width, height, label)


def _tesseract_lines(table: str) -> list[tuple[str, _Box]]:
    """The lines in tesseract's table of words."""
    lines: dict[tuple[str, ...], tuple[list[str], list[_Box]]] = {}
    for row in table.splitlines()[1:]:
        cells = row.split("\t")
        if len(cells) != 12 or cells[0] != "5" or not cells[11].strip() or float(cells[10]) < _LEAST_CONFIDENCE:
            continue
        left, top, width, height = map(float, cells[6:10])
        words, boxes = lines.setdefault(tuple(cells[2:5]), ([], []))
        words.append(cells[11])
        boxes.append((left, top, left + width, top + height))
    return [
        (
            " ".join(words),
            (min(b[0] for b in boxes), min(b[1] for b in boxes), max(b[2] for b in boxes), max(b[3] for b in boxes)),
        )
        for words, boxes in lines.values()
    ]


def _page(found: Sequence[tuple[str, _Box]], width: float, height: float, label: str | None) -> PageLines:
    """Lines in points. A box is as high as its tallest letter, so lines of about one height count as one size."""
    scale = 72 / _DOTS_PER_INCH
    usual = median(bottom - top for _, (_, top, _, bottom) in found) if found else 1.0
    lines: list[Line] = []
    for text, (left, top, right, bottom) in found:
        tall = bottom - top
        size = (usual if 0.7 * usual < tall < 1.35 * usual else tall) * scale * 0.75
        baseline = height - (bottom - 0.2 * tall) * scale
        lines.append(Line(text, float(left * scale), float(right * scale), float(baseline), float(size)))
    return PageLines(tuple(lines), width, height, label)

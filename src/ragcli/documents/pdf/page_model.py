"""Page model shared by the PDF engines and the layout: printed lines, pages, outline entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragcli.text.characters import SOFT_HYPHEN


@dataclass(frozen=True, slots=True)
class Line:
    """One printed line, or a piece of one: its words, left and right edge, baseline, and font size in points.

    Every engine's line-end hyphen becomes a soft hyphen: `text` ends with one where a word goes on in the next line.
    """

    text: str
    x0: float
    x1: float
    baseline: float
    size: float
    bold: bool = False

    @property
    def broken(self) -> bool:
        """True if the last word goes on in the next line."""
        return self.text.endswith(SOFT_HYPHEN)


@dataclass(frozen=True, slots=True)
class PageLines:
    """A page as an engine read it: lines in reading order, and the page's width and height in points.

    `placed` is False when the engine knows no positions; the lines then carry text only.
    """

    lines: tuple[Line, ...]
    width: float
    height: float
    label: str | None = None
    placed: bool = True
    may_have_image: bool = True
    """False where the page is known to show no picture, so that what little it says is all there is."""
    aside: tuple[str, ...] = ()
    """Texts that run in another direction than the page's, such as arXiv's stamp in the margin."""


def median(values: Iterable[float]) -> float:
    """The value in the middle, or the mean of the two in the middle; there must be one.

    Python's own is in a module that takes every reader some milliseconds to import.
    """
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def median_font_size(pages: Sequence[PageLines]) -> float:
    """The font size in which most of the document's letters are set; 0 if no engine told."""
    letters: dict[float, int] = {}
    for page in pages:
        for line in page.lines:
            letters[line.size] = letters.get(line.size, 0) + len(line.text)
    weight: dict[float, int] = {}
    for exact, count in letters.items():
        size = round(2 * exact) / 2
        weight[size] = weight.get(size, 0) + count
    total, passed = sum(weight.values()), 0
    for size in sorted(weight):
        passed += weight[size]
        if 2 * passed >= total:
            return size
    return 0.0


@dataclass(frozen=True, slots=True)
class ExtractedPdf:
    """What an engine gives: pages, outline, and the file's own information."""

    pages: tuple[PageLines, ...]
    outline: tuple[OutlineEntry, ...]
    information: dict[str, str]


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A bookmark: its depth from 1, its words, and its page's index from 0 if it says one."""

    level: int
    title: str
    page: int | None


def password_message(name: str, *, given: bool) -> str:
    """What to tell the owner of a locked document."""
    if given:
        return f"{name} is encrypted and none of the given passwords opens it."
    return f"{name} is encrypted; give its password with --password."

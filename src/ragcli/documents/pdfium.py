"""A PDF page as lines, by PDFium.

PDFium gives a page's text in one call and a character's box in another. A call per character costs as much as
parsing the page, so this asks for four characters of each line: the first and last for the left and right edge, the
middle one for size and height, and one near the end to tell a heading from one that runs into its paragraph. Only
where those contradict each other is a line read character by character: a line that ends left of where it began has
run into the next column.

Text in PDFium's own order is nearly always right, columns included, because it is the order in which the typesetter
wrote it. What it gets wrong is mended here and in `columns`: lines that span the gutter, words run together where a
font's space is narrower than PDFium expects, and text that runs up the margin.

PDFium puts U+FFFE (U+0002 in its other text calls) in place of a line-end hyphen, and no line break after it.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from ragcli.documents.lines import SOFT_HYPHEN, Line, PageLines

_FEW_PIECES = 8
"""A page of no more may be a scan with a stamp on it; only then is it worth looking for a picture."""
_BREAK = re.compile("\r\n|\ufffe")
_SPACE = re.compile(r"(?<=\S)\s+(?=\S)")
_WORD = re.compile(r"[^\W\d_]{5,}")
_SPACED_J = re.compile(r"(?<=[a-z]) (?=j[a-z])")
_BOLD = re.compile(r"bold|cmbx|medi(?!um)|black|heavy|demi", re.IGNORECASE)
_NOT_BOLD = re.compile(r"roman|regular|italic|oblique|book|light|medium|times|(?:^|\+)(?:cm|sf|lm|ec)[a-z]+\d", re.I)
_FEWEST_ROWS = 6
_FEWEST_LETTERS = 15
"""Fewer rows across a gap, or fewer letters on either side of it in a row, and it is a table's."""
_TYPICAL_SIZE = 2.1
"""A font's size over its letters' mean width, for fonts that don't tell their size."""
_NO_GAP = 0.1
"""A gap narrower than this part of the font size is no space, whatever PDFium makes of it."""
_WORD_GAP = 0.13
_BITMAP_GAP = 0.25
"""A gap wider than this part of the font size, inside what PDFium takes for one word, is a space it missed. Letters
of bitmap fonts have boxes of their ink only, so gaps are wider there."""


_Direction = tuple[int, int]
"""(1, 0) is left to right, (0, 1) is upwards."""


class PageReader:
    """Reads the lines of one page after another. Holds the C buffers, so make one per document."""

    def __init__(self) -> None:
        import pypdfium2.raw as raw

        self._raw: Any = raw
        self._rect = raw.FS_RECTF()
        self._matrix = raw.FS_MATRIX()
        self._name = ctypes.create_string_buffer(256)
        self._flags = ctypes.c_int()
        self._x, self._y = ctypes.c_double(), ctypes.c_double()
        self._last_size = 0.0
        self._bold_names: dict[bytes, bool | None] = {}
        self._sound: set[str] = set()

    def read(self, page: Any, label: str | None) -> PageLines:
        """The page's lines in PDFium's order, upright."""
        width, height = page.get_size()
        textpage = page.get_textpage()
        try:
            text = self._text(textpage.raw)
            pieces = list(self._pieces(text)) if text else []
            gutter = self._gutter(text, pieces, width) if text else None
            if text and gutter is not None:
                pieces = [part for piece in pieces for part in self._parted(text, piece, gutter)]
        finally:
            textpage.close()
        upright = _upright(pieces, width, height, label)
        return replace(upright, pictured=False) if len(pieces) <= _FEW_PIECES and not self._pictured(page) else upright

    def _pictured(self, page: Any) -> bool:
        return any(True for _ in page.get_objects(filter=[self._raw.FPDF_PAGEOBJ_IMAGE]))

    def _text(self, handle: Any) -> _PageText | None:
        raw = self._raw
        count = raw.FPDFText_CountChars(handle)
        if count <= 0:
            return None
        buffer = (ctypes.c_ushort * (2 * count + 2))()
        written = raw.FPDFText_GetText(handle, 0, count, buffer)
        text = bytes(memoryview(buffer).cast("B")[: 2 * max(0, written - 1)]).decode("utf-16-le", "surrogatepass")
        if not text:
            return None
        wide = max(text) > "\uffff"
        last = raw.FPDFText_GetCharIndexFromTextIndex(handle, len(text) - 1)
        return _PageText(handle, text, wide, same=not wide and last == len(text) - 1)

    def _pieces(self, page: _PageText) -> Iterator[_Piece]:
        text = page.text
        position = 0
        while position <= len(text):
            found = _BREAK.search(text, position)
            end, after = (found.start(), found.end()) if found else (len(text), len(text) + 1)
            soft = found is not None and found.group() == "\ufffe"
            start, stop = _stripped(text, position, end)
            if start < stop:
                yield from self._lines(page, start, stop, soft=soft)
            position = after

    def _box(self, page: _PageText, position: int) -> Any:
        self._raw.FPDFText_GetLooseCharBox(page.handle, self._index(page, position), self._rect)
        return self._rect

    def _index(self, page: _PageText, position: int) -> int:
        """PDFium's number for a character of the text."""
        if page.same:
            return position
        if page.wide:
            position = len(page.text[:position].encode("utf-16-le", "surrogatepass")) // 2
        return int(self._raw.FPDFText_GetCharIndexFromTextIndex(page.handle, position))

    def _lines(self, page: _PageText, start: int, end: int, *, soft: bool) -> Iterator[_Piece]:
        """The line text[start:end]; or several, where PDFium missed that it goes on in another column."""
        raw, text = self._raw, page.text
        middle = _small_letter(text, (start + end) // 2, end)
        index = self._index(page, middle)
        size = self._size(page, index)
        direction = _direction(self._matrix.a, self._matrix.b)
        raw.FPDFText_GetCharOrigin(page.handle, index, self._x, self._y)
        left, _, _ = _edges(self._box(page, start), direction)
        _, right, _ = _edges(self._box(page, end - 1), direction)
        likely = _TYPICAL_SIZE * abs(right - left) / (end - start)
        guessed = size < 0.4 * likely and size < 0.6 * _edges(self._box(page, middle), direction)[2]
        if guessed:  # a bitmap font, whose own numbers mean nothing
            size = likely
        if right < left - size:
            cut = self._jump(page, start, end, direction, size)
            if cut is not None:
                yield from self._lines(page, *_stripped(text, start, cut), soft=False)
                yield from self._lines(page, *_stripped(text, cut, end), soft=soft)
                return
        bold = self._bold(page, index)
        if end - start > 15 and (bold or size > 1.03 * self._last_size):
            late = self._index(page, _small_letter(text, end - 1 - (end - start) // 6, end))
            bold = bold and self._bold(page, late)
            if not guessed and 0.4 * size < (late_size := self._size(page, late)) < size:
                size = late_size  # a heading that runs into its paragraph
        least = (_BITMAP_GAP if guessed else _WORD_GAP) * size
        piece = self._spaced(page, start, end, size, least)
        if " j" in piece and len(piece) == end - start:
            piece = self._unspaced(page, start, end, size)
        if soft:
            piece += SOFT_HYPHEN
        self._last_size = size
        baseline = self._x.value if direction[1] else self._y.value
        line = Line(piece, left, max(left, right), baseline, max(size, 0.1), bold)
        yield _Piece(line, direction, start, end, soft, guessed)

    def _size(self, page: _PageText, index: int) -> float:
        """The size the character is printed in; leaves its matrix in `_matrix`."""
        matrix = self._matrix
        self._raw.FPDFText_GetMatrix(page.handle, index, matrix)
        return float(self._raw.FPDFText_GetFontSize(page.handle, index) * (matrix.c**2 + matrix.d**2) ** 0.5)

    def _gutter(self, page: _PageText, pieces: list[_Piece], width: float) -> float | None:
        """Where two columns are parted that PDFium reads straight across; None if it doesn't.

        A few wide lines are asked for their widest gap. A gutter is one that most of them have in the same place.
        """
        wide = [
            piece
            for piece in pieces
            if piece.direction == (1, 0) and piece.line.x1 - piece.line.x0 > 0.5 * width and len(piece.line.text) > 40
        ]
        if len(wide) < _FEWEST_ROWS or 3 * len(wide) < len(pieces):
            return None
        sample = wide[:: max(1, len(wide) // _FEWEST_ROWS)]
        if not any(self._widest_gap(page, piece) for piece in sample[1::3]):
            return None
        gaps = [gap for piece in sample if (gap := self._widest_gap(page, piece)) is not None]
        if 3 * len(gaps) < 2 * len(sample):
            return None
        gutter = min(right for _, right in gaps) - 1
        crossed = sum(1 for left, _ in gaps if left < gutter)
        return gutter if 3 * crossed >= 2 * len(sample) and 0.3 * width < gutter < 0.7 * width else None

    def _widest_gap(self, page: _PageText, piece: _Piece) -> tuple[float, float] | None:
        """The left and right edge of the line's widest space, if it is too wide for one between words."""
        best: tuple[float, float] | None = None
        for place, left, right in self._gaps(page, piece):
            if min(place - piece.start, piece.end - place) > _FEWEST_LETTERS and (
                best is None or right - left > best[1] - best[0]
            ):
                best = (left, right)
        return best if best is not None and best[1] - best[0] > 1.3 * piece.line.size else None

    def _gaps(self, page: _PageText, piece: _Piece) -> Iterator[tuple[int, float, float]]:
        """Each space in the line: its place in the text, and where the letters beside it end and begin."""
        for found in _SPACE.finditer(page.text, piece.start, piece.end):
            left = self._box(page, found.start() - 1).right
            yield found.start(), left, self._box(page, found.end()).left

    def _parted(self, page: _PageText, piece: _Piece, gutter: float) -> Iterator[_Piece]:
        """The line in two where it crosses the gutter in a wide space; else as it is."""
        if piece.direction == (1, 0) and piece.line.x0 < gutter < piece.line.x1:
            for place, left, right in self._gaps(page, piece):
                if left <= gutter + 1 and right >= gutter and right - left > 0.8 * piece.line.size:
                    yield from self._lines(page, *_stripped(page.text, piece.start, place), soft=False)
                    yield from self._lines(page, *_stripped(page.text, place, piece.end), soft=piece.soft)
                    return
        yield piece

    def _bold(self, page: _PageText, index: int) -> bool:
        """True if the font's name says so, or says nothing and has the weight, which PDFium guesses from its stems."""
        self._raw.FPDFText_GetFontInfo(page.handle, index, self._name, 255, self._flags)
        name = self._name.value
        if name not in self._bold_names:
            text = name.decode("latin-1")
            self._bold_names[name] = True if _BOLD.search(text) else False if _NOT_BOLD.search(text) else None
        told = self._bold_names[name]
        return self._raw.FPDFText_GetFontWeight(page.handle, index) >= 700 if told is None else told

    def _jump(self, page: _PageText, start: int, end: int, direction: _Direction, size: float) -> int | None:
        """Where in text[start:end] the pen went back by more than three letters after a space."""
        previous = _edges(self._box(page, start), direction)[0]
        for position in range(start + 1, end):
            if page.text[position].isspace():
                continue
            here = _edges(self._box(page, position), direction)[0]
            if here < previous - 3 * size and page.text[position - 1].isspace():
                return position
            previous = here
        return None

    def _unspaced(self, page: _PageText, start: int, end: int, size: float) -> str:
        """text[start:end] without the spaces PDFium sees before a j, which in some fonts reaches to the left."""
        out: list[str] = []
        done = start
        for found in _SPACED_J.finditer(page.text, start, end):
            right = self._box(page, found.start() - 1).right
            if self._box(page, found.end()).left - right < _NO_GAP * size:
                out.append(page.text[done : found.start()])
                done = found.end()
        out.append(page.text[done:end])
        return "".join(out)

    def _spaced(self, page: _PageText, start: int, end: int, size: float, least: float) -> str:
        """text[start:end] with the spaces that PDFium missed inside its words.

        A word that was once seen to be one isn't looked at again, so this costs little beyond a paper's vocabulary.
        """
        out: list[str] = []
        done = start
        for found in _WORD.finditer(page.text, start, end):
            if found.group() in self._sound:
                continue
            cuts = self._cuts(page, found.start(), found.end(), size, least)
            if not cuts:
                self._sound.add(found.group())
            for cut in cuts:
                out += page.text[done:cut], " "
                done = cut
        out.append(page.text[done:end])
        return "".join(out)

    def _cuts(self, page: _PageText, start: int, end: int, size: float, least: float) -> list[int]:
        """Where two letters of the word text[start:end] are at least `least` points farther apart than letters are."""
        gaps: list[float] = []
        previous = self._box(page, start).right
        for position in range(start + 1, end):
            box = self._box(page, position)
            gaps.append(box.left - previous)
            previous = box.right
        if abs(median(gaps)) > 0.08 * size:  # letter-spaced: every gap is wide
            return []
        return [start + 1 + place for place, gap in enumerate(gaps) if gap > least]


@dataclass(frozen=True, slots=True)
class _Piece:
    """A line, its direction, the part of the page's text that it is, whether its last word is broken, and whether
    its size is only guessed."""

    line: Line
    direction: _Direction
    start: int
    end: int
    soft: bool
    guessed: bool


@dataclass(frozen=True, slots=True)
class _PageText:
    """A page's text. PDFium counts UTF-16 units and Python code points; `wide` says that they differ here.

    PDFium's characters are numbered apart from its text, which leaves some out; `same` says that it doesn't here.
    """

    handle: Any
    text: str
    wide: bool
    same: bool


def _edges(box: Any, direction: _Direction) -> tuple[float, float, float]:
    """Where a character's box begins and ends along its own writing direction, and its height across that."""
    if direction == (1, 0):
        return box.left, box.right, box.top - box.bottom
    if direction == (-1, 0):
        return -box.right, -box.left, box.top - box.bottom
    if direction == (0, 1):
        return box.bottom, box.top, box.right - box.left
    return -box.top, -box.bottom, box.right - box.left


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _small_letter(text: str, place: int, end: int) -> int:
    """The first small letter from `place` on; capitals may be small capitals, which have a size of their own."""
    for position in range(place, min(place + 15, end)):
        if text[position].islower():
            return position
    while text[place].isspace():
        place += 1
    return place


def _direction(a: float, b: float) -> _Direction:
    """The writing direction, to the nearest right angle."""
    if abs(a) >= abs(b):
        return (1, 0) if a >= 0 else (-1, 0)
    return (0, 1) if b > 0 else (0, -1)


def _upright(pieces: list[_Piece], width: float, height: float, label: str | None) -> PageLines:
    """Turns the page so that most of its text runs left to right, and sets aside what then still runs otherwise.

    Lines come with positions along and across their own direction; what remains is to shift them onto the page.
    """
    weight: dict[_Direction, int] = {}
    for piece in pieces:
        weight[piece.direction] = weight.get(piece.direction, 0) + len(piece.line.text)
    main = max(weight, key=lambda direction: weight[direction]) if weight else (1, 0)
    along = 0.0 if sum(main) > 0 else (width if main[0] else height)
    turned, rise = {(1, 0): (1, 0.0), (-1, 0): (-1, height), (0, 1): (-1, width), (0, -1): (1, 0.0)}[main]
    guesses = [piece.line.size for piece in pieces if piece.guessed and len(piece.line.text) > 20]
    usual = median(guesses) if guesses else 0.0
    lines = [
        replace(piece.line, size=usual)
        if piece.guessed and 0.85 * usual < piece.line.size < 1.18 * usual
        else piece.line
        for piece in pieces
        if piece.direction == main
    ]
    if main != (1, 0):
        lines = [
            replace(line, x0=line.x0 + along, x1=line.x1 + along, baseline=rise + turned * line.baseline)
            for line in lines
        ]
    aside = tuple(piece.line.text for piece in pieces if piece.direction != main)
    if main[1]:
        width, height = height, width
    return PageLines(tuple(lines), width, height, label, aside=aside)

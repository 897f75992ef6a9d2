"""Extract the lines of a PDF page with PDFium, restoring spaces that PDFium missed."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from ragcli.documents.pdf.page_model import Line, PageLines, median
from ragcli.documents.pdf.pdfium_text import GlyphBox, PageText, PdfiumTextCalls, TextRange
from ragcli.text.characters import SOFT_HYPHEN

_FEW_PIECES = 8
"""A page of no more may be a scan with a stamp on it; only then is it worth looking for a picture."""
_BREAK = re.compile("\r\n|\ufffe")
_SPACE = re.compile(r"(?<=\S)\s+(?=\S)")
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


class PdfiumPageReader:
    """Reads the lines of one page after another. Holds the C buffers, so make one per document."""

    def __init__(self) -> None:
        self._calls = PdfiumTextCalls()
        self._spaces = MissingSpaceRepair()
        self._last_size = 0.0
        self._bold_names: dict[bytes, bool | None] = {}

    def read(self, page: Any, label: str | None) -> PageLines:
        """The page's lines in PDFium's order, upright."""
        width, height = page.get_size()
        textpage = page.get_textpage()
        try:
            text = PageText(self._calls, textpage.raw)
            self._spaces.load_page(text)
            pieces = self._pieces(text, _line_ranges(text.text))
            gutter = self._gutter(text, pieces, width)
            if gutter is not None:
                pieces = [part for piece in pieces for part in self._parted(text, piece, gutter)]
        finally:
            textpage.close()
        upright = _upright(pieces, width, height, label)
        return (
            replace(upright, may_have_image=False) if len(pieces) <= _FEW_PIECES and not _has_image(page) else upright
        )

    def _pieces(self, page: PageText, spans: Iterable[_LineRange]) -> list[_DirectedLine]:
        """The lines in these stretches of text; more of them, where PDFium missed that one goes on in a new column."""
        text = page.text
        filled = [span for span in (_stripped(text, span) for span in spans) if span.start < span.end]
        letters = [page.index(_middle(text, span)) for span in filled]
        measured = page.lines(letters, [span.start for span in filled], [span.end - 1 for span in filled])
        out: list[_DirectedLine] = []
        for span, letter, (size, numbers) in zip(filled, letters, measured, strict=True):
            piece = self._piece(page, span, letter, size, numbers)
            if isinstance(piece, _DirectedLine):
                out.append(piece)
            else:
                out += self._pieces(page, (span._replace(end=piece, soft=False), span._replace(start=piece)))
        return out

    def _piece(
        self, page: PageText, span: _LineRange, letter: int, size: float, numbers: tuple[float, ...]
    ) -> _DirectedLine | int:
        """The line, or where it goes on in another column. `letter` is the index of one that is `size` large, and
        `numbers` is what `PageText.lines` says beside."""
        start, end, soft = span
        a, b, _, _, _, _, x, y, left, _, _, _, _, _, right, _ = numbers
        direction = (1, 0) if a > abs(b) else _direction(a, b)
        if direction != (1, 0):
            left, _, _ = _edges(GlyphBox(*numbers[8:12]), direction)
            _, right, _ = _edges(GlyphBox(*numbers[12:]), direction)
        likely = _TYPICAL_SIZE * abs(right - left) / (end - start)
        guessed = size < 0.4 * likely and size < 0.6 * _edges(page.box(_middle(page.text, span)), direction)[2]
        if guessed:  # a bitmap font, whose own numbers mean nothing
            size = likely
        if right < left - size:
            cut = _column_jump(page, start, end, direction, size)
            if cut is not None:
                return cut
        bold = self._bold(page, letter)
        if end - start > 15 and (bold or size > 1.03 * self._last_size):
            late = page.index(_small_letter(page.text, end - 1 - (end - start) // 6, end))
            bold = bold and self._bold(page, late)
            if not guessed and 0.4 * size < (late_size := page.size(late)) < size:
                size = late_size  # a heading that runs into its paragraph
        words = self._spaces.insert_spaces(page, start, end, size, (_BITMAP_GAP if guessed else _WORD_GAP) * size)
        if " j" in words and len(words) == end - start:
            words = _without_spaces_before_j(page, start, end, size)
        if soft:
            words += SOFT_HYPHEN
        self._last_size = size
        line = Line(words, left, max(left, right), x if direction[1] else y, max(size, 0.1), bold)
        return _DirectedLine(line, direction, span, guessed)

    def _gutter(self, page: PageText, pieces: list[_DirectedLine], width: float) -> float | None:
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
        if not any(_widest_gap(page, piece) for piece in sample[1::3]):
            return None
        gaps = [gap for piece in sample if (gap := _widest_gap(page, piece)) is not None]
        if 3 * len(gaps) < 2 * len(sample):
            return None
        gutter = min(right for _, right in gaps) - 1
        crossed = sum(1 for left, _ in gaps if left < gutter)
        return gutter if 3 * crossed >= 2 * len(sample) and 0.3 * width < gutter < 0.7 * width else None

    def _parted(self, page: PageText, piece: _DirectedLine, gutter: float) -> list[_DirectedLine]:
        """The line in two where it crosses the gutter in a wide space; else as it is."""
        if piece.direction == (1, 0) and piece.line.x0 < gutter < piece.line.x1:
            for place, left, right in _gaps(page, piece):
                if left <= gutter + 1 and right >= gutter and right - left > 0.8 * piece.line.size:
                    span = piece.span
                    return self._pieces(page, (span._replace(end=place, soft=False), span._replace(start=place)))
        return [piece]

    def _bold(self, page: PageText, index: int) -> bool:
        """True if the font's name says so, or says nothing and has the weight, which PDFium guesses from its stems."""
        name = page.font(index)
        if name not in self._bold_names:
            text = name.decode("latin-1")
            self._bold_names[name] = True if _BOLD.search(text) else False if _NOT_BOLD.search(text) else None
        told = self._bold_names[name]
        return page.weight(index) >= 700 if told is None else told


def _has_image(page: Any) -> bool:
    from pypdfium2 import raw

    return any(True for _ in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE]))


def _widest_gap(page: PageText, piece: _DirectedLine) -> tuple[float, float] | None:
    """The left and right edge of the line's widest space, if it is too wide for one between words."""
    best: tuple[float, float] | None = None
    for place, left, right in _gaps(page, piece):
        if min(place - piece.span.start, piece.span.end - place) > _FEWEST_LETTERS and (
            best is None or right - left > best[1] - best[0]
        ):
            best = (left, right)
    return best if best is not None and best[1] - best[0] > 1.3 * piece.line.size else None


def _gaps(page: PageText, piece: _DirectedLine) -> Iterator[tuple[int, float, float]]:
    """Each space in the line: its place in the text, and where the letters beside it end and begin."""
    for found in _SPACE.finditer(page.text, piece.span.start, piece.span.end):
        yield found.start(), page.box(found.start() - 1).right, page.box(found.end()).left


def _column_jump(page: PageText, start: int, end: int, direction: _Direction, size: float) -> int | None:
    """Where in text[start:end] the pen went back by more than three letters after a space."""
    previous = _edges(page.box(start), direction)[0]
    for position in range(start + 1, end):
        if page.text[position].isspace():
            continue
        here = _edges(page.box(position), direction)[0]
        if here < previous - 3 * size and page.text[position - 1].isspace():
            return position
        previous = here
    return None


def _without_spaces_before_j(page: PageText, start: int, end: int, size: float) -> str:
    """text[start:end] without the spaces PDFium sees before a j, which in some fonts reaches to the left."""
    out: list[str] = []
    done = start
    for found in _SPACED_J.finditer(page.text, start, end):
        if page.box(found.end()).left - page.box(found.start() - 1).right < _NO_GAP * size:
            out.append(page.text[done : found.start()])
            done = found.end()
    out.append(page.text[done:end])
    return "".join(out)


class _LineRange(NamedTuple):
    """A stretch of a page's text, text[start:end], and whether its last word is broken."""

    start: int
    end: int
    soft: bool


class _DirectedLine(NamedTuple):
    """A line, its direction, the part of the page's text that it is, and whether its size is only guessed."""

    line: Line
    direction: _Direction
    span: _LineRange
    guessed: bool


def _edges(box: GlyphBox, direction: _Direction) -> tuple[float, float, float]:
    """Where a character's box begins and ends along its own writing direction, and its height across that."""
    left, top, right, bottom = box
    if direction == (1, 0):
        return left, right, top - bottom
    if direction == (-1, 0):
        return -right, -left, top - bottom
    if direction == (0, 1):
        return bottom, top, right - left
    return -top, -bottom, right - left


def _line_ranges(text: str) -> Iterator[_LineRange]:
    """The stretches of text between PDFium's line breaks."""
    start = 0
    for found in _BREAK.finditer(text):
        yield _LineRange(start, found.start(), found.group() == "\ufffe")
        start = found.end()
    yield _LineRange(start, len(text), soft=False)


def _stripped(text: str, span: _LineRange) -> _LineRange:
    start, end, soft = span
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return span if end - start == span.end - span.start else _LineRange(start, end, soft)


def _middle(text: str, span: _LineRange) -> int:
    """The place of a letter that is as large as most of the line."""
    return _small_letter(text, (span.start + span.end) // 2, span.end)


def _small_letter(text: str, place: int, end: int) -> int:
    """The first small letter from `place` on; capitals may be small capitals, which have a size of their own."""
    if text[place].islower():
        return place
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


def _upright(pieces: list[_DirectedLine], width: float, height: float, label: str | None) -> PageLines:
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


_RUN = re.compile("[A-Za-z\u00aa-\U0010ffff]{5,}")
"""What has the words in it; much faster to find than they are."""
_LONG_WORD = re.compile(r"[^\W\d_]{5,}")


class MissingSpaceRepair:
    """Puts them into the lines of one page after another; make one per document."""

    def __init__(self) -> None:
        self._sound: set[str] = set()
        self._words: list[TextRange] = []
        self._gaps: dict[str, list[float]] = {}

    def load_page(self, page: PageText) -> None:
        """Looks for the page's unknown words and measures them. Its lines come next."""
        text, sound = page.text, self._sound
        words: list[TextRange] = []
        for found in _RUN.finditer(text):
            run = found.group()
            if run in sound:
                continue
            if run.isalpha():
                words.append(found.span())
            else:
                inner = map(re.Match.span, _LONG_WORD.finditer(text, *found.span()))
                words += [span for span in inner if text[slice(*span)] not in sound]
        first = {text[start:end]: (start, end) for start, end in reversed(words)}
        self._gaps = dict(zip(first, page.gaps(list(first.values())), strict=True))
        self._words = words

    def insert_spaces(self, page: PageText, start: int, end: int, size: float, least: float) -> str:
        """The page's text[start:end] with its missed spaces: where letters of a word are farther apart than `least`.

        `size` is the letters'; both in points.
        """
        text, words = page.text, self._words
        number = bisect_left(words, (start, start))
        if number == len(words) or words[number][0] >= end:
            return text[start:end]
        out: list[str] = []
        done = start
        while number < len(words) and words[number][0] < end:
            place, after = words[number]
            number += 1
            word = text[place:after]
            if word in self._sound:
                continue
            gaps = self._gaps.pop(word, None) or next(page.gaps([(place, after)]))
            cuts = _wide_gap_positions(gaps, size, least)
            if not cuts:
                self._sound.add(word)
            for cut in cuts:
                out += text[done : place + cut], " "
                done = place + cut
        out.append(text[done:end])
        return "".join(out)


def _wide_gap_positions(gaps: list[float], size: float, least: float) -> list[int]:
    """The places in a word where letters are at least `least` points farther apart than letters are."""
    if max(gaps) <= least or abs(median(gaps)) > 0.08 * size:  # letter-spaced: every gap is wide
        return []
    return [place for place, gap in enumerate(gaps, 1) if gap > least]

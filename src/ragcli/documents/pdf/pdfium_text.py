"""Batched ctypes calls to PDFium's text API: a page's text, glyph boxes, font sizes and weights."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import sub
from struct import Struct
from typing import Any, NamedTuple

_NAME = 255
"""Bytes of a font's name that are looked at."""
_ROOM_FOR_TEXT = 8_192
_ROOM_FOR_BOXES = 512
_ROOM_FOR_LINES = 64
_BOX = Struct("=4f")
_LINE = Struct("=6f2d4f4f")
"""A letter's matrix and origin, and two boxes."""

TextRange = tuple[int, int]
"""A stretch of a page's text: text[start:end]."""
MeasuredLine = tuple[float, tuple[float, ...]]
"""How a line is printed: the size of one of its letters; and that letter's matrix (six numbers) and origin (two) and
the boxes of the line's first and last character (four numbers each, see `GlyphBox`) in one row."""


class GlyphBox(NamedTuple):
    """Where a character stands: the edges of its advance, which is wider than its ink, in points."""

    left: float
    top: float
    right: float
    bottom: float


class PdfiumTextCalls:
    """The calls, and the buffers they write to. Make one per document; it serves one page after another."""

    def __init__(self) -> None:
        from pypdfium2 import raw

        self.count = _bound(raw.FPDFText_CountChars)
        self.text = _bound(raw.FPDFText_GetText)
        self.index = _bound(raw.FPDFText_GetCharIndexFromTextIndex)
        self.box = _bound(raw.FPDFText_GetLooseCharBox)
        self.matrix = _bound(raw.FPDFText_GetMatrix)
        self.size = _bound(raw.FPDFText_GetFontSize, ctypes.c_double)
        self.origin = _bound(raw.FPDFText_GetCharOrigin)
        self.font = _bound(raw.FPDFText_GetFontInfo)
        self.weight = _bound(raw.FPDFText_GetFontWeight)
        self.name = ctypes.create_string_buffer(_NAME + 1)
        self.one_matrix = (ctypes.c_float * 6)()
        self.make_room_for_text(_ROOM_FOR_TEXT)
        self.make_room_for_boxes(_ROOM_FOR_BOXES)
        self.make_room_for_lines(_ROOM_FOR_LINES)

    def make_room_for_text(self, units: int) -> None:
        """Makes the buffer hold that many UTF-16 units."""
        self.text_buffer = (ctypes.c_ushort * units)()
        self.text_bytes = memoryview(self.text_buffer).cast("B")

    def make_room_for_boxes(self, count: int) -> None:
        """Makes the buffer hold that many boxes."""
        boxes = ctypes.create_string_buffer(_BOX.size * count)
        self.box_floats = memoryview(boxes).cast("B").cast("f")
        self.box_places = [ctypes.byref(boxes, at) for at in range(0, _BOX.size * count, _BOX.size)]

    def make_room_for_lines(self, count: int) -> None:
        """Makes the buffer hold what is told of that many lines."""
        lines = ctypes.create_string_buffer(_LINE.size * count)
        self.line_bytes = memoryview(lines)
        self.matrix_places, self.x_places, self.y_places, self.first_places, self.last_places = (
            [ctypes.byref(lines, at) for at in range(first, _LINE.size * count, _LINE.size)]
            for first in (0, 24, 32, 40, 56)
        )


def _bound(function: Any, result: Any = ctypes.c_int) -> Any:
    """The same C function, its arguments passed on unchecked."""
    return ctypes.CFUNCTYPE(result)(ctypes.cast(function, ctypes.c_void_p).value or 0)


def _make(calls: Iterable[object]) -> None:
    """Makes the calls that a `map` stands for."""
    deque(calls, maxlen=0)


class PageText:
    """One page's `text` and its characters' boxes, sizes and fonts.

    Places are those of Python's string. PDFium counts UTF-16 units instead, and numbers its characters apart from
    its text, which leaves some out: what is asked of one character is asked by its `index`.
    """

    __slots__ = ("_calls", "_handle", "_same", "_wide", "text")

    def __init__(self, calls: PdfiumTextCalls, handle: Any) -> None:
        self._calls, self._handle = calls, handle
        count = calls.count(handle)
        if 2 * count + 2 > len(calls.text_buffer):
            calls.make_room_for_text(4 * count)
        written = calls.text(handle, 0, count, calls.text_buffer) if count > 0 else 0
        self.text = str(calls.text_bytes[: 2 * max(0, written - 1)], "utf-16-le", "surrogatepass")
        self._wide = self._same = False
        if self.text:
            last = len(self.text) - 1
            self._wide = max(self.text) > "\uffff"
            self._same = not self._wide and calls.index(handle, last) == last

    def index(self, place: int) -> int:
        """PDFium's number for a character of the text."""
        if self._same:
            return place
        if self._wide:
            place = len(self.text[:place].encode("utf-16-le", "surrogatepass")) // 2
        return int(self._calls.index(self._handle, place))

    def box(self, place: int) -> GlyphBox:
        """The box of the character text[place]."""
        calls = self._calls
        calls.box(self._handle, self.index(place), calls.box_places[0])
        return GlyphBox(*calls.box_floats[:4])

    def gaps(self, words: Sequence[TextRange]) -> Iterator[list[float]]:
        """For each word, how far each of its characters but the first is from the one before it, in points."""
        calls, count = self._calls, sum(end - start for start, end in words)
        if count > len(calls.box_places):
            calls.make_room_for_boxes(2 * count)
        _make(map(calls.box, repeat(self._handle), self._numbers(words), calls.box_places))
        edges = calls.box_floats[: 4 * count].tolist()
        gaps = list(map(sub, edges[4::4], edges[2::4]))
        at = 0
        for start, end in words:
            yield gaps[at : at + end - start - 1]
            at += end - start

    def _numbers(self, words: Iterable[TextRange]) -> Iterable[int]:
        """PDFium's numbers for the characters of the words."""
        if self._same:
            return chain.from_iterable(range(start, end) for start, end in words)
        return chain.from_iterable(map(self._numbers_of_one, words))

    def _numbers_of_one(self, word: TextRange) -> Iterable[int]:
        start, end = word
        first, last = self.index(start), self.index(end - 1)
        return range(first, last + 1) if last - first == end - 1 - start else map(self.index, range(start, end))

    def lines(self, letters: Sequence[int], starts: Sequence[int], lasts: Sequence[int]) -> list[MeasuredLine]:
        """How lines are printed, for each a letter by its index, and its first and last character by their places."""
        calls, handle = self._calls, repeat(self._handle)
        if len(letters) > len(calls.matrix_places):
            calls.make_room_for_lines(2 * len(letters))
        if not self._same:
            starts, lasts = list(map(self.index, starts)), list(map(self.index, lasts))
        _make(map(calls.matrix, handle, letters, calls.matrix_places))
        _make(map(calls.origin, handle, letters, calls.x_places, calls.y_places))
        _make(map(calls.box, handle, starts, calls.first_places))
        _make(map(calls.box, handle, lasts, calls.last_places))
        rows = _LINE.iter_unpack(calls.line_bytes[: _LINE.size * len(letters)])
        sizes = map(calls.size, handle, letters)
        return [(size * (row[2] ** 2 + row[3] ** 2) ** 0.5, row) for size, row in zip(sizes, rows, strict=True)]

    def size(self, index: int) -> float:
        """The size in points in which a character is printed."""
        calls = self._calls
        calls.matrix(self._handle, index, calls.one_matrix)
        _, _, c, d, _, _ = calls.one_matrix
        return float(calls.size(self._handle, index) * (c**2 + d**2) ** 0.5)

    def font(self, index: int) -> bytes:
        """The name of a character's font."""
        calls = self._calls
        calls.font(self._handle, index, calls.name, _NAME, None)
        return calls.name.value

    def weight(self, index: int) -> int:
        """The weight of a character's font, as PDFium guesses it from its stems; 400 is normal."""
        return int(self._calls.weight(self._handle, index))

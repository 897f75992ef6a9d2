"""A page's text and where its characters stand, as PDFium tells it, in the fewest and cheapest calls.

Half of what it costs Python to call C through ctypes is the checking of arguments against their declared types. The
functions bound here have none declared and are given what C takes as it is: a pointer, a number, a place to write
to. A paper needs some ten thousand of these calls, so that matters. They write into buffers that are made once and
are read many floats at a time.
"""

from __future__ import annotations

import ctypes
from itertools import repeat
from operator import sub
from struct import Struct
from typing import Any, NamedTuple

_NAME = 255
"""Bytes of a font's name that are looked at."""
_BOX = 16
"""Bytes of a box: four floats."""
_ROOM_FOR_TEXT = 8_192
_ROOM_FOR_BOXES = 64
_LINE = Struct("=6f2d4f4f")
"""A letter's matrix and origin, a first and a last box, as PDFium writes them into one buffer."""
_MATRIX, _X, _Y, _FIRST, _LAST = 0, 24, 32, 40, 56


class Box(NamedTuple):
    """Where a character stands: the edges of its advance, which is wider than its ink, in points."""

    left: float
    top: float
    right: float
    bottom: float


class TextCalls:
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
        self.line = ctypes.create_string_buffer(_LINE.size)
        self.line_places = [ctypes.byref(self.line, place) for place in (_MATRIX, _X, _Y, _FIRST, _LAST)]
        self.make_room_for_boxes(_ROOM_FOR_BOXES)
        self.make_room_for_text(_ROOM_FOR_TEXT)

    def make_room_for_boxes(self, count: int) -> None:
        """Makes the buffer hold that many boxes."""
        boxes = (ctypes.c_float * (4 * count))()
        self.box_floats = memoryview(boxes).cast("B").cast("f")
        self.box_places = [ctypes.byref(boxes, _BOX * place) for place in range(count)]

    def make_room_for_text(self, units: int) -> None:
        """Makes the buffer hold that many UTF-16 units."""
        self.text_buffer = (ctypes.c_ushort * units)()
        self.text_bytes = memoryview(self.text_buffer).cast("B")


def _bound(function: Any, result: Any = ctypes.c_int) -> Any:
    """The same C function, its arguments passed on unchecked."""
    return ctypes.CFUNCTYPE(result)(ctypes.cast(function, ctypes.c_void_p).value or 0)


class PageText:
    """One page's `text` and its characters' boxes, sizes and fonts.

    Places are those of Python's string. PDFium counts UTF-16 units instead, and numbers its characters apart from
    its text, which leaves some out: what is asked of one character is asked by its `index`.
    """

    __slots__ = ("_calls", "_handle", "_same", "_wide", "text")

    def __init__(self, calls: TextCalls, handle: Any) -> None:
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

    def box(self, place: int) -> Box:
        """The box of the character text[place]."""
        calls = self._calls
        calls.box(self._handle, self.index(place), calls.box_places[0])
        return Box(*calls.box_floats[:4])

    def gaps(self, start: int, end: int) -> list[float]:
        """How far each character of text[start:end] but the first is from the one before it, in points."""
        calls, count = self._calls, end - start
        if count > len(calls.box_places):
            calls.make_room_for_boxes(2 * count)
        numbers: Any = range(start, end)
        if not self._same:
            first = self.index(start)
            together = self.index(end - 1) - first == count - 1
            numbers = range(first, first + count) if together else map(self.index, numbers)
        list(map(calls.box, repeat(self._handle), numbers, calls.box_places))
        edges = calls.box_floats[: 4 * count].tolist()
        return list(map(sub, edges[4::4], edges[2:-4:4]))

    def line(self, index: int, start: int, last: int) -> tuple[float, ...]:
        """What tells how a line is printed: size, first column of the matrix and origin of the letter `index`, and
        the boxes of the characters text[start] and text[last], as one row of numbers."""
        calls, handle = self._calls, self._handle
        matrix, x, y, first_box, last_box = calls.line_places
        if not self._same:
            start, last = self.index(start), self.index(last)
        calls.matrix(handle, index, matrix)
        calls.origin(handle, index, x, y)
        calls.box(handle, start, first_box)
        calls.box(handle, last, last_box)
        a, b, c, d, _, _, *others = _LINE.unpack(calls.line)
        return calls.size(handle, index) * (c**2 + d**2) ** 0.5, a, b, *others

    def size(self, index: int) -> float:
        """The size in points in which a character is printed."""
        calls = self._calls
        calls.matrix(self._handle, index, calls.line_places[0])
        _, _, c, d, *_ = _LINE.unpack(calls.line)
        return float(calls.size(self._handle, index) * (c**2 + d**2) ** 0.5)

    def font(self, index: int) -> bytes:
        """The name of a character's font."""
        calls = self._calls
        calls.font(self._handle, index, calls.name, _NAME, None)
        return calls.name.value

    def weight(self, index: int) -> int:
        """The weight of a character's font, as PDFium guesses it from its stems; 400 is normal."""
        return int(self._calls.weight(self._handle, index))

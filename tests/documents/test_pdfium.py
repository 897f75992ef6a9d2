"""What PDFium tells of a page is read right, however much of it there is and however its characters are numbered."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support import pdfs

from ragcli.documents import read_file
from ragcli.types import Document

WIDTHS = [500] * 95
"""Those of a font from the space to the tilde. PDFium misses a space before the M, because its width is so great."""
WIDTHS[0], WIDTHS[ord("M") - 32] = 400, 889
WIDE_SPACE = f"/FirstChar 32 /LastChar 126 /Widths [{' '.join(map(str, WIDTHS))}]"
OUTSIDE_THE_BMP = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap
1 begincodespacerange <00> <FF> endcodespacerange
1 beginbfrange <20> <7A> <0020> endbfrange
1 beginbfchar <7E> <D835DC00> endbfchar
endcmap end end"""
"""Letters are themselves, and a tilde is a mathematical bold A, which is two units of UTF-16."""


def text_of(path: Path) -> str:
    (document,) = read_file(path)
    assert isinstance(document, Document)
    return document.text


def spaced(path: Path, content: str, *, mapped: bool) -> str:
    more = [b"<< /Length %d >>\nstream\n%s\nendstream" % (len(OUTSIDE_THE_BMP), OUTSIDE_THE_BMP)] if mapped else []
    font = f"{WIDE_SPACE} /ToUnicode 6 0 R" if mapped else WIDE_SPACE
    return text_of(pdfs.raw_pdf(path, f"BT /F1 10 Tf 72 700 Td {content} ET", font=font, more=more))


def word(number: int, length: int = 9) -> str:
    """A word of letters only, another for each number."""
    return "".join(chr(ord("a") + (number // 26**place + place) % 26) for place in range(length))


def test_a_dense_page_keeps_every_word(tmp_path: Path) -> None:
    lines = [" ".join(word(7 * row + column) for column in range(7)) for row in range(150)]
    lines[70] = word(1, 700)
    shown = "".join(f"({line}) Tj T*\n" for line in lines)
    text = text_of(pdfs.raw_pdf(tmp_path / "dense.pdf", f"BT /F1 4 Tf 5 TL 20 780 Td\n{shown}ET"))
    assert len(text) > 10_000
    assert text.split() == " ".join(lines).split()


@pytest.mark.parametrize("mapped", [False, True])
def test_a_space_that_pdfium_misses_is_put_in(tmp_path: Path, *, mapped: bool) -> None:
    path = tmp_path / "a.pdf"
    assert spaced(path, "[(The wormhole) -140 (Metric)] TJ", mapped=mapped) == "The wormhole Metric"
    assert spaced(path, "[(The wormhole) -110 (Metric)] TJ", mapped=mapped) == "The wormholeMetric"


def test_letters_outside_the_basic_plane_do_not_shift_what_is_told_of_those_behind_them(tmp_path: Path) -> None:
    found = spaced(tmp_path / "a.pdf", "[(~~~~~ The wormhole) -140 (Metric ~)] TJ", mapped=True)
    assert found == "\U0001d400\U0001d400\U0001d400\U0001d400\U0001d400 The wormhole Metric \U0001d400"


def test_letter_spaced_words_stay_whole(tmp_path: Path) -> None:
    apart = " -140 ".join(["(M)"] * 8)
    assert spaced(tmp_path / "a.pdf", f"[(The wormhole ) {apart}] TJ", mapped=False) == "The wormhole MMMMMMMM"

"""Cleaning: what is mended stays mended, nothing that was written is lost, and places stay right.

Hypothesis writes the lines, from what PDFs really contain: spacing accents, old TeX codes, ligatures, odd spaces.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragcli.documents.character_repair import repair_line, sanitize_text, tex_ligature_codes
from ragcli.documents.pdf.page_layout import order_lines, remove_running_heads
from ragcli.documents.pdf.page_model import Line, PageLines, median_font_size
from ragcli.documents.pdf.reflow import reflow

ODD = (
    "´¨˝ˇ˘¸˚ˆ˜`aeizAEı ıno  .·….\t\x0b\x0c\r\x0e\x0f\x12\x13\x7f\x07\x8f\u00adﬁﬃ\uf0b7\u2003\u200b\ufb1f\ufdfa\ue000"
    '\ud800\ufffe\u0301\u0340\u1ffd\u1fef\u0387{"\\,;-1\u2010\u0338x²'
)
LINES = st.text(alphabet=ODD, max_size=14) | st.text(max_size=14) | st.text(alphabet="a.· é", max_size=24)
CODES = st.frozensets(st.sampled_from("\x0b\x0c\r\x0e\x0f"))


@settings(max_examples=200, deadline=None)
@given(LINES)
def test_plain_text_is_plain_already(text: str) -> None:
    once, _ = sanitize_text(text)
    assert sanitize_text(once) == (once, ())


@settings(max_examples=200, deadline=None)
@given(LINES)
def test_plain_text_keeps_every_character_but_soft_hyphens_and_carriage_returns(text: str) -> None:
    once, joins = sanitize_text(text)
    kept = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u00ad", "")
    for before, after in zip(kept, once, strict=True):
        assert before == after or (after == "\ufffd" and (before == "\x00" or "\ud800" <= before <= "\udfff"))
    assert list(joins) == sorted(joins)
    assert all(once[join - 1].isalnum() and once[join].isalnum() for join in joins)


@settings(max_examples=200, deadline=None)
@given(LINES, CODES)
@example("1  ˇ", frozenset())
@example("\u1fefa e", frozenset())
@example("a.   .   .   .   .b", frozenset())
def test_a_clean_line_is_clean_already(text: str, tex: frozenset[str]) -> None:
    once = repair_line(text, tex)
    assert repair_line(once) == once


@settings(max_examples=200, deadline=None)
@given(LINES, CODES)
def test_a_clean_line_has_nothing_that_cannot_be_shown(text: str, tex: frozenset[str]) -> None:
    once = repair_line(text, tex)
    assert once == once.strip()
    assert "  " not in once
    for character in once:
        assert unicodedata.category(character) not in ("Cc", "Cs", "Co"), repr(character)
        assert not "ﬀ" <= character <= "ﬆ"


@settings(max_examples=150, deadline=None)
@given(LINES)
def test_cleaning_a_line_loses_no_letter(text: str) -> None:
    def letters(line: str) -> str:
        return "".join(c for c in unicodedata.normalize("NFKD", line).replace("ı", "i") if c.isascii() and c.isalnum())

    assert Counter(letters(repair_line(text))) == Counter(letters(text))


@settings(max_examples=60, deadline=None)
@given(st.lists(LINES, max_size=8))
def test_only_codes_that_the_document_uses_inside_words_are_ligatures(lines: list[str]) -> None:
    assert tex_ligature_codes(lines) <= {code for code in "\x0b\x0c\r\x0e\x0f" if any(code in line for line in lines)}
    assert tex_ligature_codes(["a\x0cb c\x0cd e\x0cf", *lines]) <= frozenset("\x0b\x0c\r\x0e\x0f")


WORDS = st.sampled_from(
    (
        *("wormhole", "recom\u00ad", "mended", "high\u00ad", "latency", "1", "2", "Running Head", "1 Introduction"),
        *("ﬁeld", "The end.", "Figure 1. A caption", "e.g.", "-", "\u00ad", "一二", "a" * 60, "References", "3 4 5"),
        *("•", "x\u00ady"),
    )
)


@st.composite
def pages(draw: st.DrawFn) -> list[PageLines]:
    """Pages of lines that stand anywhere, as a PDF's do; or of lines without places, as pypdf gives them."""
    placed = draw(st.booleans())
    made = []
    for _ in range(draw(st.integers(1, 4))):
        lines = []
        for number in range(draw(st.integers(0, 6))):
            text = " ".join(draw(st.lists(WORDS, min_size=1, max_size=4)))
            left = draw(st.sampled_from((72.0, 86.0, 320.0)))
            height = draw(st.sampled_from((760.0 - 14 * number, 40.0, 700.0)))
            size = draw(st.sampled_from((9.0, 10.0, 14.0)))
            lines.append(
                Line(text, left, left + 5.0 * len(text), height, size, draw(st.booleans()))
                if placed
                else Line(text, 0.0, 0.0, 0.0, 0.0)
            )
        made.append(PageLines(tuple(lines), 612.0, 792.0, None, placed=placed))
    return made


@settings(max_examples=60, deadline=None)
@given(pages())
def test_running_heads_go_and_nothing_else_changes(given_pages: list[PageLines]) -> None:
    bare = remove_running_heads(given_pages)
    assert len(bare) == len(given_pages)
    for page, left in zip(given_pages, bare, strict=True):
        rest = iter(page.lines)
        assert all(any(line is other for other in rest) for line in left.lines), "lines are kept in their order"


@settings(max_examples=60, deadline=None)
@given(pages())
def test_lines_run_together_keep_every_letter_and_know_their_places(given_pages: list[PageLines]) -> None:
    settled_pages = [order_lines(page) for page in given_pages]
    flow = reflow(settled_pages, median_font_size(settled_pages))
    assert reflow(settled_pages, median_font_size(settled_pages)) == flow
    assert [page.number for page in flow.pages] == list(range(1, len(given_pages) + 1))
    assert flow.pages[0].start == 0
    assert flow.pages[-1].end == len(flow.text)
    assert all(before.end == after.start for before, after in pairwise(flow.pages))
    assert list(flow.joins) == sorted(set(flow.joins))
    assert all(0 <= join < len(flow.text) for join in flow.joins)
    assert "\u00ad" not in flow.text
    for placed in flow.lines:
        assert 0 <= placed.start <= placed.end <= len(flow.text)
    written = "".join(repair_line(line.text) for page in settled_pages for line in page.lines)
    assert Counter(filter(str.isalnum, flow.text)) == Counter(filter(str.isalnum, written))

"""Chunks: nothing lost, nothing torn, ends where something ends."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts.fuzzing.checks import check_chunks

from ragcli.documents import chunk_document, embedding_text
from ragcli.errors import UsageError
from ragcli.text.unicode import is_boundary
from ragcli.types import Document, Heading, PageSpan

PIECES = (
    *("a", "word ", " ", "\n", "\n\n", ". ", "Sentence here. ", "é", "e\u0301", "\u0301", "x\u200dy", "   "),
    *("👩‍👩‍👧‍👦", "👍🏽", "🇩🇪", "🇫🇷", "한국", "\u1100\u1161\u11a8", "क्षि", "。", "日本", "\r\n", "0", "e.g. "),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=400).map("".join)
PILES = ("\u1160" * 70, "\u0301" * 70, "\t" * 90, " \u1160", " \u0301", "\t\u200d", "x\u200d" * 50, "🇩🇪" * 40, "\u1160")
HOSTILE_TEXTS = st.lists(st.sampled_from((*PIECES, *PILES)), max_size=60).map("".join)


def document(text: str, **fields: object) -> Document:
    return Document(text=text, kind="text", **fields)  # type: ignore[arg-type]


def slices(text: str, size: int, overlap: int, **fields: object) -> list[str]:
    return [text[c.start : c.end] for c in chunk_document(document(text, **fields), size=size, overlap=overlap)]


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(50, 130), st.integers(0, 49))
def test_chunks_cover_every_character_in_order_and_stay_within_their_size(text: str, size: int, overlap: int) -> None:
    chunks = chunk_document(document(text), size=size, overlap=overlap)
    if not text.strip():
        assert chunks == ()
        return
    assert chunks[0].start == 0
    assert chunks[-1].end == len(text)
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    for before, after in pairwise(chunks):
        assert before.start < after.start <= before.end < after.end
        assert before.end - after.start <= overlap
    for chunk in chunks:
        passage = text[chunk.start : chunk.end]
        assert passage.strip()
        assert len(passage.strip()) <= size + 30  # what may not be cut can reach over


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(50, 130), st.integers(0, 49))
def test_no_cut_goes_through_what_a_reader_sees_as_one_character(text: str, size: int, overlap: int) -> None:
    regex = pytest.importorskip("regex")
    whole = {match.start() for match in regex.finditer(r"\X", text)} | {len(text)}
    cuts = {place for c in chunk_document(document(text), size=size, overlap=overlap) for place in (c.start, c.end)}
    assert cuts <= whole


@st.composite
def structured(draw: st.DrawFn) -> Document:
    """A document with pages, headings and fences anywhere, as readers of any format could give them."""
    text = draw(TEXTS | HOSTILE_TEXTS)
    places = st.integers(0, max(0, len(text) - 1))
    cuts = sorted(draw(st.lists(places, max_size=5)))
    pages = tuple(
        PageSpan(number, None, start, end)
        for number, (start, end) in enumerate(pairwise([0, *cuts, len(text)]), start=1)
    )
    starts = sorted(draw(st.lists(places, max_size=6)))
    headings = tuple(Heading(draw(st.integers(1, 4)), f"H{number}", start) for number, start in enumerate(starts))
    edges = sorted(draw(st.lists(places, max_size=6)))
    spans = tuple(zip(edges[::2], edges[1::2], strict=False))
    return document(text, pages=pages if draw(st.booleans()) else (), headings=headings, spans=spans)


@settings(max_examples=150, deadline=None)
@given(structured(), st.integers(50, 130), st.integers(0, 49))
def test_chunks_of_pages_headings_and_fences_still_cover_every_character(
    given_document: Document, size: int, overlap: int
) -> None:
    check_chunks(given_document, [(size, overlap)])
    for chunk in chunk_document(given_document, size=size, overlap=overlap):
        known = {heading.title for heading in given_document.headings if heading.start < chunk.end}
        assert chunk.heading is None or set(chunk.heading.split(" › ")) <= known


@settings(max_examples=50, deadline=None)
@given(TEXTS)
def test_chunking_gives_the_same_every_time(text: str) -> None:
    assert chunk_document(document(text), size=60, overlap=10) == chunk_document(document(text), size=60, overlap=10)


def test_lone_surrogates_and_marks_without_letters_do_no_harm() -> None:
    for text in ("\ud800" * 200, "\u0301" * 500, "\ud83d\ude00" * 90):
        assert "".join(slices(text, 50, 0)) == text
    assert not is_boundary("\ud83d\ude00", 1)


def test_a_short_document_is_one_chunk_and_a_blank_one_is_none() -> None:
    assert slices("Short.", 1200, 200) == ["Short."]
    assert slices(" \n\n\t ", 1200, 200) == []
    assert slices("", 1200, 200) == []


@pytest.mark.parametrize(("size", "overlap"), [(49, 0), (100, 100), (100, 150), (100, -1), (0, 0)])
def test_sizes_that_make_no_chunks_are_a_usage_error(size: int, overlap: int) -> None:
    with pytest.raises(UsageError):
        chunk_document(document("text"), size=size, overlap=overlap)


def test_a_chunk_ends_at_a_sentence_and_the_next_begins_at_one() -> None:
    text = " ".join(f"This is sentence number {number} of the text." for number in range(100))
    for passage in slices(text, 300, 100):
        assert passage.startswith("This is")
        assert passage.rstrip().endswith(".")


def test_an_abbreviation_does_not_end_a_sentence() -> None:
    text = "The work of Shor et al. Prime numbers are hard. " * 20
    assert not any(passage.rstrip().endswith("et al.") for passage in slices(text, 120, 0))


def test_a_paragraph_end_is_better_than_a_sentence_end() -> None:
    text = ("First here. " * 8).strip() + "\n\n" + ("Second there. " * 12).strip()
    assert slices(text, 140, 0)[0].rstrip() == ("First here. " * 8).strip()


def test_a_heading_line_goes_with_what_it_heads() -> None:
    body = "Words of the body go on and on here. " * 3
    text = f"{body}\n\nA Lonely Heading\n\n{body}{body}"
    assert not any(passage.rstrip().endswith("A Lonely Heading") for passage in slices(text, 150, 0))


def test_the_last_chunk_is_not_just_the_overlap() -> None:
    words = "word " * 400
    for length in range(1150, 1500, 7):
        parts = chunk_document(document(words[:length]))
        fresh = parts[-1].end - (parts[-2].end if len(parts) > 1 else 0)
        assert fresh > 100, (length, fresh)


def test_a_code_fence_stays_whole_if_it_fits() -> None:
    fence = "```\n" + "code line = 1\n" * 10 + "```\n"
    before, after = "Some words before the code. " * 9, "Some words after the code. " * 9
    text = before + fence + after
    span = (len(before), len(before) + len(fence))
    passages = slices(text, 300, 60, spans=(span,))
    assert any(fence in passage for passage in passages)
    assert all("code line" not in passage or fence in passage for passage in passages)


def test_a_code_fence_too_long_for_a_chunk_is_cut_at_line_ends() -> None:
    fence = "```\n" + "".join(f"code line {number}\n" for number in range(60)) + "```\n"
    assert all(passage.endswith("\n") for passage in slices(fence, 200, 0, spans=((0, len(fence)),)))


def test_a_chunk_knows_its_pages() -> None:
    text = "a" * 90 + " " + "b" * 90 + " " + "c" * 90
    pages = (PageSpan(1, "i", 0, 91), PageSpan(2, None, 91, 91), PageSpan(3, "1", 91, 182), PageSpan(4, "2", 182, 272))
    chunks = chunk_document(document(text, pages=pages), size=100, overlap=0)
    assert [(chunk.page_start, chunk.page_end) for chunk in chunks] == [(1, 1), (3, 3), (4, 4)]


def test_a_chunk_knows_the_headings_it_stands_under() -> None:
    body = "Some words about it are here. " * 3
    text = f"Intro\n{body}\nA\n{body}\nA1\n{body}\nB\n{body}"
    starts = {title: text.index(f"{title}\n") for title in ("Intro", "A", "A1", "B")}
    headings = (
        Heading(1, "Intro", starts["Intro"]),
        Heading(1, "A", starts["A"]),
        Heading(2, "A1", starts["A1"]),
        Heading(1, "B", starts["B"]),
    )
    chunks = chunk_document(document(text, headings=headings), size=110, overlap=40)
    assert [chunk.heading for chunk in chunks] == ["Intro", "A", "A › A1", "B"]
    assert [text[chunk.start :].split("\n")[0] for chunk in chunks] == ["Intro", "A", "A1", "B"]


def test_the_text_before_the_first_heading_has_none() -> None:
    chunks = chunk_document(document("Words first.\n\n# Later", headings=(Heading(1, "Later", 14),)))
    assert chunks[0].heading is None


@pytest.mark.parametrize("text", ["x" * 3_000_000, "a b " * 750_000, " " * 3_000_000 + "x", "日" * 1_000_000])
def test_one_endless_line_costs_no_more_than_its_length(text: str) -> None:
    start = time.perf_counter()
    chunks = chunk_document(document(text))
    assert time.perf_counter() - start < 10
    assert chunks[-1].end == len(text)


def test_the_text_for_the_model_says_where_the_passage_stands() -> None:
    say = embedding_text
    assert say("Body.", title="T", heading="A › B", context="none") == "Body."
    assert say("Body.", title="T", heading="A › B", context="title") == "T\n\nBody."
    assert say("Body.", title="T", heading="A › B", context="heading") == "T › A › B\n\nBody."
    assert say("Body.", title=None, heading="A", context="heading") == "A\n\nBody."
    assert say("Body.", title="T", heading="T › B", context="heading") == "T › B\n\nBody."
    assert say("Body.", title=None, heading=None, context="heading") == "Body."
    assert say("T\n\nBody.", title="T", heading=None, context="title") == "T\n\nBody."

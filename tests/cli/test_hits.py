"""The tables of a query, at the widths people have."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from ragcli.cli.render.hit_table import hits_table, location_text, stages_table
from ragcli.cli.terminal import Screen, safe
from ragcli.retrieval.request import QueryRequest, QueryResult, StageTime
from ragcli.types import Hit, StoredChunk

PASSAGE = (
    "The bridge is longer than any lifetime. With the right sign the coupling produces a negative average null "
    "energy on the horizon. A wormhole that was closed becomes traversable, and information leaks through. "
    "Nothing moves faster than light outside. " + "The rest of the passage speaks of other things. " * 20
)


def result_of(*chunks: StoredChunk) -> QueryResult:
    hits = [
        Hit(rank, chunk, 1 / rank, "fused", 0.2, "late", {"bm25": 2.0, "dense": None})
        for rank, chunk in enumerate(chunks, 1)
    ]
    return QueryResult(tuple(hits), (StageTime("pool", 0.01, "bm25 30 ∪ dense 30"),), "hybrid", "late")


CHUNK = StoredChunk(
    number=1,
    chunk_id="d0123456789:4",
    document_id="d0123456789",
    collection="papers",
    source="quantum/gao-jafferis-wall-traversable-wormholes.pdf",
    path=None,
    title=None,
    text=PASSAGE,
    ordinal=4,
    start=0,
    end=len(PASSAGE),
    page_start=3,
    page_end=4,
    heading="2 Negative energy › 2.1 The horizon",
)
REQUEST = QueryRequest("does information leak through a wormhole")


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_the_table_fits_the_screen_and_has_every_part(width: int) -> None:
    shown = hits_table(result_of(CHUNK), REQUEST.text, Screen(width, interactive=True, colour=False))
    assert max(map(cell_len, shown.splitlines())) <= width
    for part in ("1.000", "wormholes.pdf", "pp. 3-4", "2.1", "d0123456789:4", "information"):
        assert part in shown
    words = re.sub(r"\s+", " ", shown)
    assert "wormhole that was closed becomes" in words


@pytest.mark.parametrize("length", range(20, 60))
def test_no_line_of_a_place_is_a_comma_alone(length: int) -> None:
    chunk = replace(CHUNK, source="q/" + "n" * length + ".pdf")
    for width in (60, 120, 200):
        shown = hits_table(result_of(chunk), REQUEST.text, Screen(width, interactive=False, colour=False))
        assert not re.search(r"(?m)^ *, ", shown + " "), shown


def test_query_words_are_bold_where_there_is_colour_and_plain_where_not() -> None:
    coloured = hits_table(result_of(CHUNK), REQUEST.text, Screen(120, interactive=True, colour=True))
    plain = hits_table(result_of(CHUNK), REQUEST.text, Screen(120, interactive=False, colour=False))
    assert "\x1b[1mwormhole\x1b[0m" in coloured
    assert "\x1b" not in plain
    uncoloured = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in uncoloured.splitlines()] == plain.splitlines()


@settings(max_examples=40, deadline=None)
@given(
    st.text(st.characters(codec=None), max_size=80) | st.text(st.sampled_from("a [/]\x1b\n漢wormhole"), max_size=80),
    st.sampled_from([30, 60, 100, 160]),
)
def test_whatever_a_document_holds_the_table_is_harmless(text: str, width: int) -> None:
    chunk = replace(CHUNK, text=text, source=text, heading=text, chunk_id=text, collection=text)
    result = result_of(chunk, CHUNK)
    shown = hits_table(result, REQUEST.text, Screen(width, interactive=True, colour=False))
    shown += stages_table(result, Screen(width, interactive=True, colour=False))
    assert safe(shown) == shown


def test_the_collection_is_named_when_hits_come_from_several() -> None:
    screen = Screen(120, interactive=False, colour=False)
    assert "[papers]" not in hits_table(result_of(CHUNK), REQUEST.text, screen)
    assert "[papers]" in hits_table(result_of(CHUNK, replace(CHUNK, collection="notes")), REQUEST.text, screen)


def test_the_footing_says_what_ran() -> None:
    shown = hits_table(result_of(CHUNK), REQUEST.text, Screen(80, interactive=False, colour=False))
    assert "1 hit (hybrid, reranked by late" in shown
    assert hits_table(result_of(), REQUEST.text, Screen(80, interactive=False, colour=False)).startswith("No passage")


def test_explain_shows_every_stages_score_and_time() -> None:
    shown = stages_table(result_of(CHUNK), Screen(100, interactive=False, colour=False))
    for part in ("bm25", "2.000", "dense", "-", "cosine", "0.200", CHUNK.chunk_id, "pool", "10.0", "∪"):
        assert part in shown


@pytest.mark.parametrize(
    ("start", "end", "shown"),
    [(None, None, "a.md"), (3, 3, "a.md, p. 3"), (3, None, "a.md, p. 3"), (3, 5, "a.md, pp. 3-5")],
)
def test_a_place_names_its_pages(start: int | None, end: int | None, shown: str) -> None:
    assert location_text("a.md", start, end) == shown

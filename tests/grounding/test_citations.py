"""Citations in an answer: which stay, which go, and whose they are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragcli.grounding.answers import CitationFilter, cited_sentences, filter_citations, without_references


@pytest.mark.parametrize(
    ("written", "kept", "removed"),
    [
        ("It is so [1].", "It is so [1].", 0),
        ("It is so [7].", "It is so.", 1),
        ("It is so [1, 9] and so [2-3].", "It is so [1] and so [2, 3].", 1),
        ("It is so [Passage 2][source 3].", "It is so [2][3].", 0),
        ("It is so 【1】 and [^2].", "It is so [1] and [2].", 0),
        ("From [0] to [1-99999].", "From to [1, 2, 3].", 2),
        ("It is so [Passage 1, Passage 2] or [Source 3; #7].", "It is so [1, 2] or [3].", 1),
        ("It is so [1, p. 3], [2, pp. 4-5, 3] and [9, page 2].", "It is so [1], [2, 3] and.", 1),
        ("It is so 【1†source】, 【7†L3-L5】 and ［2］.", "It is so [1], and [2].", 1),
        ("It is so [99999999] and [#8].", "It is so and.", 2),
        ("In [Table 1], [1a] and [p. 3]", "In [Table 1], [1a] and [p. 3]", 0),
        ("A list [a], an [open", "A list [a], an [open", 0),
        ("[9]", "", 1),
        ("", "", 0),
    ],
)
def test_citations_that_name_no_passage_are_removed_and_counted(written: str, kept: str, removed: int) -> None:
    assert filter_citations(written, 3) == (kept, removed)


@settings(max_examples=80, deadline=None)
@given(st.text(st.sampled_from("a .[]12,9-"), max_size=60), st.lists(st.integers(1, 5), max_size=30))
def test_a_text_in_parts_is_filtered_as_the_whole_is(text: str, lengths: list[int]) -> None:
    sieve = CitationFilter(3)
    shown, at = "", 0
    for length in lengths:
        shown += sieve.feed(text[at : at + length])
        at += length
    shown += sieve.feed(text[at:]) + sieve.rest()
    assert (shown.strip(), sieve.removed) == filter_citations(text, 3)


def test_nothing_that_may_yet_be_a_citation_is_shown_early() -> None:
    sieve = CitationFilter(2)
    assert sieve.feed("It is so [") == "It is so"
    assert sieve.feed("9") == ""
    assert sieve.feed("]. And") == ". And"


def test_a_citation_behind_the_stop_belongs_to_the_sentence_before_it() -> None:
    sentences = cited_sentences("The flow is low [1]. It rises. [2, 3] Nobody knows why.")
    assert [(each.text, each.citations) for each in sentences] == [
        ("The flow is low [1].", (1,)),
        ("It rises. [2, 3]", (2, 3)),
        ("Nobody knows why.", ()),
    ]


def test_headings_and_words_that_lead_to_a_list_claim_nothing() -> None:
    claims = {
        each.text: each.claims for each in cited_sentences("# Flow\n\nThere are two kinds:\n- One is low.\n\n---")
    }
    assert claims == {"# Flow": False, "There are two kinds:": False, "- One is low.": True, "---": False}


@pytest.mark.parametrize(
    ("text", "claims"),
    [("42 [1].", True), ("42. [1]", True), ("[1][2]", False), ("- [1, 3].", False), ("2. Two", True)],
)
def test_a_number_alone_claims_something_and_a_citation_alone_does_not(text: str, claims: bool) -> None:
    assert [each.claims for each in cited_sentences(text)] == [claims]


def test_a_passages_own_references_are_not_shown_to_the_model() -> None:
    assert without_references("As shown [12], it leaks [3, 4]–[7]; see [sic].") == "As shown, it leaks–; see [sic]."

"""Questions taken apart by their words, and sentences chosen to be kept."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragcli.retrieval.compression import MAX_SENTENCES, best_sentence_positions, spans_of_sentences
from ragcli.retrieval.expansion.decomposition import MAX_SUBQUESTIONS, split_question


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("Compare Raft with Paxos", ["Raft", "Paxos"]),
        ("compare the cost of Raft and Paxos", ["the cost of Raft", "the cost of Paxos"]),
        (
            "What is the difference between BM25 and TF-IDF in short texts?",
            ["BM25 in short texts?", "TF-IDF in short texts?"],
        ),
        ("How does late interaction differ from a cross-encoder?", ["late interaction", "a cross-encoder"]),
        ("Raft vs. Paxos for leader election", ["Raft for leader election", "Paxos for leader election"]),
        (
            "How do wormholes open and why do black holes radiate?",
            ["How do wormholes open", "why do black holes radiate?"],
        ),
        ("What is a heap? What is a stack?", ["What is a heap?", "What is a stack?"]),
        ("1. What is a heap?\n2. Explain a stack", ["What is a heap?", "Explain a stack"]),
        ("How do both Raft and Paxos elect a leader?", ["How do Raft elect a leader?", "How do Paxos elect a leader?"]),
        ("什么是堆？什么是栈？", ["什么是堆？", "什么是栈？"]),
    ],
)
def test_a_question_comes_apart_at_its_seams(question: str, parts: list[str]) -> None:
    assert list(split_question(question)) == parts


def test_a_part_that_leans_on_another_keeps_it() -> None:
    assert split_question("What is a quorum? How does it protect the log?") == (
        "What is a quorum?",
        "What is a quorum? How does it protect the log?",
    )


@pytest.mark.parametrize(
    "question",
    [
        "the cost of time and space",
        "What are the effects of caffeine and nicotine?",
        "APOE4 expression increases AlphaBeta production and tau phosphorylation.",
        "the fall of Rome; a history",
        "Why is the sky blue",
        "",
        "?",
        "and what",
        "both",
        "In vivo studies of a long list of rather different compounds that were tried over many years versus others",
    ],
)
def test_what_shows_no_seam_stays_whole(question: str) -> None:
    assert split_question(question) == (question,)


_WORDS = st.sampled_from(
    [
        "compare",
        "with",
        "and",
        "what",
        "is",
        "Raft",
        "vs",
        "it",
        "both",
        "of",
        "?",
        ";",
        "\n",
        "between",
        "difference",
        ",",
    ]
)


@given(st.one_of(st.text(max_size=200), st.lists(_WORDS, max_size=60).map(" ".join)))
@settings(max_examples=150, deadline=None)
def test_any_text_gives_some_parts_that_have_words(text: str) -> None:
    parts = split_question(text)
    assert 1 <= len(parts) <= MAX_SUBQUESTIONS
    assert len(set(parts)) == len(parts)
    assert parts == (text,) or all(any(character.isalnum() or character == "_" for character in part) for part in parts)


@given(st.lists(st.floats(-10, 10), max_size=12))
def test_the_best_sentence_is_always_kept_and_the_usual_one_is_not(scores: list[float]) -> None:
    kept = best_sentence_positions(scores)
    assert kept == sorted(kept)
    assert len(kept) <= MAX_SENTENCES
    if scores:
        assert max(scores) == max(scores[place] for place in kept)
    if len(set(scores)) > 2:
        assert scores.index(min(scores)) not in kept


PASSAGE = "The first one stands here.\nThe second, with a comma, breaks\nits line. And a third."


@pytest.mark.parametrize(
    ("picked", "kept"),
    [
        (["The second, with a comma, breaks its line."], ["The second, with a comma, breaks\nits line."]),
        (["and a third", "And a third"], ["And a third."]),
        (['"And a third."', "The first one stands here."], ["The first one stands here.", "And a third."]),
        (["The first one stands there."], []),
        (["", "...", "\n"], []),
        (["stands here.\nThe second"], ["The first one stands here.", "The second, with a comma, breaks\nits line."]),
    ],
)
def test_only_sentences_that_the_passage_has_are_kept(picked: list[str], kept: list[str]) -> None:
    assert [PASSAGE[start:end] for start, end in spans_of_sentences(PASSAGE, picked)] == kept

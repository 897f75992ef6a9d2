"""An excerpt shows why a passage was found."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ragcli.retrieval.snippets import make_snippet, mark_words

PASSAGE = (
    "The laboratory moved in May. Zero-noise extrapolation is a mitigation technique for quantum circuits. "
    "It needs no extra qubits. The cafeteria is open daily. Nothing else of note happened."
)


def marked(text: str, query: str) -> list[str]:
    return [text[start:end] for start, end in mark_words(text, query)]


def test_the_excerpt_is_the_sentence_that_holds_the_words_of_the_question() -> None:
    excerpt = make_snippet(PASSAGE, "how do I mitigate noise in a circuit", 90)
    assert "Zero-noise extrapolation is a mitigation technique for quantum circuits." in excerpt.text
    assert excerpt.text.startswith("… ")
    assert excerpt.text.endswith(" …")


def test_words_are_marked_by_stem() -> None:
    assert marked(PASSAGE, "mitigate circuit") == ["mitigation", "circuits"]


def test_common_words_are_not_marked_unless_there_are_no_others() -> None:
    assert marked("the cat is on the mat", "is the cat there") == ["cat"]
    assert marked("to be or not", "to be") == ["to", "be"]


def test_marks_point_into_the_excerpt() -> None:
    excerpt = make_snippet(PASSAGE, "extra qubits", 60)
    assert [excerpt.text[start:end] for start, end in excerpt.marks] == ["extra", "qubits"]


def test_one_long_sentence_is_cut_around_the_word() -> None:
    excerpt = make_snippet("word " * 200 + "entanglement " + "word " * 200, "entanglement", 80)
    assert "entanglement" in excerpt.text
    assert len(excerpt.text) <= 90


def test_without_a_matching_word_the_passage_begins_at_its_beginning() -> None:
    assert make_snippet(PASSAGE, "zebra", 60).text.startswith("The laboratory")


@given(st.text(max_size=400), st.text(max_size=40), st.integers(10, 200))
def test_any_text_and_question_give_an_excerpt_with_marks_inside(text: str, query: str, limit: int) -> None:
    excerpt = make_snippet(text, query, limit)
    assert len(excerpt.text) <= limit + 4
    for start, end in excerpt.marks:
        assert 0 <= start < end <= len(excerpt.text)

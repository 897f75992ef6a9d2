"""Where sentences end, and which of them answers a question."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.collection_builders import READ_HERE, new_collection, take_in
from tests.support.pdfs import new_pdf, put_lines, write
from tests.support.tiny_models import tiny_cross_encoder, tiny_encoder

from ragcli.collection import IngestOptions, ingest
from ragcli.models import load_encoder
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.rerank import sentence_scores
from ragcli.retrieval.searcher import Searcher
from ragcli.text.sentences import sentence_spans


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("The flow is low. It rises. What? Yes!", ["The flow is low.", "It rises.", "What?", "Yes!"]),
        ("See Fig. 3 for J. Smith et al. It is 3.5 mm wide.", ["See Fig. 3 for J. Smith et al.", "It is 3.5 mm wide."]),
        ("We use it, e.g. Here or i.e. there. End.", ["We use it, e.g. Here or i.e. there.", "End."]),
        ("Some need vitamin C. The others do not.", ["Some need vitamin C.", "The others do not."]),
        ("It fell. [2] The rest rose [1, 3]. Done.[4]", ["It fell. [2]", "The rest rose [1, 3].", "Done.[4]"]),
        ("A heading\n\nA sentence.\n- an item\n- another", ["A heading", "A sentence.", "- an item", "- another"]),
        ("Three parts: • leaders • logs • safety.", ["Three parts:", "• leaders", "• logs", "• safety."]),
        ("1. The first item. More.", ["1. The first item.", "More."]),
        ("これは文です。次の文です。", ["これは文です。", "次の文です。"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences_end_where_a_reader_sees_them_end(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


@settings(max_examples=60, deadline=None)
@given(st.text(st.sampled_from("aB .!?[1]\n-3”。(e.g")) | st.text(max_size=60))
def test_sentences_hold_all_of_a_text_but_blanks_in_order(text: str) -> None:
    spans = sentence_spans(text)
    assert all(start < end for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())


NOTE = (
    "# Notes\n\nThe leader of the cluster is elected by a vote of the servers. A sketch gives an estimate of the "
    "number of distinct words in a stream. The flow over a wing has a boundary layer.\n"
)


@pytest.mark.parametrize("kind", ["late", "cross", "none"])
def test_the_sentence_that_speaks_of_the_question_scores_best(kind: str, tmp_path: Path) -> None:
    encoder = "none" if kind == "none" else str(tiny_encoder(tmp_path / "encoder"))
    reranker = str(tiny_cross_encoder(tmp_path / "cross")) if kind == "cross" else None
    (tmp_path / "note.md").write_text(NOTE)
    collection = new_collection(tmp_path, encoder=encoder)
    ingest(collection, [tmp_path / "note.md"], lambda: load_encoder(encoder), IngestOptions(read=READ_HERE))
    with Searcher([collection]) as searcher:
        chunk = searcher.query(QueryRequest("leader")).hits[0].chunk
        sentences = [chunk.text[start:end] for start, end in sentence_spans(chunk.text)]
        scores = sentence_scores(
            searcher, "estimate of the number of distinct words", [(chunk, sentences), (chunk, [])], reranker
        )
    assert [len(each) for each in scores] == [len(sentences), 0]
    if kind != "cross":  # whose weights are nobody's
        assert "sketch" in sentences[int(scores[0].argmax())]
    assert len(set(scores[0].tolist())) > 1


def test_a_place_in_a_chunk_that_spans_pages_is_on_the_right_one(tmp_path: Path) -> None:
    pdf = new_pdf()
    for line in ("The first page speaks of energy.", "The second page speaks of votes."):
        pdf.add_page()
        put_lines(pdf, 72, 90, [line] * 4)
    write(pdf, tmp_path / "two.pdf")
    collection = new_collection(tmp_path, encoder="none")
    take_in(collection, tmp_path / "two.pdf")
    with collection.snapshot() as snapshot:
        (chunk,) = snapshot.document_chunks(next(snapshot.documents()).document_id)
        assert (chunk.page_start, chunk.page_end) == (1, 2)
        assert snapshot.page_of(chunk, chunk.text.index("first")) == 1
        assert snapshot.page_of(chunk, chunk.text.index("second")) == 2

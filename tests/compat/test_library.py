"""The library keeps the interface that `ia_utils.rag` users know: signatures, defaults, result keys."""

from __future__ import annotations

import inspect
import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.tiny_models import tiny_cross_encoder, tiny_encoder

import ragcli
from ragcli import build_index, chunk_text, load_index, save_index, search, search_exact
from ragcli.compat.ia_utils_rag import RagIndex
from ragcli.errors import CollectionError, InputError, UsageError

DOCUMENTS = [
    (
        "The traversable wormhole couples two boundaries of a black hole with a negative average null energy, "
        "which lets a signal through.",
        "wormhole.pdf",
    ),
    ("A mean value of a noisy method is a bound on the error in the test data.", "noise.pdf"),
    ("A leader is elected by a vote of the servers in the cluster for one term.", "raft.pdf"),
]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_encoder(tmp_path_factory.mktemp("models") / "encoder"))


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_cross_encoder(tmp_path_factory.mktemp("models") / "cross"))


@pytest.fixture(scope="module")
def index(encoder: str) -> RagIndex:
    return build_index(DOCUMENTS, embedding_model=encoder)


def test_the_signatures_and_defaults_are_the_known_ones() -> None:
    expected = {
        "build_index": "(documents, embedding_model='sentence-transformers/all-MiniLM-L6-v2', "
        "compute_embeddings=True, chunk_size=1200, overlap=200)",
        "search": "(query, index, top=3, rerank=True, pool=20, "
        "embedding_model='sentence-transformers/all-MiniLM-L6-v2', "
        "cross_encoder_model='cross-encoder/ms-marco-MiniLM-L-6-v2')",
        "search_exact": "(pattern, index, regex=False, max_hits=10, context=300)",
        "save_index": "(index, index_dir)",
        "load_index": "(index_dir)",
        "chunk_text": "(text, source, chunk_size=1200, overlap=200)",
    }
    for name, signature in expected.items():
        parameters = inspect.signature(getattr(ragcli, name)).parameters.values()
        plain = inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in parameters])
        assert str(plain) == signature, name


def test_a_search_gives_the_known_keys_and_the_reranker_decides(
    index: RagIndex, encoder: str, cross_encoder: str
) -> None:
    results = search("a leader of servers", index, 2, embedding_model=encoder, cross_encoder_model=cross_encoder)
    assert [result["rank"] for result in results] == [1, 2]
    assert list(results[0]) == ["rank", "source", "text", "score", "score_type", "cosine"]
    assert results[0]["score_type"] == "rerank"
    assert results[0]["score"] >= results[1]["score"]
    json.dumps(results)


def test_without_reranking_the_order_is_tfidf_cosine_and_no_model_loads(index: RagIndex) -> None:
    results = search("elected leader", index, top=3, rerank=False, embedding_model="/nowhere")
    assert results[0]["source"] == "raft.pdf"
    assert {result["score_type"] for result in results} == {"cosine"}
    assert all(result["score"] == result["cosine"] for result in results)
    assert [result["cosine"] for result in results[1:]] == [0.0, 0.0]


def test_cosines_equal_scikit_learns(index: RagIndex) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.metrics.pairwise import cosine_similarity

    texts = [chunk["text"] for chunk in index.chunks]
    vectorizer = TfidfVectorizer(stop_words="english", max_features=20000, ngram_range=(1, 2))
    matrix = vectorizer.fit_transform(texts)
    wanted = cosine_similarity(vectorizer.transform(["the noisy black hole"]), matrix)[0]
    found = {result["text"]: result["cosine"] for result in search("the noisy black hole", index, top=3, rerank=False)}
    assert [found[text] for text in texts] == pytest.approx(wanted.tolist(), abs=1e-6)


def test_where_the_default_cross_encoder_is_missing_late_interaction_ranks_and_says_so(
    index: RagIndex, encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragcli.models.cross_encoder_available", lambda _: False)
    with pytest.warns(UserWarning, match="late interaction"):
        results = search("wormhole", index, embedding_model=encoder)
    assert results[0]["source"] == "wormhole.pdf"
    assert results[0]["score_type"] == "rerank"


def test_an_index_without_embeddings_pools_by_tfidf_alone(cross_encoder: str) -> None:
    plain = build_index(DOCUMENTS, compute_embeddings=False, embedding_model="/nowhere")
    assert plain.embeddings is None
    results = search("leader", plain, pool=1, cross_encoder_model=cross_encoder)
    assert [result["source"] for result in results] == ["raft.pdf"]


def test_the_dense_pool_adds_what_shares_no_word_with_the_question(
    index: RagIndex, encoder: str, cross_encoder: str
) -> None:
    results = search("leader", index, top=3, pool=2, embedding_model=encoder, cross_encoder_model=cross_encoder)
    assert len(results) >= 2
    assert any(result["cosine"] == 0.0 for result in results)


def test_an_exact_phrase_is_found_with_its_surroundings(index: RagIndex) -> None:
    hits = search_exact("Negative Average Null ENERGY", index, context=10)
    assert [(hit["source"], hit["match"]) for hit in hits] == [("wormhole.pdf", "negative average null energy")]
    assert list(hits[0]) == ["source", "chunk_index", "match", "snippet", "start", "end"]
    assert hits[0]["snippet"] == "...le with a negative average null energy, which le..."
    assert index.chunks[0]["text"][hits[0]["start"] : hits[0]["end"]] == hits[0]["match"]


def test_a_regular_expression_is_case_sensitive_as_written(index: RagIndex) -> None:
    assert search_exact("the TRAV", index, regex=True) == []
    assert [hit["match"] for hit in search_exact(r"[Tt]he \w+ble", index, regex=True)] == ["The traversable"]
    with pytest.raises(UsageError):
        search_exact("(unclosed", index, regex=True)


def test_a_cut_list_of_hits_says_so(index: RagIndex) -> None:
    hits = search_exact("a", index, max_hits=2)
    assert len(hits) == 2
    assert hits[-1]["truncated"] is True
    assert "truncated" not in hits[0]


def test_a_saved_index_answers_as_the_one_in_memory(
    index: RagIndex, encoder: str, cross_encoder: str, tmp_path: Path
) -> None:
    save_index(index, tmp_path / "index")
    again = load_index(tmp_path / "index")
    models = {"embedding_model": encoder, "cross_encoder_model": cross_encoder}
    assert search("black hole", again, **models) == search("black hole", index, **models)
    assert search_exact("vote", again) == search_exact("vote", index)
    save_index(again, tmp_path / "index")
    assert load_index(tmp_path / "index").chunks == index.chunks


def test_nothing_on_disk_is_a_pickle(index: RagIndex, tmp_path: Path) -> None:
    save_index(index, tmp_path)
    for file in tmp_path.rglob("*"):
        if file.is_file() and file.suffix != ".npy":
            with pytest.raises(Exception):  # noqa: B017, PT011
                pickle.loads(file.read_bytes())  # noqa: S301
        elif file.is_file():
            np.load(file, allow_pickle=False)


def test_an_index_of_pickles_is_refused_unopened(tmp_path: Path) -> None:
    (tmp_path / "chunks.json").write_text("[]")
    (tmp_path / "vectorizer.pkl").write_bytes(b"cos\nsystem\n(S'touch " + os.fsencode(tmp_path / "owned") + b"'\ntR.")
    with pytest.raises(InputError, match="import-index"):
        load_index(tmp_path)
    assert not (tmp_path / "owned").exists()


def test_a_damaged_index_is_a_sentence(index: RagIndex, tmp_path: Path) -> None:
    save_index(index, tmp_path)
    np.save(tmp_path / "embeddings.npy", np.zeros((1, 32), np.float32))
    with pytest.raises(CollectionError, match="damaged"):
        load_index(tmp_path)
    with pytest.raises(InputError, match="no index"):
        load_index(tmp_path / "nothing")


@given(st.text(max_size=300), st.integers(2, 50), st.data())
def test_windows_are_stripped_pieces_of_the_text_and_cover_it(text: str, size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.integers(0, size - 1))
    pieces = [chunk["text"] for chunk in chunk_text(text, "s", size, overlap)]
    assert all(piece and piece == piece.strip() and piece in text and len(piece) <= size for piece in pieces)
    if text.strip() and len(text) <= size:
        assert pieces == [text.strip()]


def test_the_last_window_is_not_a_repeat_of_its_overlap() -> None:
    assert [len(chunk["text"]) for chunk in chunk_text("x" * 2100, "s")] == [1200, 1100]
    assert [len(chunk["text"]) for chunk in chunk_text("x" * 2200, "s")] == [1200, 1200]
    assert [len(chunk["text"]) for chunk in chunk_text("x" * 2201, "s")] == [1200, 1200, 201]


def test_blank_documents_leave_nothing_to_index() -> None:
    with pytest.raises(ValueError, match="nothing to index"):
        build_index([("  \n", "blank.txt")])
    with pytest.raises(ValueError, match="overlap"):
        chunk_text("text", "s", 100, 100)


def test_importing_ragcli_loads_no_library() -> None:
    code = "import sys, ragcli; print(sorted({'numpy', 'torch', 'sklearn', 'tantivy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with warnings.catch_warnings(), pytest.raises(AttributeError):
        _ = ragcli.nothing  # type: ignore[attr-defined]

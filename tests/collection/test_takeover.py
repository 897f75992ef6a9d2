"""Taking over an index that the seed's save_index wrote."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.collection_builders import HashEncoder, all_texts, new_collection, prose, take_in_records

from ragcli.collection import import_index
from ragcli.collection.maintain.rag_index_import import join_chunks
from ragcli.errors import CollectionError, InputError, ModelUnavailable


def windows(text: str, size: int = 300, overlap: int = 60) -> list[str]:
    """The seed's plain character windows, stripped, blank ones dropped."""
    chunks = [text[at : at + size].strip() for at in range(0, len(text), size - overlap)]
    return [chunk for chunk in chunks if chunk]


def save_index(folder: Path, documents: dict[str, str], dimension: int | None = 16) -> list[dict[str, str]]:
    """What the seed leaves in a folder, traps in the pickles included."""
    chunks = [{"source": source, "text": chunk} for source, text in documents.items() for chunk in windows(text)]
    folder.mkdir()
    (folder / "chunks.json").write_text(json.dumps(chunks))
    for name in ("vectorizer.pkl", "matrix.pkl"):
        (folder / name).write_bytes(pickle.dumps(Trap(str(folder / "sprung"))))
    if dimension:
        vectors = np.random.default_rng(0).standard_normal((len(chunks), dimension)).astype(np.float32)
        np.save(folder / "embeddings.npy", vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    return chunks


class Trap:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (open, (self.path, "w"))


DOCUMENTS = {"gao.pdf": prose(1, 300), "temme.pdf": prose(2, 10), "note.pdf": prose(3, 120)}


def test_chunks_stay_as_they_are_and_their_documents_are_put_together(tmp_path: Path) -> None:
    chunks = save_index(tmp_path / "old", DOCUMENTS)
    collection = new_collection(tmp_path)
    report = import_index(tmp_path / "old", collection, HashEncoder)
    assert report.added == tuple(DOCUMENTS)
    with collection.snapshot() as snapshot:
        stored = snapshot.chunks(snapshot.row_numbers.tolist()).values()
        assert [{"source": chunk.source, "text": chunk.text} for chunk in stored] == chunks
    assert all_texts(collection) == DOCUMENTS
    assert collection.verify() == ()
    assert not (tmp_path / "old" / "sprung").exists()


def test_stored_embeddings_are_the_vectors_and_tokens_are_made(tmp_path: Path) -> None:
    save_index(tmp_path / "old", DOCUMENTS)
    collection = new_collection(tmp_path)
    report = import_index(tmp_path / "old", collection, HashEncoder)
    assert (report.embedded, report.reused) == (0, report.chunks)
    with collection.snapshot() as snapshot:
        assert np.allclose(snapshot.vectors, np.load(tmp_path / "old" / "embeddings.npy"), atol=1e-6)
        assert snapshot.tokens is not None
        assert snapshot.tokens.gather([0])[1][0] > 0
        assert snapshot.lexical.search("unique2word", 1)[0].size == 1
        assert snapshot.tfidf is not None


def test_embeddings_of_another_model_are_made_anew(tmp_path: Path) -> None:
    save_index(tmp_path / "old", DOCUMENTS, dimension=24)
    collection = new_collection(tmp_path)
    report = import_index(tmp_path / "old", collection, HashEncoder)
    assert report.embedded == report.chunks
    with collection.snapshot() as snapshot:
        assert snapshot.vectors.shape[1] == 16
    assert collection.verify() == ()


def absent() -> HashEncoder:
    raise ModelUnavailable("the model is not here")


def test_without_the_model_vectors_alone_are_taken_over_if_tokens_are_not_wanted(tmp_path: Path) -> None:
    save_index(tmp_path / "old", DOCUMENTS)
    with pytest.raises(ModelUnavailable):
        import_index(tmp_path / "old", new_collection(tmp_path, "a"), absent)
    collection = new_collection(tmp_path, "b", token_vectors="none")
    import_index(tmp_path / "old", collection, absent)
    with collection.snapshot() as snapshot:
        assert np.allclose(snapshot.vectors, np.load(tmp_path / "old" / "embeddings.npy"), atol=1e-6)
    assert collection.verify() == ()
    take_in_records(collection, {"id": "later", "text": "with the model at hand"})
    assert collection.verify() == ()


def test_without_the_model_an_index_without_embeddings_cannot_be_taken_over(tmp_path: Path) -> None:
    save_index(tmp_path / "old", DOCUMENTS, dimension=None)
    collection = new_collection(tmp_path, token_vectors="none")
    with pytest.raises(ModelUnavailable):
        import_index(tmp_path / "old", collection, absent)
    assert collection.info().documents == 0


def test_only_an_empty_collection_takes_an_index_over(tmp_path: Path) -> None:
    save_index(tmp_path / "old", DOCUMENTS)
    collection = new_collection(tmp_path)
    take_in_records(collection, {"id": "a", "text": "b"})
    with pytest.raises(CollectionError, match="documents already"):
        import_index(tmp_path / "old", collection, HashEncoder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chunks.json", b"{"),
        ("chunks.json", b"[]"),
        ("chunks.json", b'[{"text": 5, "source": "a"}]'),
        ("chunks.json", b'[{"text": "a"}]'),
        ("embeddings.npy", b"nothing"),
        ("embeddings.npy", pickle.dumps([1, 2, 3])),
    ],
)
def test_what_is_no_saved_index_is_an_input_error(tmp_path: Path, name: str, content: bytes) -> None:
    save_index(tmp_path / "old", DOCUMENTS)
    (tmp_path / "old" / name).write_bytes(content)
    collection = new_collection(tmp_path)
    with pytest.raises(InputError, match=name):
        import_index(tmp_path / "old", collection, HashEncoder)
    assert collection.info().documents == 0


def test_embeddings_that_do_not_fit_the_chunks_are_an_input_error(tmp_path: Path) -> None:
    save_index(tmp_path / "old", DOCUMENTS)
    for wrong in (np.zeros((3, 16), np.float32), np.array([object()]), np.full((20, 16), np.nan, np.float32)):
        np.save(tmp_path / "old" / "embeddings.npy", wrong, allow_pickle=True)
        with pytest.raises(InputError, match="embeddings"):
            import_index(tmp_path / "old", new_collection(tmp_path, f"c{wrong.size}"), HashEncoder)


def test_a_folder_without_chunks_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"chunks\.json"):
        import_index(tmp_path, new_collection(tmp_path), HashEncoder)


@given(st.text("ab \n.é", max_size=700), st.integers(20, 120), st.integers(0, 60))
def test_every_chunk_is_a_slice_of_the_text_it_is_joined_into(text: str, size: int, overlap: int) -> None:
    chunks = windows(text, size, min(overlap, size - 1))
    whole, places = join_chunks(chunks)
    assert [whole[start:end] for start, end in places] == chunks
    assert sorted(places) == places

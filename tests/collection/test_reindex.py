"""Reindexing: new settings or another model, from the texts that are there, switched to in one commit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.collection_builders import HashEncoder, all_texts, new_collection, prose, take_in_records

from ragcli.collection import NO_ENCODER, Collection, reindex
from ragcli.errors import UsageError


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    """Twenty documents of three chunks or so."""
    made = new_collection(tmp_path)
    take_in_records(made, *({"id": f"r{n}", "title": f"On {n}", "text": prose(n, 300)} for n in range(20)))
    return made


def chunk_sizes(collection: Collection) -> list[int]:
    with collection.snapshot() as snapshot:
        return [len(chunk.text) for chunk in snapshot.chunks(snapshot.row_numbers.tolist()).values()]


def test_another_chunk_size_cuts_anew_from_the_stored_texts(collection: Collection) -> None:
    texts = all_texts(collection)
    report = reindex(collection, replace(collection.settings, chunk_size=400, overlap=50), HashEncoder)
    assert collection.settings.chunk_size == 400
    assert max(chunk_sizes(collection)) <= 400
    assert all_texts(collection) == texts
    assert (report.documents, report.chunks) == (20, collection.info().chunks)
    assert collection.verify() == ()
    with collection.snapshot() as snapshot:
        number = int(snapshot.lexical.search("unique7word", 1)[0][0])
        assert snapshot.chunks([number])[number].document_id == "r7"
        assert not snapshot.tfidf_stale


def test_documents_keep_their_ids_and_need_no_file(collection: Collection) -> None:
    with collection.snapshot() as snapshot:
        before = [(row.document_id, row.source, row.title) for row in snapshot.documents()]
    reindex(collection, replace(collection.settings, chunk_size=300, overlap=0), HashEncoder)
    with collection.snapshot() as snapshot:
        assert [(row.document_id, row.source, row.title) for row in snapshot.documents()] == before
        assert all(row.chunks > 1 for row in snapshot.documents())


def test_with_the_same_settings_and_model_nothing_is_embedded_again(collection: Collection) -> None:
    encoder = HashEncoder()
    report = reindex(collection, collection.settings, lambda: encoder)
    assert (encoder.texts, report.embedded, report.reused) == ([], 0, report.chunks)
    assert collection.verify() == ()


def test_another_model_embeds_everything_anew(collection: Collection) -> None:
    encoder = HashEncoder(name="other", fingerprint="0" * 64, dimension=24)
    report = reindex(collection, replace(collection.settings, encoder="other"), lambda: encoder)
    assert report.embedded == report.chunks == len(encoder.texts)
    with collection.snapshot() as snapshot:
        assert snapshot.vectors.shape == (report.chunks, 24)
    take_in_records(collection, {"id": "new", "text": "some words"}, encoder=encoder)
    assert collection.verify() == ()


def test_a_model_can_be_dropped_and_taken_again(collection: Collection) -> None:
    reindex(collection, replace(collection.settings, encoder=NO_ENCODER), HashEncoder)
    with collection.snapshot() as snapshot:
        assert snapshot.vectors.shape[1] == 0
    assert collection.verify() == ()
    reindex(collection, replace(collection.settings, encoder="fake"), HashEncoder)
    with collection.snapshot() as snapshot:
        assert snapshot.vectors.shape[1] == 16
    assert collection.verify() == ()


def test_old_files_are_gone_when_nobody_reads_them(collection: Collection) -> None:
    before = {path.name for path in collection.path.iterdir()}
    reindex(collection, replace(collection.settings, chunk_size=400), HashEncoder)
    after = {path.name for path in collection.path.iterdir()}
    assert len(after) == len(before)
    assert "vectors.f32" not in after


def test_a_reader_keeps_its_generation_while_the_collection_is_reindexed(collection: Collection) -> None:
    with collection.snapshot() as snapshot:
        size = snapshot.chunk_count
        reindex(collection, replace(collection.settings, chunk_size=400), HashEncoder)
        # Everything is opened only now, and belongs to the old state all the same.
        assert len(snapshot.vectors) == len(snapshot.row_numbers) == size
        assert len(snapshot.chunks(snapshot.row_numbers.tolist())) == size
        assert snapshot.lexical.numbers().tolist() == snapshot.row_numbers.tolist()
        assert snapshot.tfidf is not None
        assert snapshot.tfidf.numbers.tolist() == snapshot.row_numbers.tolist()
    take_in_records(collection)
    assert not (collection.path / "vectors.f32").exists()


def test_settings_that_make_no_sense_change_nothing(collection: Collection) -> None:
    with pytest.raises(UsageError):
        reindex(collection, replace(collection.settings, chunk_size=40), HashEncoder)
    assert collection.settings.chunk_size == 1200


def interrupted_reindex(collection: Collection, after: int) -> HashEncoder:
    """Reindex with another model until `after` chunks are embedded."""
    encoder = HashEncoder(fingerprint="1" * 64)

    def stop() -> None:
        if len(encoder.texts) >= after:
            raise KeyboardInterrupt

    encoder.before = stop
    assert reindex(collection, replace(collection.settings, chunk_size=100, overlap=10), lambda: encoder).interrupted
    return encoder


def test_an_interrupted_reindex_leaves_the_old_state_and_goes_on_from_there(collection: Collection) -> None:
    sizes = chunk_sizes(collection)
    first = interrupted_reindex(collection, 200)
    assert chunk_sizes(collection) == sizes
    assert collection.verify() == ()
    second = HashEncoder(fingerprint="1" * 64)
    report = reindex(collection, replace(collection.settings, chunk_size=100, overlap=10), lambda: second)
    assert not set(first.texts) & set(second.texts)
    assert len(set(first.texts) | set(second.texts)) <= report.chunks
    assert collection.verify() == ()


def test_documents_that_came_and_went_between_two_parts_of_a_reindex_are_right(collection: Collection) -> None:
    interrupted_reindex(collection, 200)
    take_in_records(collection, {"id": "r0", "text": "replaced"}, {"id": "new", "text": "a late comer"})
    assert collection.verify() == ()
    encoder = HashEncoder(fingerprint="1" * 64)
    reindex(collection, replace(collection.settings, chunk_size=100, overlap=10), lambda: encoder)
    assert collection.verify() == ()
    texts = all_texts(collection)
    assert (texts["r0"], texts["new"], len(texts)) == ("replaced", "a late comer", 21)
    with collection.snapshot() as snapshot:
        assert snapshot.lexical.search("unique0word", 3)[0].tolist() == []


def test_another_reindex_after_an_interrupted_one_starts_over(collection: Collection) -> None:
    interrupted_reindex(collection, 200)
    reindex(collection, replace(collection.settings, chunk_size=500), HashEncoder)
    assert collection.settings.chunk_size == 500
    assert collection.verify() == ()
    assert len(list(collection.path.glob("vectors*.f32"))) == 1


def test_a_reindex_whose_half_built_index_was_damaged_starts_over(collection: Collection) -> None:
    interrupted_reindex(collection, 200)
    (half_built,) = (each for each in collection.path.glob("lexical-*") if each.is_dir())
    meta = half_built / "meta.json"
    meta.write_bytes(meta.read_bytes().replace(b'"opstamp"', b'"opstomp"'))
    report = reindex(
        collection, replace(collection.settings, chunk_size=100, overlap=10), lambda: HashEncoder(fingerprint="1" * 64)
    )
    assert report.chunks == len(chunk_sizes(collection))
    assert collection.verify() == ()
    assert not half_built.exists()

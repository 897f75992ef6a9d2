"""Ingesting: what is read, what is left alone, what is replaced, and what is told of it."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.collection_builders import (
    HashEncoder,
    all_texts,
    new_collection,
    prose,
    take_in,
    take_in_records,
    write_files,
)

from ragcli.collection import (
    NO_ENCODER,
    ChunksEmbedded,
    Collection,
    Committed,
    FileRead,
    FilesPlanned,
    IngestEvent,
    PhaseStarted,
    changed_sources,
    ingest,
    ingest_jsonl,
)
from ragcli.errors import InputError, ModelUnavailable
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import Searcher
from ragcli.types import Failure


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    """An empty collection, which must be sound when the test is done with it."""
    made = new_collection(tmp_path)
    yield made
    assert made.verify() == ()


@pytest.fixture
def papers(tmp_path: Path) -> Path:
    """A folder with three text files of a few chunks each."""
    return write_files(tmp_path / "papers", {f"{name}.txt": prose(seed, 400) for seed, name in enumerate("abc")})


def numbers_of(collection: Collection, source: str) -> list[int]:
    """The chunk numbers of a document."""
    with collection.snapshot() as snapshot:
        row = snapshot.document(source)
        return [chunk.number for chunk in snapshot.document_chunks(row.document_id)]


def vectors_of(collection: Collection, source: str) -> np.ndarray:
    """The stored vectors of a document."""
    with collection.snapshot() as snapshot:
        return np.array(snapshot.vectors[list(snapshot.rows(numbers_of(collection, source)).values())])


def test_a_folder_is_taken_in_with_sources_relative_to_it(collection: Collection, papers: Path) -> None:
    write_files(papers, {"sub/d.txt": prose(9)})
    report = take_in(collection, papers)
    assert sorted(report.added) == ["a.txt", "b.txt", "c.txt", "sub/d.txt"]
    assert report.failures == ()
    assert (report.documents, report.chunks) == (4, report.embedded)
    assert report.chunks == collection.info().chunks > 4
    assert collection.info().last_ingest is not None
    assert set(all_texts(collection)) == set(report.added)


def test_every_chunk_has_a_vector_token_bits_and_a_place_in_each_index(collection: Collection, papers: Path) -> None:
    encoder = HashEncoder()
    take_in(collection, papers, encoder=encoder)
    with collection.snapshot() as snapshot:
        rows = snapshot.rows(snapshot.row_numbers.tolist())
        assert list(rows.values()) == list(range(snapshot.chunk_count))
        chunks = snapshot.chunks(snapshot.row_numbers.tolist())
        for number, row in rows.items():
            # The text alone is what the encoder saw: these documents have no headings.
            expected = encoder.encode_tokens([chunks[number].text])[0]
            assert np.allclose(snapshot.vectors[row], expected.vector)
            assert snapshot.tokens is not None
            bits, counts = snapshot.tokens.gather([row])
            assert counts.tolist() == [len(expected.tokens)]
            assert np.array_equal(np.unpackbits(bits, axis=1), expected.tokens > 0)
        assert snapshot.lexical.numbers().tolist() == list(rows)
        assert snapshot.tfidf is not None
        assert snapshot.tfidf.numbers.tolist() == list(rows)
        assert not snapshot.tfidf_stale


def test_a_tfidf_that_was_not_fitted_anew_ranks_what_is_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = new_collection(tmp_path, encoder="none")
    papers = write_files(
        tmp_path / "in", {f"{name}.txt": f"A wormhole, said {name}." for name in ("ada", "ben", "eve")}
    )
    take_in(collection, papers)
    monkeypatch.setattr("ragcli.collection.write.compaction.TFIDF_REFIT_MAX_CHUNKS", 0)
    (papers / "ben.txt").unlink()
    write_files(papers, {"eve.txt": "Nothing of the kind."})
    take_in(collection, papers, prune=True)
    with Searcher([collection]) as searcher:
        hits = searcher.query(QueryRequest("wormhole", pipeline="tfidf")).hits
    assert [hit.chunk.source for hit in hits] == ["ada.txt"]


def test_token_frequency_counts_the_chunks_that_hold_a_piece(collection: Collection, papers: Path) -> None:
    encoder = HashEncoder()
    take_in(collection, papers, encoder=encoder)
    write_files(papers, {"a.txt": prose(50, 300)})
    take_in(collection, papers, encoder=encoder)
    expected = np.zeros(encoder.vocabulary_size, int)
    with collection.snapshot() as snapshot:
        for chunk in snapshot.chunks(snapshot.row_numbers.tolist()).values():
            expected[np.unique(encoder.encode_tokens([chunk.text])[0].token_ids)] += 1
        assert snapshot.token_frequency.tolist() == expected.tolist()


def test_a_second_run_parses_and_embeds_nothing(collection: Collection, papers: Path) -> None:
    take_in(collection, papers)
    generation = collection.info().generation

    def no_model() -> HashEncoder:
        raise AssertionError("nothing had to be embedded")

    report = ingest(collection, [papers], no_model)
    assert (report.unchanged, report.added, report.changed, report.embedded) == (3, (), (), 0)
    assert collection.info().generation == generation


def test_a_touched_file_with_the_same_content_is_unchanged(collection: Collection, papers: Path) -> None:
    take_in(collection, papers)
    os.utime(papers / "a.txt", (1e9, 1e9))
    assert take_in(collection, papers).unchanged == 3
    with collection.snapshot() as snapshot:
        chunk = snapshot.find_chunk(f"{snapshot.document('a.txt').document_id}:0")
    assert chunk is not None
    assert changed_sources([collection], [chunk]) == ()


def test_a_change_is_seen_although_size_and_modification_time_are_as_before(
    collection: Collection, papers: Path
) -> None:
    take_in(collection, papers)
    path = papers / "a.txt"
    before = path.stat()
    path.write_text(path.read_text()[::-1])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert take_in(collection, papers).changed == ("a.txt",)


def test_a_changed_file_is_replaced_under_its_id(collection: Collection, papers: Path) -> None:
    take_in(collection, papers)
    with collection.snapshot() as snapshot:
        identity = snapshot.document("a.txt").document_id
    write_files(papers, {"a.txt": "An entirely new text about zebras."})
    report = take_in(collection, papers)
    assert (report.changed, report.unchanged, report.documents) == (("a.txt",), 2, 1)
    with collection.snapshot() as snapshot:
        assert snapshot.document("a.txt").document_id == identity
        assert [each.text for each in snapshot.document_chunks(identity)] == ["An entirely new text about zebras."]
        assert snapshot.lexical.search("unique0word", 5)[0].tolist() == []
        assert snapshot.lexical.search("zebras", 5)[0].tolist() == numbers_of(collection, "a.txt")
        assert len(snapshot.dead) > 0


def test_numbers_of_dropped_chunks_are_never_given_again(collection: Collection, papers: Path) -> None:
    seen: set[int] = set()
    for round_ in range(3):
        write_files(papers, {"a.txt": prose(100 + round_, 300)})
        take_in(collection, papers)
        numbers = set(numbers_of(collection, "a.txt"))
        assert not numbers & seen
        seen |= numbers


def test_a_moved_file_keeps_its_id_chunks_and_embeddings(collection: Collection, papers: Path) -> None:
    take_in(collection, papers)
    numbers, vectors = numbers_of(collection, "a.txt"), vectors_of(collection, "a.txt")
    (papers / "later").mkdir()
    (papers / "a.txt").rename(papers / "later" / "z.txt")
    encoder = HashEncoder()
    report = take_in(collection, papers, encoder=encoder)
    assert report.moved == (("a.txt", "later/z.txt"),)
    assert (report.added, report.gone, encoder.texts) == ((), (), [])
    assert numbers_of(collection, "later/z.txt") == numbers
    assert np.array_equal(vectors_of(collection, "later/z.txt"), vectors)
    assert "a.txt" not in all_texts(collection)


def test_a_copied_file_is_a_document_of_its_own_that_costs_no_embedding(collection: Collection, papers: Path) -> None:
    take_in(collection, papers)
    write_files(papers, {"copy.txt": (papers / "a.txt").read_text()})
    encoder = HashEncoder()
    report = take_in(collection, papers, encoder=encoder)
    assert (report.added, report.embedded, encoder.texts) == (("copy.txt",), 0, [])
    assert report.reused == len(numbers_of(collection, "copy.txt"))
    assert np.array_equal(vectors_of(collection, "a.txt"), vectors_of(collection, "copy.txt"))


def test_a_passage_that_occurs_twice_in_one_run_is_embedded_once(collection: Collection, tmp_path: Path) -> None:
    encoder = HashEncoder()
    records = [{"id": str(n), "text": "the same words every time"} for n in range(300)]
    report = take_in_records(collection, *records, encoder=encoder)
    assert (report.embedded, report.reused) == (1, 299)
    assert encoder.texts == ["the same words every time"]


def test_files_that_are_gone_are_told_and_only_pruned_when_asked(collection: Collection, papers: Path) -> None:
    take_in(collection, papers)
    (papers / "b.txt").unlink()
    report = take_in(collection, papers)
    assert (report.gone, report.removed, len(all_texts(collection))) == (("b.txt",), (), 3)
    report = take_in(collection, papers, prune=True)
    assert (report.gone, report.removed) == ((), ("b.txt",))
    assert set(all_texts(collection)) == {"a.txt", "c.txt"}
    with collection.snapshot() as snapshot:
        assert snapshot.lexical.search("unique1word", 5)[0].tolist() == []


def test_prune_leaves_documents_of_other_folders_alone(collection: Collection, papers: Path, tmp_path: Path) -> None:
    other = write_files(tmp_path / "other", {"x.txt": prose(7), "y.txt": prose(8)})
    take_in(collection, papers, other)
    (other / "x.txt").unlink()
    (papers / "a.txt").unlink()
    assert take_in(collection, papers, prune=True).removed == ("a.txt",)
    assert "x.txt" in all_texts(collection)


def test_a_dry_run_tells_everything_and_writes_nothing(collection: Collection, papers: Path) -> None:
    take_in(collection, papers)
    write_files(papers, {"a.txt": "changed", "new.txt": "new"})
    (papers / "b.txt").rename(papers / "moved.txt")
    (papers / "c.txt").unlink()
    before = {path: path.read_bytes() for path in collection.path.rglob("*") if path.is_file()}
    report = take_in(collection, papers, dry_run=True, prune=True)
    assert report.dry_run
    assert (report.added, report.changed, report.moved, report.removed, report.unchanged) == (
        ("new.txt",),
        ("a.txt",),
        (("b.txt", "moved.txt"),),
        ("c.txt",),
        0,
    )
    after = {path: path.read_bytes() for path in collection.path.rglob("*") if path.is_file()}
    assert {path.name for path in before if before[path] != after.get(path)} <= {"store.db-shm"}


def test_one_bad_file_does_not_stop_the_rest_and_is_recorded(collection: Collection, papers: Path) -> None:
    write_files(papers, {"bad.pdf": "this is no PDF"})
    report = take_in(collection, papers)
    assert sorted(report.added) == ["a.txt", "b.txt", "c.txt"]
    assert [failure.source for failure in report.failures] == ["bad.pdf"]
    assert [each.source for each in collection.failures()] == ["bad.pdf"]
    assert collection.info().failures == 1
    again = take_in(collection, papers)
    assert (again.known_failures, again.failures) == (1, report.failures)


def test_a_failure_is_forgotten_when_the_file_is_mended_or_pruned(collection: Collection, papers: Path) -> None:
    write_files(papers, {"bad.txt": "", "worse.txt": " \n "})
    assert len(take_in(collection, papers).failures) == 2
    write_files(papers, {"bad.txt": "now it has words"})
    (papers / "worse.txt").unlink()
    report = take_in(collection, papers, prune=True)
    assert (report.added, report.failures, collection.failures()) == (("bad.txt",), (), ())


def test_a_file_that_turned_bad_keeps_its_old_text_and_is_told_to_have_changed(
    collection: Collection, papers: Path
) -> None:
    take_in(collection, papers)
    old = all_texts(collection)["a.txt"]
    write_files(papers, {"a.txt": ""})
    report = take_in(collection, papers)
    assert [failure.source for failure in report.failures] == ["a.txt"]
    assert all_texts(collection)["a.txt"] == old
    with collection.snapshot() as snapshot:
        chunk = snapshot.find_chunk(f"{snapshot.document('a.txt').document_id}:0")
    assert chunk is not None
    assert changed_sources([collection], [chunk]) == ("a.txt",)


def test_changed_sources_tells_what_changed_or_went_since_ingest(collection: Collection, papers: Path) -> None:
    take_in(collection, papers)
    with collection.snapshot() as snapshot:
        chunks = list(snapshot.chunks(snapshot.row_numbers.tolist()).values())
    assert changed_sources([collection], chunks) == ()
    (papers / "a.txt").unlink()
    write_files(papers, {"b.txt": "other"})
    assert sorted(changed_sources([collection], chunks)) == ["a.txt", "b.txt"]


def test_include_and_exclude_choose_the_files(collection: Collection, papers: Path) -> None:
    write_files(papers, {"x.md": "# Notes\n\nsome words", "drafts/y.txt": "a draft"})
    report = take_in(collection, papers, include=("*.txt",), exclude=("drafts/*",))
    assert sorted(report.added) == ["a.txt", "b.txt", "c.txt"]


def test_a_missing_path_is_an_input_error(collection: Collection, tmp_path: Path) -> None:
    with pytest.raises(InputError):
        take_in(collection, tmp_path / "nowhere")


def test_two_files_of_the_same_relative_name_have_different_sources(collection: Collection, tmp_path: Path) -> None:
    first = write_files(tmp_path / "one", {"notes.txt": "first words"})
    second = write_files(tmp_path / "two", {"notes.txt": "second words"})
    take_in(collection, first)
    take_in(collection, second)
    assert all_texts(collection) == {"notes.txt": "first words", str(second / "notes.txt"): "second words"}


def test_records_have_their_own_ids_and_metadata(collection: Collection) -> None:
    take_in_records(
        collection,
        {"id": "4983", "title": "On zebras", "text": "stripes", "year": 2017, "keywords": ["a", "b"], "open": True},
    )
    with collection.snapshot() as snapshot:
        row = snapshot.document("4983")
        assert (row.document_id, row.source, row.title, row.path) == ("4983", "4983", "On zebras", None)
        assert {key: row.metadata[key] for key in ("year", "keywords", "open")} == {
            "year": 2017,
            "keywords": ["a", "b"],
            "open": True,
        }
        chunk = snapshot.find_chunk("4983:0")
        assert chunk is not None
        assert "stripes" in chunk.text


def test_a_changed_corpus_file_replaces_changed_records_and_drops_missing_ones(
    collection: Collection, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(f'{{"id": "{n}", "text": "record number {n}"}}\n' for n in range(5)))
    take_in(collection, corpus)
    lines = [f'{{"id": "{n}", "text": "record number {n}"}}\n' for n in (0, 2, 3, 5)]
    corpus.write_text("".join(lines).replace("number 2", "number two"))
    encoder = HashEncoder()
    report = take_in(collection, corpus, encoder=encoder)
    assert report.changed == ("corpus.jsonl",)
    assert sorted(encoder.texts) == ["record number 5", "record number two"]
    assert all_texts(collection) == {
        "0": "record number 0",
        "2": "record number two",
        "3": "record number 3",
        "5": "record number 5",
    }


def test_a_bad_line_and_a_repeated_id_are_failures_that_name_their_lines(
    collection: Collection, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "a", "text": "one"}\nnot json\n\n{"id": "a", "text": "two"}\n{"id": "b", "text": ""}\n')
    report = take_in(collection, corpus)
    assert all_texts(collection) == {"a": "one"}
    assert len(report.failures) == 3
    told = " ".join(f"{failure.source} {failure.reason}" for failure in report.failures)
    for word in ("line 2", "line 4", "line 1", "'a'"):
        assert word in told
    assert [failure.source for failure in report.failures] == ["corpus.jsonl:2", "corpus.jsonl:4", "corpus.jsonl:5"]
    assert take_in(collection, corpus).known_failures == 3


def test_the_same_id_in_two_corpora_is_two_documents(collection: Collection, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"id": "x", "text": "from {name}"}}\n')
    take_in(collection, tmp_path / "one.jsonl")
    report = take_in(collection, tmp_path / "two.jsonl")
    assert report.failures == ()
    assert sorted(all_texts(collection).values()) == ["from one", "from two"]
    with collection.snapshot() as snapshot:
        assert snapshot.document("x").source == "x"
        assert len({row.document_id for row in snapshot.documents()}) == 2


def test_a_stream_adds_and_replaces_but_never_drops(collection: Collection) -> None:
    take_in_records(collection, {"id": "a", "text": "one"}, {"id": "b", "text": "two"})
    report = take_in_records(collection, {"id": "b", "text": "2"}, {"id": "c", "text": "3"})
    assert report.documents == 2
    assert all_texts(collection) == {"a": "one", "b": "2", "c": "3"}


def test_texts_with_lone_surrogates_and_nulls_are_kept_at_the_same_offsets(collection: Collection) -> None:
    line = b'{"id": "s\\ud800", "text": "before \\udfff after \\u0000 end", "k\\ud801": "v\\ud802"}\n'
    chosen = HashEncoder()
    ingest_jsonl(collection, [line], lambda: chosen)
    (text,) = all_texts(collection).values()
    assert text.index("after") == len("before \udfff ")
    assert text.endswith("end")


def test_progress_is_told_in_events(collection: Collection, papers: Path) -> None:
    events: list[IngestEvent] = []
    report = ingest(collection, [papers], HashEncoder, listener=events.append)
    assert events[0] == PhaseStarted("checking")
    assert FilesPlanned(found=3, to_read=3) in events
    assert sorted(event.source for event in events if isinstance(event, FileRead)) == ["a.txt", "b.txt", "c.txt"]
    assert sum(event.embedded for event in events if isinstance(event, ChunksEmbedded)) == report.chunks
    last = [event for event in events if isinstance(event, Committed)][-1]
    assert (last.documents, last.chunks) == (3, report.chunks)
    assert PhaseStarted("fitting") in events


def test_a_model_that_is_not_here_leaves_the_collection_as_it_was(collection: Collection, papers: Path) -> None:
    def missing() -> HashEncoder:
        raise ModelUnavailable("no such model")

    with pytest.raises(ModelUnavailable):
        ingest(collection, [papers], missing)
    assert all_texts(collection) == {}
    take_in(collection, papers)
    assert len(all_texts(collection)) == 3


def test_without_an_encoder_nothing_is_embedded_and_words_are_found(tmp_path: Path, papers: Path) -> None:
    collection = new_collection(tmp_path, encoder=NO_ENCODER)

    def no_model() -> HashEncoder:
        raise AssertionError("there is no encoder")

    report = ingest(collection, [papers], no_model)
    assert (report.embedded, report.reused) == (0, 0)
    with collection.snapshot() as snapshot:
        assert snapshot.lexical.search("unique2word", 3)[0].tolist() == numbers_of(collection, "c.txt")[-1:]
        assert snapshot.vectors.shape == (report.chunks, 0)
        assert snapshot.tokens is None
    assert collection.verify() == ()


def test_without_token_vectors_only_the_vectors_are_kept(tmp_path: Path, papers: Path) -> None:
    collection = new_collection(tmp_path, token_vectors="none")
    take_in(collection, papers)
    with collection.snapshot() as snapshot:
        assert snapshot.tokens is None
        assert snapshot.vectors.shape == (snapshot.chunk_count, 16)
        assert snapshot.token_frequency.sum() > 0
    assert not (collection.path / "tokens.bits").exists()
    assert collection.verify() == ()


def test_dead_rows_are_compacted_away_when_they_are_a_fifth(collection: Collection, tmp_path: Path) -> None:
    encoder = HashEncoder()
    records = [{"id": str(n), "text": f"record {n} {prose(n, 12)}"} for n in range(400)]
    take_in_records(collection, *records, encoder=encoder)
    take_in_records(collection, *({"id": str(n), "text": f"new text {n}"} for n in range(0, 400, 3)), encoder=encoder)
    with collection.snapshot() as snapshot:
        assert (len(snapshot.dead), snapshot.vectors.shape[0], snapshot.chunk_count) == (0, 400, 400)
        for row in (0, 200, 399):
            (chunk,) = snapshot.chunks([int(snapshot.row_numbers[row])]).values()
            expected = encoder.encode_tokens([chunk.text])[0]
            assert np.allclose(snapshot.vectors[row], expected.vector)
            assert snapshot.tokens is not None
            bits, _ = snapshot.tokens.gather([row])
            assert np.array_equal(np.unpackbits(bits, axis=1), expected.tokens > 0)
    arrays = sorted(path.name for path in collection.path.glob("vectors*"))
    assert arrays == ["vectors-2.bits", "vectors-2.f32"]


def test_a_long_ingest_is_committed_in_parts(collection: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragcli.collection.ingestion.document_ingester.COMMIT_MIN_SECONDS", 0.0)
    events: list[IngestEvent] = []
    lines = (b'{"id": "%d", "text": "record number %d"}\n' % (n, n) for n in range(1500))
    ingest_jsonl(collection, lines, HashEncoder, listener=events.append)
    commits = [event.documents for event in events if isinstance(event, Committed)]
    assert len(commits) >= 3
    assert commits == sorted(commits)
    assert commits[-1] == 1500


def test_ctrl_c_ends_quickly_and_keeps_what_was_embedded(collection: Collection) -> None:
    encoder = HashEncoder()
    stopped_at = 0.0

    def stop() -> None:
        nonlocal stopped_at
        if len(encoder.texts) >= 600:
            stopped_at = time.monotonic()
            raise KeyboardInterrupt

    encoder.before = stop
    records = [{"id": str(n), "text": f"record number {n}"} for n in range(2000)]
    report = take_in_records(collection, *records, encoder=encoder)
    assert report.interrupted
    assert time.monotonic() - stopped_at < 1.0
    assert 500 < report.documents < 800
    assert collection.info().documents == report.documents
    assert collection.verify() == ()
    second = HashEncoder()
    take_in_records(collection, *records, encoder=second)
    assert not set(second.texts) & set(encoder.texts)
    assert len(second.texts) + len(encoder.texts) == 2000


def test_a_file_taken_in_by_half_is_finished_although_it_has_not_changed_for_long(
    collection: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the file had been there for hours when the first run began.
    monkeypatch.setattr("ragcli.collection.ingestion.change_detection._SETTLED_NS", -(10**15))
    lines = "".join(f'{{"id": "{n}", "text": "record number {n}"}}\n' for n in range(2000))
    corpus = write_files(tmp_path / "in", {"corpus.jsonl": lines})
    encoder = HashEncoder()

    def stop() -> None:
        if len(encoder.texts) >= 600:
            raise KeyboardInterrupt

    encoder.before = stop
    assert take_in(collection, corpus, encoder=encoder).interrupted
    assert 500 < collection.info().documents < 800
    assert take_in(collection, corpus).interrupted is False
    assert collection.info().documents == 2000


def test_a_document_longer_than_a_batch_is_embedded_once_although_interrupted(
    collection: Collection, tmp_path: Path
) -> None:
    book = write_files(tmp_path / "books", {"book.txt": "\n\n".join(prose(n, 150) for n in range(900))})
    first = HashEncoder()

    def stop() -> None:
        if len(first.texts) >= 700:
            raise KeyboardInterrupt

    first.before = stop
    report = take_in(collection, book, encoder=first)
    assert (report.interrupted, report.documents) == (True, 0)
    assert all_texts(collection) == {}
    assert collection.verify() == ()
    second = HashEncoder()
    report = take_in(collection, book, encoder=second)
    assert report.chunks > 1000
    assert not set(second.texts) & set(first.texts)
    assert report.embedded + len(first.texts) == report.chunks


def test_a_file_that_changes_while_it_is_read_is_read_again_next_time(collection: Collection, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"id": "a", "text": "one"}\n')

    def change() -> HashEncoder:
        return HashEncoder()

    def on_event(event: IngestEvent) -> None:
        if isinstance(event, FilesPlanned):
            with corpus.open("a") as stream:
                stream.write('{"id": "b", "text": "two"}\n')

    ingest(collection, [corpus], change, listener=on_event)
    assert take_in(collection, corpus).unchanged == 0
    assert take_in(collection, corpus).unchanged == 1
    assert all_texts(collection) == {"a": "one", "b": "two"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_a_failure_and_tried_again(collection: Collection, papers: Path) -> None:
    (papers / "a.txt").chmod(0)
    report = take_in(collection, papers)
    assert [failure.source for failure in report.failures] == ["a.txt"]
    (papers / "a.txt").chmod(0o600)
    assert take_in(collection, papers).added == ("a.txt",)


def test_warnings_of_a_reader_are_reported_and_kept(collection: Collection, papers: Path) -> None:
    report = take_in(collection, papers)
    assert all(isinstance(warning, Failure) for warning in report.warnings)
    with collection.snapshot() as snapshot:
        assert all(row.warnings == () for row in snapshot.documents())


def test_records_can_come_from_an_open_stream(collection: Collection) -> None:
    stream = io.BytesIO(b'{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}')
    ingest_jsonl(collection, stream, HashEncoder)
    assert all_texts(collection) == {"a": "one", "b": "two"}

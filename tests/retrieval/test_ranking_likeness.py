"""Passages like a passage, a document or a file, in place of a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.collection_builders import prose, take_in, take_in_records, write_files
from tests.support.pdfs import scanned
from tests.support.tiny_models import tiny_encoder

from ragcli.collection import Collection
from ragcli.errors import InputError, MissingCollection, UsageError
from ragcli.models import load_encoder
from ragcli.retrieval.more_like_this import MAX_QUERY_CHARS
from ragcli.retrieval.request import PIPELINE_NAMES, QueryRequest
from ragcli.retrieval.searcher import Searcher, query
from ragcli.types import CollectionSettings, Hit

TEXTS = {
    "raft.md": "The leader of the cluster is elected by a vote of the servers for one term.",
    "vote.md": "By a vote of the servers in the cluster a leader is elected, and a term begins.",
    "flow.md": "Supersonic flow past a wing has a boundary layer and the pressure is low.",
    "hole.md": "A traversable wormhole needs negative average null energy at its throat.",
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_encoder(tmp_path_factory.mktemp("models") / "encoder"))


@cache
def loaded(name: str) -> Any:
    return None if name == "none" else load_encoder(name)


def made(folder: Path, name: str, texts: Mapping[str, str], encoder: str, **settings: object) -> Collection:
    collection = Collection.create(folder / "data", name, CollectionSettings(encoder=encoder, **settings))  # type: ignore[arg-type]
    assert not take_in(collection, write_files(folder / name, texts), encoder=loaded(encoder)).failures
    return collection


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory, encoder: str) -> Collection:
    return made(tmp_path_factory.mktemp("notes"), "notes", TEXTS, encoder)


def like(collections: Sequence[Collection], what: object, **options: Any) -> tuple[Hit, ...]:
    return query(collections, QueryRequest("", like=str(what), **options)).hits


def sources(hits: Sequence[Hit]) -> list[str]:
    return [hit.chunk.source for hit in hits]


def chunk_of(collection: Collection, source: str, ordinal: int = 0) -> str:
    with collection.snapshot() as snapshot:
        return f"{snapshot.document(source).document_id}:{ordinal}"


@pytest.mark.parametrize("pipeline", PIPELINE_NAMES)
def test_the_passage_most_like_a_chunk_comes_first_and_the_chunk_itself_not_at_all(
    notes: Collection, pipeline: str
) -> None:
    found = sources(like([notes], chunk_of(notes, "raft.md"), pipeline=pipeline))
    assert found[0] == "vote.md"
    assert "raft.md" not in found


def test_a_chunk_is_looked_for_by_the_vector_it_has(notes: Collection) -> None:
    hits = like([notes], chunk_of(notes, "raft.md"), pipeline="dense")
    with notes.snapshot() as snapshot:
        numbers = {row.source: snapshot.document_chunks(row.document_id)[0].number for row in snapshot.documents()}
        vectors = {source: snapshot.vectors[snapshot.rows([n])[n]] for source, n in numbers.items()}
    for hit in hits:
        assert hit.score == pytest.approx(float(vectors["raft.md"] @ vectors[hit.chunk.source]), abs=1e-5)


def test_a_document_can_be_named_by_id_source_and_path(notes: Collection) -> None:
    with notes.snapshot() as snapshot:
        row = snapshot.document("raft.md")
    expected = like([notes], "raft.md")
    assert sources(expected)[0] == "vote.md"
    assert like([notes], row.document_id) == like([notes], row.path) == expected


def test_a_new_file_is_read_cut_and_embedded_for_it(notes: Collection, tmp_path: Path) -> None:
    file = write_files(tmp_path, {"draft.md": "# A draft\n\nThe servers of a cluster vote for a leader in a term.\n"})
    hits = like([notes], file / "draft.md")
    assert set(sources(hits)[:2]) == {"raft.md", "vote.md"}
    assert len(hits) == 4


def test_a_file_that_cannot_be_read_is_named_once_with_what_to_do(notes: Collection, tmp_path: Path) -> None:
    scan = scanned(tmp_path / "scan.pdf")
    with pytest.raises(InputError) as caught:
        like([notes], scan)
    assert str(caught.value).startswith(f"{scan}: its one page has no text (scanned?); `ragcli ingest --ocr` reads it")
    program = write_files(tmp_path, {"program": "MZ"}) / "program"
    with pytest.raises(InputError) as caught:
        like([notes], program)
    assert str(caught.value) == f"{program}: its name has no ending, such as .pdf or .md, that says what it is."


def test_the_same_text_under_another_name_is_no_answer(notes: Collection, tmp_path: Path, encoder: str) -> None:
    copy = write_files(tmp_path, {"copy.md": TEXTS["raft.md"]}) / "copy.md"
    assert "raft.md" not in sources(like([notes], copy))
    other = made(tmp_path, "other", {"same.md": TEXTS["raft.md"], "far.md": TEXTS["flow.md"] + " Far."}, encoder)
    found = sources(like([notes, other], chunk_of(notes, "raft.md"), top=9))
    assert found[0] == "vote.md"
    assert not {"raft.md", "same.md"} & {*found}


def test_a_long_document_leaves_the_places_to_others(tmp_path: Path, encoder: str) -> None:
    texts = {f"{n}.txt": prose(n) for n in range(12)}
    texts["long.txt"] = " ".join(prose(n) for n in range(100, 140))
    collection = made(tmp_path, "many", texts, encoder, chunk_size=300, overlap=0)
    hits = like([collection], "long.txt", top=10, pool=10)
    assert len(hits) == 10
    assert "long.txt" not in sources(hits)


def test_a_documents_vector_is_the_mean_of_its_chunks(tmp_path: Path, encoder: str) -> None:
    texts = {"long.txt": " ".join(prose(n) for n in range(6)), "other.txt": prose(50)}
    collection = made(tmp_path, "some", texts, encoder, chunk_size=300, overlap=0)
    with collection.snapshot() as snapshot:
        numbers = [chunk.number for chunk in snapshot.document_chunks(snapshot.document("long.txt").document_id)]
        mean = snapshot.vectors[list(snapshot.rows(numbers).values())].mean(axis=0)
        other = snapshot.document_chunks(snapshot.document("other.txt").document_id)[0].number
        expected = float(snapshot.vectors[snapshot.rows([other])[other]] @ (mean / np.linalg.norm(mean)))
    hits = like([collection], "long.txt", pipeline="dense")
    assert max(hit.score for hit in hits) >= expected - 1e-5
    assert any(hit.score == pytest.approx(expected, abs=1e-5) for hit in hits)


def test_of_a_long_document_the_passages_nearest_to_its_mean_are_the_words_looked_for(
    tmp_path: Path, encoder: str
) -> None:
    texts = {"long.txt": " ".join(prose(n) for n in range(60))}
    collection = made(tmp_path, "some", texts, encoder)
    with Searcher([collection]) as searcher:
        (_, question), *_ = searcher.ranked(QueryRequest("", like="long.txt"))
    assert 1000 < len(question.text) <= MAX_QUERY_CHARS + 1


def test_collections_of_other_encoders_are_asked_in_their_own_way(
    notes: Collection, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = str(tiny_encoder(tmp_path_factory.mktemp("models") / "other", seed=7, hidden=64))
    second = made(
        tmp_path, "second", {"election.md": "A leader is elected by the servers' vote.", "x.md": "A fish."}, other
    )
    words = made(tmp_path, "words", {"term.md": "A vote in each term makes a leader."}, "none")
    hits = like([notes, second, words], chunk_of(notes, "raft.md"), top=9)
    assert {"vote.md", "election.md", "term.md"} <= set(sources(hits)[:4])


def test_a_collection_without_vectors_is_asked_by_words(tmp_path: Path) -> None:
    words = made(tmp_path, "words", TEXTS, "none")
    assert sources(like([words], "raft.md"))[0] == "vote.md"
    file = write_files(tmp_path, {"draft.txt": "The servers vote for a leader."}) / "draft.txt"
    assert set(sources(like([words], file))[:2]) == {"raft.md", "vote.md"}


def test_what_hits_are_like_can_be_narrowed_and_arranged(notes: Collection) -> None:
    from ragcli.filters import parse_where

    assert sources(like([notes], "raft.md", where=parse_where('file != "vote.md"'))) == sources(
        [hit for hit in like([notes], "raft.md") if hit.chunk.source != "vote.md"]
    )
    assert len(like([notes], "raft.md", group=True, diversity=0.3)) == 3


def test_what_is_not_there_is_said_to_be_missing(notes: Collection, tmp_path: Path) -> None:
    for name in ("d0123456789:0", "no-such.md", "d0123456789:x", "\0", "x" * 5000):
        with pytest.raises(MissingCollection, match="no chunk or document"):
            like([notes], name)
    with pytest.raises(MissingCollection):
        like([notes], tmp_path)


def test_a_file_that_is_no_one_document_is_bad_input(notes: Collection, tmp_path: Path) -> None:
    files = {"many.jsonl": '{"text": "a"}\n{"text": "b"}\n', "empty.md": " \n", "broken.pdf": "no pdf", "x.exe": "x"}
    write_files(tmp_path, files)
    for name, words in (
        ("many.jsonl", "many documents"),
        ("empty.md", "no text"),
        ("broken.pdf", "pdf"),
        ("x.exe", "exe"),
    ):
        with pytest.raises(InputError, match=words):
            like([notes], tmp_path / name)


def test_a_question_and_a_likeness_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        QueryRequest("a question", like="raft.md")
    with pytest.raises(UsageError, match="empty"):
        QueryRequest("")


def test_nothing_is_like_what_another_tenant_has(tmp_path: Path, encoder: str) -> None:
    shared = Collection.create(tmp_path, "shared", CollectionSettings(encoder=encoder, tenant_key="team"))
    take_in_records(
        shared,
        {"_id": "a", "text": TEXTS["raft.md"], "team": "red"},
        {"_id": "b", "text": TEXTS["raft.md"], "team": "blue"},
        {"_id": "c", "text": TEXTS["vote.md"], "team": "blue"},
        encoder=loaded(encoder),
    )
    red, blue = shared.for_tenant("red"), shared.for_tenant("blue")
    assert sources(like([blue], "b:0")) == ["c"]
    assert like([red], "a:0") == ()
    for name in ("b", "b:0", "c:0"):
        with pytest.raises(MissingCollection):
            like([red], name)

"""Verifying and repairing: damage is found and named, and what can be rebuilt is rebuilt."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
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

from ragcli.__main__ import main
from ragcli.collection import Collection, repair
from ragcli.errors import CollectionError, RagcliError
from ragcli.retrieval.exact_search import GrepRequest, grep
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import query


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """A collection with some dead rows, made once; tests damage copies of it."""
    collection = new_collection(tmp_path_factory.mktemp("master"))
    records = [{"id": f"r{n}", "title": f"Title {n}", "text": prose(n, 40), "year": 1990 + n} for n in range(40)]
    take_in_records(collection, *records)
    take_in_records(collection, *({"id": f"r{n}", "text": f"replaced {n}"} for n in range(0, 40, 10)))
    return collection


@pytest.fixture
def collection(master: Collection, tmp_path: Path) -> Collection:
    """A copy that may be damaged."""
    shutil.copytree(master.path, tmp_path / "data" / "papers")
    return Collection.open(tmp_path / "data", "papers")


def flip(path: Path, at: int) -> None:
    """Change one byte of a file."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0x55
    path.write_bytes(data)


def answers(collection: Collection) -> tuple[object, ...]:
    """What searches of several kinds find, in a form that compares."""
    encoder = HashEncoder()
    with collection.snapshot() as snapshot:
        found = snapshot.lexical.search("unique7word wormhole", 5)[0].tolist()
        chunks = snapshot.chunks(snapshot.row_numbers.tolist())
        scores = snapshot.vectors @ encoder.encode(["wormhole energy"])[0]
        scores[snapshot.dead] = -1
        assert snapshot.tfidf is not None
        return (
            [chunks[number].chunk_id for number in found if number in chunks],
            [
                chunks[number].chunk_id
                for number in snapshot.row_numbers[np.argsort(-scores)[:5]].tolist()
                if number in chunks
            ],
            [
                chunks[number].chunk_id
                for number in snapshot.tfidf.rank("unique9word", 1)[0].tolist()
                if number in chunks
            ],
            snapshot.token_frequency.tolist(),
            sorted((document.source, document.text) for document in snapshot.texts()),
        )


def test_a_sound_collection_has_no_problems(collection: Collection) -> None:
    assert collection.verify() == ()


@pytest.mark.parametrize("name", ["vectors.f32", "tokens.bits", "tokens.ids", "tokens.offsets", "rows.ids"])
def test_a_flipped_byte_in_an_array_is_named_and_only_damaged_rows_are_embedded_again(
    collection: Collection, name: str
) -> None:
    before = answers(collection)
    path = collection.path / name
    flip(path, path.stat().st_size - 100)
    problems = collection.verify()
    assert len(problems) == 1
    assert name in problems[0]
    encoder = HashEncoder()
    repair(collection, lambda: encoder)
    assert collection.verify() == ()
    assert answers(collection) == before
    # Damage is known by stretch: here the second ingest's rows, or all where token bounds are lost.
    assert 0 < len(encoder.texts) <= 40


def test_damaged_signs_of_vectors_are_made_anew_from_the_vectors(collection: Collection) -> None:
    before = answers(collection)
    flip(collection.path / "vectors.bits", 10)
    assert "vectors.bits" in collection.verify()[0]

    def no_model() -> HashEncoder:
        raise AssertionError("the vectors are sound")

    repair(collection, no_model)
    assert (collection.verify(), answers(collection)) == ((), before)


@pytest.mark.parametrize("name", ["vectors.f32", "tokens.offsets", "rows.ids"])
def test_a_short_or_missing_array_is_found_and_rebuilt(collection: Collection, name: str) -> None:
    before = answers(collection)
    path = collection.path / name
    path.write_bytes(path.read_bytes()[:-8])
    assert any(name in problem for problem in collection.verify())
    path.unlink()
    assert any(name in problem for problem in collection.verify())
    repair(collection, HashEncoder)
    assert collection.verify() == ()
    assert answers(collection) == before


@pytest.mark.parametrize("name", ["lexical", "tfidf*/terms.i64", "tfidf*/about.json"])
def test_what_a_reader_says_of_damage_names_the_command_that_mends_it(
    collection: Collection, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def call(*words: str) -> tuple[int, str]:
        code = main([*words, "--data-dir", str(collection.path.parent)])
        return code, capsys.readouterr().err

    (place,) = collection.path.glob(name)
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.write_bytes(place.read_bytes()[:3])
    question = ("query", "replaced", "--pipeline", "bm25")
    code, told = call(*question)
    assert code == 3
    assert "`ragcli collections verify --repair`" in told
    assert call("collections", "verify", "--repair") == (0, "")
    assert call(*question)[0] == 0


def test_a_folder_without_its_store_is_told_from_a_collection(collection: Collection) -> None:
    (collection.path / "store.db").unlink()
    data = collection.path.parent
    with pytest.raises(CollectionError, match="is in the way: it is no collection"):
        Collection.create(data, collection.path.name)
    other = Collection.create(data, "other")
    with pytest.raises(CollectionError, match="is in the way"):
        other.rename(collection.path.name)


def test_a_damaged_lexical_index_is_found_and_rebuilt(collection: Collection) -> None:
    before = answers(collection)
    segment = next((collection.path / "lexical").glob("*.term"))
    flip(segment, 20)
    assert any(segment.name in problem for problem in collection.verify())
    done = repair(collection, HashEncoder)
    assert any("lexical" in sentence for sentence in done)
    assert collection.verify() == ()
    assert answers(collection) == before
    assert not (collection.path / "lexical").exists()


def test_a_lexical_index_that_lacks_a_chunk_is_found(collection: Collection) -> None:
    from ragcli.index.bm25 import LexicalWriter

    with LexicalWriter(collection.path / "lexical") as writer:
        writer.delete([5])
        writer.commit()
    assert collection.verify() == ("1 chunks are missing from the lexical index",)


def test_a_removed_lexical_folder_is_found_and_rebuilt(collection: Collection) -> None:
    before = answers(collection)
    shutil.rmtree(collection.path / "lexical")
    assert collection.verify() != ()
    repair(collection, HashEncoder)
    assert (collection.verify(), answers(collection)) == ((), before)


@pytest.mark.parametrize("name", ["weights.f32", "idf.f64", "vocabulary.txt", "about.json", "numbers.i64"])
def test_damage_to_the_tfidf_is_found_and_refitted(collection: Collection, name: str) -> None:
    before = answers(collection)
    (folder,) = collection.path.glob("tfidf*")
    flip(folder / name, 3)
    assert any(name in problem for problem in collection.verify())
    repair(collection, HashEncoder)
    assert (collection.verify(), answers(collection)) == ((), before)


def test_a_damaged_or_contradicting_manifest_is_found_and_written_anew(collection: Collection) -> None:
    path = collection.path / "manifest.json"
    good = path.read_text()
    for bad in ("{", good.replace("1200", "1300")):
        path.write_text(bad)
        assert any("manifest.json" in problem for problem in collection.verify())
        repair(collection, HashEncoder)
        assert (collection.verify(), path.read_text()) == ((), good)


def change_store(collection: Collection, *statements: str) -> None:
    """Change the store behind the collection's back."""
    connection = sqlite3.connect(collection.path / "store.db")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE text_pieces SET text = replace(text, 'e', 'x') WHERE document = 3",
        "UPDATE chunks SET start = start + 1 WHERE document = 3",
        "UPDATE chunks SET heading = 'Another' WHERE document = 3",
        "UPDATE documents SET title = 'Another' WHERE number = 3",
        "UPDATE documents SET characters = 5 WHERE number = 3",
        "UPDATE documents SET metadata = '{' WHERE number = 3",
        "UPDATE metadata SET number = 5 WHERE document = 3",
        "UPDATE layouts SET joins = x'01000000' WHERE document = 3",
        "UPDATE folded_text SET text = 'nothing' WHERE document = 3",
        "DELETE FROM layouts WHERE document = 3",
        "DELETE FROM chunks WHERE document = 3",
    ],
)
def test_a_document_damaged_in_the_store_is_named_taken_out_and_read_again(collection: Collection, damage: str) -> None:
    before = all_texts(collection)
    change_store(collection, damage)
    assert any("'r2'" in problem for problem in collection.verify())
    done = repair(collection, HashEncoder)
    assert any("'r2'" in sentence for sentence in done)
    assert collection.verify() == ()
    del before["r2"]
    assert all_texts(collection) == before
    take_in_records(collection, {"id": "r2", "text": "again"})
    assert all_texts(collection)["r2"] == "again"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE text_pieces SET text = 'x' || text WHERE document = 3",
        "UPDATE chunks SET heading = 'Another' WHERE document = 3",
        "UPDATE chunks SET page_start = 7 WHERE document = 3",
        "UPDATE documents SET metadata = '{' WHERE number = 3",
        "UPDATE documents SET title = 'Another' WHERE number = 3",
        "UPDATE documents SET source = 'another.pdf' WHERE number = 3",
        "UPDATE files SET path = x'2f61'",
    ],
)
def test_a_damaged_passage_is_never_shown(collection: Collection, damage: str) -> None:
    change_store(collection, damage)
    with collection.snapshot() as snapshot, pytest.raises(CollectionError, match="verify"):
        snapshot.find_chunk("r2:0")
    assert collection.verify() != ()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE layouts SET pages = '[[9,null,0,5000]]' WHERE document = 3",
        "UPDATE layouts SET joins = x'01000000' WHERE document = 3",
        "UPDATE chunks SET ordinal = 5 WHERE document = 3",
        "UPDATE documents SET source = 'another.pdf' WHERE number = 3",
        "UPDATE text_pieces SET text = text || ' unique2word' WHERE document = 3",
    ],
)
def test_exact_search_shows_no_damaged_place(collection: Collection, damage: str) -> None:
    change_store(collection, damage)
    with pytest.raises(CollectionError, match="verify"):
        grep([collection], GrepRequest("unique2word"))
    assert [hit.source for hit in grep([collection], GrepRequest("unique4word"))] == ["r4"]


@pytest.mark.parametrize("name", ["vectors.f32", "rows.ids", "rows.sums", "tokens.bits", "tokens.offsets"])
def test_a_query_uses_no_damaged_row(collection: Collection, name: str) -> None:
    """Row 7 is damaged in one array; whoever is about to be ranked by it hears of it, and others do not."""
    place = {"vectors.f32": 7 * 64 + 3, "rows.ids": 7 * 8, "rows.sums": 7 * 12, "tokens.offsets": 7 * 8}
    with collection.snapshot() as snapshot:
        assert snapshot.tokens is not None
        place["tokens.bits"] = 2 * int(snapshot.tokens.offsets[7])
    flip(collection.path / name, place[name])
    with collection.snapshot() as snapshot:
        assert snapshot.tokens is not None
        snapshot.check_vectors([5, 20])
        snapshot.tokens.gather([5, 20])
        told = (_told(lambda: snapshot.check_vectors([5, 7])), _told(lambda: snapshot.tokens.gather([5, 7])))
    assert "damaged" in f"{told[0]} {told[1]}"


def test_a_vector_that_would_be_nearest_to_everything_is_not_served(collection: Collection) -> None:
    from ragcli.engines import open_reader
    from ragcli.retrieval.stages import EncodedQuery, fill_pool

    path = collection.path / "vectors.f32"
    vectors = np.frombuffer(path.read_bytes(), "<f4").reshape(-1, 16).copy()
    vectors[9] = 1e20 * HashEncoder().encode(["wormhole"])[0]
    path.write_bytes(vectors.tobytes())
    question = EncodedQuery("wormhole", lambda text: HashEncoder().encode_tokens([text])[0])
    with open_reader(collection) as reader, pytest.raises(CollectionError, match="--repair"):
        fill_pool([reader], ["dense"], question, 5)


def test_a_damaged_row_is_embedded_anew_rather_than_handed_on(collection: Collection) -> None:
    encoder = HashEncoder()
    take_in_records(collection, {"id": "copy", "title": "Title 7", "text": prose(7, 40)}, encoder=encoder)
    assert encoder.texts == []
    flip(collection.path / "vectors.f32", 7 * 64 + 3)
    take_in_records(collection, {"id": "copy2", "title": "Title 7", "text": prose(7, 40)}, encoder=encoder)
    assert len(encoder.texts) <= 1
    with collection.snapshot() as snapshot:
        snapshot.check_vectors([len(snapshot.vectors) - 1])


def test_compaction_gives_a_damaged_row_no_new_checksum(collection: Collection) -> None:
    flip(collection.path / "vectors.f32", 7 * 64 + 3)
    take_in_records(collection, *({"id": f"more{n}", "text": f"short {n}"} for n in range(150)))
    take_in_records(collection, *({"id": f"more{n}", "text": f"other {n}"} for n in range(150)))
    assert any("vectors.f32" in problem for problem in collection.verify())
    repair(collection, HashEncoder)
    assert collection.verify() == ()
    with collection.snapshot() as snapshot:
        assert len(snapshot.row_numbers) == snapshot.chunk_count


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("UPDATE files SET source = 'other'", "record of the file"),
        ("UPDATE files SET engine = 'pdfiun'", "record of the file"),
        ("UPDATE files SET ingested_at = 'yesterday'", "record of the file"),
        ("UPDATE failures SET reason = 'another'", "record of the failure"),
        ("UPDATE sqlite_sequence SET seq = 3", "last number"),
        ("DELETE FROM sqlite_sequence", "last number"),
    ],
)
def test_damaged_records_beside_the_documents_are_named_and_mended(
    collection: Collection, tmp_path: Path, damage: str, named: str
) -> None:
    folder = write_files(tmp_path / "in", {"a.txt": "a wormhole", "bad.jsonl": "{"})
    take_in(collection, folder)
    assert collection.verify() == ()
    change_store(collection, damage)
    assert any(named in problem for problem in collection.verify())
    repair(collection, HashEncoder)
    assert collection.verify() == ()
    encoder = HashEncoder()
    report = take_in(collection, folder, encoder=encoder)
    assert (encoder.texts, len(report.failures)) == ([], 1)
    assert collection.verify() == ()


def test_damage_to_what_tables_are_found_by_is_mended_from_the_tables(collection: Collection) -> None:
    before = answers(collection)
    connection = sqlite3.connect(collection.path / "store.db")
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'chunks_input'").fetchone()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    # After a page's head of eight bytes stands where its first entry lies; six in, one is in an input's hash.
    start = (page - 1) * 8192
    entry = int.from_bytes((collection.path / "store.db").read_bytes()[start + 8 : start + 10], "big")
    flip(collection.path / "store.db", start + entry + 6)
    assert collection.verify() != ()
    done = repair(collection, HashEncoder)
    assert "the store's own indexes were made anew" in done
    assert (collection.verify(), answers(collection)) == ((), before)


def test_a_store_that_fell_back_to_an_earlier_commit_is_told(collection: Collection, tmp_path: Path) -> None:
    shutil.copy(collection.path / "store.db", tmp_path / "earlier.db")
    take_in_records(collection, {"id": "late", "text": "what came last"})
    shutil.copy(tmp_path / "earlier.db", collection.path / "store.db")
    assert any("gone back" in problem for problem in collection.verify())
    repair(collection, HashEncoder)
    assert collection.verify() == ()


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE generation SET rows = rows - 1",
        "UPDATE generation SET settings = replace(settings, '1200', '1300')",
        "DELETE FROM generation",
    ],
)
def test_a_damaged_generation_record_is_refused_by_readers_and_writers(collection: Collection, damage: str) -> None:
    change_store(collection, damage)
    assert len(collection.verify()) == 1
    with pytest.raises(CollectionError):
        collection.info()
    with pytest.raises(CollectionError):
        take_in_records(collection, {"id": "x", "text": "y"})


@pytest.mark.parametrize("damage", ["DELETE FROM chunks WHERE document = 3", "DELETE FROM documents WHERE number = 3"])
def test_a_chunk_that_the_store_has_lost_is_an_error_and_no_bug(collection: Collection, damage: str) -> None:
    change_store(collection, damage)
    for request in (
        QueryRequest("wormhole energy", top=99, pipeline="tfidf", reranker="none"),
        QueryRequest("wormhole energy", top=99, pipeline="bm25", reranker="none"),
    ):
        with pytest.raises(CollectionError, match="verify papers"):
            query([collection], request)


def test_lost_counts_and_dead_rows_are_found_and_mended(collection: Collection) -> None:
    before = answers(collection)
    change_store(collection, "DELETE FROM blobs")
    assert collection.verify() != ()
    repair(collection, HashEncoder)
    assert (collection.verify(), answers(collection)) == ((), before)


@pytest.mark.parametrize(
    ("name", "rule", "instead"),
    [
        ("chunks", " ON DELETE CASCADE", ""),
        ("documents", "AUTOINCREMENT", ""),
        ("documents_record", "UNIQUE ", ""),
        ("files", "engine TEXT", "enginx TEXT"),
    ],
)
def test_a_rule_that_the_store_has_lost_is_named_and_beyond_repair(
    collection: Collection, name: str, rule: str, instead: str
) -> None:
    change = f"UPDATE sqlite_master SET sql = replace(sql, '{rule}', '{instead}') WHERE name = '{name}'"  # noqa: S608
    change_store(collection, "PRAGMA writable_schema = ON", change)
    assert any(f"{name} is not defined as it was made" in problem for problem in collection.verify())
    with pytest.raises(CollectionError, match="ingest the documents again"):
        repair(collection, HashEncoder)


def test_a_definition_that_is_no_text_any_more_is_a_sentence(collection: Collection) -> None:
    path = collection.path / "store.db"
    data = bytearray(path.read_bytes())
    data[data.index(b"CREATE TABLE chunks") + len("CREATE ")] = 0xCC
    path.write_bytes(data)
    (problem,) = collection.verify()
    assert "verify papers" in problem
    with pytest.raises(CollectionError):
        collection.info()
    with pytest.raises(CollectionError):
        take_in_records(collection, {"id": "x", "text": "y"})


def test_a_store_that_sqlite_finds_broken_cannot_be_repaired_and_says_so(collection: Collection) -> None:
    path = collection.path / "store.db"
    data = bytearray(path.read_bytes())
    data[8192 * 4 : 8192 * 6] = bytes(8192 * 2)
    path.write_bytes(data)
    assert collection.verify() != ()
    with pytest.raises(CollectionError, match="ingest the documents again"):
        repair(collection, HashEncoder)


def test_repairing_a_sound_collection_changes_nothing(collection: Collection) -> None:
    before = answers(collection)

    def no_model() -> HashEncoder:
        raise AssertionError("nothing is damaged")

    assert repair(collection, no_model) == ()
    assert answers(collection) == before


def test_any_flipped_byte_is_found_or_harmless_and_never_a_traceback(master: Collection, tmp_path: Path) -> None:
    """A sample of places in every file; the answers stay, or verify says what is wrong."""
    rng = np.random.default_rng(0)
    before = answers(master)
    files = sorted(path.relative_to(master.path) for path in master.path.rglob("*") if path.is_file())
    skipped = ("writer.lock", "readers.lock", "store.db-shm", ".tantivy-writer.lock", ".tantivy-meta.lock")
    for name in files:
        size = (master.path / name).stat().st_size
        if not size or name.name in skipped:
            continue
        places = rng.integers(0, size, 12 if name.name == "store.db" else 1).tolist()
        for place in places:
            copy = tmp_path / "data" / "papers"
            shutil.copytree(master.path, copy)
            flip(copy / name, place)
            damaged = Collection(copy)
            problems = damaged.verify()
            told = _told(lambda: answers(damaged))  # noqa: B023
            assert problems or told == before, f"{name} at {place}"
            shutil.rmtree(copy)


def _told(call: Callable[[], object]) -> object:
    try:
        return call()
    except RagcliError as error:
        return str(error)

"""Collections as a whole: names, creation, renaming, deletion, locks, formats, permissions."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.collection_builders import (
    HashEncoder,
    all_texts,
    new_collection,
    prose,
    run_unprivileged,
    take_in_records,
)

from ragcli.collection import Collection, check_name, list_collections
from ragcli.errors import CollectionBusy, CollectionError, MissingCollection, UsageError
from ragcli.types import CollectionSettings


@pytest.mark.parametrize("name", ["papers", "A", "0day", "a.b-c_d", "x" * 64])
def test_a_plain_name_is_accepted(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".hidden", "-x", "_x", "a/b", "a\\b", "a b", "a\n", "é", "x" * 65, "../papers", "a\0"]
)
def test_a_name_that_could_leave_the_data_directory_is_refused(tmp_path: Path, name: str) -> None:
    for call in (
        check_name,
        lambda each: Collection.open(tmp_path, each),
        lambda each: Collection.create(tmp_path, each),
    ):
        with pytest.raises(UsageError):
            call(name)


def test_a_new_collection_is_listed_and_empty(tmp_path: Path) -> None:
    new_collection(tmp_path, "b")
    new_collection(tmp_path, "a", chunk_size=500, overlap=50)
    assert list_collections(tmp_path / "data") == ("a", "b")
    info = Collection.open(tmp_path / "data", "a").info()
    assert (info.documents, info.chunks, info.failures, info.last_ingest) == (0, 0, 0, None)
    assert info.settings == CollectionSettings(chunk_size=500, overlap=50, encoder="fake")
    assert info.bytes > 0


def test_an_empty_collection_can_be_searched(tmp_path: Path) -> None:
    with new_collection(tmp_path).snapshot() as snapshot:
        assert snapshot.vectors.shape[0] == 0
        assert list(snapshot.texts("x")) == []
        assert snapshot.lexical.search("anything", 5)[0].tolist() == []
        assert (snapshot.rows([1]), snapshot.chunks([1]), snapshot.tokens, snapshot.tfidf) == ({}, {}, None, None)


def test_a_collection_cannot_be_created_twice(tmp_path: Path) -> None:
    new_collection(tmp_path)
    with pytest.raises(CollectionError, match="already"):
        new_collection(tmp_path)
    assert [entry.name for entry in (tmp_path / "data").iterdir()] == ["papers"]


@pytest.mark.parametrize("settings", [{"chunk_size": 49}, {"overlap": 1200}, {"overlap": -1}, {"context": "all"}])
def test_settings_that_make_no_sense_are_a_usage_error(tmp_path: Path, settings: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        new_collection(tmp_path, **settings)


def test_a_missing_collection_names_those_that_are_there(tmp_path: Path) -> None:
    new_collection(tmp_path, "physics")
    with pytest.raises(MissingCollection, match="physics"):
        Collection.open(tmp_path / "data", "papers")
    with pytest.raises(MissingCollection):
        Collection.open(tmp_path / "nowhere", "papers")


def test_a_folder_without_a_store_is_no_collection(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    assert list_collections(tmp_path) == ()
    with pytest.raises(MissingCollection):
        Collection.open(tmp_path, "notes")


def test_a_renamed_collection_has_its_documents(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    take_in_records(collection, {"id": "a", "text": "some words"})
    renamed = collection.rename("articles")
    assert list_collections(tmp_path / "data") == ("articles",)
    assert all_texts(renamed) == {"a": "some words"}
    with renamed.snapshot() as snapshot:
        assert snapshot.collection == "articles"


def test_renaming_to_a_taken_name_changes_nothing(tmp_path: Path) -> None:
    collection, _ = new_collection(tmp_path, "a"), new_collection(tmp_path, "b")
    with pytest.raises(CollectionError, match="already"):
        collection.rename("b")
    with pytest.raises(UsageError):
        collection.rename("../b")
    assert list_collections(tmp_path / "data") == ("a", "b")


def test_a_deleted_collection_leaves_nothing_behind(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    take_in_records(collection, {"id": "a", "text": "some words"})
    collection.delete()
    assert list((tmp_path / "data").iterdir()) == []
    with pytest.raises(MissingCollection):
        collection.info()


def test_what_a_killed_deletion_left_is_swept_by_the_next_ingest_of_another_collection(tmp_path: Path) -> None:
    other = new_collection(tmp_path, "other")
    new_collection(tmp_path, "old").path.rename(tmp_path / "data" / ".trash-0123")
    take_in_records(other, {"id": "a", "text": "one"})
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["other"]


def test_what_a_killed_deletion_left_is_swept_by_the_next_creation(tmp_path: Path) -> None:
    data = tmp_path / "data"
    new_collection(tmp_path, "old").path.rename(data / ".trash-0123")
    new_collection(tmp_path, "new")
    assert [entry.name for entry in data.iterdir()] == ["new"]


def test_everything_is_readable_by_the_user_alone(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    take_in_records(collection, *({"id": str(n), "text": f"words {n}"} for n in range(3)))
    assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
    assert stat.S_IMODE(collection.path.stat().st_mode) == 0o700
    open_to_others = [
        path.name for path in collection.path.iterdir() if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    assert open_to_others == []


def test_a_store_of_another_format_is_refused_with_the_way_out(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    connection = sqlite3.connect(collection.path / "store.db")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(CollectionError, match="newer ragcli"):
        collection.info()
    with pytest.raises(CollectionError, match="newer ragcli"):
        take_in_records(collection, {"id": "a", "text": "b"})


def test_a_store_that_is_no_database_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    for name in ("store.db-wal", "store.db-shm"):
        (collection.path / name).unlink(missing_ok=True)
    (collection.path / "store.db").write_bytes(b"not a database, but quite long" * 1000)
    with pytest.raises(CollectionError, match="cannot be read"):
        collection.info()
    assert len(collection.verify()) == 1


def test_other_settings_than_the_stored_ones_name_reindex(tmp_path: Path) -> None:
    collection = new_collection(tmp_path, chunk_size=600)
    collection.check_settings(chunk_size=600, encoder="fake")
    with pytest.raises(CollectionError, match=r"chunk size 600, not 700.*ragcli reindex"):
        collection.check_settings(chunk_size=700)
    with pytest.raises(CollectionError, match="ragcli reindex"):
        collection.check_settings(encoder="other")


def test_another_model_under_the_same_name_is_refused(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    take_in_records(collection, {"id": "a", "text": "some words"})
    with pytest.raises(CollectionError, match="ragcli reindex"):
        take_in_records(collection, {"id": "b", "text": "more words"}, encoder=HashEncoder(fingerprint="0" * 64))
    assert all_texts(collection) == {"a": "some words"}


HOLDER = """
    import sys, time
    from pathlib import Path
    from ragcli.collection.store.locks import writer_lock
    with writer_lock(Path(sys.argv[1])):
        print("held", flush=True)
        time.sleep(60)
"""


def test_a_second_writer_is_told_the_process_id_of_the_first(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(collection.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            for write in (collection.delete, lambda: collection.rename("b"), lambda: take_in_records(collection)):
                with pytest.raises(CollectionBusy, match=str(holder.pid)):
                    write()
        finally:
            holder.kill()
    # The kernel has released the lock of the process that was killed.
    take_in_records(collection, {"id": "a", "text": "b"})


def test_a_writer_that_waits_goes_on_when_the_other_is_done(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    command = [sys.executable, "-c", textwrap.dedent(HOLDER), str(collection.path)]
    told: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()

        def notify(sentence: str) -> None:
            told.append(sentence)
            holder.kill()

        collection.delete(wait=True, notify=notify)
    assert len(told) == 1
    assert str(holder.pid) in told[0]
    assert list_collections(tmp_path / "data") == ()


READER = """
    import sys
    from pathlib import Path
    from ragcli.collection import Collection
    with Collection.open(Path(sys.argv[1]), "papers").snapshot() as snapshot:
        print(snapshot.lexical.search("wormhole", 3)[0].tolist(), len(snapshot.vectors), snapshot.tfidf.size)
        print([document.source for document in snapshot.texts("wormhole")])
"""


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A data directory with a collection in it that may not be written."""
    collection = new_collection(tmp_path)
    take_in_records(collection, {"id": "a", "text": "a wormhole"}, {"id": "b", "text": "other words"})
    data = tmp_path / "data"
    paths = [data, *data.rglob("*")]
    for path in paths:
        path.chmod(0o500 if path.is_dir() else 0o400)
    yield data
    for path in paths:
        path.chmod(0o700)


def test_a_collection_in_a_read_only_folder_can_be_read(read_only: Path) -> None:
    done = run_unprivileged(READER, str(read_only))
    assert done.stdout == "[1] 2 2\n['a']\n", done.stderr


def test_writing_into_a_read_only_folder_is_an_error_in_a_sentence(read_only: Path) -> None:
    writer = """
        import sys
        from pathlib import Path
        from ragcli.collection import Collection, ingest_jsonl
        from ragcli.errors import CollectionError
        collection = Collection.open(Path(sys.argv[1]), "papers")
        for write in (collection.delete, lambda: ingest_jsonl(collection, [b'{"id": "c", "text": "d"}'], None)):
            try:
                write()
            except CollectionError as error:
                print("cannot be written" in str(error))
    """
    done = run_unprivileged(writer, str(read_only))
    assert done.stdout == "True\nTrue\n", done.stderr
    assert all_texts(Collection.open(read_only, "papers")) == {"a": "a wormhole", "b": "other words"}


@pytest.mark.parametrize("limit", [60_000, 800_000])
def test_a_full_disk_is_told_and_costs_nothing_committed(tmp_path: Path, limit: int) -> None:
    collection = new_collection(tmp_path)
    take_in_records(collection, *({"id": f"old{n}", "text": prose(n, 30)} for n in range(20)))
    before = all_texts(collection)
    script = """
        import resource, sys
        from pathlib import Path
        from ragcli.collection import Collection
        from ragcli.errors import CollectionError
        from tests.support.collection_builders import prose, take_in_records
        collection = Collection.open(Path(sys.argv[1]), "papers")
        # No file may grow beyond the limit, as if there were no room for it.
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
        try:
            take_in_records(collection, *({"id": f"new{n}", "text": prose(n, 100)} for n in range(1500)))
        except CollectionError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "data"), str(limit)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "intact" in done.stdout, done.stderr
    assert collection.verify() == ()
    after = all_texts(collection)
    assert {source: after[source] for source in before} == before
    take_in_records(collection, {"id": "later", "text": "there is room again"})
    assert collection.verify() == ()

"""A collection from an older ragcli is brought up to date, or refused with the way out."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from tests.support.collection_builders import (
    HashEncoder,
    all_texts,
    new_collection,
    prose,
    run_unprivileged,
    take_in,
    take_in_records,
    write_files,
)

from ragcli.__main__ import main
from ragcli.collection import Collection, repair
from ragcli.collection.maintain.migrations.legacy_hashes import (
    FILE_QUERY_FORMAT_3,
    hash_document_format_3,
    short_hash_format_3,
)
from ragcli.collection.store.locks import writer_lock
from ragcli.collection.store.row_hash import hash_stored_summary
from ragcli.errors import CollectionBusy, CollectionError


def change_store(folder: Path, *statements: str) -> None:
    connection = sqlite3.connect(folder / "store.db", isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def age(folder: Path, version: int) -> None:
    """Make of a collection what an older format would have made of it."""
    change_store(
        folder,
        "UPDATE documents SET metadata = ifnull(json_extract(layers, '$.read'), '{}')",
        "ALTER TABLE documents DROP COLUMN layers",
        *(f"ALTER TABLE files DROP COLUMN {column}" for column in ("born_ns", "sidecar", "meta")),
        "DELETE FROM metadata WHERE key NOT IN (SELECT key FROM json_each("
        "(SELECT metadata FROM documents WHERE number = metadata.document)))",
        "CREATE TABLE older (document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE, key TEXT NOT NULL,"
        " position INTEGER NOT NULL, type TEXT NOT NULL, text TEXT, number REAL,"
        " PRIMARY KEY (document, key, position)) WITHOUT ROWID",
        "INSERT INTO older SELECT * FROM metadata",
        "DROP TABLE metadata",
        "ALTER TABLE older RENAME TO metadata",
        "CREATE INDEX metadata_text ON metadata (key, text, document)",
        "CREATE INDEX metadata_number ON metadata (key, number, document)",
    )
    with closing(sqlite3.connect(folder / "store.db", isolation_level=None)) as connection:
        for number, *row, _ in connection.execute(FILE_QUERY_FORMAT_3).fetchall():
            connection.execute(
                "UPDATE files SET seal = ? WHERE number = ?", (short_hash_format_3([number, *row]), number)
            )
        for (number,) in connection.execute("SELECT number FROM documents").fetchall():
            seals = (hash_document_format_3(connection, number), hash_stored_summary(connection, number), number)
            connection.execute("UPDATE documents SET seal = ?, card = ? WHERE number = ?", seals)
    if version == 2:
        columns = (("files", "seal"), ("failures", "seal"), ("documents", "card"), ("layouts", "frame"))
        change_store(
            folder,
            *(f"ALTER TABLE {table} DROP COLUMN {column}" for table, column in columns),
            "DELETE FROM segments WHERE file = 'rows.sums'",
        )
        for path in folder.glob("rows*.sums"):
            path.unlink()
    change_store(folder, f"PRAGMA user_version = {version}", "PRAGMA wal_checkpoint(TRUNCATE)")


@pytest.fixture(scope="module", params=[2, 3])
def master(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    work = tmp_path_factory.mktemp("master")
    collection = new_collection(work)
    take_in(collection, write_files(work / "in", {"notes/a.txt": prose(500), "bad.json": "{"}))
    told = {"tag": ["x", "y"], "date": "2024-05-01", "open": True, "size": 2**60}
    take_in_records(collection, *({"id": f"r{n}", "text": prose(n, 30), **told} for n in range(12)))
    take_in_records(collection, {"id": "r3", "text": "replaced"})
    age(collection.path, request.param)
    return collection.path


@pytest.fixture
def old(master: Path, tmp_path: Path) -> Path:
    """A copy of a collection of an older format."""
    shutil.copytree(master, tmp_path / "data" / "papers")
    return tmp_path / "data" / "papers"


def test_an_older_collection_is_brought_up_to_date_when_it_is_opened(old: Path) -> None:
    told: list[str] = []
    collection = Collection.open(old.parent, "papers", notify=told.append)
    assert told == ["the collection 'papers' is from an older ragcli and is brought up to date."]
    assert collection.verify() == ()
    assert len(all_texts(collection)) == 13
    with collection.snapshot() as snapshot:
        snapshot.check_vectors(range(len(snapshot.row_numbers)))
        assert snapshot.tokens is not None
        snapshot.tokens.gather(range(len(snapshot.row_numbers)))
        assert snapshot.document("r7").metadata == {
            "kind": "jsonl",
            "tag": ["x", "y"],
            "date": date(2024, 5, 1),
            "year": 2024,
            "open": True,
            "size": 2**60,
        }
        assert snapshot.document("notes/a.txt").metadata["folder"] == ["in", "notes"]
    encoder = HashEncoder()
    take_in_records(collection, {"id": "r5", "text": prose(5, 30)}, encoder=encoder)
    assert encoder.texts == []
    Collection.open(old.parent, "papers", notify=told.append)
    assert len(told) == 1


def test_what_was_damaged_before_stays_damaged(old: Path) -> None:
    vectors = bytearray((old / "vectors.f32").read_bytes())
    vectors[-30] ^= 1
    (old / "vectors.f32").write_bytes(vectors)
    change_store(old, "UPDATE documents SET title = 'Another' WHERE id = 'r7'")
    collection = Collection.open(old.parent, "papers")
    problems = " ".join(collection.verify())
    assert "vectors.f32" in problems
    assert "'r7'" in problems
    with collection.snapshot() as snapshot:
        with pytest.raises(CollectionError, match="verify"):
            snapshot.document("r7")
        with pytest.raises(CollectionError, match="verify"):
            snapshot.check_vectors([len(snapshot.vectors) - 1])
    repair(collection, HashEncoder)
    assert collection.verify() == ()


KILLED = """
import os, signal, sys
from pathlib import Path
from ragcli.collection import Collection
import ragcli.collection.maintain.migrations.migration_runner as upgrading

left = int(sys.argv[2])
def tick(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
real, sync = upgrading.open_for_writing, os.fsync
def traced(*arguments, **options):
    connection = real(*arguments, **options)
    connection.set_trace_callback(tick)
    return connection
upgrading.open_for_writing = traced
os.fsync = lambda *each: (tick(), sync(*each), tick())
Collection.open(Path(sys.argv[1]), "papers")
print(left)
"""


@pytest.mark.parametrize(
    "moment", [8, 40, pytest.param(16, marks=pytest.mark.slow), pytest.param(70, marks=pytest.mark.slow)]
)
def test_one_that_is_killed_leaves_the_old_collection_or_the_new(old: Path, moment: int) -> None:
    command = [sys.executable, "-c", KILLED, str(old.parent), str(moment)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stdout + done.stderr
    collection = Collection.open(old.parent, "papers")
    assert collection.verify() == ()
    assert len(all_texts(collection)) == 13


def test_readers_that_come_upon_an_older_collection_together_are_all_answered(old: Path) -> None:
    words = [sys.executable, "-m", "ragcli", "grep", "replaced", "--count", "--data-dir", str(old.parent)]
    with writer_lock(old):
        readers = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(3)]
        time.sleep(0.5)
    told = [reader.communicate(timeout=60) for reader in readers]
    assert [reader.returncode for reader in readers] == [0, 0, 0], told
    assert len({out for out, _ in told}) == 1
    assert sum("is brought up to date" in errors for _, errors in told) == 1


def test_where_it_cannot_be_done_the_sentence_says_what_to_do(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragcli.collection.maintain.migrations.migration_runner.LOCK_WAIT_SECONDS", 0.1)
    with writer_lock(old), pytest.raises(CollectionBusy, match=r"older ragcli.*Process.*when it is done\.$"):
        Collection.open(old.parent, "papers")
    with pytest.raises(CollectionError, match=r"format [23].*ragcli collections show papers"):
        Collection(old).info()
    old.chmod(0o500)
    (old / "writer.lock").chmod(0o400)
    script = """
        import sys
        from pathlib import Path
        from ragcli.collection import Collection
        from ragcli.errors import CollectionError
        try:
            Collection.open(Path(sys.argv[1]), "papers")
        except CollectionError as error:
            print(error)
    """
    done = run_unprivileged(script, str(old.parent))
    old.chmod(0o700)
    assert "older ragcli" in done.stdout, done.stderr
    assert "Permission denied" in done.stdout


@pytest.mark.parametrize(("version", "age_told"), [(99, "newer"), (1, "older")])
def test_a_format_that_cannot_be_read_names_the_way_out_and_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: int, age_told: str
) -> None:
    collection = new_collection(tmp_path, encoder="none")
    other = new_collection(tmp_path, "other", encoder="none")
    folder = write_files(tmp_path / "in", {"a.txt": "a wormhole"})
    take_in(collection, folder)
    take_in(other, folder)
    change_store(collection.path, f"PRAGMA user_version = {version}")
    monkeypatch.setenv("RAGCLI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    for call in (
        ["grep", "wormhole", "-c", "papers"],
        ["ingest", str(folder), "-c", "papers"],
        ["collections", "verify"],
    ):
        assert main(call) == 3
        said = capsys.readouterr()
        assert f"format {version}, from an {age_told}".replace("an newer", "a newer") in said.out + said.err
        assert "ragcli collections delete papers" in said.out + said.err
    # One that cannot be read does not keep the others from being searched.
    assert main(["grep", "wormhole", "-l"]) == 0
    assert main(["collections", "delete", "papers", "--yes"]) == 0
    assert main(["ingest", str(folder), "-c", "papers", "--encoder", "none"]) == 0
    assert main(["grep", "wormhole", "-c", "papers"]) == 0

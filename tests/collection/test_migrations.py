"""A collection of an older format is brought up to date step by step; one of a newer format is refused."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.collection_builders import all_texts, new_collection, prose, run_unprivileged, take_in, write_files

from ragcli.__main__ import main
from ragcli.collection import Collection
from ragcli.collection.maintain.migrations.migration_runner import migrate, needs_migration
from ragcli.collection.store.schema import STORE_FORMAT
from ragcli.errors import CollectionError


def add_language(_folder: Path, connection: sqlite3.Connection) -> None:
    """A made-up migration: documents get a language."""
    connection.execute("ALTER TABLE documents ADD COLUMN language TEXT")
    connection.execute("UPDATE documents SET language = 'en'")


def add_country(_folder: Path, connection: sqlite3.Connection) -> None:
    """The one after it."""
    connection.execute("ALTER TABLE documents ADD COLUMN country TEXT")


MADE_UP = {STORE_FORMAT: add_language, STORE_FORMAT + 1: add_country}


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    collection = new_collection(tmp_path, encoder="none")
    take_in(collection, write_files(tmp_path / "in", {"a.txt": prose(1), "b.txt": prose(2)}))
    return collection


def columns(collection: Collection) -> set[str]:
    with sqlite3.connect(collection.path / "store.db") as connection:
        return {row[1] for row in connection.execute("PRAGMA table_info(documents)")}


def format_of(collection: Collection) -> int:
    with sqlite3.connect(collection.path / "store.db") as connection:
        found: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return found


def test_each_step_is_applied_in_turn_and_said_once(collection: Collection) -> None:
    told: list[str] = []
    assert needs_migration(collection.path, MADE_UP)
    migrate(collection.path, told.append, MADE_UP)
    assert told == ["the collection 'papers' is from an older ragcli and is brought up to date."]
    assert format_of(collection) == STORE_FORMAT + 2
    assert {"language", "country"} <= columns(collection)
    assert not needs_migration(collection.path, MADE_UP)


def test_a_collection_of_this_format_needs_no_migration(collection: Collection) -> None:
    assert not needs_migration(collection.path)
    before = (collection.path / "store.db").read_bytes()
    migrate(collection.path)
    assert (collection.path / "store.db").read_bytes() == before
    assert collection.verify() == ()


def test_a_step_that_fails_leaves_the_collection_as_it_was(collection: Collection) -> None:
    def fail(folder: Path, connection: sqlite3.Connection) -> None:
        add_language(folder, connection)
        connection.execute("no statement")

    with pytest.raises(CollectionError, match="older ragcli"):
        migrate(collection.path, migrations={STORE_FORMAT: fail})
    assert format_of(collection) == STORE_FORMAT
    assert "language" not in columns(collection)
    assert collection.verify() == ()


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.collection.test_migrations import MADE_UP
import ragcli.collection.maintain.migrations.migration_runner as migration_runner

left = int(sys.argv[2])
def tick(*_):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
real, sync = migration_runner.open_for_writing, os.fsync
def traced(*arguments):
    connection = real(*arguments)
    connection.set_trace_callback(tick)
    return connection
migration_runner.open_for_writing = traced
migration_runner.migrate(Path(sys.argv[1]), None, MADE_UP)
"""


def test_one_that_is_killed_at_any_moment_leaves_a_whole_collection_of_one_format(collection: Collection) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    for moment in range(1, 40):
        command = [sys.executable, "-c", KILLED, str(collection.path), str(moment)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        added = {"language", "country"} & columns(collection)
        assert len(added) == format_of(collection) - STORE_FORMAT
        if done.returncode == 0:
            break
    assert moment > 3
    assert format_of(collection) == STORE_FORMAT + 2


def test_where_a_folder_cannot_be_written_the_sentence_says_what_must_be_done(collection: Collection) -> None:
    folder = collection.path
    folder.chmod(0o500)
    (folder / "writer.lock").chmod(0o400)
    script = """
        import sys
        from pathlib import Path
        from ragcli.collection.maintain.migrations.migration_runner import migrate
        from ragcli.errors import CollectionError
        from tests.collection.test_migrations import MADE_UP
        try:
            migrate(Path(sys.argv[1]), None, MADE_UP)
        except CollectionError as error:
            print(error)
    """
    done = run_unprivileged(script, str(folder))
    folder.chmod(0o700)
    assert "older ragcli" in done.stdout, done.stderr
    assert "Permission denied" in done.stdout


@pytest.mark.parametrize(("version", "said"), [(99, "format 99, from a newer"), (-3, "format -3, which no ragcli")])
def test_a_format_that_cannot_be_read_names_the_way_out_and_it_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: int, said: str
) -> None:
    collection = new_collection(tmp_path, encoder="none")
    other = new_collection(tmp_path, "other", encoder="none")
    folder = write_files(tmp_path / "in", {"a.txt": "a wormhole"})
    take_in(collection, folder)
    take_in(other, folder)
    with sqlite3.connect(collection.path / "store.db") as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    monkeypatch.setenv("RAGCLI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    for call in (
        ["grep", "wormhole", "-c", "papers"],
        ["ingest", str(folder), "-c", "papers"],
        ["collections", "verify"],
    ):
        assert main(call) == 3
        printed = capsys.readouterr()
        assert said in printed.out + printed.err
        assert "ragcli collections delete papers" in printed.out + printed.err
    # One that cannot be read does not keep the others from being searched.
    assert main(["grep", "wormhole", "-l"]) == 0
    assert main(["collections", "delete", "papers", "--yes"]) == 0
    assert main(["ingest", str(folder), "-c", "papers", "--encoder", "none"]) == 0
    assert main(["grep", "wormhole", "-c", "papers"]) == 0
    assert all_texts(Collection.open(tmp_path / "data", "other"))


def test_what_a_newer_ragcli_has_migrated_is_refused_with_a_sentence(collection: Collection) -> None:
    migrate(collection.path, migrations=MADE_UP)
    with pytest.raises(CollectionError, match=rf"format {STORE_FORMAT + 2}, from a newer ragcli.*Update ragcli"):
        Collection.open(collection.path.parent, "papers").info()

"""Killing the process in the middle, and readers beside a writer: nothing is lost, nothing is mixed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
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

from ragcli.collection import Collection, ingest, list_collections, reindex
from ragcli.errors import MissingCollection

REPOSITORY = Path(__file__).parents[2]

CHILD = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path

from ragcli.collection import Collection, ingest, reindex
from ragcli.collection.ingestion.ingest_run import IngestOptions
from tests.support.collection_builders import HashEncoder

data, work, action, last = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
collection = Collection.open(data, "papers")
log = os.open(work / "embedded.log", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
ticks = 0

def tick(*_):
    global ticks
    ticks += 1
    if ticks == last:
        os.kill(os.getpid(), signal.SIGKILL)

def around(owner, name):
    inner = getattr(owner, name)
    def outer(*arguments, **options):
        tick()
        result = inner(*arguments, **options)
        tick()
        return result
    setattr(owner, name, outer)

import ragcli.collection.store.sqlite_connection
import ragcli.index.append_only_array
import ragcli.index.bm25
import ragcli.index.tfidf
around(os, "fsync")
around(Path, "rename")
around(Path, "replace")
around(Path, "unlink")
around(ragcli.index.append_only_array.RowWriter, "append")
around(ragcli.index.bm25.LexicalWriter, "commit")
around(ragcli.index.bm25.LexicalWriter, "delete")
sys.addaudithook(lambda event, arguments: tick() if event in ("os.truncate", "shutil.rmtree") else None)

encoder = HashEncoder()
inner = encoder.encode_tokens
def encode_tokens(texts):
    os.write(log, "".join(text.replace(chr(10), " ") + chr(10) for text in texts).encode())
    return inner(texts)
encoder.encode_tokens = encode_tokens

# SQLite has no hook for its writes in Python; every statement of a transaction is a moment, COMMIT's among them.
real = ragcli.collection.store.sqlite_connection.open_for_writing
def traced(folder):
    connection = real(folder)
    moments = ("COMMIT", "BEGIN", "INSERT OR REPLACE")
    connection.set_trace_callback(lambda sql: tick() if sql.startswith(moments) else None)
    return connection
import ragcli.collection.write.collection_writer
ragcli.collection.write.collection_writer.open_for_writing = traced

if action == "ingest":
    ingest(collection, [work / "in"], lambda: encoder, IngestOptions(prune=True))
elif action == "reindex":
    reindex(collection, replace(collection.settings, chunk_size=300, overlap=30), lambda: encoder)
elif action == "rename":
    collection.rename("articles")
else:
    collection.delete()
print(ticks)
"""


def run_child(data: Path, work: Path, action: str, last: int) -> subprocess.CompletedProcess[str]:
    """Do something to the collection, and be killed at the `last`-th moment (never, if 0)."""
    command = [sys.executable, "-c", CHILD, str(data), str(work), action, str(last)]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def prepare(work: Path) -> Collection:
    """A collection, and a folder in which something was added, changed, moved and removed since."""
    collection = new_collection(work)
    texts = {f"{n}.txt": prose(n, 150) for n in range(30)}
    folder = write_files(work / "in", texts)
    records = [{"id": f"r{n}", "text": prose(1000 + n, 20)} for n in range(700)]
    write_records(folder, records)
    take_in(collection, folder)
    for n in range(0, 30, 3):
        write_files(folder, {f"{n}.txt": prose(5000 + n, 200)})
    (folder / "1.txt").unlink()
    (folder / "2.txt").rename(folder / "moved.txt")
    write_records(folder, [{"id": f"r{n}", "text": prose(2000 + n if n % 2 else 1000 + n, 20)} for n in range(50, 800)])
    return collection


def write_records(folder: Path, records: list[dict[str, str]]) -> None:
    lines = [json.dumps(record) + "\n" for record in records]
    (folder / "corpus.jsonl").write_text("".join(lines))


# Counted moments: writes, syncs, commits, renames and removals. There are about 210 here.
# `scripts/torture` kills at the system calls themselves, wherever the system allows that; this one does so everywhere.
@pytest.mark.slow
@pytest.mark.parametrize("last", [120])
def test_an_ingest_killed_at_any_moment_is_whole_and_is_finished_by_the_next(tmp_path: Path, last: int) -> None:
    collection = prepare(tmp_path)
    before = all_texts(collection)
    done = run_child(collection.path.parent, tmp_path, "ingest", last)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert collection.verify() == ()
    after = all_texts(collection)
    new = {path.name: path.read_text() for path in (tmp_path / "in").glob("*.txt")}
    for source, text in after.items():
        assert text in (before.get(source), new.get(source)) or source.startswith("r")
    committed = {chunk.text for chunk in chunks_of(collection)}
    again = HashEncoder()
    take_in(collection, tmp_path / "in", encoder=again, prune=True)
    assert not set(again.texts) & committed
    assert collection.verify() == ()
    final = all_texts(collection)
    assert {source: text for source, text in final.items() if source.endswith(".txt")} == new
    assert {source for source in final if source.startswith("r")} == {f"r{n}" for n in range(50, 800)}


def chunks_of(collection: Collection) -> list:
    with collection.snapshot() as snapshot:
        numbers = np.delete(snapshot.row_numbers, snapshot.dead)
        return list(snapshot.chunks(numbers.tolist()).values())


@pytest.mark.slow
@pytest.mark.parametrize("last", [200])
def test_a_reindex_killed_at_any_moment_leaves_the_old_state_or_the_new(tmp_path: Path, last: int) -> None:
    collection = prepare(tmp_path)
    texts = all_texts(collection)
    done = run_child(collection.path.parent, tmp_path, "reindex", last)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert collection.verify() == ()
    assert all_texts(collection) == texts
    assert collection.settings.chunk_size in (300, 1200)
    reindex(collection, replace(collection.settings, chunk_size=300, overlap=30), HashEncoder)
    assert collection.verify() == ()
    assert all_texts(collection) == texts
    assert max(len(chunk.text) for chunk in chunks_of(collection)) <= 300


@pytest.mark.parametrize("last", [2])
def test_a_deletion_killed_at_any_moment_leaves_all_or_nothing(tmp_path: Path, last: int) -> None:
    collection = new_collection(tmp_path)
    take_in_records(collection, {"id": "a", "text": "one"})
    run_child(tmp_path / "data", tmp_path, "delete", last)
    if list_collections(tmp_path / "data"):
        assert collection.verify() == ()
    else:
        with pytest.raises(MissingCollection):
            collection.info()


@pytest.mark.parametrize("last", [2])
def test_a_renaming_killed_at_any_moment_leaves_one_name(tmp_path: Path, last: int) -> None:
    take_in_records(new_collection(tmp_path), {"id": "a", "text": "one"})
    run_child(tmp_path / "data", tmp_path, "rename", last)
    (name,) = list_collections(tmp_path / "data")
    assert all_texts(Collection.open(tmp_path / "data", name)) == {"a": "one"}


@pytest.mark.slow
def test_a_process_killed_by_the_clock_loses_nothing_committed(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    (tmp_path / "in").mkdir()
    write_records(tmp_path / "in", [{"id": f"r{n}", "text": prose(n, 30)} for n in range(3000)])
    command = [sys.executable, "-c", CHILD, str(tmp_path / "data"), str(tmp_path), "ingest", "0"]
    with subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, stdout=subprocess.DEVNULL
    ) as child:
        deadline = time.monotonic() + 60
        while collection.info().documents < 600 and time.monotonic() < deadline and child.poll() is None:
            time.sleep(0.01)
        child.kill()
    there = collection.info().documents
    assert there >= 600
    assert collection.verify() == ()
    again = HashEncoder()
    report = take_in(collection, tmp_path / "in", encoder=again)
    assert len(again.texts) <= 3000 - there
    assert report.documents == 3000 - there
    assert collection.verify() == ()


def check_snapshot(collection: Collection) -> int:
    """Everything a reader sees belongs together; its generation."""
    with collection.snapshot() as snapshot:
        numbers = np.delete(snapshot.row_numbers, snapshot.dead)
        assert len(numbers) == snapshot.chunk_count
        chunks = snapshot.chunks(numbers.tolist())
        assert len(chunks) == len(numbers)
        versions = {chunk.text.split()[-1] for chunk in chunks.values()}
        assert len(versions) <= 2, "two generations of one document at once"
        assert np.isin(numbers, snapshot.lexical.numbers()).all()
        assert len(snapshot.vectors) == len(snapshot.row_numbers)
        if snapshot.tokens is not None:
            snapshot.tokens.gather(list(snapshot.rows(numbers.tolist()).values()))
        assert snapshot.token_frequency.max(initial=0) <= len(numbers)
        by_document: dict[str, set[str]] = {}
        for chunk in chunks.values():
            by_document.setdefault(chunk.document_id, set()).add(chunk.text.split()[-1])
        assert all(len(versions) == 1 for versions in by_document.values())
        return snapshot.generation


@pytest.mark.parametrize("versions", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_readers_beside_writers_see_whole_generations_and_never_an_error(tmp_path: Path, versions: int) -> None:
    collection = new_collection(tmp_path)
    stop = threading.Event()
    errors: list[BaseException] = []
    generations: list[list[int]] = [[], []]

    def read(seen: list[int]) -> None:
        try:
            while not stop.is_set():
                seen.append(check_snapshot(collection))
        except BaseException as error:
            errors.append(error)

    readers = [threading.Thread(target=read, args=(seen,)) for seen in generations]
    for reader in readers:
        reader.start()
    try:
        for version in range(versions):
            records = [{"id": f"r{n}", "text": f"record {n} of version v{version}"} for n in range(260)]
            take_in_records(collection, *records)
        folder = write_files(tmp_path / "in", {f"{n}.txt": f"a file {n} of v3" for n in range(20)})
        take_in(collection, folder)
        for path in folder.iterdir():
            path.unlink()
        take_in(collection, folder, prune=True)
        reindex(collection, replace(collection.settings, chunk_size=600), HashEncoder)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert errors == []
    for seen in generations:
        assert seen == sorted(seen)
        assert len(set(seen)) > 1
    take_in_records(collection)
    assert collection.verify() == ()
    assert len(list(collection.path.glob("vectors*.f32"))) == 1


READER = """
import sys, time
from pathlib import Path
from ragcli.collection import Collection
collection = Collection.open(Path(sys.argv[1]), "papers")
end, seen = time.monotonic() + 60, []
while time.monotonic() < end and (not seen or seen[-1] != "v5"):
    with collection.snapshot() as snapshot:
        (document,) = snapshot.texts()
        chunks = snapshot.chunks(list(snapshot.rows(snapshot.row_numbers.tolist())))
        assert chunks and all(chunk.text in document.text for chunk in chunks.values())
        seen.append(document.text.split()[-1])
print(seen == sorted(seen), seen[-1])
"""


def test_a_document_is_never_seen_in_two_versions_by_another_process(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    folder = write_files(tmp_path / "in", {"a.txt": f"start {prose(0, 1500)} v0"})
    take_in(collection, folder)
    command = [sys.executable, "-c", READER, str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        for version in range(1, 6):
            write_files(folder, {"a.txt": f"start {prose(version, 1500)} v{version}"})
            ingest(collection, [folder], HashEncoder)
        out, err = child.communicate(timeout=60)
    assert out == "True v5\n", err

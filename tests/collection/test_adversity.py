"""A full disk, a folder that may not be written, a clock that jumps, locks of the dead: nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
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
from ragcli.collection import Collection, changed_sources, list_collections, reindex
from ragcli.collection.store.locks import writer_lock

REPOSITORY = Path(__file__).parents[2]

# What every command may do to a collection; each line of output is one attempt: name, what was raised, what is left.
ATTEMPTS = """
import io, json, os, shutil, sys
from dataclasses import replace
from pathlib import Path

from ragcli.collection import *
from ragcli.errors import RagcliError
from tests.support.collection_builders import *

root, work = Path(sys.argv[1]), Path(sys.argv[2])
data = root / "data"
collection = new_collection(root)
folder = write_files(work / "in", {f"{n}.txt": prose(n, 150) for n in range(20)})
take_in(collection, folder)
before = all_texts(collection)
write_files(folder, {f"{n}.txt": prose(1000 + n, 200) for n in range(0, 20, 2)})
more = write_files(work / "more", {f"n{n}.txt": prose(3000 + n, 600) for n in range(60)})
archive = io.BytesIO()
export_collection(collection, archive)
master = work / "master"
shutil.copytree(collection.path, master)
settings = replace(collection.settings, chunk_size=300, overlap=30)

def damage():
    path = collection.path / "vectors.f32"
    content = bytearray(path.read_bytes())
    content[50] ^= 1
    path.write_bytes(content)

ACTIONS = {
    "ingest": lambda encoder: take_in(collection, more, encoder=encoder),
    "prune": lambda encoder: take_in(collection, folder, encoder=encoder, prune=True),
    "reindex": lambda encoder: reindex(collection, settings, lambda: encoder),
    "repair": lambda encoder: repair(collection, lambda: encoder),
    "import": lambda encoder: import_collection(data, io.BytesIO(archive.getvalue()), name="second"),
    "export": lambda encoder: export_collection(collection, io.BytesIO()),
    "create": lambda encoder: new_collection(root, "third"),
    "rename": lambda encoder: collection.rename("other").rename("papers"),
    "delete": lambda encoder: collection.delete(),
    "read": lambda encoder: (all_texts(collection), collection.verify(), collection.info()),
}

def attempt(name, worsen, better, encoder):
    shutil.rmtree(collection.path, ignore_errors=True)
    shutil.copytree(master, collection.path)
    if name == "repair":
        damage()
    worsen()
    try:
        ACTIONS[name](encoder)
        told = "done"
    except RagcliError as error:
        told = str(error)
    better()
    left = sorted(path.name for path in data.iterdir())
    damaged = collection.verify() if "papers" in left else ()
    texts = all_texts(collection) if "papers" in left else {}
    kept = all(texts.get(source) == text for source, text in before.items())
    print(json.dumps([name, told, left, damaged, kept]), flush=True)
"""

ON_A_FULL_DISK = (
    ATTEMPTS
    + """
filler = data / "filler"

def fill(leave):
    free = shutil.disk_usage(data).free
    with filler.open("wb") as file:
        file.write(bytes(max(0, free - leave)))

for name, leave in json.loads(sys.argv[3]):
    attempt(name, lambda: fill(leave), lambda: filler.unlink(missing_ok=True), HashEncoder())
"""
)

WITHOUT_PERMISSION = (
    ATTEMPTS
    + """
def forbid():
    for path in [*data.rglob("*"), data]:
        path.chmod(0o500 if path.is_dir() else 0o400)

def allow():
    data.chmod(0o700)
    for path in data.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)

for name, after in json.loads(sys.argv[3]):
    encoder, calls = HashEncoder(), []
    def count():
        calls.append(1)
        if len(calls) == after:
            forbid()
    encoder.before = count
    attempt(name, (lambda: None) if after else forbid, allow, encoder)
"""
)


def attempts(out: str) -> list[tuple[str, str, list[str], list[str], bool]]:
    return [tuple(json.loads(line)) for line in out.splitlines()]


@pytest.fixture(scope="module")
def private_disk() -> list[str]:
    """The words before a command that give it a small disk of its own at the folder named first."""
    inner = 'mount -t tmpfs -o size=6m,mode=700 none "$0" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", inner]
    if shutil.which("unshare") is None or sys.platform != "linux":
        pytest.skip("there is no unshare here to mount a small disk with")
    probe = subprocess.run([*command, "/mnt", "true"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("a small disk may not be mounted here")
    return command


FULL = (
    ("ingest", 40_000),
    ("reindex", 0),
    ("import", 0),
    ("export", 30_000),
    ("read", 0),
    ("rename", 0),
    ("delete", 0),
)
FULLER = (
    *(("ingest", room) for room in (0, 400_000)),
    *(("prune", room) for room in (0, 150_000)),
    *(("reindex", room) for room in (30_000, 150_000)),
    ("repair", 0),
    ("create", 0),
)


@pytest.mark.parametrize("plan", [FULL, pytest.param(FULLER, marks=pytest.mark.slow)])
def test_on_a_full_disk_every_command_says_so_and_loses_nothing(
    tmp_path: Path, private_disk: list[str], plan: tuple[tuple[str, int], ...]
) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "work").mkdir()
    places = [str(tmp_path / "disk"), str(tmp_path / "work")]
    done = subprocess.run(
        [*private_disk, places[0], sys.executable, "-c", ON_A_FULL_DISK, *places, json.dumps(plan)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )
    told = attempts(done.stdout)
    assert [name for name, *_ in told] == [name for name, _ in plan], done.stderr[-2000:]
    for name, said, left, damaged, kept in told:
        if name in ("read", "rename", "delete"):
            # What needs no room is done.
            assert said == "done", said
        else:
            assert any(word in said for word in ("full", "No space left", "no room", "disk I/O")), f"{name}: {said}"
        assert left == ([] if name == "delete" else ["papers"])
        assert kept or name in ("delete", "prune")
        assert damaged == [] or name == "repair"


# After how many batches of the encoder the permission goes; before the first, if 0.
FORBIDDEN = (("ingest", 0), ("rename", 0), ("delete", 0), ("import", 0), ("export", 0), ("read", 0), ("ingest", 2))
MORE_FORBIDDEN = (
    ("reindex", 0),
    ("repair", 0),
    ("create", 0),
    ("prune", 0),
    ("ingest", 1),
    ("ingest", 3),
    ("reindex", 1),
)


@pytest.mark.parametrize("plan", [FORBIDDEN, pytest.param(MORE_FORBIDDEN, marks=pytest.mark.slow)])
def test_a_folder_that_may_not_be_written_is_told_and_permission_may_go_in_the_middle(
    tmp_path: Path, plan: tuple[tuple[str, int], ...]
) -> None:
    (tmp_path / "work").mkdir()
    done = run_unprivileged(WITHOUT_PERMISSION, str(tmp_path), str(tmp_path / "work"), json.dumps(plan))
    told = attempts(done.stdout)
    assert [name for name, *_ in told] == [name for name, _ in plan], done.stderr[-2000:]
    for name, said, left, damaged, kept in told:
        assert said == "done" if name in ("export", "read") else "ermission denied" in said, f"{name}: {said}"
        assert left == ["papers"]
        assert kept
        assert damaged == [] or name == "repair"


def test_a_clock_that_jumps_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offset = [timedelta()]

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # noqa: ARG003
            # Each look at the clock finds it years away from the last, now forward and now back.
            offset[0] = timedelta(days=-4000) if offset[0] > timedelta() else timedelta(days=9000)
            return datetime.now(UTC) + offset[0]

    monkeypatch.setattr("ragcli.collection.store.generation_record.datetime", Jumping)
    monkeypatch.setattr("time.time", lambda: datetime.now(UTC).timestamp() + offset[0].total_seconds())
    collection = new_collection(tmp_path)
    folder = write_files(tmp_path / "in", {f"{n}.txt": f"text {n} of the first kind" for n in range(4)})
    for number, year in enumerate((1971, 2400, 2026)):
        moment = datetime(year, 1, 1, tzinfo=UTC).timestamp()
        os.utime(folder / f"{number}.txt", (moment, moment))
    take_in(collection, folder)
    generations = [collection.info().generation]
    for version in range(2):
        # The same length, and the times of the version before: only the change time can tell.
        for number in range(3):
            path = folder / f"{number}.txt"
            state = path.stat()
            path.write_text(f"text {number} of the {['first', 'third'][version]} kind")
            os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
        encoder = HashEncoder()
        take_in(collection, folder, encoder=encoder)
        assert len(encoder.texts) == (0 if version == 0 else 3)
        generations.append(collection.info().generation)
        assert all_texts(collection) == {path.name: path.read_text() for path in folder.iterdir()}
    reindex(collection, replace(collection.settings, chunk_size=600), HashEncoder)
    generations.append(collection.info().generation)
    assert generations == sorted(generations)
    assert collection.verify() == ()
    with collection.snapshot() as snapshot:
        chunks = list(snapshot.chunks(snapshot.row_numbers.tolist()).values())
    assert changed_sources([collection], chunks) == ()
    assert list_collections(tmp_path / "data") == ("papers",)


HOLDER = """
import sys, time
from pathlib import Path
from ragcli.collection.store.locks import writer_lock
with writer_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_ingest_names_the_first_or_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    collection = new_collection(tmp_path, encoder="none")
    folder = write_files(tmp_path / "in", {"a.txt": "some words"})
    monkeypatch.setenv("RAGCLI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    calls = [
        ["ingest", str(folder), "-c", "papers"],
        ["reindex", "-c", "papers", "--chunk-size", "600"],
        ["collections", "rename", "papers", "other"],
        ["collections", "delete", "papers", "--yes"],
    ]
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(collection.path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        for call in calls:
            assert main(call) == 3
            assert f"Process {holder.pid} " in capsys.readouterr().err
        waiting = subprocess.Popen(
            [sys.executable, "-m", "ragcli", *calls[0], "--wait"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"RAGCLI_DATA_DIR": str(tmp_path / "data")},
        )
        assert waiting.stderr is not None
        assert f"Process {holder.pid} " in waiting.stderr.readline()
        assert waiting.poll() is None
        # The process that holds the lock dies without a word, and the other goes on at once.
        holder.kill()
    assert "1 added" in waiting.communicate(timeout=60)[0]
    assert all_texts(collection) == {"a.txt": "some words"}


def test_what_a_dead_process_left_in_a_lock_blocks_nobody(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    for words in (f"{os.getpid()} 2001-01-01 00:00:00\n", "\x1b[31m\0\n"):
        (collection.path / "writer.lock").write_text(words)
        take_in_records(collection, {"id": "a", "text": words or "nothing"})
    with writer_lock(collection.path):
        assert f"{os.getpid()} " in (collection.path / "writer.lock").read_text()
    (collection.path / "writer.lock").unlink()
    (collection.path / "readers.lock").unlink()
    take_in_records(collection, {"id": "b", "text": "without any lock file"})
    assert collection.verify() == ()


def test_old_generations_go_as_soon_as_no_reader_holds_them(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    take_in_records(collection, *({"id": f"r{n}", "text": prose(n, 20)} for n in range(10)))

    def editions() -> list[int]:
        patterns = ("vectors*.f32", "tokens*.bits", "rows*.sums", "lexical*", "tfidf*")
        return [len(list(collection.path.glob(pattern))) for pattern in patterns]

    with collection.snapshot() as held:
        for size in (600, 700):
            reindex(collection, replace(collection.settings, chunk_size=size), HashEncoder)
        assert min(editions()) > 1
        # Opened only now, from files that a reindex would have removed.
        assert len(held.vectors) == 10
        assert held.lexical.count == 10
    take_in_records(collection, {"id": "new", "text": "the next run tidies up"})
    assert editions() == [1, 1, 1, 1, 1]
    assert Collection.open(tmp_path / "data", "papers").verify() == ()

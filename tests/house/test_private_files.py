"""What ragcli writes is for the user alone, whatever the umask."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.collection_builders import new_collection, take_in_records
from tests.support.terminals import environment
from tests.support.tiny_models import tiny_encoder

from ragcli import atomic_files


def open_to_others(folder: Path) -> list[str]:
    """What lies in the folder, itself included, that anyone but its owner may read, write or enter."""
    everything = [folder, *folder.rglob("*")]
    return [f"{path} {stat.filemode(path.lstat().st_mode)}" for path in everything if path.lstat().st_mode & 0o077]


def test_every_file_and_folder_that_a_command_makes_is_the_users_alone(tmp_path: Path) -> None:
    encoder = tiny_encoder(tmp_path / "encoder")
    corpus = tmp_path / "corpus"
    (corpus / "qrels").mkdir(parents=True)
    (corpus / "corpus.jsonl").write_text('{"_id": "1", "text": "negative energy"}\n')
    (corpus / "queries.jsonl").write_text('{"_id": "q", "text": "energy"}\n')
    (corpus / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    variables = environment(home / "x" / "data", RAGCLI_CACHE_DIR=str(home / "y" / "cache"), HOME=str(home))
    calls = [
        ["ingest", str(corpus), "-c", "notes", "--encoder", str(encoder)],
        ["collections", "export", "notes", "notes.archive"],
        ["collections", "import", "notes.archive", "--name", "again"],
        ["reindex", "-c", "again", "--chunk-size", "300"],
        ["eval", str(corpus), "--compare", "bm25", "--encoder", "none", "--run-out", "a.run"],
    ]
    script = (
        "import json, sys; from ragcli.__main__ import main\n"
        "for call in json.loads(sys.argv[1]):\n"
        "    sys.argv = ['ragcli', *call]\n"
        "    assert main() == 0, call\n"
    )
    command = [sys.executable, "-c", script, json.dumps(calls)]
    done = subprocess.run(command, env=variables, cwd=home, umask=0, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    made = {path.name for path in home.rglob("*")}
    assert {"store.db", "vectors.f32", "meta.json", "model.onnx", "hashes.json", "a.run", ".evaluation"} <= made
    assert open_to_others(home) == []


@pytest.fixture
def no_umask() -> Iterator[None]:
    mask = os.umask(0)
    yield
    os.umask(mask)


@pytest.mark.usefixtures("no_umask")
def test_a_program_that_uses_the_library_makes_folders_for_its_user_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    collection = new_collection(tmp_path / "x" / "y")
    take_in_records(collection, {"id": "1", "text": "negative energy"})
    for folder in (tmp_path / "x", tmp_path / "x" / "y", *collection.path.parents[:1], collection.path):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    # Those of the lexical index are made by another library, in a folder that keeps others out.
    outer = [path for path in collection.path.iterdir() if path.stat().st_mode & 0o077]
    assert outer == []


@pytest.mark.usefixtures("no_umask")
def test_a_file_is_replaced_whole_and_its_missing_folders_are_private(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.json"
    atomic_files.replace_file_atomically(path, b"one")
    atomic_files.replace_file_atomically(path, json.dumps({"two": 2}).encode())
    assert json.loads(path.read_bytes()) == {"two": 2}
    assert [entry.name for entry in path.parent.iterdir()] == ["file.json"]
    os.close(atomic_files.open_lock_file(tmp_path / "c" / "lock"))
    assert open_to_others(tmp_path / "a") == open_to_others(tmp_path / "c") == []

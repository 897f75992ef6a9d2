"""A collection or a model that came from somebody: it reaches nothing outside its folder and runs nothing."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import pytest
from tests.support.collection_builders import HashEncoder, new_collection, prose, take_in_records
from tests.support.tiny_models import tiny_cross_encoder, tiny_encoder

from ragcli.__main__ import main
from ragcli.collection import Collection
from ragcli.collection.store.generation_record import Generation
from ragcli.errors import CollectionError, ModelUnavailable
from ragcli.models import load_encoder, load_reranker
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import query

SECRET = b"not for others\n" * 50


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    collection = new_collection(tmp_path_factory.mktemp("master"))
    take_in_records(collection, *({"id": f"r{n}", "text": prose(n, 40)} for n in range(12)))
    return collection


@pytest.fixture
def copied(master: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a collection in a data folder of its own, and beside it what is not the collection's."""
    monkeypatch.setenv("RAGCLI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("RAGCLI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(master.path, tmp_path / "data" / "papers")
    (tmp_path / "note.md").write_text("A note to take in.")
    return tmp_path / "data" / "papers"


def forge(folder: Path, **changes: object) -> None:
    """Change the generation record as someone would who knows how it is sealed."""
    columns = list(Generation.__dataclass_fields__)
    with sqlite3.connect(folder / "store.db") as connection:
        for name, value in changes.items():
            connection.execute(f"UPDATE generation SET {name} = ? WHERE slot = 1", (value,))  # noqa: S608
        values = list(connection.execute(f"SELECT {', '.join(columns)} FROM generation WHERE slot = 1").fetchone())  # noqa: S608
        # A blob is hashed by its hexadecimal digits.
        row_hash = blake2b(json.dumps(values, default=lambda blob: [blob.hex()]).encode(), digest_size=16).digest()
        connection.execute("UPDATE generation SET row_hash = ? WHERE slot = 1", (row_hash,))
    connection.close()


def settings(**changes: object) -> str:
    made = {"chunk_size": 1200, "overlap": 200, "encoder": "fake", "token_vectors": "bits", "context": "heading"}
    return json.dumps(made | changes)


COMMANDS = [
    ["query", "energy", "--pipeline", "bm25"],
    ["query", "energy", "--pipeline", "dense"],
    ["grep", "energy", "-c", "papers"],
    ["documents", "-c", "papers"],
    ["collections", "verify", "papers", "--repair"],
    ["ingest", "note.md", "-c", "papers"],
    ["reindex", "-c", "papers", "--chunk-size", "300"],
]


@pytest.mark.parametrize(
    "changes",
    [
        {"lexical": "../../../outside"},
        {"lexical": "/outside"},
        {"lexical": 0},
        {"arrays": "/../outside"},
        {"arrays": -1},
        {"tfidf": "../../outside"},
        {"tfidf": 1.5},
        {"rows": "1; DROP TABLE chunks"},
        {"dimension": -5},
        {"vocabulary": b"\x80\x04."},
        {"fingerprint": b"\x80\x04."},
        {"settings": "[]"},
        {"settings": settings(encoder=["/outside"])},
        {"settings": settings(chunk_size="../x")},
        {"settings": settings(module="os")},
        {"settings": "[" * 100_000},
    ],
)
def test_a_forged_record_names_no_file_and_is_refused(
    copied: Path, tmp_path: Path, changes: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "meta.json").write_bytes(SECRET)
    forge(copied, **changes)
    for command in COMMANDS[::3]:
        code = main(command)
        error = capsys.readouterr().err
        assert (code, "bug in ragcli" in error) == (3, False), (command, error)
    assert [entry.name for entry in outside.iterdir()] == ["meta.json"]
    assert (outside / "meta.json").read_bytes() == SECRET


def test_what_the_manifest_says_is_not_acted_upon(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lies = {
        "format": 99,
        "models": {"encoder": {"name": "/outside"}},
        "checksums": {"../../outside": "00"},
        "lexical": "/",
    }
    (copied / "manifest.json").write_text(json.dumps(lies))
    assert main(["query", "energy", "--pipeline", "bm25", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 5
    (copied / "manifest.json").write_text("[" * 100_000)
    assert main(["grep", "energy"]) == 0


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_link_in_the_place_of_a_file_or_folder_is_not_followed(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [*files_of(copied), "store.db-wal", "manifest.json.new", "lexical", "tfidf"]
    assert {"vectors.f32", "writer.lock", "readers.lock", "manifest.json"} <= set(names)
    for name in names:
        path, aside = copied / name, tmp_path / "aside"
        target = tmp_path / f"target-{name.replace('/', '-')}"
        if path.exists():
            path.rename(aside)
            shutil.copytree(aside, target) if aside.is_dir() else shutil.copy(aside, target)
        else:
            target.write_bytes(SECRET)
        before = {each: (target / each).read_bytes() for each in files_of(target)} or target.read_bytes()
        path.symlink_to(target)
        for command in COMMANDS if name in ("vectors.f32", "writer.lock") else COMMANDS[2:6:3]:
            assert main(command) == 3, (name, command)
            assert "bug in ragcli" not in capsys.readouterr().err
        after = {each: (target / each).read_bytes() for each in files_of(target)} or target.read_bytes()
        assert after == before, name
        path.unlink()
        if aside.exists():
            aside.rename(path)
    assert main(["query", "energy", "--pipeline", "bm25"]) == 0


@pytest.mark.parametrize("name", ["vectors.f32", "manifest.json.new", "readers.lock", "writer.lock"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(copied: Path, name: str) -> None:
    (copied / name).unlink(missing_ok=True)
    os.mkfifo(copied / name)
    for command in COMMANDS[2:6:3]:
        assert main(command) == 3


def test_a_link_to_a_pipe_is_neither_taken_in_nor_waited_for(copied: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "linked.md").symlink_to(tmp_path / "pipe")
    assert main(["ingest", "notes", "-c", "other", "--encoder", "none", "--json"]) == 0


@pytest.mark.parametrize(
    ("file", "name"),
    [
        (".managed.json", "../../../victim"),
        (".managed.json", "{absolute}"),
        ("checksums.json", "../x"),
        ("meta.json", "/x"),
    ],
)
def test_the_word_index_removes_and_reads_nothing_but_its_own_files(
    copied: Path,
    tmp_path: Path,
    file: str,
    name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ragcli.models.load_encoder", lambda *_args, **_more: HashEncoder())
    victim = tmp_path / "victim"
    victim.write_bytes(SECRET)
    name = name.format(absolute=victim)
    path = copied / "lexical" / file
    content = json.loads(path.read_text())
    if file == ".managed.json":
        content.append(name)
    elif file == "checksums.json":
        content[name] = [0, len(SECRET), 0]
    else:
        content["segments"][0]["segment_id"] = name
    path.write_text(json.dumps(content))
    for command in (["query", "energy", "--pipeline", "bm25"], ["ingest", "note.md", "-c", "papers"]):
        code = main(command)
        error = capsys.readouterr().err
        assert (code, f"damaged ({file})" in error) == (3, True), error
    assert main(["collections", "verify", "papers"]) == 3
    assert f"lexical/{file} is not what was written" in capsys.readouterr().out
    assert main(["collections", "verify", "papers", "--repair"]) == 0
    assert main(["query", "energy", "--pipeline", "bm25"]) == 0
    assert victim.read_bytes() == SECRET


def test_verify_looks_at_no_file_that_the_store_names_elsewhere(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "victim").write_bytes(SECRET)
    digest = blake2b(SECRET, digest_size=16).digest()
    with sqlite3.connect(copied / "store.db") as connection:
        connection.execute(
            "INSERT INTO segments SELECT tfidf, 'tfidf/../../../victim', 0, ?, ? FROM generation", (len(SECRET), digest)
        )
    connection.close()
    assert main(["collections", "verify", "papers"]) == 3
    assert "tfidf/victim is not what was written" in capsys.readouterr().out


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER theirs AFTER INSERT ON documents BEGIN DELETE FROM text_pieces; END",
        "CREATE VIEW theirs AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
    ],
)
def test_a_store_that_acts_when_it_is_used_is_refused(
    copied: Path, statement: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(copied / "store.db") as connection:
        connection.execute(statement)
    connection.close()
    for command in COMMANDS[2:6:3]:
        assert main(command) == 3
        assert "trigger or view 'theirs'" in capsys.readouterr().err
    assert main(["collections", "delete", "papers", "--yes"]) == 0


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_pipe_or_device_that_stands_for_a_document_is_not_read(
    copied: Path, tmp_path: Path, make: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ingest", "note.md", "-c", "notes", "--encoder", "none"]) == 0
    with sqlite3.connect(copied.with_name("notes") / "store.db") as connection:
        connection.execute("UPDATE files SET size = 0")
    connection.close()
    (tmp_path / "note.md").unlink()
    make(tmp_path / "note.md")
    assert main(["query", "note", "-c", "notes", "--pipeline", "bm25"]) == 0
    assert "note.md has changed or gone" in capsys.readouterr().err


# the encoder that a collection names


def forbidden(*args: object, **kwargs: object) -> str:
    pytest.fail("asked the hub")


def test_the_model_that_a_collection_names_is_not_downloaded_for_it(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("huggingface_hub.snapshot_download", forbidden)
    forge(copied, settings=settings(encoder="stranger/model"))
    for command in (COMMANDS[1], COMMANDS[5], COMMANDS[6], ["reindex", "-c", "papers", "--overlap", "10"]):
        assert main(command) == 5, command
        assert "ragcli models pull stranger/model" in capsys.readouterr().err
    # Whoever names it means it.
    with pytest.raises(BaseException, match="asked the hub"):
        main(["reindex", "-c", "papers", "--encoder", "stranger/model"])


def test_a_model_in_a_folder_must_have_the_weights_that_the_collection_was_made_with(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_encoder(tmp_path / "somewhere")
    forge(copied, settings=settings(encoder=str(folder)))
    monkeypatch.setattr("ragcli.models.model_loading.read_encoder_config", lambda _: pytest.fail("opened the model"))
    assert main(["query", "energy", "--pipeline", "dense"]) == 5
    assert "has other weights than those that the collection was made with" in capsys.readouterr().err


def test_collections_of_two_models_with_one_name_are_not_searched_as_one(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(copied, copied.with_name("twin"))
    forge(copied.with_name("twin"), fingerprint="0" * 64)
    monkeypatch.setattr("ragcli.models.load_encoder", lambda *_args, **_more: HashEncoder())
    assert main(["query", "energy", "--pipeline", "dense", "-c", "papers"]) == 0
    assert main(["query", "energy", "--pipeline", "dense"]) == 3
    assert "'twin' was made with another model of the name fake; `ragcli reindex -c twin`" in capsys.readouterr().err
    forge(copied.with_name("twin"), fingerprint=None, dimension=99)
    with pytest.raises(CollectionError):
        query([Collection(copied.with_name("twin"))], QueryRequest("energy", pipeline="dense"))


# models


def rewrite(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    changed = change(content)
    path.write_text(json.dumps(content if changed is None else changed))


CODE = {
    "a class of the folder's own": ("modules.json", lambda old: [*old[:2], {"type": "theirs.Module", "path": "2"}]),
    "a class of a library": ("modules.json", lambda old: [*old[:2], {"type": "subprocess.Popen", "path": ""}]),
    "a file of Python": ("config.json", lambda old: {**old, "auto_map": {"AutoModel": "theirs.Model"}}),
    "a folder outside": (
        "modules.json",
        lambda old: [*old[:2], {"type": "sentence_transformers.models.Dense", "path": "../elsewhere"}],
    ),
    "a router's classes": ("1_Pooling/config.json", lambda old: {**old, "types": {"query": "theirs.Module"}}),
    "an activation": ("1_Pooling/config.json", lambda old: {**old, "activation_function": "theirs.call"}),
    "a nested activation": (
        "config.json",
        lambda old: {**old, "sentence_transformers": {"activation_fn": "os.abort"}},
    ),
}


@pytest.mark.parametrize("what", CODE)
@pytest.mark.parametrize("made", [tiny_encoder, tiny_cross_encoder])
def test_a_model_that_brings_code_is_refused_and_its_code_not_run(
    copied: Path, tmp_path: Path, what: str, made: Callable[[Path], Path]
) -> None:
    folder = made(tmp_path / "model")
    (folder / "1_Pooling").mkdir(exist_ok=True)
    if not (folder / "modules.json").exists():
        shutil.copy(tiny_encoder(tmp_path / "other") / "modules.json", folder)
    ran = tmp_path / "ran"
    (folder / "theirs.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    file, change = CODE[what]
    rewrite(folder / file, change)
    load = load_encoder if made is tiny_encoder else load_reranker
    with pytest.raises(ModelUnavailable, match="brings code of its own"):
        load(str(folder), engine="torch")
    assert not ran.exists()
    assert "theirs" not in sys.modules


def test_a_module_with_pickled_weights_is_refused(copied: Path, tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "model", dense_module=True)
    (folder / "9_Dense").mkdir()
    (folder / "9_Dense" / "config.json").write_text("{}")
    (folder / "9_Dense" / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(ModelUnavailable, match=r"pytorch_model\.bin is a pickle"):
        load_encoder(str(folder), engine="torch")

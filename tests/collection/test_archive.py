"""Export and import: a collection arrives whole, or nothing of it does."""

from __future__ import annotations

import io
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import tarfile
import threading
import time
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
from ragcli.collection import Collection, export_collection, import_collection, list_collections
from ragcli.collection.maintain.archive_format import (
    ARCHIVE_MANIFEST_MEMBER,
    ARCHIVE_MEMBERS,
    ArchiveManifest,
    ArchiveMember,
    encode_archive_manifest,
)
from ragcli.collection.store.row_hash import new_hash
from ragcli.errors import CollectionError, InputError, UsageError

Parts = dict[str, bytes]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """A collection of files and records, some of them replaced and one of them dropped."""
    work = tmp_path_factory.mktemp("master")
    collection = new_collection(work)
    take_in(collection, write_files(work / "in", {"a.txt": prose(500), "b.md": f"# Head\n\n{prose(501)}"}))
    take_in_records(collection, *({"id": f"r{n}", "text": prose(n, 30), "year": 1990 + n} for n in range(20)))
    take_in_records(collection, {"id": "r0", "text": "forgettable " * 5000})
    take_in_records(collection, {"id": "r0", "text": "what came in its place"})
    return collection


@pytest.fixture(scope="module")
def archive(master: Collection) -> bytes:
    return exported(master)


def exported(collection: Collection) -> bytes:
    stream = io.BytesIO()
    export_collection(collection, stream)
    return stream.getvalue()


def take_out(data: Path, archive: bytes, name: str | None = None) -> Collection:
    """Import, and give the collection that came of it."""
    done = import_collection(data, io.BytesIO(archive), name=name)
    return Collection.open(data, done.collection)


def left_in(data: Path) -> list[str]:
    """Everything in the data directory, hidden things too."""
    return sorted(path.name for path in data.iterdir()) if data.exists() else []


def parts_of(archive: bytes) -> Parts:
    """The members of an archive by name, the label first, as another program reads them."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {info.name: tar.extractfile(info).read() for info in tar}  # type: ignore[union-attr]


def label_of(parts: Parts) -> dict[str, object]:
    told = json.loads(parts[ARCHIVE_MANIFEST_MEMBER])
    del told["hash"]
    return told


def packed(parts: Parts, change: Callable[[tarfile.TarInfo], None] = lambda _info: None) -> bytes:
    """An archive of these members, each header changed as told before it is written."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in parts.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            change(info)
            tar.addfile(info, io.BytesIO(content) if info.isreg() else None)
    return stream.getvalue()


def relabelled(parts: Parts, **changes: object) -> Parts:
    """The same members under a label that is right about them, but for the changes."""
    told = label_of(parts)
    members = tuple(
        ArchiveMember(name, len(content), hash_of(content))
        for name, content in parts.items()
        if name != ARCHIVE_MANIFEST_MEMBER
    )
    label = ArchiveManifest(**{**told, "members": members, **changes})  # type: ignore[arg-type]
    return {**parts, ARCHIVE_MANIFEST_MEMBER: encode_archive_manifest(label)}


def hash_of(content: bytes) -> str:
    state = new_hash()
    state.update(content)
    return state.hexdigest()


def refused(tmp_path: Path, archive: bytes, match: str) -> None:
    """Importing fails with that sentence and leaves nothing at all."""
    data = tmp_path / "elsewhere"
    with pytest.raises(InputError, match=match):
        import_collection(data, io.BytesIO(archive))
    assert left_in(data) == []


def found_by(collection: Collection) -> tuple[object, ...]:
    """What each index finds, by chunk id: numbers and rows may differ from copy to copy, answers may not."""
    with collection.snapshot() as snapshot:
        chunks = snapshot.chunks(snapshot.row_numbers.tolist())
        words = snapshot.lexical.search("unique7word wormhole", 5)
        near = np.delete(snapshot.vectors @ HashEncoder().encode(["wormhole energy"])[0], snapshot.dead)
        ids = [chunks[number].chunk_id for number in np.delete(snapshot.row_numbers, snapshot.dead).tolist()]
        assert snapshot.tfidf is not None
        return (
            [chunks[number].chunk_id for number in words[0].tolist() if number in chunks],
            sorted(zip(ids, near.tolist(), strict=True)),
            [chunks[number].chunk_id for number in snapshot.tfidf.rank("unique9word", 3)[0].tolist()],
            snapshot.token_frequency.tolist(),
            sorted((row.source, row.document_id, row.title, row.pages) for row in snapshot.documents()),
        )


def test_a_collection_arrives_with_all_it_has(master: Collection, archive: bytes, tmp_path: Path) -> None:
    came = take_out(tmp_path / "elsewhere", archive)
    assert came.verify() == ()
    assert all_texts(came) == all_texts(master)
    assert found_by(came) == found_by(master)
    there, here = came.info(), master.info()
    assert (there.name, there.settings, there.generation) == ("papers", here.settings, here.generation)
    assert (there.documents, there.chunks, there.last_ingest) == (here.documents, here.chunks, here.last_ingest)
    assert left_in(tmp_path / "elsewhere") == ["papers"]


def test_what_arrived_is_a_collection_like_any_other(archive: bytes, tmp_path: Path) -> None:
    came = take_out(tmp_path / "elsewhere", archive, "reading")
    assert came.name == "reading"
    # The files lie elsewhere on this machine; they are known by what is in them.
    moved = write_files(tmp_path / "other", {"a.txt": prose(500), "b.md": f"# Head\n\n{prose(501)}"})
    encoder = HashEncoder()
    take_in(came, moved, encoder=encoder)
    assert encoder.texts == []
    assert came.verify() == ()
    again = take_out(tmp_path / "third", exported(came))
    assert all_texts(again) == all_texts(came)


def test_the_same_state_gives_the_same_bytes(master: Collection, archive: bytes) -> None:
    assert exported(master) == archive


def test_what_was_deleted_does_not_travel(master: Collection, archive: bytes, tmp_path: Path) -> None:
    with master.snapshot() as snapshot:
        assert len(snapshot.dead) > 0
    assert b"forgettable" not in archive
    with take_out(tmp_path / "elsewhere", archive).snapshot() as snapshot:
        assert len(snapshot.row_numbers) == snapshot.chunk_count
        assert len(snapshot.dead) == 0


def test_an_empty_collection_and_one_without_vectors_travel_too(tmp_path: Path) -> None:
    for name, settings in (("empty", {}), ("words", {"encoder": "none"}), ("nobits", {"token_vectors": "none"})):
        collection = new_collection(tmp_path, name, **settings)
        if name != "empty":
            take_in_records(collection, {"id": "a", "text": "a wormhole"}, {"id": "b", "text": "gone"})
            take_in_records(collection, {"id": "b", "text": "replaced"})
        came = take_out(tmp_path / "elsewhere", exported(collection))
        assert came.verify() == ()
        assert all_texts(came) == all_texts(collection)
    take_in_records(came, {"id": "c", "text": "later"})
    assert came.verify() == ()


def test_what_came_is_for_the_user_alone(archive: bytes, tmp_path: Path) -> None:
    came = take_out(tmp_path / "elsewhere", archive)
    assert stat.S_IMODE(came.path.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in came.path.iterdir()}
    assert {name: mode for name, mode in modes.items() if mode & 0o077 and name not in ("lexical",)} == {}


def test_a_collection_that_is_there_is_never_replaced(archive: bytes, tmp_path: Path) -> None:
    data = tmp_path / "data"
    mine = new_collection(tmp_path)
    take_in_records(mine, {"id": "mine", "text": "mine"})
    with pytest.raises(CollectionError, match="--name"):
        import_collection(data, io.BytesIO(archive))
    assert all_texts(mine) == {"mine": "mine"}
    with pytest.raises(UsageError):
        import_collection(data, io.BytesIO(archive), name="../papers")
    assert left_in(data) == ["papers"]


def test_a_damaged_collection_is_not_exported(master: Collection, tmp_path: Path) -> None:
    came = take_out(tmp_path / "elsewhere", exported(master))
    path = came.path / "vectors.f32"
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(CollectionError, match=r"vectors\.f32.*--repair"):
        exported(came)
    assert left_in(tmp_path / "elsewhere") == ["papers"]


def test_any_flipped_byte_is_found_and_nothing_is_imported(archive: bytes, tmp_path: Path) -> None:
    data = tmp_path / "elsewhere"
    rng = np.random.default_rng(0)
    places = {*rng.integers(0, len(archive), 30).tolist(), *range(0, 2048, 80), len(archive) - 1, len(archive) - 600}
    for place in places:
        bad = bytearray(archive)
        bad[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(InputError):
            import_collection(data, io.BytesIO(bytes(bad)))
    assert left_in(data) == []


def test_an_archive_that_was_cut_off_says_so(archive: bytes, tmp_path: Path) -> None:
    for length in (700, 1500, 5000, len(archive) // 2, len(archive) - 1024, len(archive) - 1):
        refused(tmp_path, archive[:length], "cut off")
    refused(tmp_path, b"", "not an archive")


def test_other_files_are_no_archives(tmp_path: Path, archive: bytes) -> None:
    refused(tmp_path, b"%PDF-1.7 and so on" * 100, "not an archive")
    refused(tmp_path, packed({"readme": b"a tar, but another"}), "not an archive")
    refused(tmp_path, b"\x1f\x8b" + bytes(600), "gzip -dc")
    refused(tmp_path, archive + b"more", "follows")
    # Padding, as tapes and some copying programs add it, is no damage.
    take_out(tmp_path / "padded", archive + bytes(10_000))


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/evil", "tfidf/../../evil", "lexical/meta.json", "a\nb", "store.db/", "TFIDF/idf.f64", ""]
)
def test_a_name_that_is_no_part_of_a_collection_is_refused(archive: bytes, tmp_path: Path, name: str) -> None:
    parts = parts_of(archive)
    refused(tmp_path, packed(relabelled({**parts, name: b"x"})), "no part of a collection")
    # The label may say one thing and the header another.
    refused(tmp_path, packed({(name if each == "rows.ids" else each): parts[each] for each in parts}), "damaged")


@pytest.mark.parametrize(
    "kind",
    [
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.CHRTYPE,
        tarfile.BLKTYPE,
        tarfile.FIFOTYPE,
        tarfile.DIRTYPE,
        tarfile.CONTTYPE,
        tarfile.GNUTYPE_SPARSE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
    ],
)
def test_links_devices_and_odd_headers_are_refused(archive: bytes, tmp_path: Path, kind: bytes) -> None:
    def change(info: tarfile.TarInfo) -> None:
        if info.name == "rows.ids":
            info.type, info.linkname = kind, "/etc/passwd"

    refused(tmp_path, packed(parts_of(archive), change), "damaged")


def test_members_twice_missing_or_in_another_order_are_refused(archive: bytes, tmp_path: Path) -> None:
    parts = parts_of(archive)
    told = label_of(parts)
    members = tuple(ArchiveMember(**each) for each in told["members"])  # type: ignore[attr-defined]
    twice = ArchiveManifest(**{**told, "members": (*members, members[1])})  # type: ignore[arg-type]
    refused(tmp_path, packed({**parts, ARCHIVE_MANIFEST_MEMBER: encode_archive_manifest(twice)}), "twice")
    for name in ("rows.sums", "tfidf/idf.f64", "store.db"):
        fewer = {each: parts[each] for each in parts if each != name}
        refused(tmp_path, packed(fewer), "damaged")
        refused(tmp_path, packed(relabelled(fewer)), "damaged")
    refused(
        tmp_path,
        packed({ARCHIVE_MANIFEST_MEMBER: parts[ARCHIVE_MANIFEST_MEMBER], **dict(reversed(parts.items()))}),
        "damaged",
    )


def test_sizes_that_lie_are_refused(archive: bytes, tmp_path: Path) -> None:
    parts = parts_of(archive)
    told = label_of(parts)
    members = tuple(ArchiveMember(**each) for each in told["members"])  # type: ignore[attr-defined]
    for size, match in ((1 << 60, "no room"), (-1, "no sense"), (10.5, "no sense"), (True, "no sense")):
        lying = (ArchiveMember("store.db", size, members[0].blake2b), *members[1:])  # type: ignore[arg-type]
        label = encode_archive_manifest(ArchiveManifest(**{**told, "members": lying}))  # type: ignore[arg-type]
        with pytest.raises((InputError, CollectionError), match=match):
            import_collection(tmp_path / "elsewhere", io.BytesIO(packed({**parts, ARCHIVE_MANIFEST_MEMBER: label})))
    refused(tmp_path, packed({ARCHIVE_MANIFEST_MEMBER: b" " * (2 << 20)}), "not an archive")
    refused(tmp_path, packed({ARCHIVE_MANIFEST_MEMBER: b"[" * 500_000}), "label")
    refused(tmp_path, packed({ARCHIVE_MANIFEST_MEMBER: b'{"archive": 1, "hash": {}, "members": [5]}'}), "label")
    assert left_in(tmp_path / "elsewhere") == []


def test_archives_of_other_versions_name_the_way_out(archive: bytes, tmp_path: Path) -> None:
    parts = parts_of(archive)
    refused(tmp_path, packed(relabelled(parts, archive=2)), "newer kind of archive.*update ragcli")
    refused(tmp_path, packed(relabelled(parts, format=99)), "newer ragcli.*Update ragcli")
    refused(tmp_path, packed(relabelled(parts, format=0)), "label makes no sense")
    refused(tmp_path, packed(relabelled(parts, name="../up")), "cannot name a collection")


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER evil AFTER INSERT ON documents BEGIN DELETE FROM documents; END",
        "CREATE VIEW evil AS WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
        "CREATE TABLE more (x)",
        "DROP INDEX chunks_input",
        "PRAGMA application_id = 5",
        "UPDATE generation SET arrays = 2",
        "UPDATE text_pieces SET text = replace(text, 'e', 'x')",
        "UPDATE generation SET documents = documents + 1",
    ],
)
def test_a_store_that_is_not_what_an_export_makes_is_refused(archive: bytes, tmp_path: Path, statement: str) -> None:
    parts = parts_of(archive)
    path = tmp_path / "store.db"
    path.write_bytes(parts["store.db"])
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute(statement)
    connection.commit()
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    with pytest.raises((InputError, CollectionError), match="Nothing was imported"):
        take_out(tmp_path / "elsewhere", packed(relabelled({**parts, "store.db": path.read_bytes()})))
    assert left_in(tmp_path / "elsewhere") == []


@pytest.mark.parametrize("name", ["vectors.f32", "rows.ids", "tfidf/weights.f32", "tokens.offsets"])
def test_arrays_that_do_not_agree_with_the_store_are_refused(archive: bytes, tmp_path: Path, name: str) -> None:
    parts = parts_of(archive)
    bad = bytearray(parts[name])
    bad[16] ^= 1
    refused(tmp_path, packed(relabelled({**parts, name: bytes(bad)})), name.rpartition("/")[2])


def test_every_file_of_a_collection_travels_or_is_made_anew(master: Collection) -> None:
    made_anew = {"manifest.json", "readers.lock", "writer.lock", "store.db-wal", "store.db-shm"}
    here = {str(path.relative_to(master.path)) for path in master.path.rglob("*") if path.is_file()}
    plain = {f"tfidf/{name.partition('/')[2]}" if name.startswith("tfidf") else name for name in here}
    assert {name for name in plain if not name.startswith("lexical")} - made_anew == set(ARCHIVE_MEMBERS)


def test_an_export_beside_a_writer_is_one_generation(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    stop = threading.Event()
    errors: list[BaseException] = []

    def write() -> None:
        try:
            version = 0
            while not stop.is_set():
                take_in_records(collection, *({"id": f"r{n}", "text": f"record {n} v{version}"} for n in range(20)))
                version += 1
        except BaseException as error:
            errors.append(error)

    take_in_records(collection, *({"id": f"r{n}", "text": f"record {n} v0"} for n in range(20)))
    writer = threading.Thread(target=write)
    writer.start()
    try:
        archives = [exported(collection) for _ in range(4)]
    finally:
        stop.set()
        writer.join()
    assert errors == []
    seen = []
    for at, archive in enumerate(archives):
        texts = all_texts(take_out(tmp_path / str(at), archive))
        assert len(texts) == 20
        (version,) = {text.split()[-1] for text in texts.values()}
        seen.append(int(version[1:]))
    assert seen == sorted(seen)


def environment(data: Path) -> dict[str, str]:
    return os.environ | {"RAGCLI_DATA_DIR": str(data), "HF_HUB_OFFLINE": "1", "HOME": str(data.parent)}


def start(data: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "ragcli", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(data),
        cwd=data.parent,
    )


def wait_for(there: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not there():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_killed_import_leaves_nothing_to_see_and_the_next_one_cleans_up(archive: bytes, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start(data, "collections", "import", "-") as process:
        assert process.stdin is not None
        process.stdin.write(archive[:-2000])
        process.stdin.flush()
        wait_for(lambda: list(data.glob(".new-papers-*/tokens.offsets")))
        assert list_collections(data) == ()
        (draft,) = data.iterdir()
        # The clock may have jumped by days: what another process is at stays all the same.
        os.utime(draft, (0, 0))
        new_collection(tmp_path, "another")
        assert draft.exists()
        process.send_signal(signal.SIGKILL)
        process.stdin.close()
    assert list_collections(data) == ("another",)
    take_out(data, archive)
    assert left_in(data) == ["another", "papers"]


def test_a_killed_export_leaves_no_archive_and_the_next_one_cleans_up(master: Collection, tmp_path: Path) -> None:
    from ragcli.atomic_files import atomic_file

    script = (
        "import sys, time; from pathlib import Path; from ragcli.atomic_files import atomic_file\n"
        "with atomic_file(Path(sys.argv[1])) as stream:\n"
        "    stream.write(b'half'); stream.flush(); print('there', flush=True); time.sleep(60)\n"
    )
    target = tmp_path / "papers.ragcli.tar"
    with subprocess.Popen([sys.executable, "-c", script, str(target)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        with atomic_file(tmp_path / "other") as stream:
            stream.write(b"whole")
        # The one that is alive is left alone.
        assert len(list(tmp_path.glob(".ragcli-part-*"))) == 1
        process.kill()
    assert not target.exists()
    with atomic_file(target) as stream:
        export_collection(master, stream)
    assert left_in(tmp_path) == ["other", "papers.ragcli.tar"]


def test_the_commands_move_a_collection_through_a_file_or_a_pipe(
    master: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, other = master.path.parent, tmp_path / "other"
    target = tmp_path / "stick"
    target.mkdir()
    monkeypatch.chdir(tmp_path)

    def run(data: Path, *arguments: str, given: bytes = b"") -> tuple[int, bytes, bytes]:
        monkeypatch.setenv("RAGCLI_DATA_DIR", str(data))
        streams = {name: io.TextIOWrapper(io.BytesIO(), "utf-8") for name in ("stdout", "stderr")}
        streams["stdin"] = io.TextIOWrapper(io.BytesIO(given))
        for name, stream in streams.items():
            monkeypatch.setattr(sys, name, stream)
        code = main(["collections", *arguments])
        return code, streams["stdout"].buffer.getvalue(), streams["stderr"].buffer.getvalue()  # type: ignore[attr-defined]

    code, out, err = run(data, "export", "papers", str(target))
    path = target / "papers.ragcli.tar"
    assert (code, err) == (0, b"")
    assert out.startswith(b"papers: 22 documents, 22 chunks (")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    assert run(data, "export", "papers", str(target))[0] == 3
    assert json.loads(run(data, "export", "papers", str(target), "--force", "--json")[1])["bytes"] == len(before)
    assert path.read_bytes() == before
    os.mkfifo(target / "pipe")
    code, _, err = run(data, "export", "papers", str(target / "pipe"), "--force")
    assert (code, b"is not a file" in err) == (3, True)
    assert (target / "pipe").is_fifo()
    assert run(data, "export", "papers", "-")[1] == before
    assert run(data, "export", "papers", "-", "--json")[0] == 2
    assert json.loads(run(other, "import", str(path), "--json")[1])["documents"] == 22
    assert run(other, "import", "-", "--name", "second", given=before)[0] == 0
    code, _, err = run(other, "import", "-", given=before)
    assert (code, b"--name" in err) == (3, True)
    code, _, err = run(other, "import", "-", "--name", "third", given=before[:-5000])
    assert (code, b"cut off" in err) == (3, True)
    assert run(other, "import", str(target / "nothing"))[0] == 3
    assert run(other, "verify")[1] == b"papers: whole\nsecond: whole\n"

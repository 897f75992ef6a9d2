"""What a reader may take, and what is left of it when it, or the program that started it, comes to a bad end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from hashlib import blake2b
from io import BytesIO
from pathlib import Path

import pytest
from tests.documents.test_traps import in_session
from tests.support import pdfs, traps
from tests.support.collection_builders import HashEncoder, all_texts, new_collection
from tests.support.terminals import environment
from tests.support.unprivileged import needs_permissions, without_privileges

from ragcli.collection import IngestOptions, ingest
from ragcli.collection.ingest_events import FilesPlanned, IngestEvent
from ragcli.documents import ReadOptions, read_files
from ragcli.documents.parse_options import MAX_TEXT_CHARS, MAX_TITLE_CHARS
from ragcli.documents.workers.parallel_parsing import read_lines
from ragcli.types import Document, Failure

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")


def only(path: Path, **options: object) -> Document | Failure:
    """The one thing that a file gives."""
    (reading,) = read_files([path], ReadOptions(**{"workers": 1, **options}))  # type: ignore[arg-type]
    (item,) = reading.items
    return item


def test_a_page_that_takes_too_long_is_given_up_too(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    # The parser takes the square of the depth.
    page.write_text("<div>" * 100_000, encoding="utf-8")
    item = only(page, timeout=0.7)
    assert isinstance(item, Failure)
    assert item.reason == "page.html took longer than 0.7 s, so it was given up."


def test_a_small_file_gets_no_time_for_a_million_pages_that_it_claims(tmp_path: Path) -> None:
    paper = tmp_path / "paper.pdf"
    paper.write_bytes(traps.lying_count(1_000_000))
    started = time.monotonic()
    item = only(paper, timeout=1, timeout_per_page=0.1)
    assert isinstance(item, Failure)
    assert "paper.pdf took longer than 1 s and 0.1 s for each page" in item.reason
    assert time.monotonic() - started < 10


def test_a_text_longer_than_any_document_is_refused(tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_bytes(b"x" * (MAX_TEXT_CHARS + 1))
    item = only(note)
    assert isinstance(item, Failure)
    assert "note.txt has 64,000,001 characters of text" in item.reason


def test_a_title_or_heading_without_end_is_cut_and_its_words_stay_in_the_text(tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.write_text("# " + "word " * 10_000 + "end\n\ntext", encoding="utf-8")
    item = only(note)
    assert isinstance(item, Document)
    assert len(item.title or "") == len(item.headings[0].title) == MAX_TITLE_CHARS
    assert "end\n\ntext" in item.text
    ((_, record),) = read_lines([b'{"id": "r", "title": "' + b"word " * 10_000 + b'"}'], "c", ReadOptions())
    assert isinstance(record, Document)
    assert len(record.title or "") == MAX_TITLE_CHARS
    assert len(record.text) > 40_000


def records(*sizes: int) -> list[bytes]:
    return [json.dumps({"id": str(n), "text": "x" * size}).encode() + b"\n" for n, size in enumerate(sizes, start=1)]


@linux
def test_a_record_that_needs_too_much_memory_costs_only_itself() -> None:
    lines = records(10, 40_000_000, 10)
    found = dict(read_lines(BytesIO(b"".join(lines)), "c.jsonl", ReadOptions(memory_limit=180 << 20)))
    assert [isinstance(found[number], Document) for number in (1, 2, 3)] == [True, False, True]
    failure = found[2]
    assert isinstance(failure, Failure)
    assert failure.source == "c.jsonl:2"
    assert failure.reason == "c.jsonl, line 2 needs more memory than the 180 MB allowed."


def test_a_record_that_takes_too_long_costs_only_itself() -> None:
    lines = [*records(10), b'{"text": "x", "a": [' + b"[1]," * 6_000_000 + b"1]}\n", *records(10)]
    found = dict(read_lines(lines, "c.jsonl", ReadOptions(timeout=0.2)))
    failure = found[2]
    assert isinstance(failure, Failure)
    assert failure.reason == "c.jsonl, line 2 took longer than 0.2 s, so it was given up."
    assert isinstance(found[1], Document)
    assert isinstance(found[3], Document)


def test_a_record_is_given_as_soon_as_its_line_is_there() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as stream, os.fdopen(writer, "wb", buffering=0) as pipe:
        found = read_lines(stream, "stdin", ReadOptions())
        pipe.write(b'{"id": "1", "text": "first"}\n{"id": "2", "te')
        number, first = next(found)
        assert (number, first.text) == (1, "first")  # type: ignore[union-attr]
        pipe.write(b'xt": "second"}\n')
        assert next(found)[0] == 2
        pipe.close()
        assert list(found) == []


def test_lines_keep_their_order_and_numbers_in_whatever_pieces_they_come() -> None:
    data = b"".join(records(*range(1, 1100))) + b"\n\n" + b'{"id": "end", "text": "no line end"}'
    numbers = [number for number, item in read_lines(BytesIO(data), "c", ReadOptions()) if isinstance(item, Document)]
    assert numbers == [*range(1, 1100), 1102]
    assert [number for number, _ in read_lines(data.splitlines(), "c", ReadOptions())] == numbers


def test_the_hash_is_of_the_bytes_that_were_parsed(tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.write_text("first", encoding="utf-8")
    (reading,) = read_files([note], ReadOptions(workers=1))
    assert reading.content == blake2b(b"first", digest_size=16).digest()


@pytest.mark.parametrize("name", ["note.md", "corpus.jsonl"])
def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    file = folder / name
    before, after = '{"id": "x", "text": "before"}', '{"id": "x", "text": "after!"}'
    file.write_text(before, encoding="utf-8")
    times = file.stat()

    def change(event: IngestEvent) -> None:
        if isinstance(event, FilesPlanned) and file.read_text(encoding="utf-8") == before:
            # The same size, and the same time of the last change as far as a program can forge it.
            file.write_text(after, encoding="utf-8")
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))

    collection = new_collection(tmp_path)
    report = ingest(collection, [folder], HashEncoder, IngestOptions(), change)
    assert [each.reason for each in report.warnings] == ["changed while it was read; the next ingest reads it again"]
    again = ingest(collection, [folder], HashEncoder, IngestOptions())
    assert (again.unchanged, again.warnings, again.failures) == (0, (), ())
    assert "after!" in next(iter(all_texts(collection).values()))
    assert ingest(collection, [folder], HashEncoder, IngestOptions()).unchanged == 1


def test_a_file_larger_than_memory_is_not_even_hashed(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    with (folder / "holes.txt").open("wb") as file:
        file.truncate(1 << 40)
    (folder / "note.md").write_text("A small note.", encoding="utf-8")
    report = ingest(new_collection(tmp_path), [folder], HashEncoder, IngestOptions())
    assert report.added == ("note.md",)
    assert [each.reason for each in report.failures] == ["it has 1,099.5 GB, and a file may have 2.1 GB; split it"]


@needs_permissions
def test_a_file_without_permission_costs_only_itself(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("closed.md", "closed.pdf", "closed.jsonl", "open.md"):
        (folder / name).write_text(f"words of {name}", encoding="utf-8")
        (folder / name).chmod(0o600 if name == "open.md" else 0)
    done = subprocess.run(
        [sys.executable, "-m", "ragcli", "ingest", str(folder), "-c", "c", "--encoder", "none", "--json"],
        capture_output=True,
        env=environment(tmp_path / "data"),
        cwd=tmp_path,
        check=False,
        preexec_fn=without_privileges,
    )
    report = json.loads(done.stdout)
    assert done.returncode == 4
    assert report["added"] == ["open.md"]
    assert {each["source"]: each["reason"] for each in report["failures"]} == dict.fromkeys(
        ("closed.md", "closed.pdf", "closed.jsonl"), "it cannot be read: Permission denied"
    )


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of PDFs that keep their readers busy for a minute."""
    folder = tmp_path_factory.mktemp("endless")
    bomb = traps.flate_bomb(100_000_000)
    for number in range(4):
        (folder / f"bomb{number}.pdf").write_bytes(bomb)
    return folder


def a_reader_is_busy(program: int) -> bool:
    """Whether a process that the program has started has computed longer than it takes to start one."""
    ticks = 0
    for pid in in_session(program):
        with suppress(OSError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()
            ticks = max(ticks, int(fields[11]) if pid != program else 0)
    return ticks >= 0.5 * os.sysconf("SC_CLK_TCK")


@linux
@pytest.mark.parametrize(
    "number",
    [
        *(signal.SIGTERM, signal.SIGKILL),
        *(pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGINT, signal.SIGHUP)),
    ],
)
def test_nothing_is_left_of_an_ingest_that_is_ended(tmp_path: Path, endless: Path, number: signal.Signals) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "ragcli", "ingest", str(endless), "-c", "c", "--encoder", "none"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path / "data", TMPDIR=str(temporary)),
        cwd=tmp_path,
        start_new_session=True,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (busy := a_reader_is_busy(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert busy
    started = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    if number in (signal.SIGINT, signal.SIGTERM):
        assert process.returncode == 130
        assert "interrupted" in out + err
    else:
        assert process.returncode == -number
    assert "Traceback" not in out + err
    while in_session(process.pid) and time.monotonic() - started < 10:
        time.sleep(0.05)
    assert in_session(process.pid) == []
    assert time.monotonic() - started < 5
    assert list(temporary.iterdir()) == []
    assert list(tmp_path.glob("core*")) == []


@linux
def test_a_program_that_a_reader_waits_for_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs, modules = tmp_path / "bin", tmp_path / "modules"
    (modules / "rapidocr").mkdir(parents=True)
    (modules / "rapidocr" / "__init__.py").touch()  # no models: so tesseract it is
    programs.mkdir()
    (programs / "tesseract").write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 300\n", encoding="utf-8")
    (programs / "tesseract").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.syspath_prepend(str(modules))
    item = only(pdfs.scanned(tmp_path / "scan.pdf"), ocr="on", timeout=1, timeout_per_page=0, timeout_per_ocr_page=0)
    assert isinstance(item, Failure)
    assert "scan.pdf took longer than 1 s" in item.reason
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 5
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()

"""Reading in worker processes: one bad file costs itself, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests.support import pdfs

from ragcli.documents import ReadOptions, read_files
from ragcli.types import Document, Failure

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")


@pytest.fixture(scope="module")
def long_paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A paper that takes a second or more to read."""
    pdf = pdfs.new_pdf()
    lines = pdfs.wrapped(pdf, pdfs.prose(1, 40), 440)[:45]
    for _ in range(400):
        pdf.add_page()
        pdfs.put_lines(pdf, 72, 90, lines)
    return pdfs.write(pdf, tmp_path_factory.mktemp("long") / "long.pdf")


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    return pdfs.paper(tmp_path / "short.pdf", pages=2)


def outcome(paths: Sequence[Path], options: ReadOptions | None = None) -> dict[str, Document | Failure]:
    with closing(read_files(paths, options or ReadOptions(workers=2))) as results:
        return {each.path.name: next(iter(each.items)) for each in results}


def reason(item: Document | Failure) -> str:
    assert isinstance(item, Failure), item
    return item.reason


def children(parent: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == parent and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def workers() -> list[int]:
    """Every process that this one has started and that is alive."""
    return children(os.getpid())


def test_every_file_is_answered_for_good_or_bad(tmp_path: Path, paper: Path) -> None:
    (tmp_path / "note.md").write_text("# A note", encoding="utf-8")
    (tmp_path / "page.html").write_text("<p>A page", encoding="utf-8")
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.4 nothing")
    (tmp_path / "c.jsonl").write_text('{"id": "1", "text": "A record"}\n', encoding="utf-8")
    found = outcome([*sorted(tmp_path.iterdir()), tmp_path / "missing.md", tmp_path / "missing.pdf"])
    assert {name for name, item in found.items() if isinstance(item, Document)} == {
        *("note.md", "page.html", "short.pdf", "c.jsonl"),
    }
    for name in ("bad.pdf", "missing.md", "missing.pdf"):
        assert name in reason(found[name])


def test_a_document_that_takes_too_long_costs_only_itself(long_paper: Path, paper: Path) -> None:
    found = outcome([long_paper, paper], ReadOptions(workers=1, timeout=0.5, timeout_per_page=0))
    assert "long.pdf took longer than 0.5 s" in reason(found["long.pdf"])
    assert isinstance(found["short.pdf"], Document)


def test_a_long_document_has_time_for_each_of_its_pages(long_paper: Path) -> None:
    found = outcome([long_paper], ReadOptions(workers=1, timeout=0.5, timeout_per_page=1))
    assert isinstance(found["long.pdf"], Document)


@linux
def test_a_worker_that_dies_costs_only_its_document(long_paper: Path, paper: Path) -> None:
    with closing(read_files([long_paper, paper, paper], ReadOptions(workers=1))) as results:
        killed = False
        found: dict[str, Document | Failure] = {}
        pid = _kill_first_worker_soon()
        for each in results:
            found[each.path.name] = next(iter(each.items))
        killed = os.waitpid(pid, 0)[1] == 0
    assert killed
    assert "long.pdf" in reason(found["long.pdf"])
    assert isinstance(found["short.pdf"], Document)


def _kill_first_worker_soon() -> int:
    """Forks a helper that waits for this process's first worker to be busy, and kills it."""
    parent = os.getpid()
    script = (
        "import os, signal, sys, time\n"
        "sys.path.insert(0, os.getcwd())\n"
        "from tests.documents.test_workers import children\n"
        f"parent = {parent}\n"
        "deadline = time.monotonic() + 20\n"
        "while time.monotonic() < deadline:\n"
        "    below = [c for c in children(parent) if c != os.getpid()]\n"
        "    if below:\n"
        "        time.sleep(0.4)\n"
        "        os.kill(below[0], signal.SIGKILL)\n"
        "        sys.exit(0)\n"
        "    time.sleep(0.02)\n"
        "sys.exit(1)\n"
    )
    return subprocess.Popen([sys.executable, "-c", script]).pid


@linux
def test_memory_has_a_limit(long_paper: Path, paper: Path) -> None:
    found = outcome([long_paper, paper], ReadOptions(workers=1, memory_limit=1 << 20))
    assert "long.pdf" in reason(found["long.pdf"])


@linux
def test_closing_the_generator_ends_the_workers_at_once(long_paper: Path, paper: Path) -> None:
    results = read_files([paper, *[long_paper] * 6], ReadOptions(workers=2))
    next(results)
    assert workers()
    start = time.perf_counter()
    results.close()
    assert time.perf_counter() - start < 1.5
    deadline = time.monotonic() + 2
    while workers() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert workers() == []


@linux
def test_an_interrupt_ends_the_reading_and_leaves_no_process(long_paper: Path, paper: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"  # no `if __name__ == "__main__"`: a user's script needs none
    script.write_text(
        "from pathlib import Path\nfrom ragcli.documents import ReadOptions, read_files\n"
        f"paths = [Path({str(paper)!r}), *[Path({str(long_paper)!r})] * 6]\n"
        "print('ready', flush=True)\n"
        "for each in read_files(paths, ReadOptions(workers=2)):\n    print(len(list(each.items)), flush=True)\n",
        encoding="utf-8",
    )
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert process.stdout.readline() == "1\n"
    start = time.perf_counter()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    _, errors = process.communicate(timeout=20)
    assert time.perf_counter() - start < 3
    assert errors.count("Traceback") == 1
    assert "KeyboardInterrupt" in errors
    deadline = time.monotonic() + 3
    while _in_session(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _in_session(process.pid) == []


def _in_session(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def test_a_jsonl_file_is_a_stream_that_ends_with_a_failure_if_it_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": "1", "text": "a"}\n' * 3, encoding="utf-8")
    (found,) = read_files([path], ReadOptions())
    assert not isinstance(found.items, list)
    assert [isinstance(item, Document) for item in found.items] == [True] * 3
    (gone,) = read_files([tmp_path / "gone.jsonl"], ReadOptions())
    assert "gone.jsonl" in reason(next(iter(gone.items)))

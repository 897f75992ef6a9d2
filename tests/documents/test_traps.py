"""Bombs and traps in a folder: each costs itself, and says why; nothing else is lost, and nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support import traps
from tests.support.terminals import environment

TESTS = Path(__file__).parent
posix = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="makes pipes and sockets")
TIMEOUT = 3
GOOD = ("a-first-good-note.md", "z-last-good-paper.pdf")
RECORDS = "records.jsonl"


@dataclass(frozen=True)
class Taken:
    """An ingest of the whole folder that is over, and where its collection is."""

    code: int
    report: Any
    errors: str
    seconds: float
    data: Path
    folder: Path
    temporary: Path
    left: list[int]

    @property
    def failures(self) -> dict[str, str]:
        return {each["source"]: each["reason"] for each in self.report["failures"]}


def ingested(home: Path, sizes: traps.Sizes, *options: str) -> Taken:
    """A folder of all traps and two good documents, taken in by the real program."""
    folder, data, temporary = home / "in", home / "data", home / "tmp"
    for each in (folder, temporary):
        each.mkdir()
    for trap in traps.file_traps(sizes):
        traps.put(folder, trap)
    (folder / RECORDS).write_bytes(traps.json_lines(traps.LONG_JSON_LINE))
    sockets = traps.what_is_no_file(folder)
    (folder / GOOD[0]).write_text("The first good document tells of a gardener.", encoding="utf-8")
    (folder / GOOD[1]).write_bytes(traps.one_page(traps.stream(traps.words("The last one tells of a gardener too."))))
    started = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "ragcli", "ingest", str(folder), "-c", "traps", "--encoder", "none", "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(data, TMPDIR=str(temporary)),
        cwd=home,
        start_new_session=True,
    )
    out, err = process.communicate()
    seconds = time.monotonic() - started
    for each in sockets:
        each.close()
    report = json.loads(out)
    left = in_session(process.pid)
    return Taken(process.returncode, report, err.decode(), seconds, data, folder, temporary, left)


def in_session(session: int) -> list[int]:
    """Processes, dead ones that nobody buried included, that a session has."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(fields[3]) == session:
            found.append(int(entry.name))
    return found


def asked(taken: Taken, *arguments: str) -> Any:
    """The JSON that the program answers with, of the collection of traps."""
    done = subprocess.run(
        [sys.executable, "-m", "ragcli", *arguments, "-c", "traps", "--json"],
        capture_output=True,
        env=environment(taken.data),
        check=True,
    )
    assert done.stderr == b""
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Taken:
    """The traps at sizes that take seconds."""
    return ingested(tmp_path_factory.mktemp("traps"), traps.SMALL, "--parse-timeout", str(TIMEOUT))


def check_the_whole(taken: Taken, sizes: traps.Sizes) -> None:
    """The good documents are found, each trap is accounted for, and nothing is left behind."""
    assert taken.code == 4
    assert taken.errors == ""
    assert {hit["source"] for hit in asked(taken, "query", "gardener", "--pipeline", "bm25")} == set(GOOD)
    found = {hit["source"] for hit in asked(taken, "grep", traps.WORD, "--max-hits", "1000")}
    for trap in traps.file_traps(sizes):
        source = trap.name.decode("utf-8", "backslashreplace")
        if trap.failure is None:
            assert source in taken.report["added"], (source, taken.failures.get(source))
            assert source in found, source
        else:
            assert re.search(trap.failure, taken.failures[source]), (source, taken.failures[source])
            assert source not in taken.report["added"]
            assert source not in found
    for line, failure in traps.JSON_OUTCOMES.items():
        said = taken.failures.get(f"{RECORDS}:{line}")
        assert said is None if failure is None else failure in (said or ""), (line, said)
    assert {"first", "escaped", "last"} <= found
    assert len(taken.failures) == sum(
        outcome is not None
        for outcome in [*(trap.failure for trap in traps.file_traps(sizes)), *traps.JSON_OUTCOMES.values()]
    )
    assert taken.report["skipped"] == {"broken link": 4, "linked twice": 1, "not a file": 2}
    assert taken.left == []
    assert list(taken.temporary.iterdir()) == []


@posix
def test_a_folder_of_traps_costs_nothing_but_the_traps(taken: Taken) -> None:
    check_the_whole(taken, traps.SMALL)


@posix
def test_every_reason_is_a_sentence_that_fits_a_line(taken: Taken) -> None:
    for source, reason in taken.failures.items():
        assert "Traceback" not in reason
        assert "\n" not in reason
        assert len(reason) < 300, source


@posix
def test_a_trap_takes_no_more_than_its_time(taken: Taken) -> None:
    # The bomb has its timeout and a second for its page; all else is read in the meantime, or soon after.
    assert taken.seconds < 10 * TIMEOUT


@posix
def test_traps_are_not_sprung_again(taken: Taken) -> None:
    started = time.monotonic()
    again = subprocess.run(
        [
            *(sys.executable, "-m", "ragcli", "ingest", str(taken.folder), "-c", "traps", "--json"),
            *("--parse-timeout", str(TIMEOUT)),
        ],
        capture_output=True,
        env=environment(taken.data),
        check=False,
    )
    report = json.loads(again.stdout)
    assert again.returncode == 4
    assert time.monotonic() - started < taken.seconds / 2
    assert (report["added"], report["changed"], report["chunks"]) == ([], [], 0)
    assert {each["source"]: each["reason"] for each in report["failures"]} == taken.failures


@posix
def test_failures_are_shown_without_what_acts_on_a_terminal(taken: Taken) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ragcli", "documents", "-c", "traps"],
        capture_output=True,
        env=environment(taken.data),
        check=True,
    )
    shown = done.stdout.decode("utf-8")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert "[bold]markup.md" in shown


@posix
@pytest.mark.slow
def test_a_folder_of_full_sized_traps_costs_nothing_but_the_traps(tmp_path: Path) -> None:
    taken = ingested(tmp_path, traps.FULL)
    check_the_whole(taken, traps.FULL)
    assert taken.seconds < 600

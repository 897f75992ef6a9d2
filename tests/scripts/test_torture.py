"""`scripts/torture` in small: kills, failing writes, changed bytes and a crowd of readers, and that it would notice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Found = dict[str, Any]

STOPPING = """
import os, sys
from pathlib import Path
from scripts.torturing.children import in_child
from scripts.torturing.gate import Gate, missing

folder = Path(sys.argv[1])
if missing():
    print(missing(), file=sys.stderr)
    sys.exit(77)

def work():
    for number in range(3):
        with open(folder / f"{number}.txt", "wb", buffering=0) as file:
            file.write(b"0123456789")
    os.rename(folder / "0.txt", folder / "first.txt")
    return "done"

def left(decision, at):
    for path in folder.iterdir():
        path.unlink()
    gate = Gate(str(folder), lambda number, point: decision if number == at else "pass")
    ending = in_child(work, gate)
    return ending, gate.points, {path.name: path.stat().st_size for path in folder.iterdir()}

ending, points, files = left("pass", 0)
assert (ending.code, ending.value, ending.left) == (0, "done", 0)
assert [point.call.removesuffix("at") for point in points] == ["open", "write"] * 3 + ["rename"], points
assert points[-1].path == "first.txt" and points[1].size == 10
ending, points, files = left("kill", 4)
assert ending.killed and files == {"0.txt": 10, "1.txt": 0} and len(points) == 4
ending, points, files = left("tear", 4)
assert ending.killed and files == {"0.txt": 10, "1.txt": 5}
ending, points, files = left(28, 4)
assert ending.code == 1 and "No space left" in ending.told and files == {"0.txt": 10, "1.txt": 0}
ending, points, files = left("kill", 7)
assert ending.killed and sorted(files) == ["0.txt", "1.txt", "2.txt"]
"""


def run(code_or_module: list[str]) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *code_or_module], capture_output=True, text=True, check=False, env=environment
    )


def torture(*options: str, code: int = 0) -> Found:
    """What the script found, by kind of trial."""
    done = run(["-m", "scripts.torturing.run", "--json", "--processes", "2", *options])
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    told = json.loads(done.stdout)
    found: Found = {"skipped": told["skipped"]}
    for part in told["parts"]:
        found.setdefault(part["kind"], []).append(part)
    return found


def tried(found: Found, kind: str) -> int:
    """How many trials of a kind there were, all of which held. Skips the test where there can be none."""
    if kind in ("kills", "faults") and found["skipped"]:
        pytest.skip(str(found["skipped"]))
    return sum(part["tried"] for part in found[kind])


def test_a_process_is_stopped_at_the_call_that_was_meant(tmp_path: Path) -> None:
    done = run(["-c", STOPPING, str(tmp_path)])
    if done.returncode == 77:
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def small() -> Found:
    """What a short run finds, in one process for all tests, because loading the libraries takes the most of it."""
    return torture(
        *("--kills", "8", "--faults", "4", "--scenes", "ingest and prune,delete"), *("--flips", "20", "--queries", "0")
    )


@pytest.mark.slow
def test_nothing_is_lost_by_kills(small: Found) -> None:
    assert tried(small, "kills") == 8


@pytest.mark.slow
def test_nothing_is_lost_by_failing_writes(small: Found) -> None:
    assert tried(small, "faults") == 4


@pytest.mark.slow
def test_a_changed_byte_is_named_or_harmless(small: Found) -> None:
    assert tried(small, "flips") == 20


BLIND = """
import contextlib, dataclasses, sys
from scripts.torturing import run
import ragcli.collection.{module}

def half_known(examine):
    # A file of which only a part was committed is taken for done.
    def wrong(path, source, known, options):
        file, complaint = examine(path, source, known, options)
        half = known is not None and known.hash is None
        return (dataclasses.replace(file, hash=None) if half else file), complaint
    return wrong

ragcli.collection.{module}.{name} = {stand_in}
sys.exit(run.main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name", "stand_in", "options"),
    [
        ("maintain.verification", "find_problems", "lambda *_: []", ["--flips", "60", "--kills", "0", "--faults", "0"]),
        (
            "write.collection_writer",
            "transaction",
            "contextlib.nullcontext",
            ["--flips", "0", "--kills", "60", "--faults", "0", "--scenes", "ingest and prune"],
        ),
        (
            "ingestion.change_detection",
            "inspect_file",
            "half_known(ragcli.collection.ingestion.change_detection.inspect_file)",
            ["--flips", "0", "--kills", "60", "--faults", "0", "--scenes", "ingest and prune"],
        ),
    ],
)
def test_what_is_broken_is_noticed(module: str, name: str, stand_in: str, options: list[str]) -> None:
    code = BLIND.format(module=module, name=name, stand_in=stand_in)
    done = run(["-c", code, "--json", "--queries", "0", *options])
    assert done.returncode == 1, done.stdout[-3000:] + done.stderr[-3000:]
    assert any(part["wrong"] for part in json.loads(done.stdout)["parts"])


@pytest.mark.slow
def test_it_stands_torture_at_length() -> None:
    found = torture()
    assert tried(found, "kills") >= 300
    assert tried(found, "flips") >= 5000
    assert tried(found, "queries") >= 2000

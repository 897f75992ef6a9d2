"""What only a real process shows: exit codes, closed pipes, signals, terminals, odd locales, completion."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.terminals import environment, on_terminal, run

from ragcli.__main__ import interrupt

TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a collection that needs no model."""
    folder = tmp_path_factory.mktemp("process")
    lines = [
        json.dumps(
            {
                "id": f"r{number}",
                "title": "Nasty \x1b[31m title",
                "text": f"energy {number} \u202e漢字 [bold]x[/bold] " * 9,
            }
        )
        for number in range(300)
    ]
    done = run(folder / "data", "ingest", "-", "-c", "records", "--encoder", "none", text="\n".join(lines))
    assert done.returncode == 0, done.stderr
    return folder / "data"


def test_a_reader_that_leaves_early_is_no_error(data: Path) -> None:
    for arguments in (["grep", "energy", "--all"], ["grep", "energy", "--all", "--json"], ["documents"]):
        with subprocess.Popen(
            [sys.executable, "-m", "ragcli", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(data),
            cwd=data.parent,
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.read(10)
            process.stdout.close()
            errors = process.stderr.read()
            assert process.wait(60) == 0
            assert errors == b""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_stream_that_the_caller_closed_is_no_error(data: Path, tmp_path: Path, closed: str) -> None:
    (tmp_path / "note.md").write_text("Energy is kept.\n")
    for number, words in enumerate(("query energy --json", f"ingest '{tmp_path}' -c new --encoder none", "query -")):
        done = subprocess.run(
            ["sh", "-c", f"exec '{sys.executable}' -m ragcli {words} {closed}"],
            input="energy",
            capture_output=True,
            text=True,
            env=environment(data if number != 1 else tmp_path / "data"),
            timeout=60,
            check=False,
        )
        no_question = number == 2 and "<" in closed
        assert done.returncode == (2 if no_question else 0), done.stderr
        assert "Traceback" not in done.stderr
        assert bool(done.stdout) == (">" not in closed.replace("2>", "") and not no_question)


def test_help_that_nobody_reads_is_no_error(data: Path) -> None:
    for arguments in ([], ["--help"], ["query", "--help"], ["--version"]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [sys.executable, "-m", "ragcli", *arguments],
            stdout=writer,
            stderr=subprocess.PIPE,
            env=environment(data),
            cwd=data.parent,
            check=False,
            timeout=60,
        )
        os.close(writer)
        assert (done.returncode, done.stderr) == (0, b""), arguments


def test_exit_codes_reach_the_shell(data: Path) -> None:
    assert run(data, "grep", "energy 7").returncode == 0
    assert run(data, "grep", "perpetual motion").returncode == 1
    assert run(data, "grep").returncode == 2
    assert run(data, "grep", "x", "-c", "missing").returncode == 3


def test_data_goes_to_stdout_and_everything_else_to_stderr(data: Path) -> None:
    done = run(data, "grep", "energy", "--max-hits", "3", "--json")
    assert len(json.loads(done.stdout)) == 3
    assert done.stderr.startswith("ragcli: there are more than 3 hits")


def test_a_locale_without_unicode_gets_question_marks_and_valid_json(data: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = run(data, "grep", "energy 7", "--max-hits", "1", **plain)
    assert done.returncode == 0, done.stderr
    assert "energy 7" in done.stdout
    hits = json.loads(run(data, "grep", "energy 7", "--max-hits", "1", "--json", **plain).stdout)
    assert "漢字" in hits[0]["snippet"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "energy 7", "--pipeline", "bm25"],
        ["query", "energy 7", "--pipeline", "bm25", "--json"],
        ["grep", "energy 7"],
        ["show", "r7"],
        ["show", "r7:0"],
        ["documents"],
        ["query", "energy 7", "--pipeline", "bm25", "--explain"],
    ],
)
def test_nothing_from_a_document_reaches_the_terminal_raw(data: Path, arguments: list[str]) -> None:
    import re

    code, received = on_terminal(data, *arguments)
    assert code == 0, received
    assert "\u202e" not in received
    styles = re.sub(r"\x1b\[[0-9;]*m", "", received)
    assert "\x1b" not in styles
    # The title's own red never arrives: the only reds are ours, around a match.
    assert "\x1b[31m" not in received


def test_colour_comes_with_a_terminal_and_goes_with_no_color(data: Path) -> None:
    assert "\x1b[1;31menergy 7\x1b[0m" in on_terminal(data, "grep", "energy 7")[1]
    assert "\x1b" not in on_terminal(data, "grep", "energy 7", NO_COLOR="1")[1]
    assert "\x1b" not in run(data, "grep", "energy 7").stdout


def test_lines_on_a_terminal_keep_to_its_width(data: Path) -> None:
    _, received = on_terminal(data, "grep", "energy 7", columns=50, NO_COLOR="1")
    lines = [line for line in received.replace("\r", "").split("\n") if not line.startswith("ragcli: ")]
    assert max(len(line) for line in lines) <= 50
    assert len(lines) > 5


def test_an_ingest_shows_its_progress_on_a_terminal_and_leaves_one_line(data: Path, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"note{number}.md").write_text(f"# Note {number}\n\nwords\n")
    code, received = on_terminal(data, "ingest", str(tmp_path), "-c", "notes", "--encoder", "none")
    assert code == 0, received
    assert "Reading and embedding" in received or "Looking for changes" in received
    assert "notes: 3 added; 3 chunks in " in received.rstrip().splitlines()[-1]
    assert run(data, "collections", "delete", "notes", "--yes").returncode == 0


def test_deleting_asks_on_a_terminal(data: Path) -> None:
    assert run(data, "ingest", "-", "-c", "short-lived", "--encoder", "none", text='{"text": "x"}').returncode == 0
    assert on_terminal(data, "collections", "delete", "short-lived", answer="n\n")[0] != 0
    assert run(data, "collections", "show", "short-lived").returncode == 0
    assert on_terminal(data, "collections", "delete", "short-lived", answer="y\n")[0] == 0
    assert run(data, "collections", "show", "short-lived").returncode == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_call_ends_soon_and_says_so(data: Path, number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "ragcli", "ingest", "-", "-c", "slow", "--encoder", "none"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(data),
        cwd=data.parent,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write('{"id": "a", "text": "first"}\n')
    process.stdin.flush()
    # It is made, and then waits for more lines; what an interrupt does to a starting Python is Python's own.
    deadline = time.monotonic() + 60
    while not (data / "slow" / "store.db").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(1)
    started = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - started < 10
    assert process.returncode == 130
    assert "Traceback" not in out + err
    assert "interrupted" in out + err
    assert run(data, "collections", "verify", "slow").returncode == 0


def test_an_interrupt_amid_an_import_waits_until_it_can_be_heard() -> None:
    frames = []

    class Finder:
        def find_spec(self, *_: object) -> None:
            frames.append(sys._getframe().f_back)

    sys.meta_path.insert(0, finder := Finder())  # type: ignore[arg-type]
    try:
        assert importlib.util.find_spec("no_such_module_anywhere") is None
        with pytest.raises(ImportError):
            importlib.import_module("no_such_module_anywhere")
    finally:
        sys.meta_path.remove(finder)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        interrupt(signal.SIGINT, frames[-1])
        frames.clear()
        time.sleep(10)
    assert frames == []
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, sys._getframe())


def test_the_runtime_of_the_models_reports_nothing_to_its_makers(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    script = "import ragcli, onnxruntime, os; print(len(os.listdir('/proc/self/task')))"
    if not Path("/proc/self/task").is_dir():
        pytest.skip("counts the threads of a process in /proc")
    own = environment(tmp_path / "data") | {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    own.pop("ORT_DISABLE_TELEMETRY", None)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=own, check=True)
    assert done.stdout == "1\n"
    assert list(tmp_path.iterdir()) == []


def test_it_is_a_module_and_a_program(data: Path) -> None:
    from ragcli import __version__

    assert run(data, "--version").stdout == f"ragcli {__version__}\n"
    program = Path(sys.executable).with_name("ragcli")
    if importlib.util.find_spec("ragcli") and program.exists():
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        assert done.stdout == f"ragcli {__version__}\n"


def test_the_shell_can_complete_commands_options_and_collections(data: Path) -> None:
    def completed(words: str) -> list[str]:
        done = run(data, _RAGCLI_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(len(words.split(" ")) - 1))
        return [line.split(",")[-1] for line in done.stdout.split()]

    assert "query" in completed("ragcli qu")
    assert "--max-per-source" in completed("ragcli query x --max")
    assert "records" in completed("ragcli grep x -c rec")
    assert "hybrid" in completed("ragcli query x --pipeline hy")
    # Which shell is meant is seen from the process that asks.
    ask = ["bash", "-c", f"'{sys.executable}' -m ragcli --show-completion; true"]
    script = subprocess.run(ask, capture_output=True, text=True, check=True)
    assert "_RAGCLI_COMPLETE" in script.stdout, script.stderr


@pytest.mark.parametrize(("given", "expected"), [(None, "1"), ("4", "4")])
def test_a_command_computes_on_one_thread_unless_told_otherwise(given: str | None, expected: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "OPENBLAS_NUM_THREADS"}
    if given is not None:
        environment["OPENBLAS_NUM_THREADS"] = given
    probe = (
        "import os; from ragcli.__main__ import main; main(['--version']); print(os.environ['OPENBLAS_NUM_THREADS'])"
    )
    done = subprocess.run([sys.executable, "-c", probe], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == expected

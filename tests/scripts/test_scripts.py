"""The scripts that a newcomer runs first."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"


def shell(script: str, *, path: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    base = {key: value for key, value in os.environ.items() if not key.startswith("RAGCLI_")}
    if path is not None:
        base["PATH"] = str(path)
    return subprocess.run(
        ["/bin/sh", "-c", script], capture_output=True, text=True, cwd=ROOT, env={**base, **environment}, check=False
    )


def program(folder: Path, name: str, body: str) -> Path:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


@pytest.mark.parametrize("name", ["scripts/demo", "scripts/test", "scripts/fuzz", "scripts/torture", ".ci/run"])
def test_a_script_can_be_run_and_parses(name: str) -> None:
    assert os.access(ROOT / name, os.X_OK)
    shell_name = (ROOT / name).read_text(encoding="utf-8").splitlines()[0].split()[-1].rsplit("/", 1)[-1]
    assert subprocess.run([shell_name, "-n", str(ROOT / name)], check=False).returncode == 0


def test_a_name_that_only_prints_an_error_is_not_taken_for_a_python(tmp_path: Path) -> None:
    program(tmp_path, "python3.13", "echo 'command not found' >&2; exit 127")
    program(tmp_path, "python3.12", f'exec "{sys.executable}" "$@"')
    done = shell(". scripts/venv.sh; find_python", path=tmp_path)
    assert (done.returncode, done.stdout) == (0, "python3.12\n")


def test_without_a_python_the_script_says_what_to_install(tmp_path: Path) -> None:
    program(tmp_path, "python3", "exit 1")
    done = shell(". scripts/venv.sh; find_python", path=tmp_path)
    assert done.returncode == 1
    assert "Python 3.11 or later" in done.stderr
    assert "RAGCLI_PYTHON" in done.stderr


def test_a_python_named_by_the_user_goes_first(tmp_path: Path) -> None:
    mine = program(tmp_path, "my-python", f'exec "{sys.executable}" "$@"')
    done = shell(". scripts/venv.sh; find_python", RAGCLI_PYTHON=str(mine))
    assert done.stdout == f"{mine}\n"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """An environment as a first run leaves it, made of the Python that runs the tests."""
    bin_folder = tmp_path / "venv" / "bin"
    bin_folder.mkdir(parents=True)
    program(bin_folder, "python", f'exec "{sys.executable}" "$@"')
    program(bin_folder, "ragcli", f'exec "{sys.executable}" -m ragcli "$@"')
    files = (ROOT / "pyproject.toml", SCRIPTS / "constraints.txt", SCRIPTS / "requirements.lock")
    decides = b"".join(file.read_bytes() for file in files)
    for extra in ("offline", "test"):
        (tmp_path / "venv" / f".ragcli-{extra}").write_text(hashlib.sha256(decides).hexdigest() + "\n")
    return tmp_path / "venv"


def test_a_second_run_installs_nothing(installed: Path) -> None:
    done = shell("./scripts/test --version", RAGCLI_VENV=str(installed))
    assert done.returncode == 0, done.stderr
    assert "installed in" in done.stdout
    assert "pytest" in done.stdout + done.stderr
    assert "Installing" not in done.stdout


def test_a_changed_list_of_libraries_installs_again(installed: Path, tmp_path: Path) -> None:
    (installed / ".ragcli-test").write_text("something older\n")
    called = tmp_path / "called"
    program(
        installed / "bin",
        "python",
        f'case "$*" in *pip*) echo "$*" >>"{called}";; *) exec "{sys.executable}" "$@";; esac',
    )
    done = shell("./scripts/test --version", RAGCLI_VENV=str(installed))
    assert done.returncode == 0, done.stderr
    assert "install" in called.read_text()
    checked, rest = called.read_text().splitlines()
    assert "--require-hashes --no-deps -r scripts/requirements.lock" in checked
    assert "-c scripts/constraints.txt" in rest
    assert (installed / ".ragcli-test").read_text() != "something older\n"


def test_the_slow_tests_run_when_asked_for_and_other_words_go_to_pytest(installed: Path, tmp_path: Path) -> None:
    program(
        installed / "bin",
        "python",
        f'case "$*" in *pytest*) printf "[%s]" "$@";; *) exec "{sys.executable}" "$@";; esac',
    )
    plain = shell("./scripts/test -x 'tests/two words.py'", RAGCLI_VENV=str(installed)).stdout
    slow = shell("./scripts/test --slow -x", RAGCLI_VENV=str(installed)).stdout
    on_every_core = "[-m][pytest][--numprocesses][auto][--dist][worksteal]"
    assert plain.endswith(f"{on_every_core}[-x][tests/two words.py]")
    assert slow.endswith(f"{on_every_core}[-m][][-x]")


def test_the_papers_of_the_demo_are_real_pdfs_and_always_the_same(tmp_path: Path) -> None:
    import pypdfium2

    for folder in ("first", "second"):
        subprocess.run([sys.executable, str(SCRIPTS / "make_papers.py"), str(tmp_path / folder)], check=True)
    first = {file.name: file.read_bytes() for file in (tmp_path / "first" / "papers").iterdir()}
    assert first == {file.name: file.read_bytes() for file in (tmp_path / "second" / "papers").iterdir()}
    assert sum(name.endswith(".pdf") for name in first) >= 3
    assert sum(name.endswith(".md") for name in first) >= 2
    wormhole = pypdfium2.PdfDocument(first["wormhole.pdf"])
    assert "Traversable" in wormhole.get_metadata_value("Title")
    text = wormhole[1].get_textpage().get_text_bounded()
    assert "negative average null energy" in " ".join(text.split())
    mitigation = pypdfium2.PdfDocument(first["error-mitigation.pdf"])
    assert len(mitigation) == 3


@pytest.mark.slow
def test_the_demo_answers_its_question_and_finds_its_phrase(installed: Path) -> None:
    done = shell("./scripts/demo", RAGCLI_VENV=str(installed))
    assert done.returncode == 0, done.stderr
    answer = done.stdout.split("Asking a question")[1]
    assert "wormhole.pdf, p. 2" in answer.split("Looking for an exact phrase")[0]
    assert "negative average null energy" in answer.split("Looking for an exact phrase")[1].split("\n", 3)[3]

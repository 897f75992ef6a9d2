"""Packages bring parsers, encoders, rerankers and judges; real processes of ragcli use what is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.plugin_package import BROKEN_PYPROJECT, install, install_broken

Process = subprocess.CompletedProcess[str]
Run = Callable[..., Process]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both packages installed."""
    folder = tmp_path_factory.mktemp("packages")
    install(folder)
    return install_broken(folder)


@pytest.fixture
def run(packages: Path, tmp_path: Path) -> Run:
    """Run ragcli in a process of its own, for a user with these packages and no configuration."""

    def run_here(*arguments: str, code: int = 0, packages: Path = packages, **environment: str) -> Process:
        done = subprocess.run(
            [sys.executable, "-m", "ragcli", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "RAGCLI_"))},
                "HOME": str(tmp_path / "home"),
                "PYTHONPATH": str(packages),
                "RAGCLI_DATA_DIR": str(tmp_path / "data"),
                "HF_HUB_OFFLINE": "1",
                "COLUMNS": "200",
                **environment,
            },
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run_here


def documents(run: Run) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = json.loads(run("documents", "-c", "memos", "--json").stdout)
    return listed


def test_plugins_are_listed_with_who_brought_them_and_what_is_wrong_with_them(run: Run) -> None:
    listed = json.loads(run("plugins", "--json").stdout)
    assert {key: listed[1][key] for key in ("group", "name", "distribution", "version", "file_types", "problem")} == {
        "group": "ragcli.parsers",
        "name": "endless",
        "distribution": "ragcli-memos",
        "version": "1.4",
        "file_types": [".endless"],
        "problem": None,
    }
    assert [each["group"] for each in listed] == [
        *["ragcli.parsers"] * 5,
        "ragcli.encoders",
        *["ragcli.rerankers"] * 2,
        "ragcli.judges",
    ]
    (problem,) = {each["problem"] for each in listed if each["name"] == "brk"}
    assert problem == (
        "The plugin 'brk' (ragcli.parsers) of ragcli-broken 0.1 cannot be loaded (SystemExit: libfoo.so: not found); "
        "update or uninstall ragcli-broken."
    )
    table = run("plugins")
    assert "ragcli-memos" in table.stdout
    assert "cannot be used" in table.stdout
    assert problem in table.stderr


def test_without_a_package_there_is_nothing_to_list(run: Run, tmp_path: Path) -> None:
    assert json.loads(run("plugins", "--json", packages=tmp_path / "none").stdout) == []


def test_a_file_of_a_plugins_type_is_ingested_in_a_worker_process(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "one.memo").write_text("Wormholes\n\nNEGATIVE ENERGY OPENS A WORMHOLE.")
    (tmp_path / "notes" / "two.MEMO").write_text("Sketches\n\nA SKETCH COUNTS WORDS.")
    (tmp_path / "notes" / "three.unknown").write_text("Nobody reads this.")
    report = json.loads(run("ingest", "notes", "-c", "memos", "--encoder", "none", "--json").stdout)
    assert sorted(report["added"]) == ["one.memo", "two.MEMO"]
    assert report["skipped"] == {".unknown": 1}
    first, _ = sorted(documents(run), key=lambda each: str(each["source"]))
    assert (first["kind"], first["title"]) == ("memo", "Wormholes")
    assert first["metadata"]["author"] == ["Ada Lovelace", "Alan Turing"]  # type: ignore[index]
    (hit,) = json.loads(run("grep", "opens a wormhole", "--json").stdout)
    assert hit["source"] == "one.memo"


def test_the_parser_runs_in_another_process_than_the_command(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "one.memo").write_text("Title\n\nTEXT")
    code = (
        "import os, sys; from pathlib import Path; from ragcli.documents import ReadOptions, read_files\n"
        "(read,) = read_files([Path(sys.argv[1])], ReadOptions(workers=1))\n"
        "(document,) = read.items\n"
        "assert document.metadata['process'] != os.getpid()\n"
        "assert 'ragcli_memos' not in sys.modules\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "one.memo")], check=True, env=environment)


def test_one_file_may_give_several_documents(run: Run, tmp_path: Path) -> None:
    (tmp_path / "log.several").write_text("The first entry.\n--\nThe second entry.")
    run("ingest", "log.several", "-c", "memos", "--encoder", "none")
    assert len(documents(run)) == 2
    (tmp_path / "log.several").write_text("The first entry.\n--\nThe second entry.\n--\nThe third entry.")
    report = json.loads(run("ingest", "log.several", "-c", "memos", "--json").stdout)
    assert report["changed"] == ["log.several"]
    assert report["documents"] == 1


def test_what_a_plugin_cannot_read_costs_that_file_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.memo").write_text("")
    (tmp_path / "good.memo").write_text("Title\n\nTEXT")
    (tmp_path / "odd.wrong").write_text("x")
    (tmp_path / "long.endless").write_text("x")
    (tmp_path / "bad.memo").write_bytes(b"\xff\xfe\xff")
    report = json.loads(
        run(
            *("ingest", "empty.memo", "good.memo", "odd.wrong", "long.endless", "bad.memo", "-c", "memos"),
            *("--encoder", "none", "--parse-timeout", "2", "--json"),
            code=4,
        ).stdout
    )
    assert report["added"] == ["good.memo"]
    reasons = {each["source"]: each["reason"] for each in report["failures"]}
    assert reasons["empty.memo"] == "empty.memo has no memo in it."
    assert "of ragcli-memos 1.4 gave a str in place of a document" in reasons["odd.wrong"]
    assert "took longer than 2 s" in reasons["long.endless"]
    assert "UnicodeDecodeError" in reasons["bad.memo"]


def test_a_parser_that_cannot_be_loaded_is_one_sentence_with_its_package(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.brk").write_text("x")
    (tmp_path / "b.txt").write_text("Read all the same.")
    report = json.loads(run("ingest", "a.brk", "b.txt", "-c", "memos", "--encoder", "none", "--json", code=4).stdout)
    assert report["added"] == ["b.txt"]
    (failure,) = report["failures"]
    assert failure["reason"].endswith("(SystemExit: libfoo.so: not found); update or uninstall ragcli-broken.")


def test_two_packages_with_one_name_are_told_and_neither_is_used(run: Run, tmp_path: Path) -> None:
    install(tmp_path / "more")
    second = BROKEN_PYPROJECT.replace("ragcli-broken", "ragcli-other").replace("brk", "memo")
    install(tmp_path / "more", second, {"ragcli_broken.py": "def parse(*_):\n    return []\n"})
    (tmp_path / "a.memo").write_text("Title\n\nTEXT")
    report = json.loads(
        run("ingest", "a.memo", "-c", "memos", "--encoder", "none", "--json", packages=tmp_path / "more", code=4).stdout
    )
    assert "is brought by ragcli-memos and ragcli-other" in report["failures"][0]["reason"]


def test_start_up_and_grep_look_for_no_plugin(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("A phrase to find.")
    run("ingest", "a.txt", "-c", "memos", "--encoder", "none")
    probe = (
        "import sys; from ragcli.__main__ import main; code = main(sys.argv[1:]); "
        "sys.exit(code or ('importlib.metadata' in sys.modules and 77))"
    )
    for arguments in (["--help"], ["query", "--help"], ["grep", "phrase"], ["ingest", "a.txt", "-c", "memos"]):
        done = subprocess.run(
            [sys.executable, "-c", probe, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "RAGCLI_DATA_DIR": str(tmp_path / "data"), "HOME": str(tmp_path / "home")},
        )
        assert done.returncode == 0, (arguments, done.stderr)


def test_a_plugins_encoder_and_reranker_search_a_collection(run: Run, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("Negative energy opens a wormhole. " * 3)
    (tmp_path / "two.txt").write_text("A wormhole opens.")
    run("ingest", "one.txt", "two.txt", "-c", "words", "--encoder", "plugin:words")
    dense = json.loads(run("query", "negative energy", "-c", "words", "--pipeline", "dense", "--json").stdout)
    assert dense[0]["source"] == "one.txt"
    done = run("query", "negative energy wormhole", "-c", "words", "--reranker", "plugin:shortest:m", "--json")
    hits = json.loads(done.stdout)
    assert {hit["reranker"] for hit in hits} == {"plugin:shortest:m"}
    assert "ranking by length (m, no key)" in done.stderr
    assert hits[0]["scores"]["rerank"] == -len(hits[0]["text"])


def test_a_collection_is_not_asked_with_another_model_of_the_same_plugin(run: Run, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("Negative energy opens a wormhole.")
    run("ingest", "one.txt", "-c", "words", "--encoder", "plugin:words")
    done = run("query", "energy", "-c", "words", "--pipeline", "dense", code=5, MEMOS_FINGERPRINT="6" * 64)
    assert "The encoder plugin:words has other weights" in done.stderr


def test_a_plugins_judge_decides_on_sufficiency_and_faithfulness(run: Run, tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("A sketch counts words.")
    run("ingest", "one.txt", "-c", "notes", "--encoder", "none")
    asked = json.loads(
        run("ask", "what opens a wormhole", "-c", "notes", "--judge", "plugin:agreeable", "--json").stdout
    )
    assert (asked["passed"], asked["judge"]) == (True, "plugin:agreeable")
    (tmp_path / "draft.md").write_text("Wormholes are opened by negative energy in every case.")
    checked = json.loads(run("check", "draft.md", "-c", "notes", "--judge", "plugin:agreeable", "--json").stdout)
    assert checked["sentences"][0]["verdict"] == "supported"


@pytest.mark.parametrize(
    "arguments",
    [
        ("ingest", "one.txt", "-c", "x", "--encoder", "plugin:missing"),
        ("query", "energy", "-c", "notes", "--reranker", "plugin:broken"),
        ("ask", "energy", "-c", "notes", "--judge", "plugin:missing"),
    ],
)
def test_a_plugin_that_is_not_there_or_cannot_be_loaded_is_one_sentence(
    run: Run, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "one.txt").write_text("Negative energy.")
    run("ingest", "one.txt", "-c", "notes", "--encoder", "none")
    done = run(*arguments, code=5)
    assert done.stderr.count("\n") == 1
    assert "plugin" in done.stderr

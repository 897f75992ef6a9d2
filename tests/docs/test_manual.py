"""`ragcli help` lists the manual and shows its pages."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.support.cli_calls import Ragcli, caller

from ragcli.cli.render.manual_text import manual_text
from ragcli.cli.terminal import Screen
from ragcli.manual import ALIASES, TOPICS, page

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ragcli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ragcli:
    return caller(tmp_path / "data", tmp_path, monkeypatch, capsys)


def test_help_lists_every_page_with_what_it_is_about(ragcli: Ragcli) -> None:
    done = ragcli("help")
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines] == list(TOPICS)
    assert all(line.split(maxsplit=1)[1] in page(line.split()[0]).splitlines()[0] for line in lines)
    assert max(map(len, lines)) <= 80


def test_every_file_of_the_manual_is_a_topic() -> None:
    assert {file.stem for file in (ROOT / "src" / "ragcli" / "manual").glob("*.md")} == set(TOPICS)
    assert set(ALIASES.values()) <= set(TOPICS)
    assert not set(ALIASES) & set(TOPICS)


@pytest.mark.parametrize("topic", TOPICS)
def test_a_page_is_shown_within_the_screen(topic: str, ragcli: Ragcli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    done = ragcli("help", topic)
    assert done.code == 0
    heading = page(topic).splitlines()[0].removeprefix("# ")
    assert " ".join(done.out.split()).startswith(heading.replace("`", ""))
    assert "```" not in done.out
    assert "|---" not in done.out
    # What stands in a fence keeps its lines, and is indented.
    assert all(len(line) <= 60 or line.startswith("    ") for line in done.out.splitlines()[1:])


def test_a_command_without_a_page_of_its_own_is_found_on_the_page_that_has_it(ragcli: Ragcli) -> None:
    assert ragcli("help", "trust").out == ragcli("help", "configuration").out


def test_an_unknown_topic_is_a_sentence_with_the_nearest_ones(ragcli: Ragcli) -> None:
    done = ragcli("help", "filterz")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "ragcli: The manual has no page 'filterz'. Did you mean 'filter' or 'filters'? `ragcli help` lists its pages.\n"
    )
    far = ragcli("help", "xylophone\x1b[2J")
    assert far.code == 2
    assert "Did you mean" not in far.err
    assert "\x1b" not in far.err


def test_markdown_is_shown_as_text() -> None:
    source = (
        "# A `page`\n\n"
        "Words that **go** on\nand on, see [there](x.md) and `two words`.\n\n- one `item` that is longer\n"
        "- two\n\n```console\n$ ragcli help | head\n```\n\n| a | b |\n|---|--:|\n| `x\\|y` | long cell text |\n"
    )
    shown = manual_text(source, Screen(24, interactive=False, colour=False))
    assert shown == (
        "A page\n\n"
        "Words that go on and on,\nsee there (x.md) and\n`two words`.\n\n- one item that is\n  longer\n- two\n\n"
        "    $ ragcli help | head\n\na    b\n───────────────────\nx|y  long cell text\n"
    )
    coloured = manual_text("# A page\n\n| | b |\n|---|---|\n| c | d\x1b[2J |\n", Screen(24, True, True))
    assert coloured.startswith("\x1b[1mA page\x1b[0m\n")
    assert "\x1b[2J" not in coloured


def test_help_loads_neither_arrays_nor_rich() -> None:
    probe = (
        "import sys\nfrom ragcli.__main__ import main\ncode = main(['help', 'query'])\n"
        "assert code == 0\nprint(sorted({'numpy', 'rich', 'pydantic', 'markdown_it', 'sqlite3'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_wheel_has_the_manual(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling, which builds the wheel, is not installed")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"ragcli/manual/{topic}.md" for topic in TOPICS} <= names

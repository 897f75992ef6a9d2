"""Every command on one hostile collection: nothing of it reaches a terminal raw, and JSON stays JSON."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support import hostile_text as hostile
from tests.support.terminals import converse, environment

from ragcli.cli.app import COMMANDS
from ragcli.cli.commands import collections_command, models_command

# What ragcli itself writes to a terminal: styles, and what moves a progress line.
OURS = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|2K|1A)|\r")
# What changes a terminal, or hides in a text; written down once more, apart from the code that is tested.
HARMFUL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b\u2028-\u202e\u2060-\u2069\u3164\ud800-\udfff\ufeff\U000e0000-\U000e007f"
    "\U000e0100-\U000e01ef]"
)
# A colour that ragcli never uses, and of the hostile texts only.
THEIRS = "\x1b[95m"
# Made for scripts, which need the name as it is. Read by a person it is made safe, as is seen on the terminal.
NAMES = ("--paths", "-l", "--count")


@dataclass(frozen=True)
class Said:
    """What one call wrote, and its exit code."""

    call: tuple[str, ...]
    code: int
    text: str


@dataclass(frozen=True)
class Session:
    """All that was said: on the terminal, and into files."""

    terminal: list[Said]
    out: list[Said]
    err: list[Said]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    place = tmp_path_factory.mktemp("hostile") / "work \x1b[95m\u202eplace"
    place.mkdir()
    hostile.make(place)
    variables = environment(place / "data", TERM="xterm", COLUMNS="90", PYTHONPATH=str(Path(__file__).parents[2]))
    code, received = converse(
        [sys.executable, hostile.__file__, str(place)],
        variables,
        place,
        answers={b"[y/N] ": b"n\n", b"[q]uit ": b"q"},
    )
    assert code == 0, received[-3000:].decode("utf-8", "replace")
    texts = [received, (place / "stdout").read_bytes(), (place / "stderr").read_bytes()]
    lists = [hostile.on_terminal(place), hostile.on_pipes(), hostile.on_pipes()]
    return Session(*(parted(text.decode("utf-8"), calls) for text, calls in zip(texts, lists, strict=True)))


def parted(text: str, calls: list[list[str]]) -> list[Said]:
    # On a terminal each mark comes twice, from stdout and from stderr.
    found = re.findall(rf"{hostile.MARK} (\d+)\r?\n(.*?)\r?\n{hostile.MARK} \1 gave (\d+)\r?\n", text, re.DOTALL)
    assert [int(number) for number, *_ in found] == list(range(len(calls))), text[-2000:]
    return [Said(tuple(call), int(code), said) for call, (_, said, code) in zip(calls, found, strict=True)]


def test_every_command_is_tried(session: Session) -> None:
    assert {said.call[0] for said in session.terminal} >= set(COMMANDS)
    for group, app in (("collections", collections_command.app), ("models", models_command.app)):
        tried = {said.call[1] for said in session.terminal if said.call[0] == group}
        assert tried >= {command.name for command in app.registered_commands} - {"list"}
    # The calls that are to succeed do: what says nothing has hidden nothing.
    expected = {"import-index": {0, 3}, "documents": {0}, "query": {0, 2, 3, 5}, "models": {0, 5}}
    for said in session.terminal:
        assert said.code in expected.get(said.call[0], {0, 1, 2, 3, 4, 5, 130}), said
        assert said.code != 70
        assert "Traceback" not in said.text
    done = [said.call[1] for said in session.terminal if said.call[0] == "collections" and said.code == 0]
    assert {"rename", "show", "verify", "export", "import"} <= set(done)
    assert all(said.code == 0 for said in session.out), [said for said in session.out if said.code]


def test_nothing_of_it_reaches_the_terminal_raw(session: Session) -> None:
    for said in session.terminal:
        assert THEIRS not in said.text, said.call
        left = OURS.sub("", said.text.replace("\r\n", "\n"))
        found = HARMFUL.search(left)
        assert found is None, (said.call, left[max(found.start() - 80, 0) : found.end() + 20])


def test_it_is_shown_and_not_dropped(session: Session) -> None:
    text = "".join(OURS.sub("", said.text) for said in session.terminal)
    assert "␛[95mX␛]0;pwned␇" in text
    # Markup is text.
    assert "[bold red]m[/bold red]" in text


def test_nothing_of_it_stands_raw_in_a_file_or_pipe_but_the_names_that_scripts_ask_for(session: Session) -> None:
    for said in (*session.out, *session.err):
        if not (set(said.call) & set(NAMES) and "--json" not in said.call):
            found = HARMFUL.search(said.text)
            assert found is None, (said.call, said.text[max(found.start() - 80, 0) : found.end() + 20])


def test_a_name_on_a_line_of_its_own_is_one_line(session: Session) -> None:
    for said in session.out:
        if set(said.call) & set(NAMES) and "--json" not in said.call:
            lines = said.text.rstrip("\n").split("\n")
            # A place on the disk, a record's id in a file that is no longer known by its place, or an imported source.
            assert all(re.match(r"/|r|\d", line) for line in lines), lines
            assert any(THEIRS in line for line in lines)


def test_json_is_json_and_holds_the_texts_as_they_are(session: Session) -> None:
    seen = 0
    for said in session.out:
        if "--json" in said.call or "--jsonl" in said.call:
            texts = said.text.rstrip("\n").split("\n") if "--jsonl" in said.call else [said.text]
            for text in texts:
                value = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
                assert json.dumps(value, ensure_ascii=False).encode("utf-8")
            seen += 1
    assert seen >= 12
    (documents,) = (json.loads(said.text) for said in session.out if said.call[:2] == ("documents", "--json"))
    assert any(row["source"] == f"0{hostile.EVIL_LINES}" for row in documents)

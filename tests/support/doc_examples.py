"""The examples of the README and the manual: read from the pages, run in a demo folder, compared with what is shown.

`python -m tests.support.doc_examples [PAGE...]` runs the examples and writes what they print now into the pages, where
it differs by more than what differs from run to run.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ragcli.__main__ import EXIT_BUG, main

ROOT: Final = Path(__file__).parents[2]
README: Final = ROOT / "README.md"
MANUAL: Final = ROOT / "src" / "ragcli" / "manual"
PAGES: Final = (README, *sorted(MANUAL.glob("*.md")))
FRESH: Final = ("README", "ingest")
"""Pages whose examples begin before anything is ingested; all others find the collection `demo`."""

SHOWN_HOME: Final = "/home/you/ragcli"

# What differs from run to run: ids of documents, times, sizes of files, and with them the width of a column. Numbers
# with decimals are compared apart, because models round differently on different processors.
_VARIABLE: Final = (
    (re.compile(r"\bd[0-9a-f]{10}\b"), "d0123456789"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d)?(?:\.\d+)?Z?"), "2026-11-30 02:54"),
    (re.compile(r"\b\d+(?:\.\d+)? m?s\b"), "0 s"),
    (re.compile(r"\b\d+(?:\.\d+)? [kKMG]?B\b"), "0 B"),
    (re.compile(r"(?<![\w.])\d+\.\d(?!\d)"), "0.0"),
    (re.compile("─+"), "─"),
    (re.compile(r"(?<=\S) {2,}"), "  "),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
)
_DECIMALS: Final = re.compile(r"-?\d+\.\d{2,}(?:e-?\d+)?")
# Weights are quantised to seven or eight bits, as the processor allows, which moves the scores of a pool, z-scores of
# three decimals, further than a probability, which is shown with two.
_SCORE_TOLERANCE: Final = 0.35
_PROBABILITY_TOLERANCE: Final = 0.06


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page: its language, the number of its first line of text (from 0), and its lines."""

    page: Path
    language: str
    first_line: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclass(frozen=True, slots=True)
class Example:
    """A command and what the page says that it prints; None where the page shows nothing. Lines as in `Block`."""

    command: str
    shown: str | None
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command printed, both streams in their order, and its exit code."""

    code: int
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page."""
    language: str | None = None
    first, lines = 0, list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines()):
        if not line.startswith("```"):
            lines.append(line)
        elif language is None:
            language, first, lines = line[3:].strip(), number + 1, []
        else:
            yield Block(page, language, first, tuple(lines))
            language = None
    assert language is None, f"{page}: a fence is not closed"


def examples(block: Block) -> list[Example]:
    """The commands of a `console` block, each with its output, or of an `sh` block, which shows none."""
    if block.language == "sh":
        return [
            Example(line, None, block.first_line + at, block.first_line + at)
            for at, line in enumerate(block.lines)
            if line and not line.startswith("#")
        ]
    starts = [at for at, line in enumerate(block.lines) if line.startswith("$ ")]
    assert starts[:1] == [0], f"{block.page}:{block.first_line}: a console block begins with a command"
    found = []
    for start, end in zip(starts, [*starts[1:], len(block.lines)], strict=True):
        shown = "".join(f"{line}\n" for line in block.lines[start + 1 : end])
        found.append(Example(block.lines[start][2:], shown, block.first_line + start, block.first_line + end - 1))
    return found


def same(shown: str, printed: str) -> bool:
    """Whether two outputs are the same but for what differs from run to run."""
    shown, printed = normalised(shown), normalised(printed)
    if _DECIMALS.sub("0.00", shown) != _DECIMALS.sub("0.00", printed):
        return False
    return all(map(_near, _DECIMALS.findall(shown), _DECIMALS.findall(printed)))


def _near(one: str, other: str) -> bool:
    tolerance = _SCORE_TOLERANCE if len(one.partition(".")[2]) > 2 else _PROBABILITY_TOLERANCE
    return abs(float(one) - float(other)) <= tolerance


def normalised(text: str) -> str:
    """The text with what differs from run to run replaced by one fixed form of it."""
    for pattern, fixed in _VARIABLE:
        text = pattern.sub(fixed, text)
    return text


class DemoHome:
    """A folder with the demo's papers and, ingested from them, the collection `demo`. The process works in it.

    It can be put back to how it was, at the same path, since a collection knows where its files lie.
    """

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self._saved = folder / "saved"
        programs = folder / "bin"
        programs.mkdir()
        for name, module in (("ragcli", "-m ragcli "), ("python", "")):
            file = programs / name
            file.write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n', encoding="utf-8")
            file.chmod(0o755)
        home = str(self.home)
        own = ("RAGCLI_", "XDG_", "COLUMNS", "NO_COLOR", "LINES")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(own)} | {
            "HOME": home,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "RAGCLI_DATA_DIR": f"{home}/demo/data",
            "RAGCLI_CACHE_DIR": str(folder / "cache"),
            "HF_HUB_OFFLINE": "1",
        }

    def prepare(self) -> None:
        """Write the papers and ingest them."""
        script = ROOT / "scripts" / "make_papers.py"
        subprocess.run([sys.executable, str(script), str(self.home / "demo")], check=True, capture_output=True)
        shutil.copytree(self.home, self._saved / "FRESH")
        with self.entered():
            done = self.run("ragcli ingest demo/papers -c demo")
        assert done.code == 0, done.text
        shutil.copytree(self.home, self._saved / "INGESTED")

    def reset(self, *, fresh: bool) -> None:
        """Put the folder back to how it was before anything was ingested, or after."""
        shutil.rmtree(self.home)
        shutil.copytree(self._saved / ("FRESH" if fresh else "INGESTED"), self.home)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Make the process one that was started in the folder by a user who configured nothing."""
        before, folder = dict(os.environ), Path.cwd()
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(self.home)
        try:
            yield
        finally:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(before)

    def run(self, command: str) -> Printed:
        """Run a command line. ragcli runs in this process, what follows it behind `|` or `||` in a shell."""
        call, operator, rest = _first_call(command)
        if call is None:
            done = self._shell(command, "")
            return Printed(done.returncode, self._as_shown(done.stdout))
        # Behind a pipe goes what was written to stdout alone.
        out = io.StringIO()
        err = io.StringIO() if operator == "|" else out
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(call)
            except SystemExit as left:
                code = int(left.code or 0)
        assert code != EXIT_BUG, f"{command}\n{out.getvalue()}{err.getvalue()}"
        text = out.getvalue()
        if operator == "|":
            done = self._shell(rest, text)
            code, text = done.returncode, err.getvalue() + done.stdout
        elif operator == "||":
            done = self._shell(f"(exit {code}) || {rest}", "")
            code, text = done.returncode, text + done.stdout
        return Printed(code, self._as_shown(text))

    def _shell(self, line: str, stdin: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", line],
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )

    def _as_shown(self, text: str) -> str:
        return text.replace(str(self.home), SHOWN_HOME)


_OPERATOR: Final = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'|(\|\||&&|[|;<>&`]|\$\()""")


def _first_call(command: str) -> tuple[list[str] | None, str, str]:
    """The words of a call of ragcli, the operator behind it and what follows; None for what only a shell can run."""
    found = next((match for match in _OPERATOR.finditer(command) if match.group(1)), None)
    operator = found.group(1) if found else ""
    call, rest = (command[: found.start()], command[found.end() :].strip()) if found else (command, "")
    if operator not in ("", "|", "||") or not call.startswith("ragcli ") or "~" in call:
        return None, "", ""
    return shlex.split(call, comments=True)[1:], operator, rest


def missing_programs(page: Path) -> list[str]:
    """The programs that the page's examples use and that are not on this machine."""
    text = page.read_text(encoding="utf-8")
    return [name for name in ("jq",) if f"| {name} " in text and shutil.which(name) is None]


def rewrite(pages: Sequence[Path], home: DemoHome) -> None:
    """Write into the pages what their examples print now, where that differs."""
    for page in pages:
        home.reset(fresh=page.stem in FRESH)
        lines = page.read_text(encoding="utf-8").splitlines()
        written: list[tuple[Example, str]] = []
        with home.entered():
            for block in blocks(page):
                for example in examples(block) if block.language in ("console", "sh") else []:
                    printed = home.run(example.command)
                    if example.shown is not None and not same(example.shown, printed.text):
                        written.append((example, printed.text))
        for example, text in reversed(written):
            lines[example.first_line + 1 : example.last_line + 1] = text.rstrip("\n").split("\n") if text else []
        page.write_text("\n".join(lines) + "\n", encoding="utf-8")
        print(f"{page}: {len(written)} examples written")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        demo = DemoHome(Path(folder).resolve())
        demo.prepare()
        rewrite([Path(name).resolve() for name in sys.argv[1:]] or PAGES, demo)

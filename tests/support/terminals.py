"""Real processes of ragcli, with pipes or with a terminal of their own."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType


def environment(data: Path, **more: str) -> dict[str, str]:
    """The variables of a user whose collections are in `data`, who configured nothing and has no model."""
    base = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("RAGCLI_", "NO_COLOR", "LC_", "LANG", "XDG_"))
    }
    return {
        **base,
        "RAGCLI_DATA_DIR": str(data),
        "RAGCLI_CACHE_DIR": str(data.parent / "cache"),
        "HOME": str(data.parent),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "LC_ALL": "C.UTF-8",
        **more,
    }


def run(
    data: Path, *arguments: str, text: str | None = None, cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run ragcli in the folder that holds `data`, or in `cwd`, with pipes."""
    return subprocess.run(
        [sys.executable, "-m", "ragcli", *arguments],
        capture_output=True,
        input=text,
        encoding="utf-8",
        env=environment(data, **more),
        cwd=cwd or data.parent,
        check=False,
        timeout=120,
    )


def on_terminal(
    data: Path, *arguments: str, columns: int = 80, answer: str = "", cwd: Path | None = None, **more: str
) -> tuple[int, str]:
    """Run ragcli on a terminal of its own, type `answer`, and give its exit code and what the terminal received."""
    variables = environment(data, TERM="xterm", COLUMNS=str(columns), **more)
    command = [sys.executable, "-m", "ragcli", *arguments]
    code, received = converse(command, variables, cwd or data.parent, typed=answer.encode())
    return code, received.decode("utf-8")


def converse(
    command: Sequence[str],
    variables: Mapping[str, str],
    cwd: Path,
    *,
    typed: bytes = b"",
    answers: Mapping[bytes, bytes] = MappingProxyType({}),
) -> tuple[int, bytes]:
    """Run a program on a terminal of its own: its exit code, and all that the terminal received.

    `typed` is typed at once, and each of `answers` whenever the program has shown what it answers.
    """
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=variables, cwd=cwd)
    os.close(theirs)
    os.write(ours, typed)
    received = b""
    while True:
        ready, _, _ = select.select([ours], [], [], 60)
        try:
            piece = os.read(ours, 65536) if ready else b""
        except OSError:
            piece = b""
        if not piece:
            break
        received += piece
        for prompt, answer in answers.items():
            if received.endswith(prompt):
                os.write(ours, answer)
    os.close(ours)
    return process.wait(60), received

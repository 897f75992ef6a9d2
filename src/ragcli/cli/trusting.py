"""Asking whether a `collections.toml` found in the current folder may have what it asks for.

A command asks when it comes to a value that needs it, so what needs none goes on as ever. Who asks is a person at
a terminal, or nobody: a script that meets such a file is told and stopped.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ragcli.cli.terminal import safe_line

if TYPE_CHECKING:
    from ragcli.config import Config, Demand


def somebody_is_there() -> bool:
    """Whether a person can be asked: stdin and stderr are a terminal."""
    try:
        return sys.stdin.isatty() and sys.stderr.isatty()
    except (AttributeError, ValueError):  # none, or closed
        return False


def ask_to_trust(config: Config) -> bool:
    """Show what the file asks for, and remember a yes."""
    from ragcli.config.trust import trust

    assert config.file is not None  # noqa: S101
    sys.stderr.write(f"{safe_line(str(config.file))} was found in this folder, and asks for more than the folder:\n")
    sys.stderr.writelines(f"  {safe_line(told(each))}\n" for each in config.withheld)
    sys.stderr.write("Trust this file, as it is now? [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):  # Ctrl-D leaves the cursor behind the question
        sys.stderr.write("\n")
    if answer.strip().lower() not in ("y", "yes"):
        return False
    trust(config.file, config.digest)
    return True


def told(demand: Demand) -> str:
    """A demand as a line of a list."""
    return (f"line {demand.line}: " if demand.line else "") + f"{demand.name} {demand.what}"


def refusal(config: Config, wanted: Sequence[Demand]) -> str:
    """Why a command does not go on."""
    first = wanted[0]
    where = f"{config.file}, line {first.line}" if first.line else f"{config.file}"
    return (
        f"{where}: {first.name} {first.what}, and you have not trusted this file. If you wrote it or have read it, "
        "run `ragcli trust` in a terminal, or name it with --config."
    )


def is_here(model: str) -> bool:
    """Whether a model is on this machine already, in a package or in the Hugging Face cache."""
    from ragcli.errors import ModelUnavailable
    from ragcli.models.find import find_model

    try:
        found = find_model(model)
    except (ModelUnavailable, OSError, ValueError):
        return False
    return found is not None and found.where != "folder"

"""What can be fuzzed, and how. Loads nothing, because what is fuzzed must be loaded under the fuzzer's eyes."""

from __future__ import annotations

from dataclasses import dataclass

CURRENT = "current"
"""The file, in the folder for temporary files, with the input that is being tried."""


@dataclass(frozen=True, slots=True)
class Target:
    """How one reader is fuzzed: which modules' paths are followed, and which are loaded only when they are needed.

    `longest` is the size of the largest input that is made. An input that computes for more than `seconds` is a
    finding: for a PDF that is what a reader would give it, for the others far less. `utf8` says that most inputs are
    made valid UTF-8: guessing an encoding costs more than all the rest, and has a target of its own.
    """

    name: str
    longest: int
    followed: tuple[str, ...]
    lazy: tuple[str, ...] = ()
    seconds: int = 10
    utf8: bool = False


TARGETS = {
    target.name: target
    for target in (
        Target("pdf", 6_000, ("ragcli.documents",), ("ragcli.documents.pdf.pypdf_engine",), seconds=60),
        Target(
            "pypdf", 6_000, ("ragcli.documents", "pypdf"), ("ragcli.documents.pdf.pypdf_engine", "pypdf"), seconds=60
        ),
        Target("html", 3_000, ("ragcli.documents",), utf8=True),
        Target(
            "markdown",
            3_000,
            ("ragcli.documents", "markdown_it", "yaml", "tomllib"),
            ("markdown_it", "yaml", "tomllib"),
            utf8=True,
        ),
        Target("text", 3_000, ("ragcli.documents",)),
        Target("jsonl", 3_000, ("ragcli.documents",), utf8=True),
        Target("config", 2_000, ("ragcli.config", "tomllib"), ("tomllib",), utf8=True),
        Target("evaluation", 2_000, ("ragcli.evaluation",), utf8=True),
    )
}
"""Every target by its name, in the order in which they are run."""

"""The table of contents: every command, what it is for, and one call of it to copy."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer

from ragcli.cli.lean import Entry, LeanGroup, new_app
from ragcli.cli.terminal import write

COMMANDS: Final[Mapping[str, Entry]] = MappingProxyType(
    {
        "ingest": Entry(
            "ragcli.cli.ingest", "Take files and folders into a collection.", "ragcli ingest ~/papers -c papers"
        ),
        "query": Entry(
            "ragcli.cli.query",
            "Find the passages that answer a question.",
            'ragcli query "how is noise mitigated in short circuits" -c papers',
        ),
        "ask": Entry(
            "ragcli.cli.ask",
            "Say whether the documents answer a question, and show where.",
            'ragcli ask "what colour is the fourth funnel" -c papers --extract',
        ),
        "check": Entry(
            "ragcli.cli.check",
            "Check what a text claims, sentence by sentence, against your documents.",
            "ragcli check draft.md -c papers",
        ),
        "grep": Entry(
            "ragcli.cli.grep",
            "Find an exact phrase or a regular expression.",
            'ragcli grep "negative average null energy"',
        ),
        "show": Entry(
            "ragcli.cli.show",
            "Read a chunk in its place, or a whole document.",
            "ragcli show d1a2b3c4d5:7 --around 1",
        ),
        "documents": Entry("ragcli.cli.documents", "List the documents of a collection.", "ragcli documents -c papers"),
        "collections": Entry(
            "ragcli.cli.collections",
            "List collections; show, rename, delete, verify, export or import one.",
            "ragcli collections show papers",
        ),
        "reindex": Entry(
            "ragcli.cli.reindex",
            "Rebuild a collection, with another model or chunking if asked.",
            "ragcli reindex -c papers --chunk-size 800",
        ),
        "eval": Entry(
            "ragcli.cli.evaluate",
            "Measure pipelines on questions with known answers.",
            "ragcli eval data/scifact --compare bm25,dense,hybrid --baseline bm25",
        ),
        "models": Entry(
            "ragcli.cli.models",
            "List the models on this machine; pull one, or say where it is.",
            "ragcli models pull sentence-transformers/all-MiniLM-L6-v2",
        ),
        "trust": Entry(
            "ragcli.cli.trust", "Allow a collections.toml what it asks for beyond its folder.", "ragcli trust"
        ),
        "import-index": Entry(
            "ragcli.cli.import_index",
            "Take over an index saved by ia_utils.rag.",
            "ragcli import-index old-index/ -c old",
        ),
    }
)

EXIT_CODES: Final = """\
Exit codes:
  0    done
  1    grep found nothing
  2    the call makes no sense
  3    bad input, or no such collection
  4    some documents failed, the others were taken in
  5    a model is not on this machine
  6    ask: the documents do not answer the question; check: a sentence is not supported
  130  interrupted"""


class RagcliGroup(LeanGroup):
    """The group that `ragcli` itself is."""

    entries = COMMANDS


def _epilog() -> str:
    examples = "\n".join(f"  {entry.example}" for entry in COMMANDS.values())
    return f"Examples:\n{examples}\n\n{EXIT_CODES}"


def _print_version(asked: bool) -> None:
    if asked:
        from ragcli import __version__

        write(f"ragcli {__version__}\n")
        raise typer.Exit


def build() -> Any:
    """The root command, ready to be called with arguments."""
    app = new_app(epilog=_epilog(), completion=True, group=RagcliGroup)

    @app.callback(invoke_without_command=True)
    def ragcli(
        ctx: typer.Context,
        version: Annotated[  # noqa: ARG001
            bool,
            typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True),
        ] = False,
    ) -> None:
        """Find the right passage in your own papers and notes, and see where it stands."""
        if ctx.invoked_subcommand is None:
            write(ctx.get_help() + "\n")

    return typer.main.get_command(app)

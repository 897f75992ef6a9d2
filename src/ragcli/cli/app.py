"""The root command: the table of subcommands, their summaries and examples, and the exit codes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

import typer

from ragcli.cli.lazy_group import CommandEntry, LazyGroup, new_app
from ragcli.cli.terminal import write

COMMANDS: Final[Mapping[str, CommandEntry]] = MappingProxyType(
    {
        "ingest": CommandEntry(
            "ragcli.cli.commands.ingest_command",
            "Take files and folders into a collection.",
            "ragcli ingest ~/papers -c papers",
        ),
        "query": CommandEntry(
            "ragcli.cli.commands.query_command",
            "Find the passages that answer a question.",
            'ragcli query "how is noise mitigated in short circuits" -c papers',
        ),
        "ask": CommandEntry(
            "ragcli.cli.commands.ask_command",
            "Say whether the documents answer a question, and show where.",
            'ragcli ask "what colour is the fourth funnel" -c papers --extract',
        ),
        "check": CommandEntry(
            "ragcli.cli.commands.check_command",
            "Check what a text claims, sentence by sentence, against your documents.",
            "ragcli check draft.md -c papers",
        ),
        "grep": CommandEntry(
            "ragcli.cli.commands.grep_command",
            "Find an exact phrase or a regular expression.",
            'ragcli grep "negative average null energy"',
        ),
        "show": CommandEntry(
            "ragcli.cli.commands.show_command",
            "Read a chunk in its place, or a whole document.",
            "ragcli show d1a2b3c4d5:7 --around 1",
        ),
        "documents": CommandEntry(
            "ragcli.cli.commands.documents_command", "List the documents of a collection.", "ragcli documents -c papers"
        ),
        "collections": CommandEntry(
            "ragcli.cli.commands.collections_command",
            "List collections; show, rename, delete, verify, export or import one.",
            "ragcli collections show papers",
        ),
        "reindex": CommandEntry(
            "ragcli.cli.commands.reindex_command",
            "Rebuild a collection, with another model or chunking if asked.",
            "ragcli reindex -c papers --chunk-size 800",
        ),
        "eval": CommandEntry(
            "ragcli.cli.commands.eval_command",
            "Measure pipelines on questions with known answers.",
            "ragcli eval data/scifact --compare bm25,dense,hybrid --baseline bm25",
        ),
        "models": CommandEntry(
            "ragcli.cli.commands.models_command",
            "List the models on this machine; pull one, or say where it is.",
            "ragcli models pull sentence-transformers/all-MiniLM-L6-v2",
        ),
        "plugins": CommandEntry(
            "ragcli.cli.commands.plugins_command",
            "List what installed packages add: parsers, encoders, rerankers, judges.",
            "ragcli plugins",
        ),
        "trust": CommandEntry(
            "ragcli.cli.commands.trust_command",
            "Allow a collections.toml what it asks for beyond its folder.",
            "ragcli trust",
        ),
        "import-index": CommandEntry(
            "ragcli.cli.commands.import_index_command",
            "Take over an index saved by ia_utils.rag.",
            "ragcli import-index old-index/ -c old",
        ),
        "help": CommandEntry(
            "ragcli.cli.commands.help_command", "Show a page of the manual, or list them.", "ragcli help filters"
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


class RootGroup(LazyGroup):
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


def root_command() -> Any:
    """The root command, ready to be called with arguments."""
    app = new_app(epilog=_epilog(), completion=True, group=RootGroup)

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

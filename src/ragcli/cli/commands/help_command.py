"""`ragcli help`: list the topics of the manual, or show one."""

from __future__ import annotations

from typing import Annotated

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import FastCommand, examples, new_app
from ragcli.cli.terminal import safe_line, write
from ragcli.errors import EXIT_DONE, UsageError

app = new_app()


def complete_topic(incomplete: str) -> list[str]:
    """The topics that begin with what was typed."""
    from ragcli.manual import TOPICS

    return [name for name in TOPICS if name.startswith(incomplete)]


@app.command(cls=FastCommand, epilog=examples("ragcli help", "ragcli help filters | less"))
def show_help(
    ctx: typer.Context,
    topic: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC", help="A page of the manual.", autocompletion=complete_topic),
    ] = None,
) -> int:
    """Show a page of the manual; without TOPIC, list them.

    `ragcli COMMAND --help` lists a command's options.
    """
    from ragcli.manual import TOPICS, page, summary

    if topic is None:
        width = max(len(name) for name in TOPICS) + 2
        write("".join(f"{name:<{width}}{summary(name)}\n" for name in TOPICS))
        return EXIT_DONE

    from ragcli.cli.render.manual_text import manual_text

    try:
        text = page(topic)
    except KeyError:
        raise UsageError(unknown_topic(topic)) from None
    write(manual_text(text, CommandContext(ctx).screen))
    return EXIT_DONE


def unknown_topic(topic: str) -> str:
    """The sentence for a word that is no topic, with the topics that are spelt like it."""
    import difflib

    from ragcli.manual import ALIASES, TOPICS

    near = difflib.get_close_matches(topic.lower(), [*TOPICS, *ALIASES], n=3)
    hint = f" Did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
    return f"The manual has no page '{safe_line(topic)}'.{hint} `ragcli help` lists its pages."

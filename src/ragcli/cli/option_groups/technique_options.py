"""Query technique and agent options of `query` and `ask`, and the language model they need."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ragcli.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ragcli.cli.command_context import CommandContext
    from ragcli.llm.chat_model import LanguageModel, Message
    from ragcli.retrieval.request import QueryRequest


Expand = Annotated[
    str | None,
    typer.Option("--expand", metavar="rm3|llm", help="Add words of the best passages, or ask in other words as well."),
]
Rewrite = Annotated[
    bool, typer.Option("--rewrite", help="Let a language model make the question stand alone; see --history.")
]
History = Annotated[
    str | None,
    typer.Option("--history", metavar="FILE", help="What was said before: JSON, JSON lines, or user:/assistant: text."),
]
Hyde = Annotated[
    int | None,
    typer.Option("--hyde", metavar="[N]", help="Look for what resembles N answers that a language model imagines (1)."),
]
Decompose = Annotated[
    bool, typer.Option("--decompose", help="Take the question apart, by a language model or by its words.")
]
Compress = Annotated[
    str | None,
    typer.Option("--compress", metavar="extractive|llm", help="Cut each passage to the sentences that answer."),
]


def technique_fields(
    *,
    expand: str | None,
    rewrite: bool,
    history: str | None,
    hyde: int | None,
    decompose: bool,
    compress: str | None,
) -> dict[str, Any]:
    """The fields of a request that these options set. Raises UsageError or InputError."""
    if hyde is not None and hyde < 1:
        raise UsageError(f"--hyde takes a number of passages, not {hyde}.")
    if history is not None and not rewrite:
        raise UsageError("--history is for --rewrite, which makes the question stand alone; give both.")
    said: tuple[Message, ...] = ()
    if history is not None:
        from ragcli.retrieval.expansion.conversation import read_history

        said = read_history(Path(history).expanduser())
    return {
        "expand": expand,
        "rewrite": rewrite,
        "history": said,
        "hyde": hyde or 0,
        "decompose": decompose,
        "compress": compress,
    }


def technique_model(
    here: CommandContext,
    requests: Iterable[QueryRequest],
    *,
    base_url: str | None = None,
    model: str | None = None,
    key_env: str | None = None,
    max_calls: int | None = None,
) -> tuple[LanguageModel | None, Path | None]:
    """The language model for the techniques of these requests, if one asks any, and the folder of the user's prompts.

    Raises UsageError when only half of the model is known, UntrustedConfig when the configuration may not name one.
    """
    if not any(each.model_techniques for each in requests):
        refuse_unused_llm_options(llm_base_url=base_url, llm_model=model, llm_key_env=key_env, max_llm_calls=max_calls)
        return None, None
    from ragcli.cli.option_groups.llm_options import language_model, prompts_folder

    try:
        found = language_model(here, base_url=base_url, model=model, key_env=key_env, max_calls=max_calls)
    except MissingExtra as error:
        from ragcli.llm.chat_model import UnavailableLanguageModel

        return UnavailableLanguageModel("none", str(error)), None
    return found, prompts_folder(here) if found is not None else None


def refuse_unused_llm_options(**options: object) -> None:
    """Raise UsageError for an option about a language model where nothing asks one."""
    for name, value in options.items():
        if value is not None:
            raise UsageError(
                f"--{name.replace('_', '-')} is for a language model, and nothing here asks one "
                "(--expand llm, --rewrite, --hyde, --decompose and --compress llm do)."
            )


UseAgent = Annotated[
    bool,
    typer.Option(
        "--agent", help="Search in rounds: take the question apart, judge, and look for what is still missing."
    ),
]


Rounds = Annotated[
    int | None, typer.Option("--rounds", metavar="N", help="How many rounds the agent takes at most (3).")
]


ShowTrace = Annotated[
    bool, typer.Option("--trace", help="Show every query of the agent, what it brought, and the times.")
]


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """That the agent is to answer, in so many rounds a sub-task; `trace` shows every query and hit in the tree."""

    rounds: int
    trace: bool


def agent_options(
    rounds: int | None, retries: int | None, request: QueryRequest, *, agent: bool, trace: bool
) -> AgentOptions | None:
    """What the options say of the agent; None where it is not asked for. Raises UsageError for what does not go."""
    if not agent:
        if rounds is not None or trace:
            raise UsageError(f"{'--rounds' if rounds is not None else '--trace'} is for --agent; give both.")
        return None
    if retries is not None:
        raise UsageError("--retries and --agent exclude each other; the agent has --rounds.")
    if request.techniques:
        raise UsageError("The agent puts its queries itself; leave the query techniques out, or leave out --agent.")
    if rounds is not None and rounds < 1:
        raise UsageError(f"--rounds must be at least 1, not {rounds}.")
    return AgentOptions(rounds if rounds is not None else DEFAULT_ROUNDS, trace)


DEFAULT_ROUNDS: Final = 3

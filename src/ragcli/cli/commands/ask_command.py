"""`ragcli ask`: say whether the documents answer a question, and answer it from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import examples, new_app
from ragcli.cli.option_groups.filter_options import note_unknown_keys
from ragcli.cli.option_groups.llm_options import (
    language_model,
    prompts_folder,
    refuse_unused_llm_options,
    required_language_model,
)
from ragcli.cli.option_groups.search_options import query_request
from ragcli.cli.option_groups.table_parameters import table_command
from ragcli.cli.terminal import note
from ragcli.errors import EXIT_DONE, EXIT_INSUFFICIENT, MissingExtra
from ragcli.options import OptionError, OptionValues
from ragcli.options.command_options import AGENT, ASK, ASK_OUTPUT
from ragcli.options.query_options import QUERY_GROUPS

if TYPE_CHECKING:
    from ragcli.llm.cached_client import RemoteLanguageModel

app = new_app()


@table_command(
    app,
    ASK,
    *QUERY_GROUPS,
    AGENT,
    ASK_OUTPUT,
    epilog=examples(
        'ragcli ask "what colour is the fourth funnel of the Titanic" -c papers || echo "not in my papers"',
        'ragcli ask "how does a leader get elected" -c papers --extract',
        'ragcli ask "how does a leader get elected" -c papers --answer --llm-model gemma3:4b '
        "--llm-base-url http://localhost:11434/v1",
        'ragcli ask "which person wrote the protocol that Zeta uses" --agent --trace',
        'ragcli ask "who wrote it" --json | jq .verdict',
    ),
)
def ask(
    here: CommandContext,
    values: OptionValues,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The question; - reads it from stdin.", show_default=False)
    ] = None,
) -> int:
    """Say whether your documents answer a question, and show where.

    A judge weighs what the search has found. If that does not suffice, the search is repeated with words that the
    best passages use, at most twice. The exit code is 6 when the answer is not there, and then no language model is
    asked for one.
    """
    asked = values.over(here.config.ask)
    asked.check_together(given=values.stated)
    if text is None and values.like is None:
        raise OptionError("TEXT is missing: the question.")
    request = query_request(here, values, text or "")
    if values.agent and request.techniques:
        raise OptionError("The agent puts its queries itself; leave the query techniques out, or leave out {agent}.")
    model = _model(here, values, asks=values.agent or bool(request.model_techniques))
    prompts = prompts_folder(here) if model is not None else None

    from ragcli.cli.commands.ask_execution import AskOptions, run_ask
    from ragcli.grounding.extractive_answer import ANSWER_SENTENCES

    asking = AskOptions(
        preset=asked.preset,
        judge=asked.sufficiency_judge,
        retries=asked.retries,
        override=values.override,
        extract=(values.sentences or ANSWER_SENTENCES) if values.extract else None,
        answer=values.answer,
        prompt=_prompt(values.prompt, prompts) if values.answer else None,
        check=values.check,
        model=model,
        prompts=prompts,
        rounds=values.rounds if values.agent else None,
        trace=values.trace,
    )
    collections = here.collections(values.collections)
    note_unknown_keys(collections, values)
    result = run_ask(here, collections, request, asking, as_json=values.json, explain=values.explain_verdict)
    return EXIT_INSUFFICIENT if result.verdict == "insufficient" else EXIT_DONE


def _model(here: CommandContext, values: OptionValues, *, asks: bool) -> RemoteLanguageModel | None:
    if values.answer:
        return required_language_model(here, values, "{answer}")
    if not asks:
        refuse_unused_llm_options(values)
        return None
    try:
        return language_model(here, values)
    except MissingExtra as error:
        note(str(error))
        return None


def _prompt(file: str | None, folder: Path | None) -> str:
    from ragcli.llm.prompts import load_prompt

    return load_prompt("answer", Path(file).expanduser() if file is not None else folder)

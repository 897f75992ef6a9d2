"""Language model options, and the model opened from them and the configuration.

What the configuration says of the model reaches beyond the machine, so trust is asked for when it is used and not
before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from ragcli.cli.command_context import CommandContext
    from ragcli.llm.cached_client import RemoteLanguageModel

LlmBaseUrl = Annotated[
    str | None,
    typer.Option(
        "--llm-base-url", metavar="URL", help="An OpenAI-compatible endpoint, such as http://localhost:11434/v1."
    ),
]
LlmModel = Annotated[
    str | None, typer.Option("--llm-model", metavar="NAME", help="The language model, as the endpoint knows it.")
]
LlmKeyEnv = Annotated[
    str | None, typer.Option("--llm-key-env", metavar="VARIABLE", help="The environment variable that holds the key.")
]
MaxLlmCalls = Annotated[
    int | None,
    typer.Option("--max-llm-calls", metavar="N", help="Ask the language model at most N times (1000)."),
]


def language_model(
    here: CommandContext,
    *,
    base_url: str | None = None,
    model: str | None = None,
    key_env: str | None = None,
    max_calls: int | None = None,
) -> RemoteLanguageModel | None:
    """The language model that options or the configuration name, or None where neither names one.

    A key that the configuration has for its own endpoint is not sent to another one. Raises UsageError when only
    half of it is known, UntrustedConfig, or MissingExtra.
    """
    if base_url is None:
        here.allow(("llm", "base_url"), ("llm", "api_key_env"))
    defaults = here.config.llm
    address, name = base_url or defaults.base_url, model or defaults.model
    if address is None and name is None:
        return None
    if address is None or name is None:
        missing = "--llm-base-url or [llm] base_url" if address is None else "--llm-model or [llm] model"
        raise UsageError(f"To ask a language model, its address and its name are needed; {missing} is missing.")
    from ragcli.cli.terminal import note
    from ragcli.llm.cached_client import open_language_model
    from ragcli.llm.usage_budget import language_model_settings

    own = base_url is None or base_url == defaults.base_url
    settings = language_model_settings(
        defaults,
        address,
        name,
        api_key_env=key_env or (defaults.api_key_env if own else None),
        max_calls=max_calls,
    )
    # Waiting is worth a word to a person who waits; in a script's log it would read like one more warning.
    return open_language_model(settings, notify=note if here.stderr_screen.interactive else None)


def required_language_model(
    here: CommandContext,
    what: str,
    *,
    base_url: str | None = None,
    model: str | None = None,
    key_env: str | None = None,
    max_calls: int | None = None,
) -> RemoteLanguageModel:
    """The same for what cannot be done without one; `what` begins the sentence that says so."""
    found = language_model(here, base_url=base_url, model=model, key_env=key_env, max_calls=max_calls)
    if found is None:
        raise UsageError(
            f"{what} needs a language model: give --llm-base-url and --llm-model, "
            "or base_url and model under [llm] in collections.toml."
        )
    return found


def prompts_folder(here: CommandContext) -> Path | None:
    """The folder whose files replace the prompts that come with ragcli, if the configuration names one."""
    here.allow(("llm", "prompts"))
    return here.config.llm.prompts

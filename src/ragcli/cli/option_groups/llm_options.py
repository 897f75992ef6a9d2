"""Language model options, and the model opened from them and the configuration.

What the configuration says of the model reaches beyond the machine, so trust is asked for when it is used and not
before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragcli.errors import MissingExtra
from ragcli.options import OptionError
from ragcli.options.query_options import LANGUAGE_MODEL

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ragcli.cli.command_context import CommandContext
    from ragcli.llm.cached_client import RemoteLanguageModel
    from ragcli.llm.chat_model import LanguageModel
    from ragcli.options import OptionValues
    from ragcli.retrieval.request import QueryRequest


def language_model(here: CommandContext, values: OptionValues) -> RemoteLanguageModel | None:
    """The language model that options or the configuration name, or None where neither names one.

    A key that the configuration has for its own endpoint is not sent to another one. Raises UsageError when only
    half of it is known, UntrustedConfig, or MissingExtra.
    """
    stated = values.stated
    base_url = stated.get("llm_base_url")
    if base_url is None:
        here.allow(("llm", "base_url"), ("llm", "api_key_env"))
    defaults = here.config.llm
    address, name = base_url or defaults.base_url, stated.get("llm_model") or defaults.model
    if address is None and name is None:
        return None
    if address is None or name is None:
        missing = "{llm_base_url} or [llm] base_url" if address is None else "{llm_model} or [llm] model"
        raise OptionError(f"To ask a language model, its address and its name are needed; {missing} is missing.")
    from ragcli.cli.terminal import note
    from ragcli.llm.cached_client import open_language_model
    from ragcli.llm.usage_budget import language_model_settings

    own = base_url is None or base_url == defaults.base_url
    settings = language_model_settings(
        defaults,
        address,
        name,
        api_key_env=stated.get("llm_key_env") or (defaults.api_key_env if own else None),
        max_calls=stated.get("max_llm_calls"),
    )
    # Waiting is worth a word to a person who waits; in a script's log it would read like one more warning.
    return open_language_model(settings, notify=note if here.stderr_screen.interactive else None)


def required_language_model(here: CommandContext, values: OptionValues, what: str) -> RemoteLanguageModel:
    """The same for what cannot be done without one; `what`, an OptionError's template, begins the sentence on it."""
    found = language_model(here, values)
    if found is None:
        raise OptionError(
            what + " needs a language model: give {llm_base_url} and {llm_model}, "
            "or base_url and model under [llm] in collections.toml."
        )
    return found


def technique_model(
    here: CommandContext, values: OptionValues, requests: Iterable[QueryRequest]
) -> tuple[LanguageModel | None, Path | None]:
    """The language model for the techniques of these requests, if one asks any, and the folder of the user's prompts.

    Raises UsageError when only half of the model is known, UntrustedConfig when the configuration may not name one.
    """
    if not any(each.model_techniques for each in requests):
        refuse_unused_llm_options(values)
        return None, None
    try:
        found = language_model(here, values)
    except MissingExtra as error:
        from ragcli.llm.chat_model import UnavailableLanguageModel

        return UnavailableLanguageModel("none", str(error)), None
    return found, prompts_folder(here) if found is not None else None


def refuse_unused_llm_options(
    values: OptionValues,
    sentence: str = "is for a language model, and nothing here asks one "
    "({expand} llm, {rewrite}, {hyde}, {decompose} and {compress} llm do).",
) -> None:
    """Raise OptionError for an option about a language model where nothing asks one."""
    for option in LANGUAGE_MODEL.options:
        if option.name in values.stated:
            raise OptionError(f"{{{option.name}}} {sentence}")


def prompts_folder(here: CommandContext) -> Path | None:
    """The folder whose files replace the prompts that come with ragcli, if the configuration names one."""
    here.allow(("llm", "prompts"))
    return here.config.llm.prompts

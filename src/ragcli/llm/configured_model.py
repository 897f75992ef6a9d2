"""The language model configured in `collections.toml`, opened at first use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragcli.errors import LanguageModelError
from ragcli.llm.chat_model import LanguageModel, Message


class ConfiguredLanguageModel:
    """A `LanguageModel` that reads the configuration at its first question, and then remains the same."""

    def __init__(self, notify: Callable[[str], None] | None = None) -> None:
        self._notify = notify
        self._model: LanguageModel | None = None

    @property
    def name(self) -> str:
        """The model's name, as the endpoint knows it."""
        return self._opened().name

    def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int = 512,
        temperature: float = 0.0,
        on_text: Callable[[str], None] | None = None,
    ) -> str:
        """The answer. LanguageModelError when there is none, or the configuration names no model that may be used."""
        return self._opened().complete(messages, max_tokens=max_tokens, temperature=temperature, on_text=on_text)

    def _opened(self) -> LanguageModel:
        if self._model is None:
            self._model = _open(self._notify)
        return self._model


def _open(notify: Callable[[str], None] | None) -> LanguageModel:
    from ragcli.config import load_config
    from ragcli.llm.cached_client import open_language_model
    from ragcli.llm.usage_budget import language_model_settings

    # What a file found in the current folder says of it without the user's trust is not in here.
    named = load_config().llm
    if named.base_url is None or named.model is None:
        raise LanguageModelError(
            "No language model is named: give the role one, or name base_url and model under [llm] in collections.toml."
        )
    settings = language_model_settings(named, named.base_url, named.model, api_key_env=named.api_key_env)
    return open_language_model(settings, notify=notify)

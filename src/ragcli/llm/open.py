"""Open a language model: the endpoint, with the answers it has given before and the limits it must keep."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ragcli.errors import MissingExtra
from ragcli.llm.answers import AnswerCache, key_of
from ragcli.llm.endpoint import Endpoint, Request
from ragcli.llm.spending import Spending, check_budget, estimated_tokens, with_call

if TYPE_CHECKING:
    from ragcli.llm.protocols import Message
    from ragcli.llm.settings import LanguageModelSettings

_FORMAT: Final = 1


def open_language_model(
    settings: LanguageModelSettings, *, notify: Callable[[str], None] | None = None
) -> RemoteLanguageModel:
    """The model behind an endpoint. Nothing is sent before the first question; `notify` is told of waits.

    Raises MissingExtra if the libraries that speak to it are not installed.
    """
    from importlib.util import find_spec

    if find_spec("openai") is None or find_spec("stamina") is None:
        raise MissingExtra("Language models need the extra 'llm': pip install 'ragcli[llm]'.")
    return RemoteLanguageModel(settings, notify)


class RemoteLanguageModel:
    """A `LanguageModel` over HTTP, which counts what it costs. Not for two threads."""

    def __init__(self, settings: LanguageModelSettings, notify: Callable[[str], None] | None = None) -> None:
        self.settings = settings
        self._endpoint = Endpoint(settings, notify)
        self._cache = AnswerCache(settings.cache) if settings.cache is not None else None
        self._spent = Spending()
        self._asked: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """The model's name, as the endpoint knows it."""
        return self.settings.model

    @property
    def spent(self) -> Spending:
        """Calls, tokens and money so far."""
        return self._spent

    def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int = 512,
        temperature: float = 0.0,
        on_text: Callable[[str], None] | None = None,
    ) -> str:
        """The answer, from the cache where it was given before; `on_text` is given its parts as they come.

        With a temperature, the same question asked again in one run is another question, with an answer of its own.
        Raises LanguageModelError when there is no answer, or asking could pass a limit.
        """
        sent = [{"role": each.role, "content": each.text} for each in messages]
        key = self._key(sent, max_tokens, temperature)
        if self._cache is not None and (known := self._cache.find(key)) is not None:
            self._spent = replace(self._spent, cached=self._spent.cached + 1)
            if on_text is not None:
                on_text(known)
            return known
        expected = sum(estimated_tokens(each["content"]) + 8 for each in sent)
        check_budget(self.settings, self._spent, expected, max_tokens)
        self._spent = replace(self._spent, calls=self._spent.calls + 1)
        reply = self._endpoint.ask(Request(sent, max_tokens, temperature), on_text)
        self._spent = with_call(
            self.settings,
            self._spent,
            expected if reply.prompt_tokens is None else reply.prompt_tokens,
            estimated_tokens(reply.text) if reply.completion_tokens is None else reply.completion_tokens,
        )
        if self._cache is not None:
            self._cache.keep(key, reply.text)
        return reply.text

    def _key(self, sent: list[dict[str, Any]], max_tokens: int, temperature: float) -> str:
        request = {
            "format": _FORMAT,
            "endpoint": self.settings.base_url.rstrip("/"),
            "model": self.settings.model,
            "messages": sent,
            "max_tokens": max_tokens,
            "temperature": temperature,
        }
        if not temperature:
            return key_of(request)
        same = key_of(request)
        self._asked[same] += 1
        return key_of(request | {"time": self._asked[same]})

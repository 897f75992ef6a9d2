"""Open a language model with a response cache on disk and a usage budget.

The name of a cache entry is a hash of the endpoint, the model and everything that was sent; the prompt itself, which
holds passages of the user's papers, is not kept. Files are for the user alone, and the least recently used go when
there are too many.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragcli.atomic_files import replace_file_atomically
from ragcli.errors import MissingExtra
from ragcli.llm.openai_client import CompletionRequest, OpenAIClient
from ragcli.llm.usage_budget import ModelUsage, add_call, check_budget, estimate_tokens

if TYPE_CHECKING:
    from ragcli.llm.chat_model import Message
    from ragcli.llm.usage_budget import LanguageModelSettings


MAX_CACHED_RESPONSES: Final = 5000
"""Answers kept; a hundredth more may lie there for a while."""
_EVICTION_INTERVAL: Final = 50
_MAX_RESPONSE_BYTES: Final = 1 << 20


def request_key(request: dict[str, Any]) -> str:
    """The name under which the answer to a request is kept."""
    return sha256(json.dumps(request, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ResponseCache:
    """A folder of answers. Whatever is wrong with it costs time, never an answer."""

    folder: Path
    most: int = MAX_CACHED_RESPONSES

    def find(self, key: str) -> str | None:
        """The answer kept under the key."""
        file = self.folder / f"{key}.json"
        with suppress(OSError, ValueError):
            with file.open("rb") as stream:
                kept = json.loads(stream.read(_MAX_RESPONSE_BYTES))
            if isinstance(kept, dict) and isinstance(kept.get("answer"), str):
                with suppress(OSError):
                    file.touch()  # what is used stays
                return str(kept["answer"])
        return None

    def keep(self, key: str, answer: str) -> None:
        """Keep an answer, and now and then let the oldest go."""
        content = json.dumps({"answer": answer}).encode()
        if len(content) >= _MAX_RESPONSE_BYTES:
            return
        with suppress(OSError):
            replace_file_atomically(self.folder / f"{key}.json", content)
            if secrets.randbelow(_EVICTION_INTERVAL) == 0:
                self.sweep()

    def sweep(self) -> None:
        """Let the answers go that were used longest ago, down to the number that is kept."""
        ages: list[tuple[float, Path]] = []
        for file in self.folder.glob("*.json"):
            with suppress(OSError):
                ages.append((file.stat().st_mtime, file))
        ages.sort()
        for _, file in ages[: max(0, len(ages) - self.most)]:
            with suppress(OSError):
                file.unlink()


_CACHE_KEY_FORMAT: Final = 1


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
        self._endpoint = OpenAIClient(settings, notify)
        self._cache = ResponseCache(settings.cache) if settings.cache is not None else None
        self._spent = ModelUsage()
        self._asked: Counter[str] = Counter()

    @property
    def name(self) -> str:
        """The model's name, as the endpoint knows it."""
        return self.settings.model

    @property
    def spent(self) -> ModelUsage:
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
        expected = sum(estimate_tokens(each["content"]) + 8 for each in sent)
        check_budget(self.settings, self._spent, expected, max_tokens)
        self._spent = replace(self._spent, calls=self._spent.calls + 1)
        reply = self._endpoint.ask(CompletionRequest(sent, max_tokens, temperature), on_text)
        self._spent = add_call(
            self.settings,
            self._spent,
            expected if reply.prompt_tokens is None else reply.prompt_tokens,
            estimate_tokens(reply.text) if reply.completion_tokens is None else reply.completion_tokens,
        )
        if self._cache is not None:
            self._cache.keep(key, reply.text)
        return reply.text

    def _key(self, sent: list[dict[str, Any]], max_tokens: int, temperature: float) -> str:
        request = {
            "format": _CACHE_KEY_FORMAT,
            "endpoint": self.settings.base_url.rstrip("/"),
            "model": self.settings.model,
            "messages": sent,
            "max_tokens": max_tokens,
            "temperature": temperature,
        }
        if not temperature:
            return request_key(request)
        same = request_key(request)
        self._asked[same] += 1
        return request_key(request | {"time": self._asked[same]})

"""Protocol of a chat language model, and a circuit breaker around one.

One call, one answer. Whoever asks must be able to go on without it: a model that is down, slow, over its budget or
talking nonsense raises `LanguageModelError`, and the caller falls back to what it does without a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ragcli.errors import LanguageModelError


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str


class LanguageModel(Protocol):
    """Anything that answers a conversation with a text.

    `name` is shown to people and written into traces.
    """

    @property
    def name(self) -> str:
        """The model's name, as the endpoint knows it."""
        ...

    def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int = 512,
        temperature: float = 0.0,
        on_text: Callable[[str], None] | None = None,
    ) -> str:
        """The whole answer; `on_text` is given its parts as they come.

        Raises LanguageModelError when there is no answer to be had.
        """
        ...


class CircuitBreaker:
    """Passes everything on to a model until it has failed `failures` times in a row; then fails at once.

    One question by several techniques, or an agent's many, would otherwise wait for a dead server once for each of
    them. `counted` are the failures that say so; others are passed on and change nothing. `failure` is why it
    has failed already, if it has.
    """

    def __init__(
        self,
        model: LanguageModel,
        failures: int = 1,
        counted: type[LanguageModelError] = LanguageModelError,
        *,
        failure: str = "",
    ) -> None:
        self._model = model
        self._failures = failures
        self._left = 0 if failure else failures
        self._counted = counted
        self._why = failure

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model.name

    def complete(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int = 512,
        temperature: float = 0.0,
        on_text: Callable[[str], None] | None = None,
    ) -> str:
        """The model's answer. Raises LanguageModelError."""
        if not self._left:
            raise self._counted(self._why)
        try:
            answer = self._model.complete(messages, max_tokens=max_tokens, temperature=temperature, on_text=on_text)
        except self._counted as error:
            self._left -= 1
            self._why = str(error)
            raise
        self._left = self._failures
        return answer


@dataclass(frozen=True, slots=True)
class UnavailableLanguageModel:
    """Stands in for a model that cannot be opened; whoever asks it is told `reason`."""

    name: str
    reason: str

    def complete(
        self,
        messages: Sequence[Message],  # noqa: ARG002
        *,
        max_tokens: int = 512,  # noqa: ARG002
        temperature: float = 0.0,  # noqa: ARG002
        on_text: Callable[[str], None] | None = None,  # noqa: ARG002
    ) -> str:
        """Raises LanguageModelError."""
        raise LanguageModelError(self.reason)

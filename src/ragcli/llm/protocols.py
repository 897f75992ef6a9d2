"""What a language model is to the rest of ragcli.

One call, one answer. Whoever asks must be able to go on without it: a model that is down, slow, over its budget or
talking nonsense raises `LanguageModelError`, and the caller falls back to what it does without a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


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

"""A language model that is not asked for ever: after some failures in a row it is taken to be away."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragcli.errors import LanguageModelError
from ragcli.llm.protocols import LanguageModel, Message


class GivesUp:
    """Passes everything on to a model until it has failed `failures` times in a row; then fails at once.

    One question by several techniques, or an agent's many, would otherwise wait for a dead server once for each of
    them. `counted` are the failures that say so; others are passed on and change nothing.
    """

    def __init__(
        self, model: LanguageModel, failures: int = 1, counted: type[LanguageModelError] = LanguageModelError
    ) -> None:
        self._model = model
        self._left = self._failures = failures
        self._counted = counted
        self._why = ""

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

"""A language model that is given up for the rest of a run once it is away.

An agent asks a model many things. One that hangs costs its time limit, a minute, and one that is down some seconds of
trying again; neither should be paid for every role in every round, when each has a way to do without.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragcli.errors import LanguageModelAway
from ragcli.llm.protocols import LanguageModel, Message


class GivenUpWhenAway:
    """The `LanguageModel` it is made with, until that is away; then every question fails at once, for that reason."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._away: LanguageModelAway | None = None

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
        """The answer. LanguageModelError when there is none, LanguageModelAway from the first time on."""
        if self._away is not None:
            raise LanguageModelAway(str(self._away))
        try:
            return self._model.complete(messages, max_tokens=max_tokens, temperature=temperature, on_text=on_text)
        except LanguageModelAway as error:
            self._away = error
            raise

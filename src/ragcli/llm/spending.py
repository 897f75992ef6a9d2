"""What a language model has cost so far, and whether it may be asked again.

A limit is looked at before a call, with the most that the call can take: the prompt's tokens, estimated from above,
and as many of the answer as were asked for. So a limit is never passed, not even by the last call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragcli.errors import LanguageModelError

if TYPE_CHECKING:
    from ragcli.llm.settings import LanguageModelSettings

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Spending:
    """Answers asked of the model, answers the cache had, tokens, and money in whatever the prices are in."""

    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens of prompts and answers."""
        return self.prompt_tokens + self.completion_tokens


def estimated_tokens(text: str) -> int:
    """Tokens of a text, more rather than less: one for three bytes."""
    return -(-len(text.encode("utf-8", "replace")) // 3)


def price(settings: LanguageModelSettings, prompt_tokens: int, completion_tokens: int) -> float:
    """What so many tokens cost."""
    return (prompt_tokens * settings.price_in + completion_tokens * settings.price_out) / _MILLION


def check_budget(settings: LanguageModelSettings, spent: Spending, prompt_tokens: int, max_tokens: int) -> None:
    """Raise LanguageModelError if a call of that size could pass one of the limits."""
    if spent.calls >= settings.max_calls:
        raise _over(f"it has been asked {spent.calls} times, which is the limit (--max-llm-calls)")
    most = spent.tokens + prompt_tokens + max_tokens
    if settings.max_total_tokens is not None and most > settings.max_total_tokens:
        raise _over(f"another call could pass the limit of {settings.max_total_tokens:,} tokens (max_total_tokens)")
    if settings.max_cost is not None and spent.cost + price(settings, prompt_tokens, max_tokens) > settings.max_cost:
        raise _over(f"another call could cost more than the limit of {settings.max_cost:g} (max_cost)")


def with_call(settings: LanguageModelSettings, spent: Spending, prompt_tokens: int, completion_tokens: int) -> Spending:
    """The spending after an answer of so many tokens, whose call was counted when it was made."""
    return replace(
        spent,
        prompt_tokens=spent.prompt_tokens + prompt_tokens,
        completion_tokens=spent.completion_tokens + completion_tokens,
        cost=spent.cost + price(settings, prompt_tokens, completion_tokens),
    )


def _over(why: str) -> LanguageModelError:
    return LanguageModelError(f"The language model is not asked: {why}.")

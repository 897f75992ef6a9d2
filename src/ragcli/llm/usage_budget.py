"""Settings of a language model, and the accounting of calls, tokens and cost against limits.

A limit is looked at before a call, with the most that the call can take: the prompt's tokens, estimated from above,
and as many of the answer as were asked for. So a limit is never passed, not even by the last call.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from ragcli.config.config_loader import LanguageModelDefaults
from ragcli.errors import LanguageModelError, UsageError
from ragcli.http_client import validate_endpoint_url


@dataclass(frozen=True, slots=True)
class LanguageModelSettings:
    """An OpenAI-compatible endpoint and the limits within which it is asked.

    `base_url` is what stands before `/chat/completions`, mostly ending in `/v1`. `api_key_env` names the environment
    variable with the key, so that no key stands in a file. `timeout` is for one answer, in seconds, retries included.
    `max_calls`, `max_total_tokens` (of prompts and answers) and `max_cost` are for the life of one opened model;
    `price_in` and `price_out` are for a million tokens. `cache` is the folder of answers, None for no cache.

    Raises UsageError for values that make no sense.
    """

    base_url: str
    model: str
    api_key_env: str | None = None
    timeout: float = 60.0
    max_calls: int = 1000
    max_total_tokens: int | None = None
    price_in: float = 0.0
    price_out: float = 0.0
    max_cost: float | None = None
    cache: Path | None = None

    def __post_init__(self) -> None:
        validate_endpoint_url(self.base_url, what="The address of a language model", key_option="api_key_env")
        if not self.model.strip():
            raise UsageError("The language model needs a name, as its server knows it.")
        if not self.timeout > 0:
            raise UsageError(f"A language model cannot answer within {self.timeout:g} seconds; give it more than 0.")
        if self.max_calls < 0:
            raise UsageError(f"A language model cannot be asked {self.max_calls} times; give 0 or more.")

    @property
    def host(self) -> str:
        """The machine that is asked, and its port where one is named."""
        parts = urlsplit(self.base_url)
        return parts.netloc


def language_model_settings(
    defaults: LanguageModelDefaults,
    base_url: str,
    model: str,
    *,
    api_key_env: str | None,
    max_calls: int | None = None,
) -> LanguageModelSettings:
    """The settings for this endpoint; limits and cache are the configuration's, unless `max_calls` is given."""
    from ragcli.atomic_files import cache_dir

    return LanguageModelSettings(
        base_url,
        model,
        api_key_env=api_key_env,
        timeout=defaults.timeout,
        max_calls=defaults.max_calls if max_calls is None else max_calls,
        max_total_tokens=defaults.max_total_tokens,
        price_in=defaults.price_in,
        price_out=defaults.price_out,
        max_cost=defaults.max_cost,
        cache=cache_dir() / "llm" if defaults.cache else None,
    )


_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class ModelUsage:
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


def estimate_tokens(text: str) -> int:
    """Tokens of a text, more rather than less: one for three bytes."""
    return -(-len(text.encode("utf-8", "replace")) // 3)


def call_cost(settings: LanguageModelSettings, prompt_tokens: int, completion_tokens: int) -> float:
    """What so many tokens cost."""
    return (prompt_tokens * settings.price_in + completion_tokens * settings.price_out) / _MILLION


def check_budget(settings: LanguageModelSettings, spent: ModelUsage, prompt_tokens: int, max_tokens: int) -> None:
    """Raise LanguageModelError if a call of that size could pass one of the limits."""
    if spent.calls >= settings.max_calls:
        raise _budget_error(f"it has been asked {spent.calls} times, which is the limit (--max-llm-calls)")
    most = spent.tokens + prompt_tokens + max_tokens
    if settings.max_total_tokens is not None and most > settings.max_total_tokens:
        raise _budget_error(
            f"another call could pass the limit of {settings.max_total_tokens:,} tokens (max_total_tokens)"
        )
    if (
        settings.max_cost is not None
        and spent.cost + call_cost(settings, prompt_tokens, max_tokens) > settings.max_cost
    ):
        raise _budget_error(f"another call could cost more than the limit of {settings.max_cost:g} (max_cost)")


def add_call(
    settings: LanguageModelSettings, spent: ModelUsage, prompt_tokens: int, completion_tokens: int
) -> ModelUsage:
    """The spending after an answer of so many tokens, whose call was counted when it was made."""
    return replace(
        spent,
        prompt_tokens=spent.prompt_tokens + prompt_tokens,
        completion_tokens=spent.completion_tokens + completion_tokens,
        cost=spent.cost + call_cost(settings, prompt_tokens, completion_tokens),
    )


def _budget_error(why: str) -> LanguageModelError:
    return LanguageModelError(f"The language model is not asked: {why}.")

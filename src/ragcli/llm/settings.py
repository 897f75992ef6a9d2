"""Which language model is asked, where, and what it may cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ragcli.config.language import LanguageModelDefaults
from ragcli.errors import UsageError


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
        check_address(self.base_url)
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


def settings_from(
    defaults: LanguageModelDefaults,
    base_url: str,
    model: str,
    *,
    api_key_env: str | None,
    max_calls: int | None = None,
) -> LanguageModelSettings:
    """The settings for this endpoint; limits and cache are the configuration's, unless `max_calls` is given."""
    from ragcli.private import cache_dir

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


def check_address(base_url: str) -> None:
    """Raise UsageError unless the address is one that can be asked, without a name or a password in it."""
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or any(character.isspace() or not character.isprintable() for character in base_url):
        raise UsageError(
            "The address of a language model is an http or https one, such as http://localhost:11434/v1; "
            f"{base_url!r} is none."
        )
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            "The address of a language model has a password in it; put that in an environment variable "
            "and name the variable in api_key_env."
        )

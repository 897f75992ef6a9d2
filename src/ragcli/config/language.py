"""What the file says of the language model, `[llm]`. Without an address and a model there is none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LanguageModelDefaults:
    """Which language model is asked, and what it may cost, unless options say otherwise.

    `timeout` is for one answer, in seconds, retries included. `max_calls`, `max_total_tokens` and `max_cost` are for
    one run of the program; prices are for a million tokens, in the money that `max_cost` is in. `prompts` is a folder
    whose files replace the prompts of the same name.
    """

    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    timeout: float = 60.0
    max_calls: int = 1000
    max_total_tokens: int | None = None
    price_in: float = 0.0
    price_out: float = 0.0
    max_cost: float | None = None
    cache: bool = True
    prompts: Path | None = None

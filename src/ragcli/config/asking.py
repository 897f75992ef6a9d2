"""What the file says of `ragcli ask`, `[ask]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class AskDefaults:
    """How `ragcli ask` judges unless its options say otherwise."""

    preset: Literal["strict", "balanced", "lenient"] = "balanced"
    judge: Literal["calibrated", "heuristic"] = "calibrated"
    retries: int = 2

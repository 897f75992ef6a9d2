"""Loaded models, kept for whoever needs them next.

A search agent asks thirty collections at once, each through a searcher and in a thread of its own. All were made
with the same encoder: loaded thirty times it would cost thirty times the memory.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import TypeVar

Model = TypeVar("Model")


class ModelShelf:
    """Each model under a key that says all that it was loaded by. May be shared by threads."""

    def __init__(self) -> None:
        self._models: dict[Hashable, object] = {}
        self._lock = Lock()

    def take(self, key: Hashable, load: Callable[[], Model]) -> Model:
        """The model under that key, loaded now if nobody has asked for it before; one thread at a time loads."""
        with self._lock:
            if key not in self._models:
                self._models[key] = load()
            model: Model = self._models[key]  # type: ignore[assignment]
        return model

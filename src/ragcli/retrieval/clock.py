"""How long each stage of a query took, and what is to be said of it besides."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from ragcli.retrieval.request import StageTime


class Clock:
    """Times the stages of one query, and keeps its warnings."""

    def __init__(self) -> None:
        self._stages: list[StageTime] = []
        self.warnings: list[str] = []

    @property
    def stages(self) -> tuple[StageTime, ...]:
        return tuple(self._stages)

    @contextmanager
    def stage(self, name: str, detail: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._stages.append(StageTime(name, time.perf_counter() - started, detail))

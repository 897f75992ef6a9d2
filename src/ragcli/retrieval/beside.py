"""Work done beside other work, on a thread of its own.

For stages that wait for each other's libraries and not for each other: BM25 searches while the question is encoded.
The libraries compute outside Python's lock, so on two cores the shorter of the two costs nothing. A thread is started
in 0.1 ms; the standard pool would take some 10 ms to import.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Beside(Generic[Result]):
    """`work`, begun at once. What it gives or raises comes out of `result`."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._error: BaseException | None = None
        # A process that is told to end need not wait for it.
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error

    def result(self) -> Result:
        """Wait until it is done."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._result

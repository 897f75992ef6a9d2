"""How worker processes start; apart from `workers`, because it imports multiprocessing.

The classes below change one thing about multiprocessing: the caller's main module stays out of the workers.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import BaseContext, SpawnContext, SpawnProcess
from typing import Any

_PRELOADED = ["ragcli.documents.workers", "ragcli.documents.pdf", "ragcli.documents.html", "pypdfium2", "pebble"]


@contextmanager
def _without_main() -> Iterator[None]:
    """While a worker starts, the main module is an empty one, so that there is nothing to run again in it."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


if sys.platform == "win32":

    class _Process(SpawnProcess):
        @staticmethod
        def _Popen(process_obj: Any) -> Any:  # noqa: N802 (multiprocessing's name)
            with _without_main():
                return SpawnProcess._Popen(process_obj)  # noqa: SLF001

    class _Context(SpawnContext):
        Process = _Process  # type: ignore[assignment]

else:
    from multiprocessing.context import ForkServerContext, ForkServerProcess

    class _Process(ForkServerProcess):
        @staticmethod
        def _Popen(process_obj: Any) -> Any:  # noqa: N802 (multiprocessing's name)
            with _without_main():
                return ForkServerProcess._Popen(process_obj)  # noqa: SLF001

    class _Context(ForkServerContext):
        Process = _Process


def worker_context() -> BaseContext:
    """The multiprocessing context for a pool of readers."""
    context = _Context()
    if sys.platform != "win32":
        context.set_forkserver_preload(_PRELOADED)
    return context

"""One target under atheris, in a process of its own: `python -m scripts.fuzzing.child TARGET FINDINGS [FLAGS]`.

libFuzzer stops at the first exception. Here one is written down and the search goes on: of every kind of finding the
shortest input is kept, with its traceback, in the folder FINDINGS. What ends the process (a crash in C++, an input
that takes too long or fills the memory) is written there by libFuzzer, and `run` starts another.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from scripts.fuzzing.catalogue import CURRENT, TARGETS


def main(arguments: list[str]) -> None:
    """Fuzzes until libFuzzer's flags say that it is enough."""
    name, folder, *flags = arguments
    import atheris

    # Paths are followed in modules that are loaded here, and in no others.
    target = TARGETS[name]
    with atheris.instrument_imports(include=list(target.followed)):
        check = import_module("scripts.fuzzing.targets").CHECKS[name]
        for module in target.lazy:
            import_module(module)
    from scripts.fuzzing.mutations import mutated, tamed
    from scripts.fuzzing.seeds import WORDS

    findings = Findings(name, Path(folder))
    words = WORDS[name]

    current = Path(tempfile.gettempdir()) / CURRENT

    def one(data: bytes) -> None:
        current.write_bytes(data)
        started = time.process_time()
        try:
            check(data)
            if time.process_time() - started > target.seconds:
                raise TooSlow(f"{target.seconds} s of computing are not enough")
        except Exception as error:
            findings.note(data, error)

    def mutator(data: bytes, most: int, seed: int) -> bytes:
        changed = mutated(data, words, most, seed) if seed & 1 else bytes(atheris.Mutate(data, most))
        if target.utf8 and seed & 14:
            changed = changed.decode("utf-8", "ignore").encode("utf-8")
        return tamed(changed)

    atheris.Setup([sys.argv[0], *flags], one, custom_mutator=mutator)
    atheris.Fuzz()


class TooSlow(Exception):
    """An input of a few thousand bytes took longer than any may."""


class Findings:
    """The shortest input of each kind of exception, in a folder."""

    def __init__(self, target: str, folder: Path) -> None:
        self._target = target
        self._folder = folder
        self._told: set[str] = set()
        self._sizes = {path.stem: path.stat().st_size for path in folder.glob(f"{target}-*.input")}

    def note(self, data: bytes, error: BaseException) -> None:
        """Tells of a kind of finding once, and keeps the input unless a shorter one of its kind is there."""
        name = f"{self._target}-{kind_of(error)}"
        if name not in self._told:
            self._told.add(name)
            print(f"FINDING {name}.input {type(error).__name__}: {str(error)[:200]!a}", file=sys.stderr, flush=True)
        if name in self._sizes and self._sizes[name] <= len(data):
            return
        self._sizes[name] = len(data)
        (self._folder / f"{name}.input").write_bytes(data)
        story = "".join(traceback.format_exception(error))
        (self._folder / f"{name}.txt").write_text(story, encoding="utf-8", errors="backslashreplace")


def kind_of(error: BaseException) -> str:
    """Eight digits that are the same for two findings with the same cause, as far as one can tell.

    A broken promise is told apart by its words, anything else by the innermost line of ragcli that it went through.
    """
    from scripts.fuzzing.checks import Broken

    if isinstance(error, Broken):
        cause: Any = str(error)
    else:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "ragcli" in Path(frame.filename).parts] or list(frames)
        cause = (type(error).__name__, Path(ours[-1].filename).name, ours[-1].name, ours[-1].lineno)
    return hashlib.blake2b(repr(cause).encode("utf-8", "replace"), digest_size=4).hexdigest()


if __name__ == "__main__":
    main(sys.argv[1:])

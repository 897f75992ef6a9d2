"""Answers of language models, kept on the disk by what was asked.

A question asked again, in the next run or by another program, costs nothing and gets the same answer. The name of
an entry is a hash of the endpoint, the model and everything that was sent; the prompt itself, which holds passages of
the user's papers, is not kept. Files are for the user alone, and the oldest go when there are too many.
"""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from ragcli.private import replace_file

MOST_ANSWERS: Final = 5000
"""Answers kept; a hundredth more may lie there for a while."""
_SWEEP: Final = 50
_LARGEST: Final = 1 << 20


def key_of(request: dict[str, Any]) -> str:
    """The name under which the answer to a request is kept."""
    return sha256(json.dumps(request, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class AnswerCache:
    """A folder of answers. Whatever is wrong with it costs time, never an answer."""

    folder: Path
    most: int = MOST_ANSWERS

    def find(self, key: str) -> str | None:
        """The answer kept under the key."""
        file = self.folder / f"{key}.json"
        with suppress(OSError, ValueError):
            with file.open("rb") as stream:
                kept = json.loads(stream.read(_LARGEST))
            if isinstance(kept, dict) and isinstance(kept.get("answer"), str):
                with suppress(OSError):
                    file.touch()  # what is used stays
                return str(kept["answer"])
        return None

    def keep(self, key: str, answer: str) -> None:
        """Keep an answer, and now and then let the oldest go."""
        content = json.dumps({"answer": answer}).encode()
        if len(content) >= _LARGEST:
            return
        with suppress(OSError):
            replace_file(self.folder / f"{key}.json", content)
            if secrets.randbelow(_SWEEP) == 0:
                self.sweep()

    def sweep(self) -> None:
        """Let the answers go that were used longest ago, down to the number that is kept."""
        ages: list[tuple[float, Path]] = []
        for file in self.folder.glob("*.json"):
            with suppress(OSError):
                ages.append((file.stat().st_mtime, file))
        ages.sort()
        for _, file in ages[: max(0, len(ages) - self.most)]:
            with suppress(OSError):
                file.unlink()

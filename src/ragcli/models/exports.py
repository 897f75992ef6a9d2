"""The exported models in the cache folder, as they are found again.

An entry's folder is named for all that decides its content: the weights, the configuration, the kind of processor
and the version of the graph. It appears by one rename, complete and checked, or not at all. Making an entry is
`export`'s; this half is all that a start with a ready entry has to load.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ragcli.models.cache import file_sha256
from ragcli.models.find import FoundModel
from ragcli.models.hardware import processor_kind
from ragcli.private import cache_dir

# Raise it when the graph changes: entries of another version are not read.
FORMAT: Final = 2

GRAPH: Final = "model.onnx"
TENSORS: Final = "model.data"
ABOUT: Final = "about.json"


@dataclass(frozen=True, slots=True)
class Export:
    """One entry: where it is, which model it is of, and how near it comes.

    `agreement` is the mean cosine to fp32 on the check texts, or for a reranker the correlation of its scores.
    """

    path: Path
    model: str
    source: str
    fingerprint: str
    precision: str
    agreement: float
    size: int

    @property
    def graph(self) -> Path:
        """The file to load."""
        return self.path / GRAPH


def export_place(found: FoundModel, *, scoring: bool) -> Path:
    """Where the model's export is or will be. With `scoring` the graph includes the head that scores pairs."""
    weights, settings = file_sha256(found.weights), file_sha256(found.path / "config.json")
    purpose = "scores" if scoring else "states"
    return _exports_dir() / f"{weights[:16]}-{settings[:8]}-{purpose}-{processor_kind()}-{FORMAT}"


def read_export(place: Path) -> Export | None:
    """The entry at `place` if it is there and whole."""
    try:
        about = json.loads((place / ABOUT).read_bytes())
        sizes = {str(name): int(size) for name, size in about.pop("files").items()}
        if any((place / name).stat().st_size != size for name, size in sizes.items()):
            return None
        return Export(path=place, size=sum(sizes.values()), **about)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def exports() -> Iterator[Export]:
    """Every readable entry of the cache folder, of whatever model."""
    folder = _exports_dir()
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            export = None if path.name.startswith(".") else read_export(path)
            if export is not None:
                yield export


def _exports_dir() -> Path:
    return cache_dir() / "onnx"

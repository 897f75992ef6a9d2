"""List the models on this machine, and read the cache of their ONNX exports.

An export's folder is named for all that decides its content: the weights, the configuration, the kind of processor
and the version of the graph. It appears by one rename, complete and checked, or not at all. Making one is the work of
`onnx_export`; this half is all that a start with a ready export has to load.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ragcli.atomic_files import cache_dir
from ragcli.errors import ModelUnavailable
from ragcli.models.hardware import processor_kind
from ragcli.models.hub_download import ensure_model, require_model
from ragcli.models.model_config import read_json
from ragcli.models.model_lookup import LocalModel, ModelOrigin, cached_models, file_sha256, has_weights, package_models
from ragcli.types import Notify

# Raise it when the graph changes: entries of another version are not read.
EXPORT_FORMAT: Final = 3

GRAPH_FILE: Final = "model.onnx"
TENSORS_FILE: Final = "model.data"
EXPORT_METADATA_FILE: Final = "about.json"


@dataclass(frozen=True, slots=True)
class OnnxExport:
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
        return self.path / GRAPH_FILE


def export_path(found: LocalModel, *, scoring: bool) -> Path:
    """Where the model's export is or will be. With `scoring` the graph includes the head that scores pairs."""
    weights, settings = file_sha256(found.weights), file_sha256(found.path / "config.json")
    purpose = "scores" if scoring else "states"
    return _exports_folder() / f"{weights[:16]}-{settings[:8]}-{purpose}-{processor_kind()}-{EXPORT_FORMAT}"


def read_export(place: Path) -> OnnxExport | None:
    """The entry at `place` if it is there and whole."""
    try:
        about = json.loads((place / EXPORT_METADATA_FILE).read_bytes())
        sizes = {str(name): int(size) for name, size in about.pop("files").items()}
        if any((place / name).stat().st_size != size for name, size in sizes.items()):
            return None
        return OnnxExport(path=place, size=sum(sizes.values()), **about)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def exports() -> Iterator[OnnxExport]:
    """Every readable entry of the cache folder, of whatever model."""
    folder = _exports_folder()
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            export = None if path.name.startswith(".") else read_export(path)
            if export is not None:
                yield export


def _exports_folder() -> Path:
    return cache_dir() / "onnx"


ModelKind = Literal["encoder", "cross-encoder"]


@dataclass(frozen=True, slots=True)
class ModelListing:
    """A model on this machine. `size` counts its weights in bytes, `sha256` is theirs.

    `engine` is what has run it here so far: "onnx" where an export exists, else None.
    """

    name: str
    kind: ModelKind
    where: ModelOrigin
    path: Path
    size: int
    sha256: str
    engine: Literal["onnx"] | None
    exports: tuple[OnnxExport, ...]


def list_models() -> tuple[ModelListing, ...]:
    """Models of packages, then of the Hugging Face caches, then folders that were used before."""
    made = tuple(exports())
    seen: set[Path] = set()
    listings = []
    for found in (*package_models(), *cached_models(), *_folders_of_exports(made)):
        kind = _model_kind(found.path)
        if kind is not None and found.path not in seen:
            seen.add(found.path)
            listings.append(_listing(found, kind, made))
    return tuple(listings)


def pull(name: str, *, notify: Notify | None = None) -> LocalModel:
    """Make sure the model is on this machine, downloading it if it is not. Raises ModelUnavailable."""
    return ensure_model(name, notify or (lambda _: None))


def model_path(name: str) -> Path:
    """The folder of a model that is here. Never the network. Raises ModelUnavailable."""
    return require_model(name).path


def _folders_of_exports(made: tuple[OnnxExport, ...]) -> Iterator[LocalModel]:
    for export in made:
        folder = Path(export.source)
        if has_weights(folder):
            yield LocalModel(export.model, folder, "folder")


def _model_kind(folder: Path) -> ModelKind | None:
    """What the model is for; None for a language model and the like, which share the caches."""
    try:
        config = read_json(folder / "config.json")
    except ModelUnavailable:
        return None
    names = config.get("architectures")
    if isinstance(names, list) and any(str(name).endswith("ForSequenceClassification") for name in names):
        return "cross-encoder"
    return "encoder" if (folder / "modules.json").is_file() else None


def _listing(found: LocalModel, kind: ModelKind, made: tuple[OnnxExport, ...]) -> ModelListing:
    digest = file_sha256(found.weights)
    mine = tuple(export for export in made if export.fingerprint == digest)
    return ModelListing(
        name=found.name,
        kind=kind,
        where=found.where,
        path=found.path,
        size=found.weights.stat().st_size,
        sha256=digest,
        engine="onnx" if mine else None,
        exports=mine,
    )

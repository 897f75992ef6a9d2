"""What `ragcli models` lists: the models on this machine and what was made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ragcli.errors import ModelUnavailable
from ragcli.models.cache import file_sha256
from ragcli.models.exports import Export, exports
from ragcli.models.fetch import ensure_model, require_model
from ragcli.models.find import FoundModel, Where, cached_models, has_weights, package_models
from ragcli.models.layout import read_json
from ragcli.models.protocols import Notify

Kind = Literal["encoder", "cross-encoder"]


@dataclass(frozen=True, slots=True)
class ModelListing:
    """A model on this machine. `size` counts its weights in bytes, `sha256` is theirs.

    `engine` is what has run it here so far: "onnx" where an export exists, else None.
    """

    name: str
    kind: Kind
    where: Where
    path: Path
    size: int
    sha256: str
    engine: Literal["onnx"] | None
    exports: tuple[Export, ...]


def list_models() -> tuple[ModelListing, ...]:
    """Models of packages, then of the Hugging Face caches, then folders that were used before."""
    made = tuple(exports())
    seen: set[Path] = set()
    listings = []
    for found in (*package_models(), *cached_models(), *_used_folders(made)):
        kind = _kind(found.path)
        if kind is not None and found.path not in seen:
            seen.add(found.path)
            listings.append(_listing(found, kind, made))
    return tuple(listings)


def pull(name: str, *, notify: Notify | None = None) -> FoundModel:
    """Make sure the model is on this machine, downloading it if it is not. Raises ModelUnavailable."""
    return ensure_model(name, notify or (lambda _: None))


def model_path(name: str) -> Path:
    """The folder of a model that is here. Never the network. Raises ModelUnavailable."""
    return require_model(name).path


def _used_folders(made: tuple[Export, ...]) -> Iterator[FoundModel]:
    for export in made:
        folder = Path(export.source)
        if has_weights(folder):
            yield FoundModel(export.model, folder, "folder")


def _kind(folder: Path) -> Kind | None:
    """What the model is for; None for a language model and the like, which share the caches."""
    try:
        config = read_json(folder / "config.json")
    except ModelUnavailable:
        return None
    names = config.get("architectures")
    if isinstance(names, list) and any(str(name).endswith("ForSequenceClassification") for name in names):
        return "cross-encoder"
    return "encoder" if (folder / "modules.json").is_file() else None


def _listing(found: FoundModel, kind: Kind, made: tuple[Export, ...]) -> ModelListing:
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

"""What a pipeline needs on disk: the search structures it reads and the weights it loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ragcli.retrieval.pipelines import PIPELINES

if TYPE_CHECKING:
    from ragcli.collection import Snapshot


def index_bytes(snapshot: Snapshot, pipeline: str, reranker: str | None) -> int:
    """Bytes of the structures that a pipeline reads, over and above the texts themselves."""
    parts = structure_bytes(snapshot)
    chosen = PIPELINES[pipeline]
    stages = (chosen.plain,) if reranker is None and chosen.plain is not None else chosen.stages
    return sum(parts[stage] for stage in stages) + (parts["late"] if reranker == "late" else 0)


def structure_bytes(snapshot: Snapshot) -> dict[str, int]:
    """Bytes by stage: `bm25`, `tfidf`, `dense`, and `late` for the token vectors."""
    from ragcli.collection.rowfiles import NUMBERS, OFFSETS, bit_file, vector_file

    folder, record = snapshot.folder, snapshot.record
    dimension = record.dimension
    return {
        "bm25": _size(folder / record.lexical_name),
        "tfidf": _size(folder / record.tfidf_name) if record.tfidf_name else 0,
        "dense": sum(_size(file.path(folder, record.arrays)) for file in (NUMBERS, vector_file(dimension))),
        "late": sum(_size(file.path(folder, record.arrays)) for file in (OFFSETS, bit_file(dimension))),
    }


def model_bytes(encoder: str, pipeline: str, reranker: str | None, *, engine: str = "auto") -> int:
    """Bytes of the weights a pipeline loads, as its engine keeps them; 0 for one that needs none."""
    chosen = PIPELINES[pipeline]
    stages = (chosen.plain,) if reranker is None and chosen.plain is not None else chosen.stages
    names = {encoder} if "dense" in stages or reranker == "late" else set()
    if reranker not in (None, "late"):
        names.add(str(reranker))
    return sum(_weights(name, engine) for name in sorted(names))


def _weights(name: str, engine: str) -> int:
    from ragcli.models import find_model
    from ragcli.models.cache import file_sha256
    from ragcli.models.exports import exports

    found = find_model(name)
    if found is None:
        return 0
    made = []
    if engine != "torch":
        fingerprint = file_sha256(found.weights)
        made = [export.size for export in exports() if export.fingerprint == fingerprint]
    return made[0] if made else _size(found.weights)


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
    return path.stat().st_size if path.is_file() else 0

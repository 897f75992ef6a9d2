"""A model's weights turned once into what ONNX Runtime runs, kept in the cache folder.

An entry's folder is named for all that decides its content: the weights, the configuration, the kind of processor
and the version of this code. It appears by one rename, complete and checked, or not at all. Of the precisions, the
first that agrees with the fp32 model on our check texts is kept.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np

from ragcli.models.bert import Bert, ExportError, run
from ragcli.models.cache import cache_dir, file_sha256, locked
from ragcli.models.check import check_pairs, scores_agree, vector_agreement, vectors_agree
from ragcli.models.families import read_bert
from ragcli.models.find import FoundModel
from ragcli.models.graph import Precision, build_graph
from ragcli.models.hardware import processor_kind
from ragcli.models.onnx_engine import OnnxCrossEncoder, OnnxEncoder, pair_inputs
from ragcli.models.pooling import text_vector, weighted_window
from ragcli.models.protocols import FloatArray, Notify

# Raise it when the graph changes: entries of another version are not read.
FORMAT: Final = 1

_GRAPH: Final = "model.onnx"
_TENSORS: Final = "model.data"
_ABOUT: Final = "about.json"
_PRECISIONS: tuple[Precision, ...] = ("int8", "int8-narrow", "fp32")


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
        return self.path / _GRAPH


def exported(
    found: FoundModel,
    config: Mapping[str, object],
    agree: Callable[[Path, Bert], tuple[bool, float]],
    notify: Notify,
    *,
    scoring: bool,
) -> Export:
    """The model's export, made now if there is none. `agree` loads a graph and compares it with the fp32 model.

    Raises ExportError when the architecture is unknown or no precision agrees, OSError when the cache folder
    cannot be written.
    """
    fingerprint = file_sha256(found.weights)
    place = _exports_dir() / _key(fingerprint, config, scoring=scoring)
    ready = read_export(place)
    if ready is not None:
        return ready
    bert = read_bert(found.path, config, scoring=scoring)
    with locked(place.with_name(f".{place.name}.lock")):
        ready = read_export(place)
        if ready is not None:
            return ready
        # Under the lock, whatever stands here without being readable is a dead writer's or damaged.
        for leftover in [place, *place.parent.glob(f".{place.name}.new-*")]:
            shutil.rmtree(leftover, ignore_errors=True)
        return _make(found, fingerprint, bert, place, agree, notify)


def discard(export: Export) -> None:
    """Remove an entry that turns out not to load."""
    shutil.rmtree(export.path, ignore_errors=True)


def exports() -> Iterator[Export]:
    """Every readable entry of the cache folder, of whatever model."""
    folder = _exports_dir()
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            export = None if path.name.startswith(".") else read_export(path)
            if export is not None:
                yield export


def read_export(place: Path) -> Export | None:
    """The entry at `place` if it is there and whole."""
    try:
        about = json.loads((place / _ABOUT).read_bytes())
        sizes = {str(name): int(size) for name, size in about.pop("files").items()}
        if any((place / name).stat().st_size != size for name, size in sizes.items()):
            return None
        return Export(path=place, size=sum(sizes.values()), **about)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def encoder_agreement(encoder: OnnxEncoder, bert: Bert) -> tuple[bool, float]:
    """Whether an exported encoder agrees with `bert`, and the mean cosine. A short window is as good as any."""

    def exact(text: str) -> FloatArray:
        windows = encoder.pieces.split([text])[0]
        return text_vector(weighted_window(run(bert, encoder.pieces.wrap(ids)), encoder.pooling) for ids in windows)

    cosines = vector_agreement(lambda text: encoder.encode([text])[0], exact)
    return vectors_agree(cosines), float(cosines.mean())


def reranker_agreement(reranker: OnnxCrossEncoder, bert: Bert) -> tuple[bool, float]:
    """Whether an exported cross-encoder agrees with `bert`, and the correlation of the scores."""
    pairs = check_pairs()
    exact = []
    for pair in pairs:
        inputs = pair_inputs(reranker.tokenizer, pair)
        exact.append(run(bert, inputs["ids"][0], inputs["types"][0])[0])
    ours, theirs = reranker.raw_scores(pairs), np.asarray(exact, dtype=np.float32)
    spread = float(ours.std() * theirs.std())
    correlation = float(((ours - ours.mean()) * (theirs - theirs.mean())).mean()) / spread if spread else 1.0
    return scores_agree(ours, theirs), correlation


def _make(
    found: FoundModel,
    fingerprint: str,
    bert: Bert,
    place: Path,
    agree: Callable[[Path, Bert], tuple[bool, float]],
    notify: Notify,
) -> Export:
    agreement = 0.0
    for precision in _PRECISIONS:
        notify(f"preparing {found.name} for this machine (once): {precision}")
        draft = Path(tempfile.mkdtemp(prefix=f".{place.name}.new-", dir=place.parent))
        try:
            _write_graph(bert, precision, draft)
            try:
                good, agreement = agree(draft / _GRAPH, bert)
            except ExportError:
                raise
            # The runtime has a dozen exception classes with no base of their own.
            except Exception as error:
                raise ExportError(f"ONNX Runtime cannot run its graph ({error})") from None
            if not good:
                continue
            sizes = {name: (draft / name).stat().st_size for name in (_GRAPH, _TENSORS) if (draft / name).exists()}
            export = Export(
                place, found.name, str(found.path), fingerprint, precision, round(agreement, 5), sum(sizes.values())
            )
            about = asdict(export) | {"files": sizes}
            del about["path"], about["size"]
            (draft / _ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
            draft.rename(place)
            notify(f"prepared {found.name}: {precision}, agreement with fp32 {agreement:.4f}")
            return export
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    raise ExportError(f"its exported graph disagrees with the fp32 model on this processor ({agreement:.3f})")


def _write_graph(bert: Bert, precision: Precision, folder: Path) -> None:
    import onnx

    # Tensors beside the graph are mapped into memory, not read: of the word table a query touches a few rows.
    onnx.save_model(
        build_graph(bert, precision),
        folder / _GRAPH,
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location=_TENSORS,
        size_threshold=4096,
    )


def _exports_dir() -> Path:
    return cache_dir() / "onnx"


def _key(fingerprint: str, config: Mapping[str, object], *, scoring: bool) -> str:
    settings = hashlib.sha256(json.dumps([config, scoring], sort_keys=True).encode()).hexdigest()
    return f"{fingerprint[:16]}-{settings[:8]}-{processor_kind()}-{FORMAT}"

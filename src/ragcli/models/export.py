"""A model's weights turned once into what ONNX Runtime runs.

Of the precisions, the first that agrees with the fp32 model on our check texts is kept; where none does, there is
no export. Two processes that need the same one take turns, and the second finds it made.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np

from ragcli.models.bert import Bert, ExportError, run
from ragcli.models.cache import file_sha256, locked
from ragcli.models.check import check_pairs, scores_agree, vector_agreement, vectors_agree
from ragcli.models.exports import ABOUT, GRAPH, TENSORS, Export, export_place, read_export
from ragcli.models.families import read_bert
from ragcli.models.find import FoundModel
from ragcli.models.graph import Precision, build_graph
from ragcli.models.onnx_engine import OnnxCrossEncoder, OnnxEncoder, pair_inputs
from ragcli.models.pooling import text_vector, weighted_window
from ragcli.models.protocols import FloatArray, Notify

_PRECISIONS: tuple[Precision, ...] = ("int8", "int8-narrow", "fp32")


def make_export(
    found: FoundModel,
    config: Mapping[str, object],
    agree: Callable[[Path, Bert], tuple[bool, float]],
    notify: Notify,
    *,
    scoring: bool,
) -> Export:
    """Make the model's export, unless another process just has. `agree` compares a graph with the fp32 model.

    Raises ExportError when the architecture is unknown or no precision agrees, OSError when the cache folder
    cannot be written.
    """
    place = export_place(found, scoring=scoring)
    bert = read_bert(found.path, config, scoring=scoring)
    with locked(place.with_name(f".{place.name}.lock")):
        ready = read_export(place)
        if ready is not None:
            return ready
        # Under the lock, whatever stands here without being readable is a dead writer's or damaged.
        for leftover in [place, *place.parent.glob(f".{place.name}.new-*")]:
            shutil.rmtree(leftover, ignore_errors=True)
        return _make(found, bert, place, agree, notify)


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
                good, agreement = agree(draft / GRAPH, bert)
            except ExportError:
                raise
            # The runtime has a dozen exception classes with no base of their own.
            except Exception as error:
                raise ExportError(f"ONNX Runtime cannot run its graph ({error})") from None
            if not good:
                continue
            sizes = {name: (draft / name).stat().st_size for name in (GRAPH, TENSORS) if (draft / name).exists()}
            export = Export(
                place,
                found.name,
                str(found.path),
                file_sha256(found.weights),
                precision,
                round(agreement, 5),
                sum(sizes.values()),
            )
            about = asdict(export) | {"files": sizes}
            del about["path"], about["size"]
            (draft / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
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
        folder / GRAPH,
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location=TENSORS,
        size_threshold=4096,
    )

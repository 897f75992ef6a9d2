"""A model's weights turned once into what ONNX Runtime runs.

Of the precisions, the first that agrees with the fp32 model on our check texts is kept; where none does, there is
no export. Two processes that need the same one take turns, and the second finds it made.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ragcli.models.bert import Bert, run
from ragcli.models.cache import file_sha256, locked
from ragcli.models.check import CHECK_TEXTS, check_pairs, scores_agree, vectors_agree
from ragcli.models.exports import ABOUT, GRAPH, TENSORS, Export, export_place, read_export
from ragcli.models.families import read_bert
from ragcli.models.find import FoundModel
from ragcli.models.graph import Precision, build_graph
from ragcli.models.onnx_engine import OnnxCrossEncoder, OnnxEncoder, pair_inputs
from ragcli.models.pooling import text_vector, weighted_window
from ragcli.models.protocols import ExportError, FloatArray, IntArray, Notify

if TYPE_CHECKING:
    import onnx
    from tokenizers import Tokenizer

    from ragcli.models.pieces import Pieces

_PRECISIONS: tuple[Precision, ...] = ("int8", "int8-narrow", "fp32")


@dataclass(frozen=True, slots=True)
class Probe:
    """What an export is tried with: `inputs`, each the ids and types of one window, and the verdict.

    `agree` takes a graph's file and the fp32 model's output for every input. It says whether the graph will do, and
    how near it comes.
    """

    inputs: tuple[tuple[IntArray, IntArray | None], ...]
    agree: Callable[[Path, Sequence[FloatArray]], tuple[bool, float]]


def encoder_probe(pieces: Pieces, pooling: str, load: Callable[[Path], OnnxEncoder]) -> Probe:
    """Our check texts, each window's vector compared by its cosine."""
    windows = [pieces.wrap(ids) for text in pieces.split(CHECK_TEXTS) for ids in text]

    def vector(states: FloatArray) -> FloatArray:
        return text_vector([weighted_window(states, pooling)])

    def agree(graph: Path, exact: Sequence[FloatArray]) -> tuple[bool, float]:
        encoder = load(graph)
        cosines = np.asarray(
            [vector(encoder.states(ids)) @ vector(states) for ids, states in zip(windows, exact, strict=True)]
        )
        return vectors_agree(cosines), float(cosines.mean())

    return Probe(tuple((ids, None) for ids in windows), agree)


def reranker_probe(tokenizer: Tokenizer, load: Callable[[Path], OnnxCrossEncoder]) -> Probe:
    """Our check texts in pairs, compared by their scores before squashing."""
    pairs = check_pairs()
    inputs = [pair_inputs(tokenizer, pair) for pair in pairs]

    def agree(graph: Path, exact: Sequence[FloatArray]) -> tuple[bool, float]:
        ours, theirs = load(graph).raw_scores(pairs), np.asarray([score[0] for score in exact], dtype=np.float32)
        spread = float(ours.std() * theirs.std())
        correlation = float(((ours - ours.mean()) * (theirs - theirs.mean())).mean()) / spread if spread else 1.0
        return scores_agree(ours, theirs), correlation

    return Probe(tuple((each["ids"][0], each["types"][0]) for each in inputs), agree)


def make_export(
    found: FoundModel, config: Mapping[str, object], probe: Probe, notify: Notify, *, scoring: bool
) -> Export:
    """Make the model's export, unless another process just has.

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
        return _make(found, bert, place, probe, notify)


def _make(found: FoundModel, bert: Bert, place: Path, probe: Probe, notify: Notify) -> Export:
    notify(f"preparing {found.name} for this machine (once)")
    exact, peaks = _run_all(bert, probe)
    agreement = 0.0
    for precision in _PRECISIONS:
        draft = Path(tempfile.mkdtemp(prefix=f".{place.name}.new-", dir=place.parent))
        try:
            _write_graph(build_graph(bert, precision, peaks), draft)
            good, agreement = _agree(probe, draft / GRAPH, exact)
            if good:
                export = _finish(found, place, draft, precision, agreement)
                notify(f"prepared {found.name}: {precision}, agreement with fp32 {agreement:.4f}")
                return export
            notify(f"{found.name} in {precision} is too far from fp32 on this processor ({agreement:.3f})")
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    raise ExportError(f"its exported graph disagrees with the fp32 model on this processor ({agreement:.3f})")


def _run_all(bert: Bert, probe: Probe) -> tuple[list[FloatArray], dict[str, FloatArray]]:
    """The fp32 model's outputs, and the largest value that each part read in each place of a state."""
    peaks: dict[str, FloatArray] = {}

    def watch(part: str, states: FloatArray) -> None:
        largest = np.abs(states).max(axis=0)
        peaks[part] = np.maximum(peaks[part], largest) if part in peaks else largest

    return [run(bert, ids, types, watch) for ids, types in probe.inputs], peaks


def _agree(probe: Probe, graph: Path, exact: Sequence[FloatArray]) -> tuple[bool, float]:
    try:
        return probe.agree(graph, exact)
    except ExportError:
        raise
    # The runtime has a dozen exception classes with no base of their own.
    except Exception as error:
        raise ExportError(f"ONNX Runtime cannot run its graph ({error})") from None


def _finish(found: FoundModel, place: Path, draft: Path, precision: Precision, agreement: float) -> Export:
    sizes = {name: (draft / name).stat().st_size for name in (GRAPH, TENSORS) if (draft / name).exists()}
    export = Export(
        path=place,
        model=found.name,
        source=str(found.path),
        fingerprint=file_sha256(found.weights),
        precision=precision,
        agreement=round(agreement, 5),
        size=sum(sizes.values()),
    )
    about = asdict(export) | {"files": sizes}
    del about["path"], about["size"]
    (draft / ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    draft.rename(place)
    return export


def _write_graph(graph: onnx.ModelProto, folder: Path) -> None:
    import onnx

    # Tensors beside the graph are mapped into memory, not read: of the word table a query touches a few rows.
    onnx.save_model(
        graph,
        folder / GRAPH,
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location=TENSORS,
        size_threshold=4096,
    )

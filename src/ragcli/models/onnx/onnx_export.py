"""Export a BERT model to ONNX, quantise it, and verify it against fp32.

Of the precisions, the first that agrees with the fp32 model on the check texts is kept; where none does, there is no
export. The texts are of many kinds (prose, numbers, code, names, other scripts, one word, one long paragraph), since
an int8 kernel that is wrong on a processor is often wrong for some inputs only. Two processes that need the same
export take turns, and the second finds it made.

Why not sentence-transformers' own export: it goes through optimum, whose latest ONNX release (optimum-onnx 0.1.0)
cannot be imported beside the transformers 5 that sentence-transformers installs, and whoever runs such an export
imports sentence-transformers first, 4 to 7 s of processor time. Here the export of MiniLM takes 5 to 7 s once, without
PyTorch, and a start with it 0.1 s.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ragcli.atomic_files import exclusive_lock
from ragcli.models.engine_interface import ExportError, FloatArray, IntArray, text_vector, weighted_window
from ragcli.models.hardware import saturates_int8
from ragcli.models.model_inventory import (
    EXPORT_METADATA_FILE,
    GRAPH_FILE,
    TENSORS_FILE,
    OnnxExport,
    export_path,
    read_export,
)
from ragcli.models.model_lookup import LocalModel, file_sha256
from ragcli.models.onnx.bert_model import BertModel, bert_forward, read_bert
from ragcli.models.onnx.onnx_graph import Precision, build_graph
from ragcli.models.onnx.onnxruntime_engine import OnnxCrossEncoder, OnnxEncoder, pair_inputs
from ragcli.types import Notify

if TYPE_CHECKING:
    import onnx
    from tokenizers import Tokenizer

    from ragcli.models.wordpiece_tokenizer import WindowedTokenizer


# Of the texts' vectors to their fp32 counterparts: on average, and the worst one.
MIN_MEAN_COSINE: Final = 0.99
MIN_COSINE: Final = 0.97

# Of a reranker's scores: the error against the scores' own spread, and an error that changes no answer.
MAX_RELATIVE_ERROR: Final = 0.1
MAX_ABSOLUTE_ERROR: Final = 0.02

CHECK_TEXTS: Final = (
    "Deep water waves break when their height is about a seventh of their length.",
    "We measured the growth of 412 seedlings over two seasons (p < 0.01 in both, n = 36).",
    "What does the committee recommend about night shifts?",
    "lighthouse",
    "def mean(values): return sum(values) / len(values)  # fails for an empty list",
    "Theorem 3. Every bounded monotone sequence of real numbers converges; see https://example.org/proof?id=3.",
    "Die Brücke wurde 1908 bei Köln gebaut, und ses ingénieurs étaient français.",
    "雨が降ると川の水位が上がる。",
    "Glucose tolerance fell in the treated group while body mass stayed the same, which the authors attribute to "
    "insulin resistance in muscle rather than in liver.",
    "The judge held that the contract was void because neither party had disclosed the terms of the earlier loan.",
    "A tide gauge records the height of the sea at one place. Its readings drift for three reasons: the land under "
    "it rises or sinks, the air presses more or less on the water, and the instrument itself ages. The first is "
    "slow, some millimetres a year, and is taken out with satellite levelling. The second follows the barometer: "
    "one hectopascal is worth about one centimetre. The third cannot be computed; it is found by comparing "
    "neighbouring gauges, of which at least one has just been serviced. After all three corrections, what is left "
    "is the change of the sea itself, and over a century it has been between 1.2 and 1.9 mm a year at most harbours "
    "(Table 2), faster since 1990. Whether that pace continues depends on how much heat the upper ocean takes up.",
)


def vectors_agree(cosines: FloatArray) -> bool:
    """Whether vectors whose cosines to the fp32 model's are these may stand in for them."""
    return bool(np.isfinite(cosines).all() and cosines.mean() >= MIN_MEAN_COSINE and cosines.min() >= MIN_COSINE)


def check_pairs() -> list[tuple[str, str]]:
    """Pairs of question and passage: each text with the next one, and some with themselves as a perfect match."""
    following = [*CHECK_TEXTS[1:], CHECK_TEXTS[0]]
    return [*zip(CHECK_TEXTS, following, strict=True), *((text, text) for text in CHECK_TEXTS[:4])]


def scores_agree(exported: FloatArray, exact: FloatArray) -> bool:
    """Whether a reranker's exported scores (before any squashing) rank as its exact ones do."""
    error = float(np.sqrt(np.square(exported - exact).mean()))
    return bool(np.isfinite(error) and error <= MAX_RELATIVE_ERROR * float(exact.std()) + MAX_ABSOLUTE_ERROR)


def precisions_to_try() -> tuple[Precision, ...]:
    """What an export is tried in on this processor, fastest first."""
    return ("int8-reduced-range" if saturates_int8() else "int8", "fp32")


@dataclass(frozen=True, slots=True)
class ExportVerifier:
    """What an export is tried with: `inputs`, each the ids and types of one window, and the verdict.

    `agree` takes a graph's file and the fp32 model's output for every input. It says whether the graph will do, and
    how near it comes.
    """

    inputs: tuple[tuple[IntArray, IntArray | None], ...]
    agree: Callable[[Path, Sequence[FloatArray]], tuple[bool, float]]


def encoder_verifier(pieces: WindowedTokenizer, pooling: str, load: Callable[[Path], OnnxEncoder]) -> ExportVerifier:
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

    return ExportVerifier(tuple((ids, None) for ids in windows), agree)


def reranker_verifier(tokenizer: Tokenizer, load: Callable[[Path], OnnxCrossEncoder]) -> ExportVerifier:
    """Our check texts in pairs, compared by their scores before squashing."""
    pairs = check_pairs()
    inputs = [pair_inputs(tokenizer, pair) for pair in pairs]

    def agree(graph: Path, exact: Sequence[FloatArray]) -> tuple[bool, float]:
        ours, theirs = load(graph).raw_scores(pairs), np.asarray([score[0] for score in exact], dtype=np.float32)
        spread = float(ours.std() * theirs.std())
        correlation = float(((ours - ours.mean()) * (theirs - theirs.mean())).mean()) / spread if spread else 1.0
        return scores_agree(ours, theirs), correlation

    return ExportVerifier(tuple((each["ids"][0], each["types"][0]) for each in inputs), agree)


def make_export(
    found: LocalModel, config: Mapping[str, object], probe: ExportVerifier, notify: Notify, *, scoring: bool
) -> OnnxExport:
    """Make the model's export, unless another process just has.

    Raises ExportError when the architecture is unknown or no precision agrees, OSError when the cache folder
    cannot be written.
    """
    place = export_path(found, scoring=scoring)
    bert = read_bert(found.path, config, scoring=scoring)
    with exclusive_lock(place.with_name(f".{place.name}.lock")):
        ready = read_export(place)
        if ready is not None:
            return ready
        # Under the lock, whatever stands here without being readable is a dead writer's or damaged.
        for leftover in [place, *place.parent.glob(f".{place.name}.new-*")]:
            shutil.rmtree(leftover, ignore_errors=True)
        return _make_export_at(found, bert, place, probe, notify)


def _make_export_at(
    found: LocalModel, bert: BertModel, place: Path, probe: ExportVerifier, notify: Notify
) -> OnnxExport:
    notify(f"preparing {found.name} for this machine (once)")
    exact, peaks = _run_reference(bert, probe)
    agreement = 0.0
    for precision in precisions_to_try():
        draft = Path(tempfile.mkdtemp(prefix=f".{place.name}.new-", dir=place.parent))
        try:
            _write_graph(build_graph(bert, precision, peaks), draft)
            good, agreement = _agreement(probe, draft / GRAPH_FILE, exact)
            if good:
                export = _publish_export(found, place, draft, precision, agreement)
                notify(f"prepared {found.name}: {precision}, agreement with fp32 {agreement:.4f}")
                return export
            notify(f"{found.name} in {precision} is too far from fp32 on this processor ({agreement:.3f})")
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    raise ExportError(f"its exported graph disagrees with the fp32 model on this processor ({agreement:.3f})")


def _run_reference(bert: BertModel, probe: ExportVerifier) -> tuple[list[FloatArray], dict[str, FloatArray]]:
    """The fp32 model's outputs, and the largest value that each part read in each place of a state."""
    peaks: dict[str, FloatArray] = {}

    def watch(part: str, states: FloatArray) -> None:
        largest = np.abs(states).max(axis=0)
        peaks[part] = np.maximum(peaks[part], largest) if part in peaks else largest

    return [bert_forward(bert, ids, types, watch) for ids, types in probe.inputs], peaks


def _agreement(probe: ExportVerifier, graph: Path, exact: Sequence[FloatArray]) -> tuple[bool, float]:
    try:
        return probe.agree(graph, exact)
    except ExportError:
        raise
    # The runtime has a dozen exception classes with no base of their own.
    except Exception as error:
        raise ExportError(f"ONNX Runtime cannot run its graph ({error})") from None


def _publish_export(found: LocalModel, place: Path, draft: Path, precision: Precision, agreement: float) -> OnnxExport:
    sizes = {name: (draft / name).stat().st_size for name in (GRAPH_FILE, TENSORS_FILE) if (draft / name).exists()}
    export = OnnxExport(
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
    (draft / EXPORT_METADATA_FILE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    draft.rename(place)
    return export


def _write_graph(graph: onnx.ModelProto, folder: Path) -> None:
    import onnx

    # Tensors beside the graph are mapped into memory, not read: of the word table a query touches a few rows.
    onnx.save_model(
        graph,
        folder / GRAPH_FILE,
        save_as_external_data=True,
        all_tensors_to_one_file=True,
        location=TENSORS_FILE,
        size_threshold=4096,
    )

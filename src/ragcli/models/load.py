"""From a model's name to something that encodes or scores.

`auto` takes ONNX Runtime, which is ready in a tenth of a second, and PyTorch only for bulk work on a machine with a
GPU: importing it takes longer than a whole query does, whatever the GPU saves. Both give the same vectors to within
the int8 rounding, so an ingest by one and a query by the other fit.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from ragcli.config.endpoints import is_remote
from ragcli.errors import ModelUnavailable, UsageError
from ragcli.models.cache import file_sha256
from ragcli.models.fetch import ensure_model, require_model
from ragcli.models.find import DEFAULT_ENCODER, FoundModel, find_model, full_name
from ragcli.models.hardware import has_gpu, worker_count
from ragcli.models.layout import Layout, check_scoring, read_json, read_layout, whole_number, width
from ragcli.models.protocols import Encoder, Engine, ExportError, Notify, TextReranker

if TYPE_CHECKING:
    from ragcli.models.export import Probe
    from ragcli.models.onnx_engine import OnnxCrossEncoder, OnnxEncoder

# A cross-encoder reads this much of a passage, as the seed's does.
PASSAGE_CHARACTERS: Final = 1024

Graph = TypeVar("Graph")


def load_encoder(
    name: str,
    *,
    engine: Engine = "auto",
    bulk: bool = False,
    notify: Notify | None = None,
    weights: Collection[str] = (),
    download: bool = True,
) -> Encoder:
    """Load a sentence encoder, exporting it first if this machine has not yet done so.

    `name` is a folder, or a name on the Hugging Face hub. `bulk` says that thousands of texts will follow, for which
    a GPU is worth waking. `notify` is told, in a few words at a time, of slow steps and of a fall back to PyTorch
    (without it the latter is a RuntimeWarning). Raises ModelUnavailable, and UsageError for an unknown engine.

    A name that a collection gives may be a stranger's choice. For one, `weights` are the SHA-256 that the collection
    recorded, of which the model must have one before it is opened, and with `download` off only the default model is
    fetched.
    """
    tell = notify or _nobody
    _check_engine(engine)
    found = ensure_model(name, tell) if download or full_name(name) == DEFAULT_ENCODER else require_model(name)
    if weights and file_sha256(found.weights) not in weights:
        raise ModelUnavailable(
            f"The model {found.name} in {found.path} has other weights than those that the collection was made with; "
            "get those back, or embed everything anew with `ragcli reindex`."
        )
    layout = read_layout(found.path)
    if engine == "torch" or (engine == "auto" and bulk and has_gpu()):
        return _torch_encoder(found, layout, tell)
    try:
        return _onnx_encoder(found, layout, tell)
    except (ExportError, OSError) as error:
        _warn(f"{found.name} runs on PyTorch, which is slower: {error}.", notify)
        return _torch_encoder(found, layout, tell)


def load_reranker(
    name: str, *, engine: Engine = "auto", notify: Notify | None = None, key_env: str | None = None
) -> TextReranker:
    """Load a cross-encoder by folder or name; engines, notices and errors as for `load_encoder`.

    `cohere:MODEL`, `jina:MODEL` or an address is a reranker elsewhere (see `remote`), which is asked for scores and
    not loaded; `key_env` names the environment variable with its key.
    """
    tell = notify or _nobody
    _check_engine(engine)
    if is_remote(name):
        from ragcli.models.remote import RemoteReranker, rerank_endpoint

        return RemoteReranker(name, rerank_endpoint(name, key_env=key_env))
    found = ensure_model(name, tell)
    check_scoring(found.path)
    if engine == "torch":
        return _torch_reranker(found, tell)
    try:
        return _onnx_reranker(found, tell)
    except (ExportError, OSError) as error:
        _warn(f"{found.name} runs on PyTorch, which is slower: {error}.", notify)
        return _torch_reranker(found, tell)


def cross_encoder_available(name: str) -> bool:
    """Whether its weights are on this machine. Looks at files only."""
    return find_model(name) is not None


def _onnx_encoder(found: FoundModel, layout: Layout, notify: Notify) -> Encoder:
    from ragcli.models.onnx_engine import OnnxEncoder
    from ragcli.models.pieces import load_pieces
    from ragcli.models.session import open_session

    pooling = layout.pooling
    if pooling == "other":
        raise ExportError(layout.why)
    pieces = load_pieces(found.path, layout.max_length, lower_case=layout.lower_case)

    def load(graph: Path) -> OnnxEncoder:
        return OnnxEncoder(
            name=found.name,
            fingerprint=file_sha256(found.weights),
            dimension=width(layout.config),
            vocabulary_size=max(pieces.vocabulary_size, whole_number(layout.config, "vocab_size", 0)),
            pooling=pooling,
            pieces=pieces,
            session=open_session(graph),
            workers=worker_count(),
        )

    def probe() -> Probe:
        from ragcli.models.export import encoder_probe

        return encoder_probe(pieces, pooling, load)

    return _load_export(found, layout.config, load, probe, notify, scoring=False)


def _onnx_reranker(found: FoundModel, notify: Notify) -> TextReranker:
    from ragcli.models.layout import max_length, squashing
    from ragcli.models.onnx_engine import OnnxCrossEncoder
    from ragcli.models.pieces import read_tokenizer
    from ragcli.models.session import open_session

    config = read_json(found.path / "config.json")
    squash = squashing(found.path, config)
    if squash == "other":
        raise ExportError("it does more with a score than a sigmoid")
    tokenizer = read_tokenizer(found.path)
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length(found.path, config, {}), strategy="longest_first")

    def load(graph: Path) -> OnnxCrossEncoder:
        return OnnxCrossEncoder(found.name, tokenizer, open_session(graph), squash, PASSAGE_CHARACTERS, worker_count())

    def probe() -> Probe:
        from ragcli.models.export import reranker_probe

        return reranker_probe(tokenizer, load)

    return _load_export(found, config, load, probe, notify, scoring=True)


def _load_export(
    found: FoundModel,
    config: Mapping[str, object],
    load: Callable[[Path], Graph],
    probe: Callable[[], Probe],
    notify: Notify,
    *,
    scoring: bool,
) -> Graph:
    from ragcli.models.exports import export_place, read_export

    ready = read_export(export_place(found, scoring=scoring))
    if ready is not None:
        try:
            return load(ready.graph)
        except ExportError:
            # Whole by its sizes, yet it does not load: a damaged disk, or another version of the runtime.
            import shutil

            shutil.rmtree(ready.path, ignore_errors=True)
    from ragcli.models.export import make_export

    return load(make_export(found, config, probe(), notify, scoring=scoring).graph)


def _torch_encoder(found: FoundModel, layout: Layout, notify: Notify) -> Encoder:
    notify(f"loading {found.name} with PyTorch")
    from ragcli.models.torch_engine import load_torch_encoder

    return load_torch_encoder(found, layout, file_sha256(found.weights))


def _torch_reranker(found: FoundModel, notify: Notify) -> TextReranker:
    notify(f"loading {found.name} with PyTorch")
    from ragcli.models.torch_engine import load_torch_cross_encoder

    return load_torch_cross_encoder(found, PASSAGE_CHARACTERS)


def _check_engine(engine: str) -> None:
    if engine not in ("auto", "onnx", "torch"):
        raise UsageError(f"There is no engine '{engine}'; choose auto, onnx or torch.")


def _warn(text: str, notify: Notify | None) -> None:
    if notify is None:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    else:
        notify(text)


def _nobody(_: str) -> None:
    """Hears the notices of a caller who asked for none."""

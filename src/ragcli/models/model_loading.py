"""Load an encoder or reranker by name, choose its engine, and share loaded models.

`auto` takes ONNX Runtime, which is ready in a tenth of a second, and PyTorch only for bulk work on a machine with a
GPU: importing it takes longer than a whole query does. Both give the same vectors to within the int8 rounding, so an
ingest by one and a query by the other fit. A search agent asks thirty collections at once, each in a thread of its
own: the cache of loaded models keeps one encoder in memory, not thirty.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Hashable, Mapping
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from ragcli.config.config_keys import is_remote_reranker
from ragcli.errors import ModelUnavailable, UsageError
from ragcli.models.engine_interface import Encoder, Engine, ExportError, TextReranker
from ragcli.models.hardware import has_gpu, worker_count
from ragcli.models.hub_download import ensure_model, require_model
from ragcli.models.model_config import (
    EncoderConfig,
    hidden_size,
    int_setting,
    read_encoder_config,
    read_json,
    require_cross_encoder,
)
from ragcli.models.model_lookup import (
    DEFAULT_ENCODER,
    LocalModel,
    file_sha256,
    find_model,
    full_name,
)
from ragcli.plugins import Registry, is_plugin_name, split_plugin_name
from ragcli.types import Notify

if TYPE_CHECKING:
    from ragcli.models.onnx.onnx_export import ExportVerifier
    from ragcli.models.onnx.onnxruntime_engine import OnnxCrossEncoder, OnnxEncoder


_SharedT = TypeVar("_SharedT")


class LoadedModelCache:
    """Each model under a key that says all that it was loaded by. May be shared by threads."""

    def __init__(self) -> None:
        self._models: dict[Hashable, object] = {}
        self._lock = Lock()

    def take(self, key: Hashable, load: Callable[[], _SharedT]) -> _SharedT:
        """The model under that key, loaded now if nobody has asked for it before; one thread at a time loads."""
        with self._lock:
            if key not in self._models:
                self._models[key] = load()
            model: _SharedT = self._models[key]  # type: ignore[assignment]
        return model


# A cross-encoder reads this much of a passage, as the seed's does.
CROSS_ENCODER_PASSAGE_CHARS: Final = 1024

_ModelT = TypeVar("_ModelT")


class EncoderFactory(Protocol):
    """Opens an encoder of an installed package; what an entry point of `ragcli.encoders` names."""

    def __call__(self, model: str, *, notify: Notify) -> Encoder:
        """The encoder; `model` is what `plugin:NAME:MODEL` says behind the name, "" for nothing.

        Its `fingerprint` tells two models of one name apart: a collection is asked only with the one it was made with.
        Raises ModelUnavailable.
        """


class RerankerFactory(Protocol):
    """Opens a reranker of an installed package; what an entry point of `ragcli.rerankers` names."""

    def __call__(self, model: str, *, notify: Notify, key_env: str | None) -> TextReranker:
        """The reranker; `model` as for an encoder, `key_env` an environment variable with a key. ModelUnavailable."""


ENCODERS: Final[Registry[EncoderFactory]] = Registry("encoders", {})
RERANKERS: Final[Registry[RerankerFactory]] = Registry("rerankers", {})


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

    `name` is a folder, a name on the Hugging Face hub, or `plugin:NAME` for the encoder of an installed package, which
    loads that package. `bulk` says that thousands of texts will follow, for which
    a GPU is worth waking. `notify` is told, in a few words at a time, of slow steps and of a fall back to PyTorch
    (without it the latter is a RuntimeWarning). Raises ModelUnavailable, and UsageError for an unknown engine.

    A name that a collection gives may be a stranger's choice. For one, `weights` are the SHA-256 that the collection
    recorded, of which the model must have one before it is opened, and with `download` off only the default model is
    fetched.
    """
    tell = notify or _ignore_notice
    _check_engine(engine)
    if is_plugin_name(name):
        return _plugin_encoder(name, tell, weights)
    found = ensure_model(name, tell) if download or full_name(name) == DEFAULT_ENCODER else require_model(name)
    if weights and file_sha256(found.weights) not in weights:
        raise _other_weights(f"The model {found.name} in {found.path}")
    layout = read_encoder_config(found.path)
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

    `plugin:NAME` is the reranker of an installed package. `cohere:MODEL`, `jina:MODEL` or an address is a reranker
    elsewhere (see `remote_reranker`), which is asked for scores and not loaded; `key_env` names the environment
    variable with its key.
    """
    tell = notify or _ignore_notice
    _check_engine(engine)
    if is_plugin_name(name):
        _, model = split_plugin_name(name)
        return RERANKERS.get(name)(model, notify=tell, key_env=key_env)
    if is_remote_reranker(name):
        from ragcli.models.remote_reranker import RemoteReranker, rerank_endpoint

        return RemoteReranker(name, rerank_endpoint(name, key_env=key_env))
    found = ensure_model(name, tell)
    require_cross_encoder(found.path)
    if engine == "torch":
        return _torch_reranker(found, tell)
    try:
        return _onnx_reranker(found, tell)
    except (ExportError, OSError) as error:
        _warn(f"{found.name} runs on PyTorch, which is slower: {error}.", notify)
        return _torch_reranker(found, tell)


def _plugin_encoder(name: str, notify: Notify, weights: Collection[str]) -> Encoder:
    _, model = split_plugin_name(name)
    encoder = ENCODERS.get(name)(model, notify=notify)
    if weights and encoder.fingerprint not in weights:
        raise _other_weights(f"The encoder {name}")
    return encoder


def _other_weights(called: str) -> ModelUnavailable:
    return ModelUnavailable(
        f"{called} has other weights than those that the collection was made with; get those back, or embed everything"
        " anew with `ragcli reindex`."
    )


def cross_encoder_available(name: str) -> bool:
    """Whether its weights are on this machine. Looks at files only."""
    return find_model(name) is not None


def _onnx_encoder(found: LocalModel, layout: EncoderConfig, notify: Notify) -> Encoder:
    from ragcli.models.onnx.onnxruntime_engine import OnnxEncoder, open_session
    from ragcli.models.wordpiece_tokenizer import load_windowed_tokenizer

    pooling = layout.pooling
    if pooling == "other":
        raise ExportError(layout.why)
    pieces = load_windowed_tokenizer(found.path, layout.max_length, lower_case=layout.lower_case)

    def load(graph: Path) -> OnnxEncoder:
        return OnnxEncoder(
            name=found.name,
            fingerprint=file_sha256(found.weights),
            dimension=hidden_size(layout.config),
            vocabulary_size=max(pieces.vocabulary_size, int_setting(layout.config, "vocab_size", 0)),
            pooling=pooling,
            pieces=pieces,
            session=open_session(graph),
            workers=worker_count(),
        )

    def probe() -> ExportVerifier:
        from ragcli.models.onnx.onnx_export import encoder_verifier

        return encoder_verifier(pieces, pooling, load)

    return _load_or_make_export(found, layout.config, load, probe, notify, scoring=False)


def _onnx_reranker(found: LocalModel, notify: Notify) -> TextReranker:
    from ragcli.models.model_config import max_length, read_score_activation
    from ragcli.models.onnx.onnxruntime_engine import OnnxCrossEncoder, open_session
    from ragcli.models.wordpiece_tokenizer import read_tokenizer

    config = read_json(found.path / "config.json")
    score_activation = read_score_activation(found.path, config)
    if score_activation == "other":
        raise ExportError("it does more with a score than a sigmoid")
    tokenizer = read_tokenizer(found.path)
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length(found.path, config, {}), strategy="longest_first")

    def load(graph: Path) -> OnnxCrossEncoder:
        return OnnxCrossEncoder(
            found.name, tokenizer, open_session(graph), score_activation, CROSS_ENCODER_PASSAGE_CHARS, worker_count()
        )

    def probe() -> ExportVerifier:
        from ragcli.models.onnx.onnx_export import reranker_verifier

        return reranker_verifier(tokenizer, load)

    return _load_or_make_export(found, config, load, probe, notify, scoring=True)


def _load_or_make_export(
    found: LocalModel,
    config: Mapping[str, object],
    load: Callable[[Path], _ModelT],
    probe: Callable[[], ExportVerifier],
    notify: Notify,
    *,
    scoring: bool,
) -> _ModelT:
    from ragcli.models.model_inventory import export_path, read_export

    ready = read_export(export_path(found, scoring=scoring))
    if ready is not None:
        try:
            return load(ready.graph)
        except ExportError:
            # Whole by its sizes, yet it does not load: a damaged disk, or another version of the runtime.
            import shutil

            shutil.rmtree(ready.path, ignore_errors=True)
    from ragcli.models.onnx.onnx_export import make_export

    return load(make_export(found, config, probe(), notify, scoring=scoring).graph)


def _torch_encoder(found: LocalModel, layout: EncoderConfig, notify: Notify) -> Encoder:
    notify(f"loading {found.name} with PyTorch")
    from ragcli.models.torch_engine import load_torch_encoder

    return load_torch_encoder(found, layout, file_sha256(found.weights))


def _torch_reranker(found: LocalModel, notify: Notify) -> TextReranker:
    notify(f"loading {found.name} with PyTorch")
    from ragcli.models.torch_engine import load_torch_cross_encoder

    return load_torch_cross_encoder(found, CROSS_ENCODER_PASSAGE_CHARS)


def _check_engine(engine: str) -> None:
    if engine not in ("auto", "onnx", "torch"):
        raise UsageError(f"There is no engine '{engine}'; choose auto, onnx or torch.")


def _warn(text: str, notify: Notify | None) -> None:
    if notify is None:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    else:
        notify(text)


def _ignore_notice(_: str) -> None:
    """Hears the notices of a caller who asked for none."""

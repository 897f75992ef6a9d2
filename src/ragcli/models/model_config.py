"""Read a model's configuration files, and reject models that bring code.

The files are those of sentence-transformers: `modules.json` lists the stages, `1_Pooling/config.json` names the
pooling, `sentence_bert_config.json` the length. Weights are read from safetensors alone. sentence-transformers, which
runs what cannot be exported, can do more: `modules.json` may name a class to import, `config.json` a Python file to
run, and weights may be a pickle. Some versions of it refuse that and earlier ones ran it for any local folder, so a
model is checked before that library sees it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ragcli.errors import ModelUnavailable
from ragcli.models.model_lookup import WEIGHTS_FILE

Pooling = Literal["mean", "cls", "other"]
ScoreActivation = Literal["sigmoid", "identity", "other"]

_LEGACY_POOLING = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """A sentence encoder's configuration.

    `max_length` counts word pieces, special tokens included. `pooling` is "other" when only
    sentence-transformers itself knows how to get from token states to the vector; `why` says what it met.
    """

    config: Mapping[str, object]
    max_length: int
    lower_case: bool
    pooling: Pooling
    why: str = ""


def read_encoder_config(folder: Path) -> EncoderConfig:
    """Read the configuration in `folder`. Raises ModelUnavailable for files that are damaged."""
    config = read_json(folder / "config.json")
    sentence = read_json(folder / "sentence_bert_config.json", missing={})
    pooling, why = _pooling(folder)
    return EncoderConfig(
        config=config,
        max_length=max_length(folder, config, sentence),
        lower_case=sentence.get("do_lower_case") is True,
        pooling=pooling,
        why=why,
    )


def max_length(folder: Path, config: Mapping[str, object], sentence: Mapping[str, object]) -> int:
    """How many word pieces the model reads at once: its stated length, within its table of positions."""
    positions = int_setting(config, "max_position_embeddings", 512) - position_offset(config)
    stated = sentence.get("max_seq_length")
    if not isinstance(stated, int):
        stated = read_json(folder / "tokenizer_config.json", missing={}).get("model_max_length")
    return max(8, min(int(stated), positions) if isinstance(stated, int | float) else positions)


def position_offset(config: Mapping[str, object]) -> int:
    """The place in the table of positions that a text's first token gets.

    RoBERTa and MPNet count from the padding id's successor on, so their tables start with places never used.
    """
    if config.get("model_type") == "mpnet":
        return 2
    if config.get("model_type") in ("roberta", "xlm-roberta", "camembert"):
        return int_setting(config, "pad_token_id", 1) + 1
    return 0


def hidden_size(config: Mapping[str, object]) -> int:
    """The length of a token's state, which DistilBERT calls `dim`."""
    return int_setting(config, "hidden_size", int_setting(config, "dim", 768))


def _pooling(folder: Path) -> tuple[Pooling, str]:
    modules = read_json_list(folder / "modules.json")
    if not modules:
        # A bare transformer: sentence-transformers adds mean pooling and says so.
        return "mean", ""
    kinds = [str(module.get("type", "")).rsplit(".", 1)[-1] for module in modules]
    if [kind for kind in kinds if kind != "Normalize"] != ["Transformer", "Pooling"]:
        return "other", f"its modules are {', '.join(kinds)}"
    if modules[0].get("path"):
        return "other", "its transformer is in a folder of its own"
    prompts = read_json(folder / "config_sentence_transformers.json", missing={})
    if prompts.get("default_prompt_name"):
        return "other", "it puts a prompt before every text"
    config = read_json(folder / str(modules[1].get("path", "1_Pooling")) / "config.json")
    mode = config.get("pooling_mode") or [kind for key, kind in _LEGACY_POOLING.items() if config.get(key)]
    modes = mode if isinstance(mode, list) else [mode]
    if modes == ["mean"]:
        return "mean", ""
    if modes == ["cls"]:
        return "cls", ""
    return "other", f"its pooling is {' and '.join(map(str, modes)) or 'not given'}"


def require_cross_encoder(folder: Path) -> None:
    """Raise ModelUnavailable unless the model in `folder` was made to score pairs.

    Without this, sentence-transformers would put an untrained head on any model and score at random.
    """
    names = read_json(folder / "config.json").get("architectures")
    architectures = [str(name) for name in names] if isinstance(names, list) else []
    kind = read_json(folder / "config_sentence_transformers.json", missing={}).get("model_type")
    if kind != "CrossEncoder" and not any(name.endswith("ForSequenceClassification") for name in architectures):
        found = ", ".join(architectures) or "not given"
        raise ModelUnavailable(f"{folder} is no cross-encoder (its architecture: {found}), so it cannot rerank.")


def read_score_activation(folder: Path, config: Mapping[str, object]) -> ScoreActivation:
    """What the publisher puts on a cross-encoder's score: a sigmoid unless the files say otherwise.

    "other" when only sentence-transformers knows.
    """
    saved = read_json(folder / "config_sentence_transformers.json", missing={})
    nested = config.get("sentence_transformers")
    named = (
        saved.get("activation_fn")
        or (nested.get("activation_fn") if isinstance(nested, dict) else None)
        or config.get("sbert_ce_default_activation_function")
        or "Sigmoid"
    )
    modules = [str(module.get("type", "")).rsplit(".", 1)[-1] for module in read_json_list(folder / "modules.json")]
    kinds: dict[str, ScoreActivation] = {"Sigmoid": "sigmoid", "Identity": "identity"}
    return kinds.get(str(named).rsplit(".", 1)[-1], "other") if modules in ([], ["Transformer"]) else "other"


def read_json(path: Path, *, missing: Mapping[str, object] | None = None) -> Mapping[str, object]:
    """The JSON object in a file, or `missing` where there is no such file. Raises ModelUnavailable."""
    value = _load_json(path, missing)
    if not isinstance(value, dict | Mapping):
        raise ModelUnavailable(f"{path} is not a JSON object: the model's files are damaged; get them again.")
    return value


def read_json_list(path: Path) -> list[Mapping[str, object]]:
    """The list of JSON objects in a file, empty where there is no such file. Raises ModelUnavailable."""
    value = _load_json(path, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ModelUnavailable(f"{path} is not a list of JSON objects: the model's files are damaged; get them again.")
    return value


def int_setting(config: Mapping[str, object], key: str, default: int) -> int:
    """The integer at `key`, or `default` where there is none."""
    value = config.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _load_json(path: Path, missing: object) -> object:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        if missing is not None:
            return missing
        raise ModelUnavailable(f"{path} is missing: the model's files are not complete; get them again.") from None
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{path} cannot be read ({error}); get the model's files again.") from None


_LIBRARY: Final = "sentence_transformers."
_FILES_OF_CODE: Final = ("auto_map", "custom_pipelines")
_FUNCTIONS: Final = ("activation_function", "activation_fn", "sbert_ce_default_activation_function")
_ACTIVATIONS: Final = "torch.nn."
_PICKLES: Final = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt")


def reject_custom_code(folder: Path) -> None:
    """ModelUnavailable if running the model in `folder` could run code of its own, or unpickle anything."""
    for where in _custom_code(folder):
        raise ModelUnavailable(f"{folder} brings code of its own ({where}), which ragcli does not run; name another.")


def _custom_code(folder: Path) -> Iterator[str]:
    places = [folder]
    for module in read_json_list(folder / "modules.json"):
        kind, path = str(module.get("type", "")), str(module.get("path", ""))
        if not kind.startswith(_LIBRARY):
            yield f"modules.json names {kind}"
        place = (folder / path).resolve()
        if not place.is_relative_to(folder.resolve()):
            yield f"modules.json names the folder {path}"
        elif path and place.is_dir():
            places.append(folder / path)
    for place in places:
        has_weights = (place / WEIGHTS_FILE).is_file()
        yield from (f"{found.name} is a pickle" for glob in _PICKLES for found in place.glob(glob) if not has_weights)
        for file in place.glob("*.json"):
            if file.name in ("modules.json", "tokenizer.json", "vocab.json") or file.stat().st_size > 1 << 20:
                continue
            try:
                yield from _remote_code(read_json(file), file.name)
            except ModelUnavailable:
                # A list, or no JSON: not what the library takes classes from.
                continue


def _remote_code(config: Mapping[str, object], name: str) -> Iterator[str]:
    for key, value in config.items():
        if key in _FILES_OF_CODE and value:
            yield f"{name} has {key}"
        elif key == "types" and isinstance(value, dict):
            yield from (f"{name} names {kind}" for kind in value.values() if not str(kind).startswith(_LIBRARY))
        elif key in _FUNCTIONS and isinstance(value, str):
            # A bare word, such as "gelu", is chosen from a list.
            if "." in value and not value.startswith(_ACTIVATIONS):
                yield f"{name} names {value}"
        elif isinstance(value, dict):
            yield from _remote_code(value, name)

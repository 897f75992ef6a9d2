"""What a model's small files say: how long a text it reads, and how token states become a text's vector.

Both engines need it before anything heavy is loaded. The files are those of sentence-transformers: `modules.json`
lists the stages, `1_Pooling/config.json` names the pooling, `sentence_bert_config.json` the length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ragcli.errors import ModelUnavailable

Pooling = Literal["mean", "cls", "other"]
Squash = Literal["sigmoid", "identity", "other"]

_LEGACY_POOLING = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}


@dataclass(frozen=True, slots=True)
class Layout:
    """A sentence encoder's configuration.

    `max_length` counts word pieces, special tokens included. `pooling` is "other" when only
    sentence-transformers itself knows how to get from token states to the vector; `why` says what it met.
    """

    config: Mapping[str, object]
    max_length: int
    lower_case: bool
    pooling: Pooling
    why: str = ""


def read_layout(folder: Path) -> Layout:
    """Read the configuration in `folder`. Raises ModelUnavailable for files that are damaged."""
    config = read_json(folder / "config.json")
    sentence = read_json(folder / "sentence_bert_config.json", missing={})
    pooling, why = _pooling(folder)
    return Layout(
        config=config,
        max_length=max_length(folder, config, sentence),
        lower_case=sentence.get("do_lower_case") is True,
        pooling=pooling,
        why=why,
    )


def max_length(folder: Path, config: Mapping[str, object], sentence: Mapping[str, object]) -> int:
    """How many word pieces the model reads at once: its stated length, within its table of positions."""
    positions = whole_number(config, "max_position_embeddings", 512) - position_offset(config)
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
        return whole_number(config, "pad_token_id", 1) + 1
    return 0


def width(config: Mapping[str, object]) -> int:
    """The length of a token's state, which DistilBERT calls `dim`."""
    return whole_number(config, "hidden_size", whole_number(config, "dim", 768))


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


def check_scoring(folder: Path) -> None:
    """Raise ModelUnavailable unless the model in `folder` was made to score pairs.

    Without this, sentence-transformers would put an untrained head on any model and score at random.
    """
    names = read_json(folder / "config.json").get("architectures")
    architectures = [str(name) for name in names] if isinstance(names, list) else []
    kind = read_json(folder / "config_sentence_transformers.json", missing={}).get("model_type")
    if kind != "CrossEncoder" and not any(name.endswith("ForSequenceClassification") for name in architectures):
        found = ", ".join(architectures) or "not given"
        raise ModelUnavailable(f"{folder} is no cross-encoder (its architecture: {found}), so it cannot rerank.")


def squashing(folder: Path, config: Mapping[str, object]) -> Squash:
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
    kinds: dict[str, Squash] = {"Sigmoid": "sigmoid", "Identity": "identity"}
    return kinds.get(str(named).rsplit(".", 1)[-1], "other") if modules in ([], ["Transformer"]) else "other"


def read_json(path: Path, *, missing: Mapping[str, object] | None = None) -> Mapping[str, object]:
    """The JSON object in a file, or `missing` where there is no such file. Raises ModelUnavailable."""
    value = _load(path, missing)
    if not isinstance(value, dict | Mapping):
        raise ModelUnavailable(f"{path} is not a JSON object: the model's files are damaged; get them again.")
    return value


def read_json_list(path: Path) -> list[Mapping[str, object]]:
    """The list of JSON objects in a file, empty where there is no such file. Raises ModelUnavailable."""
    value = _load(path, [])
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ModelUnavailable(f"{path} is not a list of JSON objects: the model's files are damaged; get them again.")
    return value


def whole_number(config: Mapping[str, object], key: str, default: int) -> int:
    """The integer at `key`, or `default` where there is none."""
    value = config.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _load(path: Path, missing: object) -> object:
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        if missing is not None:
            return missing
        raise ModelUnavailable(f"{path} is missing: the model's files are not complete; get them again.") from None
    except (OSError, ValueError) as error:
        raise ModelUnavailable(f"{path} cannot be read ({error}); get the model's files again.") from None

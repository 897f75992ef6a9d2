"""No model brings code along.

Weights are read from safetensors alone, and ONNX graphs are made here from them. sentence-transformers, which runs
what we cannot export, can do more: a model's `modules.json` may name a class to import, its `config.json` a file of
Python to run, and a module's weights may be a pickle. Recent versions refuse some of that by themselves, and the
ones before ran it for any local folder. So a model is looked through before that library sees it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ragcli.errors import ModelUnavailable
from ragcli.models.find import WEIGHTS
from ragcli.models.layout import read_json, read_json_list

_LIBRARY: Final = "sentence_transformers."
_FILES_OF_CODE: Final = ("auto_map", "custom_pipelines")
_FUNCTIONS: Final = ("activation_function", "activation_fn", "sbert_ce_default_activation_function")
_ACTIVATIONS: Final = "torch.nn."
_PICKLES: Final = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt")


def refuse_code(folder: Path) -> None:
    """ModelUnavailable if running the model in `folder` could run code of its own, or unpickle anything."""
    for where in _code_in(folder):
        raise ModelUnavailable(f"{folder} brings code of its own ({where}), which ragcli does not run; name another.")


def _code_in(folder: Path) -> Iterator[str]:
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
        has_weights = (place / WEIGHTS).is_file()
        yield from (f"{found.name} is a pickle" for glob in _PICKLES for found in place.glob(glob) if not has_weights)
        for file in place.glob("*.json"):
            if file.name in ("modules.json", "tokenizer.json", "vocab.json") or file.stat().st_size > 1 << 20:
                continue
            try:
                yield from _code_named(read_json(file), file.name)
            except ModelUnavailable:
                # A list, or no JSON: not what the library takes classes from.
                continue


def _code_named(config: Mapping[str, object], name: str) -> Iterator[str]:
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
            yield from _code_named(value, name)

"""The models that are BERT under other names, read from their files into one form.

RoBERTa and its multilingual sister count positions from the padding id on; DistilBERT renames everything and drops
the token types; MPNet adds a bias by distance to attention. Whatever else deviates is refused rather than computed
nearly right: an unknown activation, a missing or surplus weight, a shape that does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from ragcli.models.bert import Activation, Bert, Head
from ragcli.models.find import WEIGHTS
from ragcli.models.layout import position_offset, whole_number
from ragcli.models.protocols import ExportError, FloatArray

_ACTIVATIONS: Mapping[str, Activation] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}

_RELATIVE: Final = "encoder.relative_attention_bias.weight"
# MPNet tells distances apart up to here; everything further away is one bucket.
_FARTHEST: Final = 128

# Left over from training; the model's output does not depend on them.
_UNUSED = ("pooler.", "classifier.", "cls.", "lm_head.", "vocab_", "pre_classifier.", "embeddings.position_ids")


@dataclass(frozen=True, slots=True)
class Family:
    """How a family names its parts: a prefix, pieces of weights' names, and settings, each to BERT's."""

    prefix: str
    typed: bool = True
    weights: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    def plain_name(self, stored: str) -> str:
        """The name that BERT gives to a stored weight."""
        name = stored.removeprefix(self.prefix)
        for theirs, plain in self.weights.items():
            name = name.replace(theirs, plain)
        return name


_FAMILIES: Mapping[str, Family] = {
    "bert": Family("bert."),
    "roberta": Family("roberta."),
    "xlm-roberta": Family("roberta."),
    "camembert": Family("roberta."),
    "mpnet": Family(
        "mpnet.",
        typed=False,
        weights={
            ".attention.attn.q.": ".attention.self.query.",
            ".attention.attn.k.": ".attention.self.key.",
            ".attention.attn.v.": ".attention.self.value.",
            ".attention.attn.o.": ".attention.output.dense.",
            ".attention.LayerNorm.": ".attention.output.LayerNorm.",
        },
    ),
    "distilbert": Family(
        "distilbert.",
        typed=False,
        weights={
            "transformer.layer.": "encoder.layer.",
            ".attention.q_lin.": ".attention.self.query.",
            ".attention.k_lin.": ".attention.self.key.",
            ".attention.v_lin.": ".attention.self.value.",
            ".attention.out_lin.": ".attention.output.dense.",
            ".sa_layer_norm.": ".attention.output.LayerNorm.",
            ".ffn.lin1.": ".intermediate.dense.",
            ".ffn.lin2.": ".output.dense.",
            ".output_layer_norm.": ".output.LayerNorm.",
        },
        settings={
            "dim": "hidden_size",
            "n_heads": "num_attention_heads",
            "n_layers": "num_hidden_layers",
            "hidden_dim": "intermediate_size",
            "activation": "hidden_act",
        },
    ),
}


def read_bert(folder: Path, config: Mapping[str, object], *, scoring: bool) -> Bert:
    """Read the model in `folder`, with its head if it is to score. Raises ExportError for other architectures."""
    kind = str(config.get("model_type"))
    family = _FAMILIES.get(kind)
    if family is None:
        raise ExportError(f"it is a {kind} model")
    config = {family.settings.get(key, key): value for key, value in config.items()}
    activation = _ACTIVATIONS.get(str(config.get("hidden_act", "gelu")))
    if activation is None:
        raise ExportError(f"its activation is {config.get('hidden_act')}")
    plain = config.get("position_embedding_type", "absolute") == "absolute"
    if not plain or config.get("is_decoder") or config.get("sinusoidal_pos_embds"):
        raise ExportError("its positions or its attention are not plain BERT's")
    hidden = whole_number(config, "hidden_size", 768)
    heads = whole_number(config, "num_attention_heads", 12)
    if hidden % heads:
        raise ExportError("its heads do not divide its width")
    layers = whole_number(config, "num_hidden_layers", 12)
    head = _head(config, kind) if scoring else "none"
    buckets = whole_number(config, "relative_attention_num_buckets", 32) if kind == "mpnet" else 0
    weights = _read_weights(folder, family, _expected(config, family, head, buckets))
    reach = len(weights["embeddings.position_embeddings.weight"])
    if not family.typed:
        # One kind of token without a vector of its own.
        weights["embeddings.token_type_embeddings.weight"] = np.zeros((1, hidden), dtype=np.float32)
    epsilon = config.get("layer_norm_eps", 1e-12)
    return Bert(
        layers=layers,
        heads=heads,
        hidden=hidden,
        epsilon=float(epsilon) if isinstance(epsilon, int | float) else 1e-12,
        activation=activation,
        position_offset=position_offset(config),
        head=head,
        weights=weights,
        relative=_relative(weights[_RELATIVE], reach) if buckets else None,
    )


def _head(config: Mapping[str, object], kind: str) -> Head:
    labels = config.get("id2label")
    count = len(labels) if isinstance(labels, dict) else whole_number(config, "num_labels", 2)
    if count != 1:
        raise ExportError(f"it has {count} labels where a reranker has one")
    heads: dict[str, Head] = {"bert": "pooler", "roberta": "dense", "xlm-roberta": "dense", "camembert": "dense"}
    if kind not in heads:
        raise ExportError(f"it is a {kind} classifier")
    return heads[kind]


def _expected(config: Mapping[str, object], family: Family, head: Head, buckets: int) -> dict[str, tuple[int, ...]]:
    hidden = whole_number(config, "hidden_size", 768)
    inner = whole_number(config, "intermediate_size", 4 * hidden)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (whole_number(config, "vocab_size", 30522), hidden),
        "embeddings.position_embeddings.weight": (whole_number(config, "max_position_embeddings", 512), hidden),
    }
    if family.typed:
        shapes["embeddings.token_type_embeddings.weight"] = (whole_number(config, "type_vocab_size", 2), hidden)
    if buckets:
        shapes[_RELATIVE] = (buckets, whole_number(config, "num_attention_heads", 12))

    def linear(name: str, out: int, into: int) -> None:
        shapes[f"{name}.weight"] = (out, into)
        shapes[f"{name}.bias"] = (out,)

    def norm(name: str) -> None:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (hidden,)

    norm("embeddings.LayerNorm")
    for layer in (f"encoder.layer.{number}" for number in range(whole_number(config, "num_hidden_layers", 12))):
        for part in ("query", "key", "value"):
            linear(f"{layer}.attention.self.{part}", hidden, hidden)
        linear(f"{layer}.attention.output.dense", hidden, hidden)
        norm(f"{layer}.attention.output.LayerNorm")
        linear(f"{layer}.intermediate.dense", inner, hidden)
        linear(f"{layer}.output.dense", hidden, inner)
        norm(f"{layer}.output.LayerNorm")
    if head == "pooler":
        linear("pooler.dense", hidden, hidden)
        linear("classifier", 1, hidden)
    elif head == "dense":
        linear("classifier.dense", hidden, hidden)
        linear("classifier.out_proj", 1, hidden)
    return shapes


def _read_weights(folder: Path, family: Family, expected: Mapping[str, tuple[int, ...]]) -> dict[str, FloatArray]:
    from safetensors import SafetensorError, safe_open

    weights: dict[str, FloatArray] = {}
    try:
        with safe_open(folder / WEIGHTS, framework="np") as tensors:
            for stored in tensors.keys():  # noqa: SIM118 - not a mapping
                name = family.plain_name(stored)
                if name in expected:
                    weights[name] = np.asarray(tensors.get_tensor(stored), dtype=np.float32)
                elif not name.startswith(_UNUSED):
                    raise ExportError(f"it has weights that plain BERT has not ({stored})")
    except (SafetensorError, TypeError, ValueError) as error:
        raise ExportError(f"its weights cannot be read ({error})") from None
    for name, shape in expected.items():
        if name not in weights or weights[name].shape != shape:
            raise ExportError(f"its weights do not fit its configuration ({name})")
    return weights


def _relative(buckets: FloatArray, reach: int) -> FloatArray:
    """(2 * reach - 1, heads): MPNet's bias for each distance of key minus query (T5's buckets, arXiv:1910.10683).

    Half the buckets are for keys before the query, half for those after it. Near distances have one each, farther
    ones share them in steps that grow with the logarithm.
    """
    distance = np.arange(-(reach - 1), reach)
    half = len(buckets) // 2
    near = half // 2
    away = np.abs(distance)
    # float32 as the model computes it: the steps are cut off, so the last bit decides some of them.
    steps = np.log(np.maximum(away, 1).astype(np.float32) / near) / np.float32(np.log(_FARTHEST / near)) * (half - near)
    bucket = np.where(away < near, away, np.minimum(near + steps.astype(np.int64), half - 1))
    return np.asarray(buckets[bucket + np.where(distance > 0, half, 0)], dtype=np.float32)

"""BERT and its variants: read from safetensors, with an fp32 forward pass in numpy.

Nearly all small sentence encoders and cross-encoders are this architecture (Devlin et al., NAACL 2019,
arXiv:1810.04805) or differ from it in a detail. RoBERTa and XLM-R count positions from the padding id on; DistilBERT
renames everything and drops the token types; MPNet adds a bias by distance to attention. Whatever else deviates is
refused rather than computed nearly right. The forward pass is what every exported graph is checked against: it shares
no code with ONNX Runtime, so a kernel that is wrong on some processor is found out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import numpy as np

from ragcli.models.engine_interface import ExportError, FloatArray, IntArray
from ragcli.models.model_config import int_setting, position_offset
from ragcli.models.model_lookup import WEIGHTS_FILE

Activation = Literal["gelu", "gelu_tanh", "relu"]
BertHead = Literal["none", "pooler", "dense"]


@dataclass(frozen=True, slots=True)
class BertModel:
    """A model's shape and its weights under the names BERT gives them, all float32.

    `position_offset` is added to a token's place before the table of positions is read. `head` is what follows
    the last layer: nothing (token states), BERT's pooler and classifier, or RoBERTa's dense classifier. `relative`
    is MPNet's addition to attention: (2 * reach - 1, heads), the bias of a key that stands that far from the query,
    from reach - 1 places before it on; None for the others.
    """

    layers: int
    heads: int
    hidden: int
    epsilon: float
    activation: Activation
    position_offset: int
    head: BertHead
    weights: Mapping[str, FloatArray]
    relative: FloatArray | None = None

    def linear(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Weights (out, in) and bias (out,) of a linear layer."""
        return self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]


def bert_forward(
    bert: BertModel,
    ids: IntArray,
    types: IntArray | None = None,
    watch: Callable[[str, FloatArray], None] | None = None,
) -> FloatArray:
    """Token states (t, d) of one text, or (1,) its score where the model has a head. fp32 throughout.

    `watch` is shown the states (t, d) that each layer's attention and its feed-forward half read, under the names
    of those parts.
    """
    table = bert.weights
    places = np.arange(len(ids)) + bert.position_offset
    states = (
        table["embeddings.word_embeddings.weight"][ids]
        + table["embeddings.position_embeddings.weight"][places]
        + table["embeddings.token_type_embeddings.weight"][np.zeros_like(ids) if types is None else types]
    )
    states = _norm(bert, states, "embeddings.LayerNorm")
    bias = _relative_bias(bert.relative, len(ids))
    for number in range(bert.layers):
        layer = f"encoder.layer.{number}"
        if watch:
            watch(f"{layer}.attention.self", states)
        attended = _linear(bert, _attention(bert, states, layer, bias), f"{layer}.attention.output.dense")
        states = _norm(bert, attended + states, f"{layer}.attention.output.LayerNorm")
        if watch:
            watch(f"{layer}.intermediate.dense", states)
        inner = _ACTIVATE[bert.activation](_linear(bert, states, f"{layer}.intermediate.dense"))
        states = _norm(bert, _linear(bert, inner, f"{layer}.output.dense") + states, f"{layer}.output.LayerNorm")
    if bert.head == "none":
        return states
    first, last = head_layers(bert)
    score: FloatArray = _linear(bert, np.tanh(_linear(bert, states[:1], first)), last)[0]
    return score


def head_layers(bert: BertModel) -> tuple[str, str]:
    """The two linear layers of the head, tanh between them."""
    return ("pooler.dense", "classifier") if bert.head == "pooler" else ("classifier.dense", "classifier.out_proj")


def _linear(bert: BertModel, states: FloatArray, name: str) -> FloatArray:
    weight, bias = bert.linear(name)
    result: FloatArray = states @ weight.T + bias
    return result


def _norm(bert: BertModel, states: FloatArray, name: str) -> FloatArray:
    weight, bias = bert.linear(name)
    centred = states - states.mean(axis=1, keepdims=True)
    deviation = np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + np.float32(bert.epsilon))
    result: FloatArray = centred / deviation * weight + bias
    return result


def _attention(bert: BertModel, states: FloatArray, layer: str, bias: FloatArray) -> FloatArray:
    def heads(part: str) -> FloatArray:
        flat = _linear(bert, states, f"{layer}.attention.self.{part}")
        return flat.reshape(len(flat), bert.heads, -1).transpose(1, 0, 2)

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[2])) + bias
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    attended: FloatArray = (weights @ value).transpose(1, 0, 2).reshape(len(states), -1)
    return attended


def _relative_bias(table: FloatArray | None, length: int) -> FloatArray:
    """(heads, t, t) for t tokens, row the query and column the key."""
    if table is None:
        return np.zeros((1, 1, 1), dtype=np.float32)
    places = np.arange(length)
    rows = places[None] - places[:, None] + len(table) // 2
    return np.asarray(table[rows].transpose(2, 0, 1), dtype=np.float32)


def _gelu(values: FloatArray) -> FloatArray:
    # erf by Abramowitz and Stegun 7.1.26, off by at most 1.5e-7.
    z = np.abs(values) / np.float32(np.sqrt(2))
    t = np.asarray(1 / (1 + np.float32(0.3275911) * z), dtype=np.float32)
    terms = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
    erf = np.copysign(1 - _polynomial(t, terms) * np.exp(-z * z), values)
    result: FloatArray = (values * (1 + erf) / 2).astype(np.float32)
    return result


def _polynomial(t: FloatArray, terms: Iterable[float]) -> FloatArray:
    total = np.zeros_like(t)
    for term in terms:
        total = (total + np.float32(term)) * t
    return total


def _gelu_tanh(values: FloatArray) -> FloatArray:
    inner = np.float32(np.sqrt(2 / np.pi)) * (values + np.float32(0.044715) * values**3)
    result: FloatArray = values * (1 + np.tanh(inner)) / 2
    return result


def _relu(values: FloatArray) -> FloatArray:
    return np.maximum(values, np.float32(0))


_ACTIVATE: Mapping[Activation, Callable[[FloatArray], FloatArray]] = {
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": _relu,
}


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
class BertVariant:
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


_FAMILIES: Mapping[str, BertVariant] = {
    "bert": BertVariant("bert."),
    "roberta": BertVariant("roberta."),
    "xlm-roberta": BertVariant("roberta."),
    "camembert": BertVariant("roberta."),
    "mpnet": BertVariant(
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
    "distilbert": BertVariant(
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


def read_bert(folder: Path, config: Mapping[str, object], *, scoring: bool) -> BertModel:
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
    hidden = int_setting(config, "hidden_size", 768)
    heads = int_setting(config, "num_attention_heads", 12)
    if hidden % heads:
        raise ExportError("its heads do not divide its width")
    layers = int_setting(config, "num_hidden_layers", 12)
    head = _head(config, kind) if scoring else "none"
    buckets = int_setting(config, "relative_attention_num_buckets", 32) if kind == "mpnet" else 0
    weights = _read_weights(folder, family, _expected_shapes(config, family, head, buckets))
    reach = len(weights["embeddings.position_embeddings.weight"])
    if not family.typed:
        # One kind of token without a vector of its own.
        weights["embeddings.token_type_embeddings.weight"] = np.zeros((1, hidden), dtype=np.float32)
    epsilon = config.get("layer_norm_eps", 1e-12)
    return BertModel(
        layers=layers,
        heads=heads,
        hidden=hidden,
        epsilon=float(epsilon) if isinstance(epsilon, int | float) else 1e-12,
        activation=activation,
        position_offset=position_offset(config),
        head=head,
        weights=weights,
        relative=_relative_bias_table(weights[_RELATIVE], reach) if buckets else None,
    )


def _head(config: Mapping[str, object], kind: str) -> BertHead:
    labels = config.get("id2label")
    count = len(labels) if isinstance(labels, dict) else int_setting(config, "num_labels", 2)
    if count != 1:
        raise ExportError(f"it has {count} labels where a reranker has one")
    heads: dict[str, BertHead] = {"bert": "pooler", "roberta": "dense", "xlm-roberta": "dense", "camembert": "dense"}
    if kind not in heads:
        raise ExportError(f"it is a {kind} classifier")
    return heads[kind]


def _expected_shapes(
    config: Mapping[str, object], family: BertVariant, head: BertHead, buckets: int
) -> dict[str, tuple[int, ...]]:
    hidden = int_setting(config, "hidden_size", 768)
    inner = int_setting(config, "intermediate_size", 4 * hidden)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (int_setting(config, "vocab_size", 30522), hidden),
        "embeddings.position_embeddings.weight": (int_setting(config, "max_position_embeddings", 512), hidden),
    }
    if family.typed:
        shapes["embeddings.token_type_embeddings.weight"] = (int_setting(config, "type_vocab_size", 2), hidden)
    if buckets:
        shapes[_RELATIVE] = (buckets, int_setting(config, "num_attention_heads", 12))

    def linear(name: str, out: int, into: int) -> None:
        shapes[f"{name}.weight"] = (out, into)
        shapes[f"{name}.bias"] = (out,)

    def norm(name: str) -> None:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (hidden,)

    norm("embeddings.LayerNorm")
    for layer in (f"encoder.layer.{number}" for number in range(int_setting(config, "num_hidden_layers", 12))):
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


def _read_weights(folder: Path, family: BertVariant, expected: Mapping[str, tuple[int, ...]]) -> dict[str, FloatArray]:
    from safetensors import SafetensorError, safe_open

    weights: dict[str, FloatArray] = {}
    try:
        with safe_open(folder / WEIGHTS_FILE, framework="np") as tensors:
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


def _relative_bias_table(buckets: FloatArray, reach: int) -> FloatArray:
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

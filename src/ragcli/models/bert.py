"""BERT and its nearest kin, from the weights file: what the model is and what it computes, in plain numpy.

Nearly all small sentence encoders and cross-encoders are this one architecture (Devlin et al., NAACL 2019,
arXiv:1810.04805). Knowing it lets us write the ONNX graph ourselves, in a second and without PyTorch. `run` is the
fp32 model that every exported graph is checked against before it is used: it shares no code with ONNX Runtime, so
a kernel that is wrong on some processor is found out. Whatever deviates from the architecture is refused here
rather than computed nearly right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ragcli.models.layout import whole_number
from ragcli.models.protocols import FloatArray, IntArray

Activation = Literal["gelu", "gelu_tanh", "relu"]
Head = Literal["none", "pooler", "dense"]

_ACTIVATIONS: Mapping[str, Activation] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
_PREFIXES: Mapping[str, str] = {
    "bert": "bert.",
    "roberta": "roberta.",
    "xlm-roberta": "roberta.",
    "camembert": "roberta.",
}

# Left over from training; the model's output does not depend on them.
_UNUSED = ("pooler.", "classifier.", "cls.", "lm_head.", "embeddings.position_ids")


class ExportError(Exception):
    """The model is not what this module knows, or its export does not hold. The sentence says why."""


@dataclass(frozen=True, slots=True)
class Bert:
    """A model's shape and its weights under the names BERT gives them, all float32.

    `position_offset` is added to a token's place before the table of positions is read. `head` is what follows
    the last layer: nothing (token states), BERT's pooler and classifier, or RoBERTa's dense classifier.
    """

    layers: int
    heads: int
    hidden: int
    epsilon: float
    activation: Activation
    position_offset: int
    head: Head
    weights: Mapping[str, FloatArray]

    def linear(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Weights (out, in) and bias (out,) of a linear layer."""
        return self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]


def read_bert(folder: Path, config: Mapping[str, object], *, scoring: bool) -> Bert:
    """Read the model in `folder`, with its head if it is to score. Raises ExportError for other architectures."""
    kind = str(config.get("model_type"))
    if kind not in _PREFIXES:
        raise ExportError(f"it is a {kind} model")
    activation = _ACTIVATIONS.get(str(config.get("hidden_act", "gelu")))
    if activation is None:
        raise ExportError(f"its activation is {config.get('hidden_act')}")
    if config.get("position_embedding_type", "absolute") != "absolute" or config.get("is_decoder"):
        raise ExportError("its positions or its attention are not plain BERT's")
    hidden = whole_number(config, "hidden_size", 768)
    heads = whole_number(config, "num_attention_heads", 12)
    if hidden % heads:
        raise ExportError("its heads do not divide its width")
    layers = whole_number(config, "num_hidden_layers", 12)
    head = _head(config, kind) if scoring else "none"
    epsilon = config.get("layer_norm_eps", 1e-12)
    return Bert(
        layers=layers,
        heads=heads,
        hidden=hidden,
        epsilon=float(epsilon) if isinstance(epsilon, int | float) else 1e-12,
        activation=activation,
        position_offset=0 if kind == "bert" else whole_number(config, "pad_token_id", 1) + 1,
        head=head,
        weights=_read_weights(folder, _PREFIXES[kind], _expected(config, hidden, layers, head)),
    )


def _head(config: Mapping[str, object], kind: str) -> Head:
    labels = config.get("id2label")
    count = len(labels) if isinstance(labels, dict) else whole_number(config, "num_labels", 2)
    if count != 1:
        raise ExportError(f"it has {count} labels where a reranker has one")
    return "pooler" if kind == "bert" else "dense"


def _expected(config: Mapping[str, object], hidden: int, layers: int, head: Head) -> dict[str, tuple[int, ...]]:
    inner = whole_number(config, "intermediate_size", 4 * hidden)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (whole_number(config, "vocab_size", 30522), hidden),
        "embeddings.position_embeddings.weight": (whole_number(config, "max_position_embeddings", 512), hidden),
        "embeddings.token_type_embeddings.weight": (whole_number(config, "type_vocab_size", 2), hidden),
    }

    def linear(name: str, out: int, into: int) -> None:
        shapes[f"{name}.weight"] = (out, into)
        shapes[f"{name}.bias"] = (out,)

    def norm(name: str) -> None:
        shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (hidden,)

    norm("embeddings.LayerNorm")
    for layer in (f"encoder.layer.{number}" for number in range(layers)):
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


def _read_weights(folder: Path, prefix: str, expected: Mapping[str, tuple[int, ...]]) -> dict[str, FloatArray]:
    from safetensors import SafetensorError, safe_open

    from ragcli.models.find import WEIGHTS

    weights: dict[str, FloatArray] = {}
    try:
        with safe_open(folder / WEIGHTS, framework="np") as tensors:
            for stored in tensors.keys():  # noqa: SIM118 - not a mapping
                name = stored.removeprefix(prefix)
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


def run(bert: Bert, ids: IntArray, types: IntArray | None = None) -> FloatArray:
    """Token states (t, d) of one text, or (1,) its score where the model has a head. fp32 throughout."""
    table = bert.weights
    places = np.arange(len(ids)) + bert.position_offset
    states = (
        table["embeddings.word_embeddings.weight"][ids]
        + table["embeddings.position_embeddings.weight"][places]
        + table["embeddings.token_type_embeddings.weight"][np.zeros_like(ids) if types is None else types]
    )
    states = _norm(bert, states, "embeddings.LayerNorm")
    for number in range(bert.layers):
        layer = f"encoder.layer.{number}"
        attended = _linear(bert, _attention(bert, states, layer), f"{layer}.attention.output.dense")
        states = _norm(bert, attended + states, f"{layer}.attention.output.LayerNorm")
        inner = _ACTIVATE[bert.activation](_linear(bert, states, f"{layer}.intermediate.dense"))
        states = _norm(bert, _linear(bert, inner, f"{layer}.output.dense") + states, f"{layer}.output.LayerNorm")
    if bert.head == "none":
        return states
    first, last = head_layers(bert)
    score: FloatArray = _linear(bert, np.tanh(_linear(bert, states[:1], first)), last)[0]
    return score


def head_layers(bert: Bert) -> tuple[str, str]:
    """The two linear layers of the head, tanh between them."""
    return ("pooler.dense", "classifier") if bert.head == "pooler" else ("classifier.dense", "classifier.out_proj")


def _linear(bert: Bert, states: FloatArray, name: str) -> FloatArray:
    weight, bias = bert.linear(name)
    result: FloatArray = states @ weight.T + bias
    return result


def _norm(bert: Bert, states: FloatArray, name: str) -> FloatArray:
    weight, bias = bert.linear(name)
    centred = states - states.mean(axis=1, keepdims=True)
    deviation = np.sqrt(np.square(centred).mean(axis=1, keepdims=True) + np.float32(bert.epsilon))
    result: FloatArray = centred / deviation * weight + bias
    return result


def _attention(bert: Bert, states: FloatArray, layer: str) -> FloatArray:
    def heads(part: str) -> FloatArray:
        flat = _linear(bert, states, f"{layer}.attention.self.{part}")
        return flat.reshape(len(flat), bert.heads, -1).transpose(1, 0, 2)

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[2]))
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    attended: FloatArray = (weights @ value).transpose(1, 0, 2).reshape(len(states), -1)
    return attended


def _gelu(values: FloatArray) -> FloatArray:
    # erf by Abramowitz and Stegun 7.1.26, off by at most 1.5e-7.
    z = np.abs(values) / np.float32(np.sqrt(2))
    t = np.asarray(1 / (1 + np.float32(0.3275911) * z), dtype=np.float32)
    terms = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
    erf = np.copysign(1 - _horner(t, terms) * np.exp(-z * z), values)
    result: FloatArray = (values * (1 + erf) / 2).astype(np.float32)
    return result


def _horner(t: FloatArray, terms: Iterable[float]) -> FloatArray:
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

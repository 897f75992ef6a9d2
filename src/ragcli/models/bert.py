"""BERT: what the model is and what it computes, in plain numpy.

Nearly all small sentence encoders and cross-encoders are this one architecture (Devlin et al., NAACL 2019,
arXiv:1810.04805) or differ from it in a detail. Knowing it lets us write the ONNX graph ourselves, in a second and
without PyTorch. `run` is the fp32 model that every exported graph is checked against before it is used: it shares
no code with ONNX Runtime, so a kernel that is wrong on some processor is found out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ragcli.models.protocols import FloatArray, IntArray

Activation = Literal["gelu", "gelu_tanh", "relu"]
Head = Literal["none", "pooler", "dense"]


@dataclass(frozen=True, slots=True)
class Bert:
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
    head: Head
    weights: Mapping[str, FloatArray]
    relative: FloatArray | None = None

    def linear(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Weights (out, in) and bias (out,) of a linear layer."""
        return self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]


def run(
    bert: Bert, ids: IntArray, types: IntArray | None = None, watch: Callable[[str, FloatArray], None] | None = None
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


def _attention(bert: Bert, states: FloatArray, layer: str, bias: FloatArray) -> FloatArray:
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

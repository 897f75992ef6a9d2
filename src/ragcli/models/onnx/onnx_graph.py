"""Build the ONNX graph of a BERT model, with int8 linear layers on request.

The graph reads one window at a time: input `ids` (1, t), output `states` (1, t, d). One window of 256 tokens already
fills a core and stays in its cache (measured: 34 windows a second one by one, 26 in batches of 8). It spares the
padding, the attention mask, and something that matters more: activations are quantised with one scale for the whole
input, so in a batch a text's vector would depend on its neighbours. Here a text always gets the same vector.

The graph is written in the form that runs fastest and is not optimised again when loaded. Measured on ONNX Runtime
1.32, 256 tokens, one core: its fused SkipLayerNormalization and BiasGelu kernels are scalar and cost 11 of 29 ms; the
plain LayerNormalization and Gelu cost 3. Attention stays one fused node.

Weights are quantised symmetrically, one scale per output. Activations get theirs at run time, one for all, and a few
outliers would leave the rest few steps to differ by. Two measures against that, for 10 % of the time:

- Behind the activation function the [CLS] row has values five times the other rows'. There each row is divided by its
  own maximum before the product, and multiplied after it.
- In the states between the layers the same few of the d places are outliers in every text. They are divided by a
  constant, and the weights that read them multiplied (SmoothQuant: Xiao et al., ICML 2023, arXiv:2211.10438). The
  constants come from the texts that the export is checked with, and only ever shrink.

Cosine to fp32 on SciFact abstracts, on a processor with VNNI: 0.9953 with neither, 0.9976 with the first, 0.9991 with
both; on their titles 0.9935, 0.9965, 0.9990. On one without VNNI (AVX2), with both, MiniLM on 120 passages of 1,200
characters: mean 0.9908 and worst 0.9896 with weights in 8 bits, which saturate; 0.9946 and 0.9938 in 7, as fast.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from ragcli.models.onnx.bert_model import BertModel, head_layers

if TYPE_CHECKING:
    import numpy.typing as npt
    import onnx

    from ragcli.models.engine_interface import FloatArray

# "int8-reduced-range" keeps weights within 7 bits: without VNNI, x86 adds pairs of 8-bit products in 16 bits, and
# 2 * 255 * 64 is the most that fits. See `hardware.saturates_int8`.
Precision = Literal["int8", "int8-reduced-range", "fp32"]

_LARGEST = {"int8": 127, "int8-reduced-range": 64}
_MICROSOFT = "com.microsoft"
# No activation function used here goes below -0.2, so a row's maximum, or this, bounds its values.
_SMALLEST_ROW = 0.2


def build_graph(bert: BertModel, precision: Precision, peaks: Mapping[str, FloatArray]) -> onnx.ModelProto:
    """The model as a graph. With a head it also takes `types` (1, t) and gives `score` (1, 1).

    `peaks` has, for each part that reads states, the largest absolute value met in each of their d places.
    """
    return _GraphBuilder(bert, precision, peaks).build()


def smoothing_factors(peaks: FloatArray) -> FloatArray:
    """(d,) what each place of the states is divided by: the root of its excess over the usual peak, 1 at least."""
    usual = float(np.median(peaks))
    return np.sqrt(np.maximum(1, peaks / usual if usual > 0 else 1)).astype(np.float32)


def quantise_int8(weight: FloatArray, largest: int) -> tuple[npt.NDArray[np.int8], FloatArray]:
    """An (in, out) matrix as int8 within ±largest, and the scale of each output column."""
    scale = (np.abs(weight).max(axis=0) / largest).astype(np.float32)
    scale[scale == 0] = 1
    return np.rint(weight / scale).astype(np.int8), scale


class _GraphBuilder:
    def __init__(self, bert: BertModel, precision: Precision, peaks: Mapping[str, FloatArray]) -> None:
        self._bert = bert
        self._precision = precision
        self._shrinkage = (
            {part: smoothing_factors(values) for part, values in peaks.items()} if precision != "fp32" else {}
        )
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[str, onnx.TensorProto] = {}

    def build(self) -> onnx.ModelProto:
        from onnx import TensorProto, helper

        bert = self._bert
        states = self._embeddings()
        distances = self._distances()
        for number in range(bert.layers):
            # A head looks at the first token only, so the last layer need not finish the others.
            first_only = bert.head != "none" and number == bert.layers - 1
            states = self._layer(states, f"encoder.layer.{number}", distances, first_only=first_only)
        output = self._head(states) if bert.head != "none" else self._node("Identity", [states], "states")
        inputs = ["ids"] if bert.head == "none" else ["ids", "types"]
        graph = helper.make_graph(
            self._nodes,
            "bert",
            [helper.make_tensor_value_info(name, TensorProto.INT32, [1, "tokens"]) for name in inputs],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            list(self._constants.values()),
        )
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid(_MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)

    def _distances(self) -> str | None:
        """MPNet's bias of attention, (1, heads, t, t), shared by all layers."""
        if self._bert.relative is None:
            return None
        table = self._constant("relative", self._bert.relative)
        zero, one = self._scalar("none", 0), self._scalar("single", 1)
        count = self._node("Squeeze", ["length"], "count")
        places = self._node("Range", [zero, count, one], "places_from_zero")
        queries = self._node("Unsqueeze", [places, self._integers("one", 1)], "queries")
        apart = self._node("Sub", [places, queries], "apart")
        rows = self._node("Add", [apart, self._scalar("centre", len(self._bert.relative) // 2)], "distance_rows")
        bias = self._node("Gather", [table, rows], "distance_bias")
        by_head = self._node("Transpose", [bias], "distance_bias_by_head", perm=[2, 0, 1])
        return self._node("Unsqueeze", [by_head, self._integers("zero", 0)], "distances")

    def _embeddings(self) -> str:
        table = self._bert.weights
        words = self._constant("words", table["embeddings.word_embeddings.weight"])
        positions = table["embeddings.position_embeddings.weight"][self._bert.position_offset :]
        kinds = table["embeddings.token_type_embeddings.weight"]
        if self._bert.head == "none":
            positions = positions + kinds[0]
        length = self._node("Gather", [self._node("Shape", ["ids"], "shape"), self._integers("one", 1)], "length")
        bounds = [self._integers("zero", 0), length]
        places = self._node("Slice", [self._constant("positions", positions), *bounds], "places")
        total = self._node("Add", [self._node("Gather", [words, "ids"], "word"), places], "word_place")
        if self._bert.head != "none":
            kind = self._node("Gather", [self._constant("kinds", kinds), "types"], "kind")
            total = self._node("Add", [total, kind], "word_place_kind")
        return self._norm(total, "embeddings.LayerNorm")

    def _layer(self, states: str, layer: str, distances: str | None, *, first_only: bool) -> str:
        attended = self._attention(states, layer) if distances is None else self._biased(states, layer, distances)
        if first_only:
            attended, states = self._first(attended, f"{layer}.first"), self._first(states, f"{layer}.first_state")
        attended = self._linear(attended, f"{layer}.attention.output.dense")
        states = self._add_norm(attended, states, f"{layer}.attention.output.LayerNorm")
        part = f"{layer}.intermediate.dense"
        inner = self._activate(self._linear(self._shrunk(states, part), part, part), f"{layer}.activation")
        return self._add_norm(self._linear_by_rows(inner, f"{layer}.output.dense"), states, f"{layer}.output.LayerNorm")

    def _biased(self, states: str, layer: str, distances: str) -> str:
        # The fused int8 attention takes no bias, so its two halves stand here one by one.
        read = f"{layer}.attention.self"
        shrunk = self._shrunk(states, read)
        parts = [self._linear(shrunk, f"{read}.{part}", read) for part in ("query", "key", "value")]
        inputs = [*parts, "", "", distances]
        name = f"{layer}.attention"
        return self._node("MultiHeadAttention", inputs, name, domain=_MICROSOFT, num_heads=self._bert.heads)

    def _attention(self, states: str, layer: str) -> str:
        parts = [self._bert.linear(f"{layer}.attention.self.{part}") for part in ("query", "key", "value")]
        weight = np.concatenate([weight for weight, _ in parts]).T
        bias = self._constant(f"{layer}.qkv.bias", np.concatenate([bias for _, bias in parts]))
        name, heads = f"{layer}.attention", self._bert.heads
        if self._precision == "fp32":
            inputs = [states, self._constant(f"{layer}.qkv", weight), bias]
            return self._node("Attention", inputs, name, domain=_MICROSOFT, num_heads=heads)
        read = f"{layer}.attention.self"
        whole, scale = quantise_int8(self._grown(weight, read), _LARGEST[self._precision])
        levels = [f"{name}.levels", f"{name}.scale", f"{name}.zero"]
        self._node("DynamicQuantizeLinear", [self._shrunk(states, read)], *levels)
        inputs = [
            levels[0],
            self._constant(f"{layer}.qkv", whole),
            bias,
            levels[1],
            self._constant(f"{layer}.qkv.scale", scale),
            "",
            levels[2],
            self._constant(f"{layer}.qkv.zero", np.zeros(len(scale), np.int8)),
        ]
        return self._node("QAttention", inputs, name, domain=_MICROSOFT, num_heads=heads)

    def _shrunk(self, states: str, part: str) -> str:
        """The states with their outlying places divided, as `part` reads them."""
        if part not in self._shrinkage:
            return states
        factor = self._constant(f"{part}.shrinkage", 1 / self._shrinkage[part])
        return self._node("Mul", [states, factor], f"{part}.shrunk")

    def _grown(self, weight: FloatArray, part: str) -> FloatArray:
        """An (in, out) matrix multiplied where `_shrunk` divides, so that the product stays the same."""
        return weight * self._shrinkage[part][:, None] if part in self._shrinkage else weight

    def _linear(self, states: str, name: str, part: str = "") -> str:
        bias = self._constant(f"{name}.bias", self._bert.linear(name)[1])
        if self._precision == "fp32":
            return self._node("Add", [self._product(states, name), bias], f"{name}.sum")
        return self._product(states, name, bias, part)

    def _linear_by_rows(self, states: str, name: str) -> str:
        if self._precision == "fp32":
            return self._linear(states, name)
        bias = self._constant(f"{name}.bias", self._bert.linear(name)[1])
        largest = self._node("ReduceMax", [states, self._integers("last_axis", -1)], f"{name}.largest", keepdims=1)
        floor = self._constant("smallest_row", np.asarray(_SMALLEST_ROW, np.float32))
        scale = self._node("Max", [largest, floor], f"{name}.row_scale")
        product = self._product(self._node("Div", [states, scale], f"{name}.scaled"), name)
        return self._node("Add", [self._node("Mul", [product, scale], f"{name}.unscaled"), bias], f"{name}.sum")

    def _product(self, states: str, name: str, bias: str | None = None, part: str = "") -> str:
        weight = self._grown(self._bert.linear(name)[0].T, part)
        if self._precision == "fp32":
            return self._node("MatMul", [states, self._constant(name, weight)], f"{name}.product")
        whole, scale = quantise_int8(weight, _LARGEST[self._precision])
        inputs = [
            states,
            self._constant(name, whole),
            self._constant(f"{name}.scale", scale),
            self._constant(f"{name}.zero", np.zeros(len(scale), np.int8)),
            *([bias] if bias else []),
        ]
        return self._node("DynamicQuantizeMatMul", inputs, f"{name}.product", domain=_MICROSOFT)

    def _activate(self, states: str, name: str) -> str:
        if self._bert.activation == "relu":
            return self._node("Relu", [states], name)
        approximate = "tanh" if self._bert.activation == "gelu_tanh" else "none"
        return self._node("Gelu", [states], name, approximate=approximate)

    def _add_norm(self, left: str, right: str, name: str) -> str:
        return self._norm(self._node("Add", [left, right], f"{name}.residual"), name)

    def _norm(self, states: str, name: str) -> str:
        weight, bias = self._bert.linear(name)
        inputs = [states, self._constant(f"{name}.weight", weight), self._constant(f"{name}.bias", bias)]
        return self._node("LayerNormalization", inputs, name, axis=-1, epsilon=self._bert.epsilon)

    def _first(self, states: str, name: str) -> str:
        return self._node("Gather", [states, self._integers("zero", 0)], name, axis=1)

    def _head(self, states: str) -> str:
        # One row, a negligible cost: full precision.
        first, last = head_layers(self._bert)
        flat = self._node("Squeeze", [states, self._integers("one", 1)], "first_state")
        return self._gemm(self._node("Tanh", [self._gemm(flat, first, "pooled")], "tanh"), last, "score")

    def _gemm(self, states: str, name: str, output: str) -> str:
        weight, bias = self._bert.linear(name)
        inputs = [states, self._constant(f"{name}.weight", weight), self._constant(f"{name}.bias", bias)]
        return self._node("Gemm", inputs, output, transB=1)

    def _node(
        self, kind: str, inputs: list[str], *outputs: str, domain: str = "", **attributes: float | str | list[int]
    ) -> str:
        from onnx import helper

        node = helper.make_node(kind, inputs, list(outputs), name=outputs[0], domain=domain)
        node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
        self._nodes.append(node)
        return outputs[0]

    def _scalar(self, name: str, value: int) -> str:
        return self._constant(name, np.asarray(value, np.int64))

    def _integers(self, name: str, *values: int) -> str:
        return self._constant(name, np.asarray(values, np.int64))

    def _constant(self, name: str, values: npt.NDArray[np.generic]) -> str:
        from onnx import numpy_helper

        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.asarray(values, order="C"), name)
        return name

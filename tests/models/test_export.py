"""The export: right, checked before use, made once, and never the reason that a command fails."""

from __future__ import annotations

import io
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tests.support.tiny_models import tiny_encoder

from ragcli.models import load_encoder
from ragcli.models.engine_interface import ExportError
from ragcli.models.model_inventory import exports
from ragcli.models.onnx.bert_model import bert_forward, read_bert


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGCLI_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def change_config(folder: Path, **values: object) -> Path:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))
    return folder


MODELS = [
    ("bert", "gelu"),
    ("bert", "gelu_new"),
    ("bert", "relu"),
    ("roberta", "gelu"),
    ("mpnet", "gelu"),
    ("distilbert", "gelu"),
]

RENAMED = {
    "mpnet": {
        ".attention.self.query.": ".attention.attn.q.",
        ".attention.self.key.": ".attention.attn.k.",
        ".attention.self.value.": ".attention.attn.v.",
        ".attention.output.dense.": ".attention.attn.o.",
        ".attention.output.LayerNorm.": ".attention.LayerNorm.",
    },
    "distilbert": {
        ".attention.self.query.": ".attention.q_lin.",
        ".attention.self.key.": ".attention.k_lin.",
        ".attention.self.value.": ".attention.v_lin.",
        ".attention.output.dense.": ".attention.out_lin.",
        ".attention.output.LayerNorm.": ".sa_layer_norm.",
        ".intermediate.dense.": ".ffn.lin1.",
        ".output.dense.": ".ffn.lin2.",
        ".output.LayerNorm.": ".output_layer_norm.",
        "encoder.layer.": "transformer.layer.",
    },
}


def as_family(folder: Path, kind: str) -> Path:
    """The tiny model's layers under the names and rules of another family."""
    if kind == "bert":
        return folder
    weights = load_file(folder / "model.safetensors")
    kinds = "embeddings.token_type_embeddings.weight"
    settings: dict[str, object] = {"model_type": kind}
    if kind == "roberta":
        weights[kinds] = weights[kinds][:1].copy()
        settings |= {"pad_token_id": 1, "type_vocab_size": 1, "architectures": ["RobertaModel"]}
    else:
        del weights[kinds]
    if kind == "mpnet":
        random = np.random.default_rng(4)
        weights["encoder.relative_attention_bias.weight"] = random.normal(0, 1, (32, 4)).astype(np.float32)
        settings |= {"pad_token_id": 1, "relative_attention_num_buckets": 32, "architectures": ["MPNetModel"]}
    if kind == "distilbert":
        weights = {name: values for name, values in weights.items() if not name.startswith("pooler.")}
        settings |= {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "architectures": ["DistilBertModel"]}
        config = json.loads((folder / "config.json").read_text())
        for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act"):
            settings.setdefault("activation", config["hidden_act"])
            del config[key]
        (folder / "config.json").write_text(json.dumps(config))
    renamed = {}
    for name, values in weights.items():
        for plain, theirs in RENAMED.get(kind, {}).items():
            name = name.replace(plain, theirs)
        renamed[f"{kind}.{name}"] = values
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    return change_config(folder, **settings)


@pytest.mark.parametrize(("kind", "activation"), MODELS)
def test_the_reference_in_numpy_is_the_model_as_transformers_runs_it(
    tmp_path: Path, kind: str, activation: str
) -> None:
    import torch
    from transformers import AutoModel

    folder = as_family(change_config(tiny_encoder(tmp_path / "model"), hidden_act=activation), kind)
    # Long enough that MPNet's far distances share a bucket.
    ids = np.random.default_rng(0).integers(5, 250, 400).astype(np.int32)
    model = AutoModel.from_pretrained(folder).eval()
    with torch.inference_mode():
        expected = model(input_ids=torch.from_numpy(ids[None].astype(np.int64))).last_hidden_state[0].numpy()
    bert = read_bert(folder, json.loads((folder / "config.json").read_text()), scoring=False)
    np.testing.assert_allclose(bert_forward(bert, ids), expected, atol=2e-5)


@pytest.mark.parametrize(("kind", "activation"), MODELS)
def test_an_exported_model_of_each_family_agrees_with_torch(tmp_path: Path, kind: str, activation: str) -> None:
    folder = as_family(change_config(tiny_encoder(tmp_path / "model"), hidden_act=activation), kind)
    texts = ["gravity is a quantum field", "the cat and the dog", "unix file system " * 80]
    ours = load_encoder(str(folder))
    assert ours.engine == "onnx"
    expected = load_encoder(str(folder), engine="torch").encode(texts)
    assert (ours.encode(texts) * expected).sum(axis=1).min() > 0.999


def test_an_export_is_made_once_and_then_read(tmp_path: Path) -> None:
    folder = str(tiny_encoder(tmp_path / "model"))
    said: list[str] = []
    first = load_encoder(folder, notify=said.append)
    assert any("preparing" in line for line in said)
    said.clear()
    again = load_encoder(folder, notify=said.append)
    assert said == []
    np.testing.assert_array_equal(first.encode(["a cat"]), again.encode(["a cat"]))


def test_other_weights_or_another_configuration_get_an_export_of_their_own(tmp_path: Path) -> None:
    load_encoder(str(tiny_encoder(tmp_path / "a")))
    load_encoder(str(tiny_encoder(tmp_path / "b", seed=9)))
    load_encoder(str(change_config(tiny_encoder(tmp_path / "c"), hidden_act="relu")))
    assert len(list(exports())) == 3


def test_an_int8_export_that_disagrees_with_fp32_gives_way_to_fp32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts = [False, True]
    monkeypatch.setattr("ragcli.models.onnx.onnx_export.vectors_agree", lambda _: verdicts.pop(0))
    folder = str(tiny_encoder(tmp_path / "model"))
    encoder = load_encoder(folder)
    assert [export.precision for export in exports()] == ["fp32"]
    expected = load_encoder(folder, engine="torch").encode(["gravity is a quantum field"])
    assert (encoder.encode(["gravity is a quantum field"]) * expected).sum() > 0.99999


@pytest.mark.parametrize(
    ("machine", "flags", "precision", "largest"),
    [
        ("x86_64", "avx2 fma", "int8-reduced-range", 64),
        ("x86_64", "avx2 avx512_vnni", "int8", 127),
        ("x86_64", "avx2 avx_vnni", "int8", 127),
        ("AMD64", None, "int8-reduced-range", 64),
        ("aarch64", None, "int8", 127),
    ],
)
def test_weights_use_seven_bits_on_x86_without_vnni_and_eight_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, flags: str | None, precision: str, largest: int
) -> None:
    import onnx
    from onnx import numpy_helper

    read = Path.open

    def processor(self: Path, *arguments: Any, **options: Any) -> Any:
        if str(self) != "/proc/cpuinfo":
            return read(self, *arguments, **options)
        if flags is None:
            raise FileNotFoundError(self)
        return io.StringIO(f"processor : 0\nflags : {flags}\n")

    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(Path, "open", processor)
    load_encoder(str(tiny_encoder(tmp_path / "model")))
    (export,) = exports()
    assert export.precision == precision
    weights = [numpy_helper.to_array(tensor) for tensor in onnx.load(export.graph).graph.initializer]
    assert max(int(np.abs(values.astype(int)).max()) for values in weights if values.dtype == np.int8) == largest


def test_weights_that_lose_too_much_in_int8_are_kept_in_fp32(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    # A state that is always zero may have any weight. An enormous one leaves the others no steps to differ by.
    for name, values in weights.items():
        if "LayerNorm" in name:
            values[0] = 0
        elif name.endswith(("query.weight", "key.weight", "value.weight", "intermediate.dense.weight")):
            values *= 4
            values[:, 0] = 1e6
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    load_encoder(str(folder))
    assert [export.precision for export in exports()] == ["fp32"]


def test_when_no_export_agrees_torch_runs_with_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragcli.models.onnx.onnx_export.vectors_agree", lambda _: False)
    with pytest.warns(RuntimeWarning, match="disagrees with the fp32 model") as caught:
        encoder = load_encoder(str(tiny_encoder(tmp_path / "model")))
    assert encoder.engine == "torch"
    assert len([warning for warning in caught if warning.category is RuntimeWarning]) == 1
    assert list(exports()) == []


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_act": "swish"},
        {"position_embedding_type": "relative_key"},
        {"is_decoder": True},
        {"num_hidden_layers": 1},
        {"num_hidden_layers": 3},
        {"hidden_size": 64},
        {"model_type": "deberta"},
        {"num_attention_heads": 5},
    ],
)
def test_an_architecture_it_does_not_know_is_refused_and_not_guessed(tmp_path: Path, change: dict[str, object]) -> None:
    folder = change_config(tiny_encoder(tmp_path / "model"), **change)
    with pytest.raises(ExportError):
        read_bert(folder, json.loads((folder / "config.json").read_text()), scoring=False)


@pytest.mark.parametrize("damage", ["truncated", "emptied", "no record", "not a graph"])
def test_a_damaged_export_is_made_again(tmp_path: Path, damage: str) -> None:
    folder = str(tiny_encoder(tmp_path / "model"))
    before = load_encoder(folder).encode(["a cat"])
    export = next(exports())
    if damage == "truncated":
        data = export.path / "model.data"
        data.write_bytes(data.read_bytes()[:100])
    elif damage == "emptied":
        export.graph.write_bytes(b"")
    elif damage == "no record":
        (export.path / "about.json").unlink()
    else:
        export.graph.write_bytes(b"x" * export.graph.stat().st_size)
    np.testing.assert_array_equal(load_encoder(folder).encode(["a cat"]), before)


def test_two_processes_that_export_at_once_end_with_one_export(tmp_path: Path, cache: Path) -> None:
    folder = tiny_encoder(tmp_path / "model", layers=4)
    program = (
        "import sys; from ragcli.models import load_encoder; print(load_encoder(sys.argv[1]).encode(['a cat'])[0, 0])"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(folder)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    printed = {process.communicate(timeout=60)[0] for process in running}
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(printed) == 1
    assert [path.name for path in (cache / "onnx").iterdir() if not path.name.startswith(".")] == [
        next(exports()).path.name
    ]
    assert not list((cache / "onnx").glob(".*.new-*"))


def test_a_cache_folder_that_cannot_be_written_costs_time_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RAGCLI_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(RuntimeWarning, match="PyTorch"):
        encoder = load_encoder(str(tiny_encoder(tmp_path / "model")))
    assert encoder.engine == "torch"


def test_what_a_dead_process_left_is_cleared_away(tmp_path: Path, cache: Path) -> None:
    folder = str(tiny_encoder(tmp_path / "model"))
    load_encoder(folder)
    place = next(exports()).path
    left = place.with_name(f".{place.name}.new-dead")
    place.rename(left)
    load_encoder(folder)
    assert not left.exists()
    assert len(list(exports())) == 1

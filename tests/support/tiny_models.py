"""Tiny models with the shape of the real ones, so that tests can run a whole pipeline in milliseconds.

`tiny_encoder` writes a two-layer BERT in the sentence-transformers layout and `tiny_cross_encoder` a
BertForSequenceClassification with one label. Neither imports torch: weights are written by numpy through
safetensors. Embeddings are random and large against the layers' own weights, so two texts that share words get
vectors that are near; rankings are therefore plausible and always the same for a seed.
"""

from __future__ import annotations

import json
import string
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pathlib import Path

WORDS = """
the a an of in on to and or is are was be by for with from that this it as at not no
paper model method result data set test value number mean error bound time space memory query search index rank
document passage chunk word page text reader wormhole traversable negative average null energy condition quantum
field gravity light star galaxy black hole matter raft leader election log term server cluster consensus vote
distinct count estimate sketch hash register stream network latency high low access special file unix system
protein cell gene cancer mouse drug dose trial patient heart blood virus vaccine immune brain neuron
boundary layer flow wing pressure heat supersonic plate shock lift drag river bank money fish cat dog tree
one two three four five six seven eight nine ten first second good bad new old small large fast slow
"""

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def vocabulary() -> list[str]:
    """The word pieces, in id order: specials, characters, word-inner characters, common endings, whole words."""
    characters = list(string.ascii_lowercase + string.digits + string.punctuation)
    endings = ["##" + ending for ending in ("ing", "ed", "er", "ion", "ly", "ment", "al", "es")]
    pieces = (
        SPECIALS + characters + ["##" + c for c in string.ascii_lowercase + string.digits] + endings + WORDS.split()
    )
    return list(dict.fromkeys(pieces))


def write_tokenizer(folder: Path, *, max_length: int = 512) -> None:
    """A word-piece tokenizer as BERT's: lower case, accents off, [CLS] and [SEP] around."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    pieces = vocabulary()
    ids = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocab=ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
    )
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": True,
        "model_max_length": max_length,
        "unk_token": "[UNK]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "mask_token": "[MASK]",
    }
    _write_json(folder / "tokenizer_config.json", settings)


def tiny_encoder(
    folder: Path,
    *,
    seed: int = 0,
    hidden: int = 32,
    layers: int = 2,
    heads: int = 4,
    max_length: int = 256,
    pooling: str = "mean",
    dense_module: bool = False,
) -> Path:
    """Write a sentence encoder into `folder` (made if need be) and return the folder.

    `pooling` is "mean", "cls" or "max"; `dense_module` adds a module behind the pooling, the case that only
    sentence-transformers itself can run (its weights are not written).
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    config = _bert_config(hidden, layers, heads, ["BertModel"])
    _write_json(folder / "config.json", config)
    _save(folder, _bert_weights(config, seed))
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    if dense_module:
        modules.insert(2, {"idx": 9, "name": "9", "path": "9_Dense", "type": "sentence_transformers.models.Dense"})
    _write_json(folder / "modules.json", modules)
    _write_json(folder / "sentence_bert_config.json", {"max_seq_length": max_length, "do_lower_case": False})
    (folder / "1_Pooling").mkdir(exist_ok=True)
    _write_json(
        folder / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": hidden,
            "pooling_mode_cls_token": pooling == "cls",
            "pooling_mode_mean_tokens": pooling == "mean",
            "pooling_mode_max_tokens": pooling == "max",
            "pooling_mode_mean_sqrt_len_tokens": False,
        },
    )
    return folder


def tiny_cross_encoder(folder: Path, *, seed: int = 1, hidden: int = 32, layers: int = 1, heads: int = 4) -> Path:
    """Write a cross-encoder with one label and untrained weights into `folder` and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    config = _bert_config(hidden, layers, heads, ["BertForSequenceClassification"])
    config |= {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
    _write_json(folder / "config.json", config)
    weights = {f"bert.{name}": values for name, values in _bert_weights(config, seed).items()}
    random = np.random.default_rng(seed + 1)
    weights["classifier.weight"] = random.normal(0, 1, (1, hidden)).astype(np.float32)
    weights["classifier.bias"] = np.zeros(1, np.float32)
    _save(folder, weights)
    return folder


def _bert_config(hidden: int, layers: int, heads: int, architectures: list[str]) -> dict[str, object]:
    return {
        "architectures": architectures,
        "model_type": "bert",
        "vocab_size": len(vocabulary()),
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 2 * hidden,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "position_embedding_type": "absolute",
    }


def _bert_weights(config: dict[str, object], seed: int) -> dict[str, npt.NDArray[np.float32]]:
    random = np.random.default_rng(seed)
    hidden, inner = int(str(config["hidden_size"])), int(str(config["intermediate_size"]))
    weights: dict[str, npt.NDArray[np.float32]] = {}

    def normal(name: str, scale: float, *shape: int) -> None:
        weights[name] = random.normal(0, scale, shape).astype(np.float32)

    def layer_norm(name: str) -> None:
        weights[f"{name}.weight"] = np.ones(hidden, np.float32)
        weights[f"{name}.bias"] = np.zeros(hidden, np.float32)

    def linear(name: str, rows: int, columns: int) -> None:
        normal(f"{name}.weight", 0.08, rows, columns)
        normal(f"{name}.bias", 0.02, rows)

    normal("embeddings.word_embeddings.weight", 1.0, int(str(config["vocab_size"])), hidden)
    normal("embeddings.position_embeddings.weight", 0.1, int(str(config["max_position_embeddings"])), hidden)
    normal("embeddings.token_type_embeddings.weight", 0.1, 2, hidden)
    layer_norm("embeddings.LayerNorm")
    for number in range(int(str(config["num_hidden_layers"]))):
        layer = f"encoder.layer.{number}"
        for part in ("query", "key", "value"):
            linear(f"{layer}.attention.self.{part}", hidden, hidden)
        linear(f"{layer}.attention.output.dense", hidden, hidden)
        layer_norm(f"{layer}.attention.output.LayerNorm")
        linear(f"{layer}.intermediate.dense", inner, hidden)
        linear(f"{layer}.output.dense", hidden, inner)
        layer_norm(f"{layer}.output.LayerNorm")
    linear("pooler.dense", hidden, hidden)
    return weights


def _save(folder: Path, weights: dict[str, npt.NDArray[np.float32]]) -> None:
    from safetensors.numpy import save_file

    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")

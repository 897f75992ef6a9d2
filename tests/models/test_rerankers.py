"""Rerankers: cross-encoders on both engines, and late interaction without stored tokens."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.support.tiny_models import tiny_cross_encoder, tiny_encoder

from ragcli.errors import ModelUnavailable
from ragcli.models import load_encoder, load_reranker
from ragcli.retrieval.rerank import late_interaction_with_texts

QUERY = "gravity in a quantum field"
TEXTS = ["gravity is a quantum field", "the cat and the dog", "", "unix file system " * 200, "漢字 \ud800"]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGCLI_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize("layers", [1, 3])
def test_a_cross_encoder_scores_as_sentence_transformers_does(tmp_path: Path, layers: int) -> None:
    folder = tiny_cross_encoder(tmp_path / "model", layers=layers)
    from sentence_transformers import CrossEncoder

    texts = TEXTS[:4]
    expected = CrossEncoder(str(folder), device="cpu").predict([(QUERY, text[:1024]) for text in texts])
    ours, theirs = load_reranker(str(folder)), load_reranker(str(folder), engine="torch")
    np.testing.assert_allclose(theirs.score(QUERY, texts), expected, atol=1e-5)
    np.testing.assert_allclose(ours.score(QUERY, texts), expected, atol=0.02)
    assert np.isfinite(ours.score(QUERY, TEXTS)).all()
    assert np.isfinite(theirs.score(QUERY, TEXTS)).all()


def test_a_score_does_not_depend_on_the_other_texts(tmp_path: Path) -> None:
    reranker = load_reranker(str(tiny_cross_encoder(tmp_path / "model", layers=2)))
    together = reranker.score(QUERY, TEXTS)
    assert together.shape == (len(TEXTS),)
    assert together.dtype == np.float32
    for text, score in zip(TEXTS, together, strict=True):
        assert reranker.score(QUERY, [text])[0] == score
    assert reranker.score(QUERY, []).shape == (0,)


@pytest.mark.parametrize("engine", ["onnx", "torch"])
def test_it_reads_the_first_1024_characters_of_a_passage(tmp_path: Path, engine: str) -> None:
    reranker = load_reranker(str(tiny_cross_encoder(tmp_path / "model")), engine=engine)  # type: ignore[arg-type]
    passage = ("cat " * 300)[:1024]
    same, inside = reranker.score(QUERY, [passage + " quantum gravity", "quantum gravity " + passage])
    assert same == pytest.approx(reranker.score(QUERY, [passage])[0], abs=1e-6)
    assert inside != pytest.approx(same, abs=1e-6)


def test_a_pair_longer_than_the_model_reads_is_scored_all_the_same(tmp_path: Path) -> None:
    reranker = load_reranker(str(tiny_cross_encoder(tmp_path / "model")))
    assert np.isfinite(reranker.score("quantum gravity " * 400, ["fish! " * 300, "cat"])).all()


@pytest.mark.parametrize(
    "saved",
    [
        {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}},
        {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"},
    ],
)
def test_the_publishers_activation_is_applied(tmp_path: Path, saved: dict[str, object]) -> None:
    plain = load_reranker(str(tiny_cross_encoder(tmp_path / "plain"))).score(QUERY, TEXTS[:3])
    folder = tiny_cross_encoder(tmp_path / "raw")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | saved))
    raw = load_reranker(str(folder)).score(QUERY, TEXTS[:3])
    np.testing.assert_allclose(1 / (1 + np.exp(-raw)), plain, atol=1e-5)
    np.testing.assert_allclose(raw, load_reranker(str(folder), engine="torch").score(QUERY, TEXTS[:3]), atol=0.1)


def test_an_activation_of_another_kind_is_left_to_torch(tmp_path: Path) -> None:
    folder = tiny_cross_encoder(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["sentence_transformers"] = {"activation_fn": "torch.nn.modules.activation.Tanh"}
    (folder / "config.json").write_text(json.dumps(config))
    said: list[str] = []
    scores = load_reranker(str(folder), notify=said.append).score(QUERY, TEXTS[:3])
    assert any("PyTorch" in line for line in said)
    assert (np.abs(scores) <= 1).all()


def test_a_sentence_encoder_is_no_reranker(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable, match="no cross-encoder"):
        load_reranker(str(tiny_encoder(tmp_path / "model")))


def test_a_classifier_of_several_labels_is_no_reranker(tmp_path: Path) -> None:
    folder = tiny_cross_encoder(tmp_path / "model")
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    weights["classifier.weight"] = np.repeat(weights["classifier.weight"], 3, axis=0)
    weights["classifier.bias"] = np.zeros(3, np.float32)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    labels = {str(number): f"L{number}" for number in range(3)}
    config |= {"id2label": labels, "label2id": {label: int(number) for number, label in labels.items()}}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelUnavailable, match="3 scores"):
        load_reranker(str(folder), notify=lambda _: None).score(QUERY, TEXTS[:2])


def test_late_scores_are_the_weighted_best_matches_of_each_query_token(tmp_path: Path) -> None:
    encoder = load_encoder(str(tiny_encoder(tmp_path / "model")))
    query = encoder.encode_tokens([QUERY])[0]
    weights = np.linspace(1, 2, len(query.token_ids), dtype=np.float32)
    scores = late_interaction_with_texts(encoder, query, weights, TEXTS).whole
    expected = [
        sum(
            weight * max((float(row @ other) for other in passage.tokens), default=0.0)
            for weight, row in zip(weights, query.tokens, strict=True)
        )
        for passage in encoder.encode_tokens(TEXTS)
    ]
    np.testing.assert_allclose(scores, expected, rtol=1e-4)
    assert scores.argmax() == 0
    assert scores[2] == 0
    assert late_interaction_with_texts(encoder, query, weights, []).whole.shape == (0,)

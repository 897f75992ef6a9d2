"""A collections.toml that came with someone's repository: what it may do, and what it may not before it is trusted."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from collections.abc import Callable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.terminals import on_terminal
from tests.support.tiny_models import tiny_encoder

from ragcli.__main__ import main
from ragcli.config import CollectionConfig, Config, load_config
from ragcli.config.config_keys import COLLECTION_KEYS, SECTION_KEYS, TOP_LEVEL_KEYS
from ragcli.config.trust_policy import demands, is_trusted, trust_config, trust_store_path, trusted_files
from ragcli.errors import ConfigError
from ragcli.options import Option
from ragcli.types import CollectionSettings

Ragcli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stranger's folder that one has changed into, with a note in it; beside it lie the reader's own papers."""
    folder = tmp_path / "repository"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "a.md").write_text("A note about wormholes.\n")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "diary.md").write_text("What nobody shall read.\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAGCLI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("RAGCLI_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return folder


@pytest.fixture
def ragcli(repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Ragcli:
    """Calls ragcli in the stranger's folder with nobody at a terminal."""

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"y\n"), encoding="utf-8"))
        capsys.readouterr()
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def write(folder: Path, text: str) -> Path:
    file = folder / "collections.toml"
    file.write_text(text, encoding="utf-8")
    return file


def trusted(file: Path) -> None:
    """What `ragcli trust` does after a yes."""
    from ragcli.config import load_untrusted_config

    trust_config(file, load_untrusted_config(file).digest)


def sources(ragcli: Ragcli, collection: str) -> list[str]:
    code, out, err = ragcli("documents", "-c", collection, "--json")
    assert code == 0, err
    return [each["source"] for each in json.loads(out)]


OUTSIDE = ["../private", "/etc", "~", "notes/../../private", "notes/link", "link.md"]


@pytest.mark.parametrize("path", OUTSIDE)
def test_it_cannot_take_in_files_outside_its_folder(repository: Path, ragcli: Ragcli, path: str) -> None:
    (repository / "notes" / "link").symlink_to("../../private")
    (repository / "link.md").symlink_to("../private/diary.md")
    file = write(repository, f"[collections.a]\nencoder = 'none'\npaths = ['notes', '{path}']\n")
    code, _, err = ragcli("ingest", "-c", "a")
    assert code == 3
    assert err.startswith(f"ragcli: {file}, line 3: collections.a.paths names ")
    assert "outside the file's folder" in err
    assert "`ragcli trust`" in err
    assert ragcli("documents", "-c", "a")[0] == 3
    trusted(file)
    code, _, err = ragcli("ingest", "-c", "a", "--dry-run", "--include", "*.md")
    assert code == 0, err


def test_what_stays_in_its_folder_works_without_being_asked(repository: Path, ragcli: Ragcli) -> None:
    write(
        repository,
        "data_dir = 'mine'\n[defaults]\nencoder = 'none'\nexclude = ['../*']\n[collections.a]\npaths = ['notes', '.']\n"
        "[query]\npipeline = 'bm25'\ntop = 1\n",
    )
    assert ragcli("ingest")[0] == 0
    assert sources(ragcli, "a") == ["a.md"]
    assert ragcli("query", "wormholes", "--json")[0] == 0
    assert load_config().withheld == ()


def test_a_collection_that_is_refused_does_not_hinder_the_others(repository: Path, ragcli: Ragcli) -> None:
    write(
        repository,
        "[defaults]\nencoder = 'none'\n"
        "[collections.bad]\npaths = ['../private']\n[collections.good]\npaths = ['notes']\n",
    )
    code, _, err = ragcli("ingest")
    assert code == 3
    assert "ragcli: bad: " in err
    assert sources(ragcli, "good") == ["a.md"]


def test_it_cannot_say_where_collections_lie_outside_its_folder(
    repository: Path, ragcli: Ragcli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(repository, "data_dir = '../elsewhere'\n")
    # Who says it otherwise does not need the file's word.
    assert ragcli("collections")[0] == 0
    assert ragcli("collections", "--data-dir", "mine")[0] == 0
    monkeypatch.delenv("RAGCLI_DATA_DIR")
    for command in (["collections"], ["ingest", "notes", "--encoder", "none"], ["grep", "x"], ["query", "x"]):
        code, _, err = ragcli(*command)
        assert (code, "data_dir names ../elsewhere" in err) == (3, True), err
    assert not (tmp_path / "elsewhere").exists()
    trusted(file)
    assert ragcli("ingest", "notes", "--encoder", "none")[0] == 0
    assert (tmp_path / "elsewhere" / "default" / "store.db").is_file()


def test_its_folder_of_collections_may_not_link_to_those_of_others(
    repository: Path, ragcli: Ragcli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ragcli("ingest", "../private", "-c", "own", "--encoder", "none")[0] == 0
    (repository / "mine").mkdir()
    (repository / "mine" / "theirs").symlink_to(tmp_path / "data" / "own")
    write(repository, "data_dir = 'mine'\n")
    monkeypatch.delenv("RAGCLI_DATA_DIR")
    code, _, err = ragcli("grep", "nobody")
    assert code == 3
    assert "data_dir names mine, in which a link leads out of the file's folder (theirs)" in err


@pytest.mark.parametrize("where", ["[defaults]", "[collections.a]"])
@pytest.mark.parametrize("model", ["stranger/model", "late", "../models/mine", "/opt/model"])
def test_it_cannot_name_an_encoder_to_download_or_in_a_folder_elsewhere(
    repository: Path, ragcli: Ragcli, tmp_path: Path, where: str, model: str
) -> None:
    (tmp_path / "models" / "mine").mkdir(parents=True)
    write(repository, f"{where}\nencoder = '{model}'\n[collections.b]\n")
    code, _, err = ragcli("ingest", "notes", "-c", "a")
    assert code == 3
    assert f"{where.strip('[]')}.encoder names the model" in err
    # The collection that was to be made with it is not made with something else instead.
    assert not (tmp_path / "data" / "a").exists()
    assert ragcli("ingest", "notes", "-c", "a", "--encoder", "none")[0] == 0


def test_its_own_encoder_goes_before_a_default_that_is_withheld(repository: Path, ragcli: Ragcli) -> None:
    write(repository, "[defaults]\nencoder = 'stranger/model'\n[collections.a]\nencoder = 'none'\npaths = ['notes']\n")
    assert ragcli("ingest", "-c", "a")[0] == 0


def test_a_model_in_its_own_folder_or_on_this_machine_needs_no_trust(
    repository: Path, ragcli: Ragcli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_encoder(repository / "model")
    write(repository, "[collections.a]\nencoder = 'model'\npaths = ['notes']\n")
    # A dry run settles everything and loads no model.
    assert ragcli("ingest", "-c", "a", "--dry-run")[0] == 0
    write(repository, "[collections.b]\nencoder = 'known/encoder'\npaths = ['notes']\n")
    assert ragcli("ingest", "-c", "b", "--dry-run")[0] == 3
    tiny_encoder(tmp_path / "hub" / "models--known--encoder" / "snapshots" / "1")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    code, _, err = ragcli("ingest", "-c", "b", "--dry-run")
    assert code == 0, err


def test_it_cannot_name_a_reranker_that_is_not_here(repository: Path, ragcli: Ragcli) -> None:
    assert ragcli("ingest", "notes", "-c", "a", "--encoder", "none")[0] == 0
    write(repository, "[query]\nreranker = 'stranger/cross'\npipeline = 'bm25'\n")
    code, _, err = ragcli("query", "wormholes")
    assert code == 3
    assert "query.reranker names the model stranger/cross" in err
    assert ragcli("query", "wormholes", "--no-rerank")[0] == 0
    assert ragcli("query", "wormholes", "--reranker", "none")[0] == 0
    assert ragcli("grep", "wormholes")[0] == 0
    (repository / "q.jsonl").write_text('{"query": "wormholes", "relevant_ids": ["a.md"]}\n')
    assert ragcli("eval", "q.jsonl", "-c", "a")[0] == 3
    assert ragcli("eval", "q.jsonl", "-c", "a", "--compare", "bm25")[0] == 0


def test_keys_for_places_and_secrets_are_guarded_by_one_line_in_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragcli.config import trust_policy

    sections = {
        "llm": {
            "base_url": Option(name="base_url", guard="endpoint"),
            "api_key_env": Option(name="key", guard="secret"),
        },
        "rerank": {"url": Option(name="url", guard="endpoint"), "depth": Option(name="depth", kind="whole number")},
    }
    monkeypatch.setattr(trust_policy, "SECTION_KEYS", sections)
    tree = {"llm": {"base_url": "https://x", "api_key_env": "KEY"}, "rerank": {"url": "https://y", "depth": 3}}
    found = {each.name: each.what for each in demands(tree, tmp_path)}
    assert set(found) == {"llm.base_url", "llm.api_key_env", "rerank.url"}
    assert "https://x" in found["llm.base_url"]
    assert "KEY" in found["llm.api_key_env"]
    assert trust_policy.without_keys(tree, frozenset({("llm", "base_url")}))["llm"] == {"api_key_env": "KEY"}


def test_every_key_that_can_reach_beyond_the_folder_has_a_guard() -> None:
    free = {"chunk_size", "overlap", "token_vectors", "context", "include", "exclude", "pdf_engine", "ocr"}
    free |= {"parse_timeout", "top", "pipeline", "pool", "max_per_source", "engine", "tenant_key"}
    free |= {"diversity", "recency", "half_life", "preset", "judge", "retries", "model", "timeout", "cache"}
    free |= {"fusion", "rrf_k", "alpha", "weights", "feedback", "titles", "rocchio"}
    free |= {"max_calls", "max_total_tokens", "price_in", "price_out", "max_cost"}
    for table in (TOP_LEVEL_KEYS, COLLECTION_KEYS, *SECTION_KEYS.values()):
        for name, key in table.items():
            assert (key.guard is None) == (name in free), f"decide for {name} whether a stranger's file may set it"


path_parts = st.lists(
    st.sampled_from(["..", ".", "notes", "link", "gone", "~", "", "x" * 300, "\u202e", "\udcff"]), max_size=5
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path_parts.map("/".join), st.booleans(), st.sampled_from(["data_dir", "paths", "encoder", "reranker"]))
def test_no_value_leads_out_of_the_folder_unless_it_is_withheld(
    repository: Path, path: str, absolute: bool, key: str
) -> None:
    link = repository / "notes" / "link"
    if not link.is_symlink():
        link.symlink_to("../../private")
    value = json.dumps(("/" if absolute else "") + path, ensure_ascii=False).replace("\udcff", "\\uFFFD")
    place = {"data_dir": "", "paths": "[collections.a]\n", "encoder": "[defaults]\n", "reranker": "[query]\n"}[key]
    write(repository, f"{place}{key} = {f'[{value}]' if key == 'paths' else value}\n")
    try:
        config = load_config()
    except ConfigError:
        return
    if config.withheld:
        assert config.data_dir is None
        assert config.query == Config().query
        assert config.defaults == CollectionConfig()
        assert all(each.paths == () for each in config.collections.values())
        return
    named = [*config.collection("a").paths, *([config.data_dir] if config.data_dir else [])]
    named += [Path(each) for each in (config.defaults.settings.encoder, config.query.reranker) if "/" in each]
    for each in named:
        if str(each) != CollectionSettings().encoder:
            assert Path(os.path.realpath(each)).is_relative_to(os.path.realpath(repository))


def test_the_current_folder_is_not_trusted_but_a_named_file_and_the_users_own_are(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import platformdirs

    file = write(repository, "data_dir = '/elsewhere'\n")
    assert load_config().data_dir is None
    assert [each.name for each in load_config().withheld] == ["data_dir"]
    assert load_config(file).data_dir == Path("/elsewhere")
    own = Path(platformdirs.user_config_dir("ragcli", appauthor=False))
    own.mkdir(parents=True)
    write(own, "data_dir = '/mine'\n")
    monkeypatch.chdir(own)
    assert load_config().data_dir == Path("/mine")
    file.unlink()
    monkeypatch.chdir(repository)
    assert load_config().data_dir == Path("/mine")


def test_trust_ends_when_the_file_changes_or_is_found_elsewhere(repository: Path, tmp_path: Path) -> None:
    file = write(repository, "data_dir = '/elsewhere'\n")
    trusted(file)
    assert load_config().withheld == ()
    file.write_text("data_dir = '/elsewhere'\n# another line\n")
    assert load_config().withheld != ()
    file.write_text("data_dir = '/elsewhere'\n")
    assert load_config().withheld == ()
    copy = tmp_path / "copy"
    shutil.copytree(repository, copy)
    assert not is_trusted(copy / "collections.toml", trusted_files()[0].sha256)
    (tmp_path / "way").symlink_to(repository)
    assert is_trusted(tmp_path / "way" / "collections.toml", trusted_files()[0].sha256)


def test_a_mistake_in_the_file_is_told_before_its_demands(repository: Path, ragcli: Ragcli) -> None:
    write(repository, "data_dir = '/elsewhere'\n[query]\ntopp = 3\n")
    assert "query.topp is not a key" in ragcli("collections")[2]


def test_without_a_terminal_trust_is_not_given(repository: Path, ragcli: Ragcli) -> None:
    file = write(repository, "data_dir = '/elsewhere'\n")
    code, out, err = ragcli("trust")
    assert (code, out) == (3, "")
    assert err == (
        "ragcli: collections.toml: line 1: data_dir names /elsewhere, which is outside the file's folder. "
        "Trust is given at a terminal only, and this is none.\n"
    )
    assert not is_trusted(file, load_config().digest)
    assert ragcli("trust", "missing.toml")[0] == 3
    assert ragcli("trust", "--list", "x")[0] == 2
    assert ragcli("trust", "--json")[0] == 2
    assert ragcli("trust", "a\0b")[0] == 2


def test_trust_is_listed_and_taken_back(repository: Path, ragcli: Ragcli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert ragcli("trust", "--list") == (0, "", "ragcli: no file is trusted.\n")
    file = write(repository, "data_dir = '/elsewhere'\n")
    trusted(file)
    assert str(file) in ragcli("trust", "--list")[1]
    (entry,) = json.loads(ragcli("trust", "--list", "--json")[1])
    assert (entry["path"], entry["state"], entry["sha256"]) == (str(file), "trusted", load_config().digest)
    file.write_text("data_dir = '/changed'\n")
    assert json.loads(ragcli("trust", "--list", "--json")[1])[0]["state"] == "changed"
    file.unlink()
    assert json.loads(ragcli("trust", "--list", "--json")[1])[0]["state"] == "gone"
    assert ragcli("trust", "--revoke")[0] == 0
    assert ragcli("trust", "--list", "--json")[1] == "[]\n"
    assert ragcli("trust", "--revoke")[0] == 3


def test_a_file_that_asks_for_nothing_needs_no_trust(repository: Path, ragcli: Ragcli) -> None:
    write(repository, "[query]\ntop = 3\n")
    code, _, err = ragcli("trust")
    assert code == 0
    assert "asks for nothing that needs trust" in err
    assert not trust_store_path().exists()


def test_what_is_trusted_is_kept_for_the_user_alone_and_not_believed_otherwise(repository: Path) -> None:
    file = write(repository, "data_dir = '/elsewhere'\n")
    mask = os.umask(0)
    try:
        trusted(file)
    finally:
        os.umask(mask)
    kept = trust_store_path()
    for path in (kept, *kept.parent.glob(".trusted*")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    for folder in (kept.parent, kept.parent.parent, kept.parent.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, folder
    assert load_config().withheld == ()
    kept.chmod(0o622)
    assert load_config().withheld != ()
    kept.chmod(0o600)
    kept.parent.chmod(0o770)
    assert load_config().withheld != ()
    kept.parent.chmod(0o700)
    for damage in (b"", b"{", b"[]", b'{"trusted": 3}', b'{"trusted": [{}]}', b"\xff", b"[" * 100_000):
        kept.write_bytes(damage)
        assert load_config().withheld != ()
    trusted(file)
    assert load_config().withheld == ()


def test_a_person_at_a_terminal_is_asked_and_a_yes_is_remembered(repository: Path, tmp_path: Path) -> None:
    file = write(repository, "[collections.a]\nencoder = 'none'\npaths = ['../private']\n")
    data = tmp_path / "home" / "data"
    data.parent.mkdir()
    code, seen = on_terminal(data, "ingest", "-c", "a", cwd=repository, answer="\n")
    assert code == 3
    assert "line 3: collections.a.paths names ../private" in " ".join(seen.split())
    assert "Trust this file, as it is now? [y/N]" in seen
    assert not (data / "a").exists()
    code, seen = on_terminal(data, "ingest", "-c", "a", cwd=repository, answer="y\n")
    assert code == 0, seen
    assert "1 added" in seen
    file.write_text(file.read_text() + "# changed\n")
    assert "Trust this file" in on_terminal(data, "ingest", cwd=repository, answer="n\n")[1]


def test_trust_at_a_terminal_shows_what_the_file_asks_for_and_shows_it_harmlessly(
    repository: Path, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    write(repository, 'data_dir = "/x\\u001b[2J\\u202egnp"\n[query]\nreranker = "a/b"\n')
    code, seen = on_terminal(tmp_path / "home" / "data", "trust", cwd=repository, answer="yes\n", NO_COLOR="1")
    assert code == 0, seen
    assert "\x1b" not in seen
    assert "\u202e" not in seen
    assert "line 1: data_dir names" in seen
    assert "line 3: query.reranker names the model a/b" in seen
    again = on_terminal(tmp_path / "home" / "data", "trust", cwd=repository)
    assert again[0] == 0
    assert "trusted already" in again[1]

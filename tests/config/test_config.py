"""The configuration file: what is read from it, what wins, and how a mistake in it is told."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts.fuzzing.targets import CHECKS

from ragcli.config import Config, find_config, known_config_keys, load_config, resolve_data_dir
from ragcli.config.config_keys import SECTION_KEYS
from ragcli.config.toml_reader import line_of_key
from ragcli.errors import EXIT_BAD_INPUT, ConfigError
from ragcli.retrieval.request import PIPELINE_NAMES
from ragcli.types import CollectionSettings

EXAMPLE = Path(__file__).parents[2] / "collections.example.toml"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder of our own, and a user who has configured nothing."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("RAGCLI_DATA_DIR", raising=False)
    return folder


def written(folder: Path, text: str, name: str = "collections.toml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def dotted_keys(tree: dict[str, object]) -> set[str]:
    """Every key of a parsed file, collections' names replaced by a star."""
    found: set[str] = set()
    for section, value in tree.items():
        if section == "collections":
            assert isinstance(value, dict)
            found |= {f"collections.*.{key}" for table in value.values() for key in table}
        elif isinstance(value, dict):
            found |= {f"{section}.{key}" for key in value}
        else:
            found.add(section)
    return found


def test_the_example_lists_exactly_the_keys_the_code_knows() -> None:
    assert dotted_keys(tomllib.loads(EXAMPLE.read_text(encoding="utf-8"))) == known_config_keys()


def test_the_file_takes_the_pipelines_that_there_are() -> None:
    assert SECTION_KEYS["query"]["pipeline"].choices == PIPELINE_NAMES


def test_the_example_loads_and_states_the_built_in_values() -> None:
    config = load_config(EXAMPLE)
    assert config.defaults.settings == CollectionSettings()
    assert config.query.top == Config().query.top
    assert config.query.pipeline == Config().query.pipeline
    assert config.query.reranker == Config().query.reranker
    assert config.collections["papers"].paths == (EXAMPLE.parent / "papers",)
    assert config.collections["papers"].parse_timeout == 120


def test_every_key_of_the_example_is_explained_in_the_lines_above_it() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    body = lines[: lines.index("[collections.papers]")]
    for number, line in enumerate(body):
        if "=" in line and not line.startswith("#"):
            above = [text for text in reversed(body[:number]) if "=" not in text or text.startswith("#")]
            assert above
            assert above[0].startswith(("#", "["))


def test_without_a_file_the_built_in_values_hold(here: Path) -> None:
    assert find_config() == (None, "none")
    config = load_config()
    assert config == Config()
    assert config.collection("anything").settings == CollectionSettings()


@pytest.mark.parametrize(
    "key", ["a." * 300 + "a = 1", "[" + "a . " * 300 + "a]", "x = {" + "'a'.\"b\"." * 150 + "c = 1}"]
)
def test_a_key_of_endless_parts_is_refused_before_it_is_read(here: Path, key: str) -> None:
    # The library that reads TOML takes the square of them, which for a megabyte is hours.
    written(here, f"data_dir = 'x'\n{key}\n")
    with pytest.raises(ConfigError, match=r"more than 100 parts \(at line 2\)"):
        load_config()


def test_the_current_folder_goes_before_the_users_and_a_named_file_before_both(here: Path, tmp_path: Path) -> None:
    import platformdirs

    user = Path(platformdirs.user_config_dir("ragcli", appauthor=False))
    user.mkdir(parents=True)
    written(user, "[query]\ntop = 1")
    assert load_config().query.top == 1
    assert load_config().origin == "user"
    written(here, "[query]\ntop = 2")
    assert load_config().query.top == 2
    assert load_config().origin == "current folder"
    named = written(tmp_path, "[query]\ntop = 3", "mine.toml")
    assert load_config(named).query.top == 3
    assert load_config(named).origin == "named"


def test_the_data_directory_is_the_option_then_the_variable_then_the_file_then_the_platforms(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(here, 'data_dir = "from-file"')
    config = load_config()
    monkeypatch.setenv("RAGCLI_DATA_DIR", str(here / "from-variable"))
    assert resolve_data_dir(here / "from-option", config) == here / "from-option"
    assert resolve_data_dir(None, config) == here / "from-variable"
    monkeypatch.delenv("RAGCLI_DATA_DIR")
    assert resolve_data_dir(None, config) == here / "from-file"
    assert "ragcli" in resolve_data_dir(None, Config()).parts


def test_paths_are_relative_to_the_file_and_know_the_home_folder(here: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    file = written(elsewhere, '[collections.a]\npaths = ["notes", "~/papers", "/absolute"]')
    assert load_config(file).collections["a"].paths == (
        elsewhere / "notes",
        tmp_path / "home" / "papers",
        Path("/absolute"),
    )


def test_a_model_in_a_folder_is_relative_to_the_file_and_any_other_name_stays(here: Path) -> None:
    (here / "models" / "mine").mkdir(parents=True)
    text = "[defaults]\nencoder = 'models/mine'\n[query]\nreranker = 'late'\n[collections.a]\nencoder = 'org/m'"
    config = load_config(written(here, text))
    assert config.defaults.settings.encoder == str(here / "models" / "mine")
    assert config.query.reranker == "late"
    assert config.collections["a"].settings.encoder == "org/m"


def test_a_collection_takes_what_it_does_not_say_from_the_defaults(here: Path) -> None:
    written(
        here,
        "[defaults]\nchunk_size = 900\noverlap = 90\nexclude = ['old/*']\nocr = true\n"
        "[collections.a]\noverlap = 50\nexclude = []\n[collections.b]",
    )
    config = load_config()
    assert config.collections["a"].settings == CollectionSettings(chunk_size=900, overlap=50)
    assert config.collections["a"].exclude == ()
    assert config.collections["a"].ocr
    assert config.collections["b"].exclude == ("old/*",)
    assert config.collections["a"].asked == {"chunk_size", "overlap"}
    assert config.collection("c") == config.defaults


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[query]\n\ntops = 3", 3, ["query.tops", 'did you mean "top"']),
        ("[defaults]\nchunksize = 3", 2, ["defaults.chunksize", 'did you mean "chunk_size"']),
        ("top = 3", 1, ["top", "not a key ragcli knows"]),
        ("[collection.papers]\npaths = []", 1, ["collection", 'did you mean "collections"']),
        ("[query]\ntop = '3'", 2, ["query.top", "must be a whole number", 'the text "3"']),
        ("[query]\ntop = true", 2, ["query.top", "must be a whole number", "true"]),
        ("[query]\ntop = 0", 2, ["query.top", "at least 1"]),
        ("[defaults]\nparse_timeout = nan", 2, ["defaults.parse_timeout", "more than 0"]),
        ("[models]\nengine = 'jax'", 2, ["models.engine", "auto, onnx, torch"]),
        ("[collections.a]\npaths = 'x'", 2, ["collections.a.paths", "a list of texts"]),
        ("[collections.a]\n[collections.b]\npaths = [\n  'x',\n  3,\n]", 3, ["collections.b.paths", "a list"]),
        ("[collections.a]\nocr = 1", 2, ["collections.a.ocr", "true or false"]),
        ("[defaults]\nchunk_size = 20", 2, ["defaults.chunk_size", "at least 50"]),
        ("[defaults]\noverlap = 1200", 2, ["defaults.overlap", "1200"]),
        ("[collections.a]\nchunk_size = 100", 2, ["collections.a.chunk_size", "overlap by 200"]),
        ("[collections.'../up']\npaths = []", 1, ["collections.../up", "no name for a collection"]),
        ("collections.a = 3", 1, ["collections.a", "must be a table"]),
        ("query = 3", 1, ["query", "must be a table"]),
        ("collections = []", 1, ["collections", "must be a table"]),
        ("# top = 3\nnote = '''\ntop\n'''\n", 2, ["note", "not a key"]),
        ("[query]\nreranker = '''\nx = 1\n'''\nx = 1", 5, ["query.x"]),
        ("query = {top = 3, pol = 4}", 1, ["query.pol", 'did you mean "pool"']),
        ("data_dir = ''", 1, ["data_dir", "empty"]),
        ('[collections.a]\npaths = ["a\\u0000b"]', 2, ["collections.a.paths", "no path"]),
    ],
)
def test_a_mistake_is_told_with_file_key_and_line(here: Path, text: str, line: int, words: list[str]) -> None:
    file = written(here, text)
    with pytest.raises(ConfigError) as caught:
        load_config()
    sentence = str(caught.value)
    assert sentence.startswith(f"{file}, line {line}: ")
    for word in words:
        assert word in sentence
    assert caught.value.exit_code == EXIT_BAD_INPUT


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[query\n", ["not valid TOML", "line 1"]),
        (b"[query]\ntop = 1\ntop = 2", ["not valid TOML"]),
        (b"a = 1\nb = '\xff'", ["line 2", "UTF-8"]),
        (b"# " + b"x" * (1 << 20), ["over a megabyte"]),
        (b"a = " + b"[" * 100_000, ["not valid TOML"]),
    ],
)
def test_a_file_that_is_no_toml_is_told_in_one_sentence(here: Path, content: bytes, words: list[str]) -> None:
    (here / "collections.toml").write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_config()
    assert "collections.toml" in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_a_file_named_but_missing_is_an_error(here: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        load_config(Path("nowhere.toml"))


def test_a_byte_order_mark_is_no_mistake(here: Path) -> None:
    (here / "collections.toml").write_bytes(b"\xef\xbb\xbf[query]\ntop = 7\n")
    assert load_config().query.top == 7


names = st.text(st.sampled_from("abc_"), min_size=1, max_size=3)
values = st.one_of(st.integers(0, 9).map(str), st.just('"a = 1"'), st.just("'''\na = 1\nb\n'''"), st.just("[\n 1,\n]"))


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(names, st.dictionaries(names, values, max_size=4), min_size=1, max_size=4), st.data())
def test_the_line_of_any_key_is_the_line_it_was_written_on(
    tables: dict[str, dict[str, str]], data: st.DataObject
) -> None:
    lines: list[str] = []
    places: dict[tuple[str, str], int] = {}
    for table, pairs in tables.items():
        lines.append(f"[{table}]  # a = 1")
        for key, value in pairs.items():
            places[table, key] = len(lines) + 1
            lines.extend(f"{key} = {value}".split("\n"))
    text = "\n".join(lines)
    tomllib.loads(text)
    for (table, key), line in places.items():
        assert line_of_key(text, (table, key)) == line


json_like = st.recursive(
    st.one_of(st.booleans(), st.integers(-5, 2000), st.text(max_size=5), st.floats()),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)


@settings(max_examples=60, deadline=None)
@given(
    section=st.sampled_from(["defaults", "query", "models", "collections.a"]),
    key=st.sampled_from(sorted({name.rsplit(".", 1)[-1] for name in known_config_keys()})),
    value=json_like,
)
def test_any_value_under_any_key_is_taken_or_told(
    tmp_path_factory: pytest.TempPathFactory, section: str, key: str, value: object
) -> None:
    file = tmp_path_factory.mktemp("any") / "collections.toml"
    file.write_text(f"[{section}]\n{key} = {_toml(value)}\n", encoding="utf-8")
    told = ""
    try:
        load_config(file)
    except ConfigError as error:
        told = str(error)
    assert not told or f"line 2: {section}.{key} " in told


parts = st.sampled_from(
    (
        *("[defaults]", "[query]", "[models]", "[collections.a]", "[collections]", '[collections."a b"]', "[[query]]"),
        *("[other]", "top = 3", "top = 0", "chunk_size = 60", "overlap = 70", "paths = ['x', \"y\"]", "paths = 3"),
        *("query.pool = 1", "data_dir = '~nobody-here/x'", "data_dir = ''", "ocr = 1979-05-27T07:32:00Z", "# top = 0"),
        *(
            "ocr = yes",
            "encoder = '''\ntop = 0\n'''",
            "include = [\n'*',\n]",
            "collections.b = {}",
            "collections.c = 1",
        ),
        *("parse_timeout = nan", "parse_timeout = 1e999", "tpo = 3", '"\\u0074op" = 0', "\x00", "\ufeff", "x.y.z = 1"),
    )
)


@settings(max_examples=120, deadline=None)
@given(st.lists(parts | st.text(max_size=12), max_size=8), st.sampled_from(["\n", "\r\n", "\n\n", " "]))
def test_any_configuration_is_read_or_told_of_by_file_line_and_key(lines: list[str], end: str) -> None:
    CHECKS["config"](end.join(lines).encode("utf-8", "surrogatepass"))


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200))
def test_a_configuration_of_any_bytes_is_read_or_told_of(content: bytes) -> None:
    CHECKS["config"](content)
    CHECKS["config"](b"[query]\ntop = 3 # " + content)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(f"\\U{ord(character):08x}" for character in value) + '"'
    return str(value)

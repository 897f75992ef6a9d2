"""The house keeps its shape: floors import only lower ones, nothing heavy loads before it is needed.

Imports are read from the source, not observed, so a rule holds also for a path that no test takes.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.tiny_models import tiny_encoder

ROOT = Path(__file__).parents[2] / "src" / "ragcli"

# A package or module imports only what stands on a lower floor, deferred imports counted; `text`, the nouns and the
# errors stand below all others.
FLOORS: dict[str, float] = {
    **dict.fromkeys(["text", "array_types", "lazy_exports", "_version"], 0.0),
    "errors": 0.2,
    "types": 0.4,
    **dict.fromkeys(["atomic_files", "http_client"], 0.5),
    "filters": 0.6,
    "options": 0.7,
    "plugins": 0.65,
    "config": 0.8,
    **dict.fromkeys(["index", "documents", "models", "llm"], 2.0),
    "collection": 3.0,
    "engines": 3.5,
    "retrieval": 4.0,
    "grounding": 5.0,
    **dict.fromkeys(["agent", "evaluation"], 6.0),
    **dict.fromkeys(["compat", "serialize", "manual", "library"], 7.0),
    **dict.fromkeys(["cli", "__main__"], 8.0),
}

# Loaded only inside the function that needs them, on every floor.
HEAVY = {
    *("torch", "transformers", "sentence_transformers", "sklearn", "scipy", "onnxruntime", "onnx", "onnxscript"),
    *("pypdf", "pypdfium2", "huggingface_hub", "tokenizers", "safetensors", "tantivy", "yaml", "lxml", "selectolax"),
    *("charset_normalizer", "markdown_it", "pebble", "PIL", "pytesseract", "matplotlib", "ir_measures", "re2"),
    *("trafilatura", "pandas", "Stemmer", "regex", "lightgbm", "requests", "httpx"),
    *("httpx2", "openai", "stamina", "tenacity"),
}
# Reading arrays is what these floors are for; the others stay free of it, so that grep and --help never load it.
NUMPY_FLOORS = {
    "array_types",
    "index",
    "models",
    "retrieval",
    "collection",
    "engines",
    "grounding",
    "agent",
    "evaluation",
    "compat",
}


@dataclass(frozen=True, slots=True)
class Import:
    """One import statement: where it stands, what it names, whether it runs when its module is loaded."""

    importer: str
    imported: str
    at_load: bool
    typing_only: bool


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(file): file for file in sorted(ROOT.rglob("*.py"))}


def exported_names() -> Iterator[tuple[str, str]]:
    """Each name that a package gives on from one of its modules, maybe only when it is first used, and that module."""
    for package, file in FILES.items():
        if file.name == "__init__.py":
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module in FILES:
                    yield from ((f"{package}.{alias.asname or alias.name}", node.module) for alias in node.names)


EXPORTED_FROM = dict(exported_names())


def floor_of(module: str) -> float | None:
    parts = module.split(".")
    return FLOORS[parts[1]] if len(parts) > 1 else None


def imports_of(module: str) -> Iterator[Import]:
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    yield from _walk(tree, module, at_load=True, typing_only=False)


def _walk(node: ast.AST, module: str, *, at_load: bool, typing_only: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(module, alias.name, at_load, typing_only)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{module} imports relatively; say whose module it is"
            assert child.module is not None
            for alias in child.names:
                whole = f"{child.module}.{alias.name}"
                home = whole if whole in FILES else EXPORTED_FROM.get(whole, child.module)
                yield Import(module, home, at_load, typing_only)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for inner in child.body:
                yield from _walk(ast.Module([inner], []), module, at_load=False, typing_only=True)
            for inner in child.orelse:
                yield from _walk(ast.Module([inner], []), module, at_load=at_load, typing_only=typing_only)
        else:
            inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from _walk(child, module, at_load=at_load and not inside, typing_only=typing_only)


ALL_IMPORTS = [each for module in FILES for each in imports_of(module)]


def test_every_package_has_a_floor() -> None:
    assert {module.split(".")[1] for module in FILES if "." in module} <= set(FLOORS)


def test_each_floor_imports_only_lower_ones() -> None:
    wrong = []
    for each in ALL_IMPORTS:
        if not each.imported.startswith("ragcli.") or each.importer == "ragcli":
            continue
        upper, lower = floor_of(each.importer), floor_of(each.imported)
        assert upper is not None
        assert lower is not None
        same_package = each.importer.split(".")[1] == each.imported.split(".")[1]
        entry = each.importer == "ragcli.__main__" and lower == 8
        if not (lower < upper or same_package or entry):
            wrong.append(f"{each.importer} imports {each.imported}")
    assert wrong == []


# What a snapshot or its files have, and readers hide.
ARRAY_ATTRIBUTES = {
    *("snapshot", "signs", "row_numbers", "dead", "own_numbers", "check_vectors", "lexical", "live_chunks"),
}


def reaches_into_the_store(tree: ast.AST) -> Iterator[str]:
    """Where a module opens a snapshot, imports what the store is made of, or names the parts of its arrays."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ARRAY_ATTRIBUTES:
            yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {alias.name for alias in node.names}
            if node.module.startswith(("ragcli.collection.store", "ragcli.collection.read")) or "Snapshot" in names:
                yield ast.unparse(node)


def test_above_the_engines_collections_are_read_through_readers_alone() -> None:
    wrong = []
    for module, file in FILES.items():
        floor = floor_of(module)
        if floor is not None and floor >= FLOORS["retrieval"]:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            wrong += [f"{module}: {each}" for each in reaches_into_the_store(tree)]
    assert wrong == []


@pytest.mark.parametrize(
    "code",
    [
        "with collection.snapshot() as snapshot: pass",
        "reader.lexical.search(text, 3)",
        "vectors[reader.dead]",
        "from ragcli.collection import Snapshot",
        "from ragcli.collection.store.row_hash import hash_text",
    ],
)
def test_a_reach_into_the_store_would_be_found(code: str) -> None:
    assert list(reaches_into_the_store(ast.parse(code)))
    assert not list(reaches_into_the_store(ast.parse("from ragcli.collection import Collection; reader.vectors([1])")))


def test_no_modules_import_each_other() -> None:
    graph: dict[str, set[str]] = {module: set() for module in FILES}
    for each in ALL_IMPORTS:
        # Also what a function imports when it is called: a cycle is one for the reader, whenever it is closed.
        if not each.typing_only and each.imported in FILES and each.imported != each.importer:
            graph[each.importer].add(each.imported)
    assert _cycle(graph) is None


# The same inside `ragcli.collection`, of which each part but `handle` is a package of its own.
COLLECTION_FLOORS = ["store", "read", "handle", "write", "ingestion", "maintain"]
FACADE_IMPORTS = {
    ("ragcli.collection.handle", "ragcli.collection.maintain.migrations.migration_runner"),
    ("ragcli.collection.handle", "ragcli.collection.maintain.verification"),
}
"""What a handle offers and another part does, imported when it is asked for."""


def test_each_part_of_a_collection_imports_only_lower_ones() -> None:
    def part(module: str) -> int | None:
        parts = module.split(".")
        known = parts[1:2] == ["collection"] and len(parts) > 2 and parts[2] in COLLECTION_FLOORS
        return COLLECTION_FLOORS.index(parts[2]) if known else None

    upward = {
        (each.importer, each.imported)
        for each in ALL_IMPORTS
        if not each.typing_only
        and (upper := part(each.importer)) is not None
        and (lower := part(each.imported)) is not None
        and lower > upper
    }
    assert upward == FACADE_IMPORTS


def _cycle(graph: dict[str, set[str]]) -> list[str] | None:
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> list[str] | None:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return None
        for following in sorted(graph[module]):
            if found := visit(following, [*path, module]):
                return found
        done.add(module)
        return None

    for module in sorted(graph):
        if found := visit(module, []):
            return found
    return None


def test_a_cycle_would_be_found() -> None:
    assert _cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": set()}) == ["a", "b", "c", "a"]
    assert _cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_nothing_heavy_is_imported_when_a_module_is_loaded() -> None:
    wrong = []
    for each in ALL_IMPORTS:
        top = each.imported.split(".")[0]
        package = each.importer.split(".")[1] if "." in each.importer else ""
        if each.at_load and (top in HEAVY or (top == "numpy" and package not in NUMPY_FLOORS)):
            wrong.append(f"{each.importer} imports {each.imported}")
    assert wrong == []


def test_array_types_are_for_annotations_alone() -> None:
    wrong = [each.importer for each in ALL_IMPORTS if each.imported == "ragcli.array_types" and not each.typing_only]
    assert wrong == []


def test_no_module_name_stands_twice() -> None:
    seen: dict[str, str] = {}
    twice = []
    for module, file in FILES.items():
        name = module.split(".")[-1]
        if file.name != "__init__.py" and name in seen:
            twice.append((seen[name], module))
        seen[name] = module
    assert twice == []


def test_no_public_class_has_a_name_twice() -> None:
    homes: dict[str, list[str]] = {}
    for module, file in FILES.items():
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(module)
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


# What turns data into code, or lets a shell read it: calls by the name they go by here.
CODE_FROM_DATA = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "subprocess.getoutput", "input"),
    *("yaml.load", "yaml.full_load", "yaml.unsafe_load", "yaml.load_all", "yaml.unsafe_load_all"),
    *("torch.load", "torch.jit.load", "torch.hub.load", "np.lib.format.open_memmap", "np.fromregex", "pd.read_pickle"),
}
PICKLING = {
    *("pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve", "pebble", "copyreg"),
    *("multiprocessing", "concurrent.futures.process", "xmlrpc", "onnxruntime_extensions"),
}


def wrong_calls(tree: ast.AST) -> Iterator[str]:
    """The calls in a module that unpickle, evaluate, or pass something to a shell."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "ProcessPoolExecutor":
            yield ast.unparse(node)
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        words = {word.arg: ast.unparse(word.value) for word in node.keywords}
        if (
            called in CODE_FROM_DATA
            or "shell" in words
            or words.get("allow_pickle", "False") != "False"
            or words.get("trust_remote_code", "False") != "False"
            # numpy's default is safe now, and was not always.
            or (called in ("np.load", "numpy.load") and "allow_pickle" not in words)
        ):
            yield ast.unparse(node)[:80]


def test_nothing_unpickles_evaluates_or_calls_a_shell() -> None:
    wrong = [
        f"{module}: {call}"
        for module, file in FILES.items()
        for call in wrong_calls(ast.parse(file.read_text(encoding="utf-8")))
    ]
    wrong += [
        f"{each.importer} imports {each.imported}"
        for each in ALL_IMPORTS
        if each.imported in PICKLING or each.imported.split(".")[0] in PICKLING
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "code",
    [
        "eval(text)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "yaml.load(text, Loader)",
        "torch.load(path)",
        "run(line, shell=True)",
        "load(name, trust_remote_code=asked)",
        "futures.ProcessPoolExecutor()",
    ],
)
def test_a_call_that_runs_data_would_be_found(code: str) -> None:
    assert list(wrong_calls(ast.parse(code)))
    assert not list(wrong_calls(ast.parse("np.load(path, allow_pickle=False); yaml.safe_load(text); re.compile(x)")))


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a collection of two notes, made with a tiny encoder."""
    folder = tmp_path_factory.mktemp("architecture")
    encoder = tiny_encoder(folder / ".encoder")
    (folder / ".notes").mkdir()
    for name in ("wormhole", "sketch"):
        (folder / ".notes" / f"{name}.md").write_text(f"# A {name}\n\nNegative energy opens a {name}.\n")
    loaded_by("ingest", str(folder / ".notes"), "-c", "notes", "--encoder", str(encoder), data_dir=folder)
    return folder


def loaded_by(*arguments: str, data_dir: Path) -> set[str]:
    """The names of the modules, and of their top-level packages, that a real call of ragcli has loaded when it ends."""
    probe = (
        "import json, sys\n"
        "from ragcli.__main__ import main\n"
        "code = main(sys.argv[1:])\n"
        "assert code == 0, code\n"
        "print('\\n' + json.dumps(sorted({*sys.modules, *(name.split('.')[0] for name in sys.modules)})))\n"
    )
    environment = {**os.environ, "RAGCLI_DATA_DIR": str(data_dir), "RAGCLI_CACHE_DIR": str(data_dir / ".cache")}
    done = subprocess.run(
        [sys.executable, "-c", probe, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
        cwd=data_dir,
    )
    return set(json.loads(done.stdout.strip().splitlines()[-1]))


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["grep", "--help"], ["query", "--help"]])
def test_help_loads_nothing_but_the_parser(arguments: list[str], tmp_path: Path) -> None:
    loaded = loaded_by(*arguments, data_dir=tmp_path)
    assert not loaded & (HEAVY | {"numpy", "rich", "pydantic", "sqlite3", "platformdirs", "tomllib"})


def test_grep_loads_no_array_no_index_and_no_model(data_dir: Path) -> None:
    for arguments in (["grep", "negative energy"], ["grep", "negative energy", "--json"], ["show", "sketch.md"]):
        assert not loaded_by(*arguments, data_dir=data_dir) & (HEAVY | {"numpy", "rich", "pydantic"})


def test_query_loads_no_training_library_and_for_json_no_rich(data_dir: Path) -> None:
    loaded = loaded_by("query", "what opens a wormhole", "--json", data_dir=data_dir)
    assert "onnxruntime" in loaded
    assert not loaded & {
        *("torch", "transformers", "sentence_transformers", "sklearn", "scipy", "onnx", "huggingface_hub"),
        *("pypdf", "pypdfium2", "pebble", "rich", "pydantic", "multiprocessing", "numpy.ma"),
    }
    unasked = ("ragcli.retrieval.expansion", "ragcli.llm", "ragcli.models.remote_reranker", "ragcli.grounding")
    assert not [name for name in loaded if name.startswith(unasked)]
    assert "tokenizers" not in loaded_by("query", "wormhole", "--pipeline", "bm25", "--json", data_dir=data_dir)

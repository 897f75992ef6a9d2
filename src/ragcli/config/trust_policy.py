"""What an untrusted `collections.toml` may not do, and the store of trusted files.

A key whose value could do more than settle how ragcli works has a guard in the table of keys: a path could name the
reader's own folders, a model could be downloaded, texts could be sent somewhere, a secret with them. What was allowed
is remembered as the file's place with a hash of its content, so that a changed file has to be looked at again. A
store that others could have written is not believed.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from ragcli.atomic_files import exclusive_lock, replace_file_atomically
from ragcli.config.config_keys import COLLECTION_KEYS, SECTION_KEYS, TOP_LEVEL_KEYS, is_remote_reranker
from ragcli.errors import ConfigError
from ragcli.options import Option

KeyPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrustDemand:
    """A value that needs the user's trust in the file. `what` ends the sentence that begins with the key.

    `model` is the model's name where it is no folder: one that is on this machine already asks for nothing.
    """

    key: KeyPath
    what: str
    line: int | None = None
    model: str | None = None

    @property
    def name(self) -> str:
        """The key as people write it."""
        return ".".join(self.key)


def demands(tree: Mapping[str, Any], folder: Path) -> Iterator[TrustDemand]:
    """What a file in `folder`, already checked, asks for beyond that folder."""
    yield from _table_demands(tree, TOP_LEVEL_KEYS, (), folder)
    for section, keys in SECTION_KEYS.items():
        yield from _table_demands(tree.get(section, {}), keys, (section,), folder)
    for name, table in tree.get("collections", {}).items():
        yield from _table_demands(table, COLLECTION_KEYS, ("collections", name), folder)


def without_keys(tree: Mapping[str, Any], keys: frozenset[KeyPath], path: KeyPath = ()) -> dict[str, Any]:
    """The tree less the values at those keys."""
    return {
        key: without_keys(value, keys, (*path, key)) if isinstance(value, dict) else value
        for key, value in tree.items()
        if (*path, key) not in keys
    }


def _table_demands(
    table: Mapping[str, Any], keys: Mapping[str, Option], path: KeyPath, folder: Path
) -> Iterator[TrustDemand]:
    for name, value in table.items():
        key = keys.get(name)
        if key is None or key.guard is None:
            continue
        where = (*path, name)
        for each in value if isinstance(value, list) else [value]:
            match key.guard:
                case "path" | "collections":
                    if what := _outside_folder(each, folder):
                        yield TrustDemand(where, f"names {what}")
                    elif key.guard == "collections" and (link := _outward_link(each, folder)):
                        yield TrustDemand(
                            where, f"names {each}, in which a link leads out of the file's folder ({link})"
                        )
                case "model":
                    yield from _model_demands(each, key, where, folder)
                case "endpoint":
                    yield TrustDemand(where, f"sends texts to {each}")
                case "secret":
                    yield TrustDemand(where, f"reads a key from the environment variable {each}")


def _model_demands(name: str, key: Option, where: KeyPath, folder: Path) -> Iterator[TrustDemand]:
    if name in key.free:
        return
    if is_remote_reranker(name):
        yield TrustDemand(where, f"sends questions and passages to {name}")
        return
    try:
        place = folder / Path(name).expanduser()
        is_folder = place.is_dir()
    except (RuntimeError, ValueError, OSError):
        is_folder = False
    if not is_folder:
        yield TrustDemand(where, f"names the model {name}, which is not on this machine", model=name)
    elif what := _outside_folder(name, folder):
        yield TrustDemand(where, f"names the model in {what}")


def _outward_link(text: str, folder: Path) -> str | None:
    """The first entry of the folder named that is a link out of the file's folder, if there is one.

    Links among files to take in are not followed anyway (see `documents.discover`); a collection is read and written.
    """
    try:
        names = sorted(os.listdir(folder / Path(text).expanduser()))  # noqa: PTH208 (a name may be any bytes)
    except OSError:
        return None
    return next((name for name in names if _outside_folder(f"{text}/{name}", folder)), None)


def _outside_folder(text: str, folder: Path) -> str | None:
    """The place that a path names, if it leads out of the folder, links followed; else None."""
    place = os.path.realpath(folder / Path(text).expanduser())
    top = os.path.realpath(folder)
    if place == top or place.startswith(top.rstrip(os.sep) + os.sep):
        return None
    return f"{text}, which is outside the file's folder" + (f" ({place})" if place != text else "")


_TRUST_STORE_FILE: Final = "trusted.json"
_MAX_TRUST_STORE_BYTES: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class TrustedFile:
    """One file that was allowed: its place, the SHA-256 of its content then, and when, as ISO 8601 in UTC."""

    path: str
    sha256: str
    at: str


def trust_store_path() -> Path:
    """Where trust is kept: in the platform's folder for a user's state."""
    import platformdirs

    return Path(platformdirs.user_state_dir("ragcli", appauthor=False)) / _TRUST_STORE_FILE


def canonical_config_path(file: Path) -> str:
    """What a configuration is known by: where it is found, whichever way one came there."""
    absolute = Path(os.path.abspath(file))  # noqa: PTH100 (resolve() would take a link for its target)
    return os.path.join(os.path.realpath(absolute.parent), absolute.name)  # noqa: PTH118


def is_trusted(file: Path, digest: str) -> bool:
    """Was this file, with this content, allowed?"""
    known = _read_trust_store().get(canonical_config_path(file))
    return known is not None and known.sha256 == digest


def trusted_files() -> tuple[TrustedFile, ...]:
    """Every file that was allowed, by path."""
    return tuple(sorted(_read_trust_store().values(), key=lambda each: each.path))


def trust_config(file: Path, digest: str) -> None:
    """Allow the file as long as it has this content. ConfigError if that cannot be remembered."""
    place = canonical_config_path(file)
    with _locked_trust_store() as known:
        known[place] = TrustedFile(place, digest, datetime.now(UTC).isoformat(timespec="seconds"))
    if not is_trusted(file, digest):
        raise ConfigError(
            f"{trust_store_path()} can be written by others, so what it says is not believed; make it and its folder"
            " yours alone (chmod go-w)."
        )


def revoke(file: Path) -> bool:
    """Take the permission back. False if there was none."""
    with _locked_trust_store() as known:
        return known.pop(canonical_config_path(file), None) is not None


def trust_state(entry: TrustedFile) -> Literal["trusted", "changed", "gone"]:
    """Whether the file is still what was allowed."""
    try:
        with Path(entry.path).open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return "gone"
    return "trusted" if digest == entry.sha256 else "changed"


@contextmanager
def _locked_trust_store() -> Iterator[dict[str, TrustedFile]]:
    """What is known, to be changed; written back at the end. One process at a time."""
    path = trust_store_path()
    try:
        with exclusive_lock(path.with_name(f".{_TRUST_STORE_FILE}.lock"), required=True):
            known = _read_trust_store()
            before = dict(known)
            yield known
            if known != before:
                content = {"version": 1, "trusted": [asdict(each) for each in known.values()]}
                replace_file_atomically(path, json.dumps(content, indent=1).encode("ascii"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror or error}), so nothing was changed.") from error


def _read_trust_store() -> dict[str, TrustedFile]:
    """What was allowed, by place. Nothing where the file is not there, not whole, or not the user's alone to write."""
    path = trust_store_path()
    try:
        with path.open("rb") as stream:
            if not _only_owner_can_write(os.fstat(stream.fileno())) or not _only_owner_can_write(path.parent.stat()):
                return {}
            content: Any = json.loads(stream.read(_MAX_TRUST_STORE_BYTES))
        return {each.path: each for each in map(_trusted_file, content["trusted"])}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}


def _trusted_file(value: Mapping[str, object]) -> TrustedFile:
    return TrustedFile(str(value["path"]), str(value["sha256"]), datetime.fromisoformat(str(value["at"])).isoformat())


def _only_owner_can_write(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)

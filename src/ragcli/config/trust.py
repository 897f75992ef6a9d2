"""Which `collections.toml` files the user has said yes to.

A file in the current folder came, perhaps, with someone's repository. What it may not do unasked is in `guards`;
here is the memory of what was allowed: the file's place together with a hash of its content, so that a changed
file has to be looked at again. It is a file of the user's own. One that others could have written is not believed.
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

from ragcli.errors import ConfigError
from ragcli.private import open_lock, replace_file

_NAME: Final = "trusted.json"
_LARGEST: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class Trusted:
    """One file that was allowed: its place, the SHA-256 of its content then, and when, as ISO 8601 in UTC."""

    path: str
    sha256: str
    at: str


def trust_file() -> Path:
    """Where trust is kept: in the platform's folder for a user's state."""
    import platformdirs

    return Path(platformdirs.user_state_dir("ragcli", appauthor=False)) / _NAME


def place_of(file: Path) -> str:
    """What a configuration is known by: where it is found, whichever way one came there."""
    absolute = Path(os.path.abspath(file))  # noqa: PTH100 (resolve() would take a link for its target)
    return os.path.join(os.path.realpath(absolute.parent), absolute.name)  # noqa: PTH118


def is_trusted(file: Path, digest: str) -> bool:
    """Was this file, with this content, allowed?"""
    known = _read().get(place_of(file))
    return known is not None and known.sha256 == digest


def all_trusted() -> tuple[Trusted, ...]:
    """Every file that was allowed, by path."""
    return tuple(sorted(_read().values(), key=lambda each: each.path))


def trust(file: Path, digest: str) -> None:
    """Allow the file as long as it has this content. ConfigError if that cannot be remembered."""
    place = place_of(file)
    with _changing() as known:
        known[place] = Trusted(place, digest, datetime.now(UTC).isoformat(timespec="seconds"))
    if not is_trusted(file, digest):
        raise ConfigError(
            f"{trust_file()} can be written by others, so what it says is not believed; make it and its folder yours"
            " alone (chmod go-w)."
        )


def revoke(file: Path) -> bool:
    """Take the permission back. False if there was none."""
    with _changing() as known:
        return known.pop(place_of(file), None) is not None


def state_of(entry: Trusted) -> Literal["trusted", "changed", "gone"]:
    """Whether the file is still what was allowed."""
    try:
        with Path(entry.path).open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return "gone"
    return "trusted" if digest == entry.sha256 else "changed"


@contextmanager
def _changing() -> Iterator[dict[str, Trusted]]:
    """What is known, to be changed; written back at the end. One process at a time."""
    import fcntl

    path = trust_file()
    try:
        lock = open_lock(path.with_name(f".{_NAME}.lock"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = _read()
            before = dict(known)
            yield known
            if known != before:
                content = {"version": 1, "trusted": [asdict(each) for each in known.values()]}
                replace_file(path, json.dumps(content, indent=1).encode("ascii"))
        finally:
            os.close(lock)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written ({error.strerror or error}), so nothing was changed.") from error


def _read() -> dict[str, Trusted]:
    """What was allowed, by place. Nothing where the file is not there, not whole, or not the user's alone to write."""
    path = trust_file()
    try:
        with path.open("rb") as stream:
            if not _ours(os.fstat(stream.fileno())) or not _ours(path.parent.stat()):
                return {}
            content: Any = json.loads(stream.read(_LARGEST))
        return {each.path: each for each in map(_entry, content["trusted"])}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return {}


def _entry(value: Mapping[str, object]) -> Trusted:
    return Trusted(str(value["path"]), str(value["sha256"]), datetime.fromisoformat(str(value["at"])).isoformat())


def _ours(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)

"""What a configuration that nobody vouches for may not say.

A key whose value could do more than settle how ragcli works has a guard in the table of keys: a path could name
the reader's own folders, a model could be downloaded, texts could be sent somewhere, a secret could be sent with
them. A guard looks at the value and says what is asked for that goes beyond the file's own folder, if anything.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragcli.config.endpoints import is_remote
from ragcli.config.keys import COLLECTION, SECTIONS, TOP, Key

KeyPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Demand:
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


def demands(tree: Mapping[str, Any], folder: Path) -> Iterator[Demand]:
    """What a file in `folder`, already checked, asks for beyond that folder."""
    yield from _of_table(tree, TOP, (), folder)
    for section, keys in SECTIONS.items():
        yield from _of_table(tree.get(section, {}), keys, (section,), folder)
    for name, table in tree.get("collections", {}).items():
        yield from _of_table(table, COLLECTION, ("collections", name), folder)


def without(tree: Mapping[str, Any], keys: frozenset[KeyPath], path: KeyPath = ()) -> dict[str, Any]:
    """The tree less the values at those keys."""
    return {
        key: without(value, keys, (*path, key)) if isinstance(value, dict) else value
        for key, value in tree.items()
        if (*path, key) not in keys
    }


def _of_table(table: Mapping[str, Any], keys: Mapping[str, Key], path: KeyPath, folder: Path) -> Iterator[Demand]:
    for name, value in table.items():
        key = keys.get(name)
        if key is None or key.guard is None:
            continue
        where = (*path, name)
        for each in value if isinstance(value, list) else [value]:
            match key.guard:
                case "path" | "collections":
                    if what := _leaving(each, folder):
                        yield Demand(where, f"names {what}")
                    elif key.guard == "collections" and (link := _link_out(each, folder)):
                        yield Demand(where, f"names {each}, in which a link leads out of the file's folder ({link})")
                case "model":
                    yield from _model(each, key, where, folder)
                case "endpoint":
                    yield Demand(where, f"sends texts to {each}")
                case "secret":
                    yield Demand(where, f"reads a key from the environment variable {each}")


def _model(name: str, key: Key, where: KeyPath, folder: Path) -> Iterator[Demand]:
    if name in key.free:
        return
    if is_remote(name):
        yield Demand(where, f"sends questions and passages to {name}")
        return
    try:
        place = folder / Path(name).expanduser()
        is_folder = place.is_dir()
    except (RuntimeError, ValueError, OSError):
        is_folder = False
    if not is_folder:
        yield Demand(where, f"names the model {name}, which is not on this machine", model=name)
    elif what := _leaving(name, folder):
        yield Demand(where, f"names the model in {what}")


def _link_out(text: str, folder: Path) -> str | None:
    """The first entry of the folder named that is a link out of the file's folder, if there is one.

    Links among files to take in are not followed anyway (see `documents.discover`); a collection is read and written.
    """
    try:
        names = sorted(os.listdir(folder / Path(text).expanduser()))  # noqa: PTH208 (a name may be any bytes)
    except OSError:
        return None
    return next((name for name in names if _leaving(f"{text}/{name}", folder)), None)


def _leaving(text: str, folder: Path) -> str | None:
    """The place that a path names, if it leads out of the folder, links followed; else None."""
    place = os.path.realpath(folder / Path(text).expanduser())
    top = os.path.realpath(folder)
    if place == top or place.startswith(top.rstrip(os.sep) + os.sep):
        return None
    return f"{text}, which is outside the file's folder" + (f" ({place})" if place != text else "")

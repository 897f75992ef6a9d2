"""The commands that are disturbed, each with a collection to do it to.

There is one for everything that changes a collection, and for each way that it does so.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scripts.torturing.children import command, in_child, value_of
from scripts.torturing.material import (
    NAME,
    ingest_call,
    write_first,
    write_first_records,
    write_second,
    write_second_records,
)


@dataclass(frozen=True, slots=True)
class Scene:
    """One command on the collection in `data`. `small` makes it do what it does with large collections.

    `damaged` says that the collection is so from the start, and the command is to mend it. `tidy` is what clears away
    what the command has left, where that is not the same command again. `readers` says that documents are parsed in
    processes of their own, as they always are; the others parse them here, which is the same to the collection and
    saves a new interpreter for every fault. `embeds` says that what the collection has in the end was embedded.
    """

    name: str
    data: Path
    call: tuple[str, ...]
    small: bool = False
    damaged: bool = False
    readers: bool = False
    tidy: tuple[str, ...] = ()
    embeds: bool = True


class Workshop:
    """Makes scenes below `work`, with the model in the folder `model`."""

    def __init__(self, work: Path, model: Path) -> None:
        self._work = work
        self._model = str(model)

    def scenes(self) -> dict[str, Callable[[], Scene]]:
        """All scenes by name, each made when it is called."""
        return {
            "create and ingest": lambda: self._of_folder("create and ingest", write_first, lambda _: None),
            "ingest": lambda: self._of_folder("ingest", write_first, write_second),
            "ingest and prune": lambda: self._of_folder(
                "ingest and prune", write_first_records, write_second_records, "--prune", small=True
            ),
            "reindex": lambda: self._of_collection(
                "reindex", "reindex", "-c", NAME, "--chunk-size", "300", "--overlap", "30", "--json", small=True
            ),
            "import": self._import,
            "rename": lambda: self._of_collection("rename", "collections", "rename", NAME, "articles"),
            "delete": lambda: self._of_collection("delete", "collections", "delete", NAME, "--yes", tidied=True),
            "repair": lambda: self._of_collection(
                "repair", "collections", "verify", NAME, "--repair", "--json", damaged=True, tidied=True
            ),
        }

    def _collection(self, name: str, first: Callable[[Path], None] = write_first) -> Path:
        """A data directory with the collection in its first state."""
        folder = self._work / name
        first(folder / "in")
        (folder / "data").mkdir()

        def make() -> None:
            os.environ["RAGCLI_DATA_DIR"] = str(folder / "data")
            answer = command(*ingest_call(folder / "in", self._model))
            if answer.code:
                raise RuntimeError(answer.err)

        value_of(in_child(make))
        return folder / "data"

    def _of_collection(
        self, name: str, *call: str, small: bool = False, damaged: bool = False, tidied: bool = False
    ) -> Scene:
        """A scene that needs nothing but the collection."""
        data = self._collection(name)
        if damaged:
            _damage(data / NAME)
        tidy = tuple(ingest_call(data.parent / "in", self._model)) if tidied else ()
        return Scene(name, data, call, small=small, damaged=damaged, tidy=tidy)

    def _import(self) -> Scene:
        """A scene that takes an archive in."""
        made = self._collection("exported")
        archive, data = made.with_name("archive.tar"), made.with_name("empty")
        data.mkdir()

        def export() -> int:
            os.environ["RAGCLI_DATA_DIR"] = str(made)
            return command("collections", "export", NAME, str(archive)).code

        if value_of(in_child(export)):
            raise RuntimeError("the collection cannot be exported")
        return Scene("import", data, ("collections", "import", str(archive)), embeds=False)

    def _of_folder(
        self,
        name: str,
        first: Callable[[Path], None],
        then: Callable[[Path], None],
        *more: str,
        small: bool = False,
    ) -> Scene:
        """A scene that ingests a folder, which has changed since the collection was made of it."""
        folder = name.replace(" ", "-")
        if name.startswith("create"):
            data = self._work / folder / "data"
            data.mkdir(parents=True)
            first(self._work / folder / "in")
        else:
            data = self._collection(folder, first)
        then(self._work / folder / "in")
        call = ingest_call(self._work / folder / "in", self._model, *more)
        return Scene(name, data, tuple(call), small=small, readers=not small)


def _damage(folder: Path) -> None:
    """Something in every derived part."""
    segment = next(path for path in sorted((folder / "lexical").iterdir()) if path.suffix == ".store")
    (tfidf,) = folder.glob("tfidf*")
    for path in (folder / "vectors.f32", segment, tfidf / "idf.f64"):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

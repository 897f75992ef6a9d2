"""Changing single bytes in all files of a collection, and asking everything there is to ask.

What must hold for each: either every answer is as before, or `verify` says that something is wrong. Whatever `verify`
would say, no answer may be a traceback, and none may hold a passage, place or name that is not the collection's own:
what is damaged is refused. Where the store itself is whole, `verify --repair` must bring everything back. And where
documents are taken in after the damage, it must not be copied to where nobody knows it for damage.

Half of the flips are made in a collection whose last commits still lie in SQLite's log, as a killed writer leaves it.
Half of them leave the file's times as they were, as a disk does that forgets a bit.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sqlite3
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from scripts.torturing.answers import as_set, ask
from scripts.torturing.children import CountingEncoder, command, in_child, in_children, read_here, value_of
from scripts.torturing.material import NAME, QUESTIONS, answer_to, ingest_call, make_folder, write_note, write_records

import ragcli.collection.read.document_bloom_filters
import ragcli.collection.write.compaction
from ragcli.collection import Collection, repair
from ragcli.errors import EXIT_SOME_FAILED, RagcliError

KINDS: Final = {"store": 30, "log": 12, "arrays": 18, "lexical": 18, "tfidf": 12, "manifest": 5, "locks": 3, "shm": 2}
"""What a file is for, and how often in a hundred it is hit."""

_RECORDS: Final = 14
_LIMIT: Final = 120
"""Seconds that one byte may take with all that is asked. Much, for a busy machine stands still at times."""
_PAGE: Final = 8192
_MEMORY: Final = 8 << 30
_BY_COMMAND: Final = 25
"""Every so many flips, the commands themselves are called too."""
_MENDED: Final = 3
"""Every so many flips, what is damaged is repaired; as often, more is taken in on top of it."""


@dataclass(frozen=True, slots=True)
class Flip:
    """A byte to change: `mask` says which bits. With `rot` the file keeps its times."""

    master: str
    kind: str
    file: str
    at: int
    mask: int
    rot: bool


@dataclass
class Tally:
    """What came of the flips: how many by kind of file, how many changed nothing, how many `verify` named."""

    tried: dict[str, int] = field(default_factory=dict)
    harmless: int = 0
    named: int = 0
    refused: int = 0
    ranked_otherwise: int = 0
    repaired: int = 0
    silent: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    unrepaired: list[str] = field(default_factory=list)
    bugs: list[str] = field(default_factory=list)

    def add(self, other: dict[str, Any]) -> None:
        """Add what another process has counted."""
        for key, value in other.items():
            mine = getattr(self, key)
            if isinstance(mine, dict):
                mine |= {kind: mine.get(kind, 0) + count for kind, count in value.items()}
            elif isinstance(mine, list):
                mine.extend(value)
            else:
                setattr(self, key, mine + value)


def run(work: Path, model: Path, encoder: CountingEncoder, most: int, seed: int, processes: int) -> Tally:
    """So many flips, in some processes at once."""
    masters = _masters(work, model)
    original = value_of(in_child(lambda: {name: ask(path / NAME) for name, path in masters.items()}))
    # Where the log is damaged, what was committed before is the collection's own too.
    known = {
        kind: {hit for each in original.values() for hit in each[kind].get("hits", ())} for kind in original["settled"]
    }
    by_command = value_of(in_child(lambda: {name: _by_command(path) for name, path in masters.items()}))
    flips = list(_choose(masters, most, seed))
    folder = work / "flipped" / "in"
    write_note(folder, 9, 0)
    write_records(folder / "corpus.jsonl", {n: n % 5 // 4 for n in range(3, _RECORDS)})
    call = ingest_call(folder, str(model))
    tally = Tally()

    def part(number: int) -> dict[str, Any]:
        mine = _Bench(work / f"flips{number}", masters, original, known, by_command, call, encoder)
        return asdict(mine.run(flips[number::processes]))

    for counted in in_children(processes, part, seconds=24 * 3600):
        tally.add(counted)
    return tally


def _masters(work: Path, model: Path) -> dict[str, Path]:
    """Data directories with the collection: one settled, one as a killed writer leaves it."""
    folder = work / "flipped"
    write_records(make_folder(folder / "in") / "corpus.jsonl", dict.fromkeys(range(_RECORDS), 0))
    for number in range(3):
        write_note(folder / "in", number, 0)
    (folder / "in" / "empty.md").write_text("", encoding="utf-8")
    settled, logged = folder / "settled", folder / "logged"
    settled.mkdir()

    def make() -> None:
        ragcli.collection.read.document_bloom_filters.BLOCKS_PER_FILTER = 12  # type: ignore[misc]
        os.environ["RAGCLI_DATA_DIR"] = str(settled)
        call = ingest_call(folder / "in", str(model))
        _some_failed(call)
        write_records(folder / "in" / "corpus.jsonl", {n: n % 5 // 4 for n in range(1, _RECORDS)})
        _some_failed(call)
        with closing(sqlite3.connect(settled / NAME / "store.db")) as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT * FROM generation").fetchall()
            shutil.copytree(settled, folder / "before")
            write_note(folder / "in", 1, 1)
            _some_failed(call)
            shutil.copytree(settled, logged)
        shutil.rmtree(settled)
        shutil.copytree(folder / "before", settled)

    value_of(in_child(make))
    return {"settled": settled, "logged": logged}


def _some_failed(call: list[str]) -> None:
    """Ingest; one file has no text."""
    if command(*call).code != EXIT_SOME_FAILED:
        raise RuntimeError(f"`ragcli {' '.join(call)}` did not end as it should")


def _choose(masters: dict[str, Path], most: int, seed: int) -> Iterator[Flip]:
    dice = random.Random(seed)
    files: dict[str, dict[str, list[str]]] = {}
    for name, path in masters.items():
        for found in sorted(each for each in path.rglob("*") if each.is_file() and each.stat().st_size):
            told = str(found.relative_to(path))
            files.setdefault(name, {}).setdefault(_kind(told), []).append(told)
    roots = {name: _roots(path / NAME / "store.db") for name, path in masters.items()}
    for number in range(most):
        master = ("settled", "logged")[number % 2]
        kinds = files[master]
        kind = dice.choices(list(kinds), [KINDS[each] for each in kinds])[0]
        file = dice.choice(kinds[kind])
        at = dice.randrange((masters[master] / file).stat().st_size)
        if kind == "store" and dice.random() < 0.5:
            # The small tables, where all hangs on little, would hardly be met beside the large ones.
            at = dice.choice(roots[master]) + dice.randrange(_PAGE)
        yield Flip(master, kind, file, at, dice.randrange(1, 256), dice.random() < 0.5)


def _roots(store: Path) -> list[int]:
    """Where the tables and indexes of a store begin, as far as they are in the file and not in its log."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro&immutable=1", uri=True)) as connection:
        pages = [1, *(page for (page,) in connection.execute("SELECT rootpage FROM sqlite_master") if page)]
    return [(page - 1) * _PAGE for page in pages if page * _PAGE <= store.stat().st_size]


def _kind(file: str) -> str:
    _, _, inside = file.partition("/")
    name = inside.rpartition("/")[2]
    ends = {"store.db": "store", "store.db-wal": "log", "store.db-shm": "shm", "manifest.json": "manifest"}
    if name.endswith(".lock"):
        return "locks"
    return ends.get(name) or ("lexical" if "lexical" in inside else "tfidf" if "tfidf" in inside else "arrays")


class _Bench:
    """One process's place for flips."""

    def __init__(
        self,
        folder: Path,
        masters: dict[str, Path],
        original: dict[str, Any],
        known: dict[str, set[str]],
        by_command: dict[str, Any],
        call: list[str],
        encoder: CountingEncoder,
    ) -> None:
        self._folder = folder
        self._data = folder
        self._turn = 0
        self._results = folder / "results"
        self._masters = masters
        self._original = original
        self._known = known
        self._by_command = by_command
        self._call = call
        self._grown: dict[str, dict[str, Any]] = {}
        self._encoder = encoder
        folder.mkdir(parents=True)

    def run(self, flips: list[Flip]) -> Tally:
        """All flips, in children that may die of them."""
        for master in self._masters:
            self._reset(master)
            self._grown[master] = value_of(in_child(self._grow))
        tally = Tally()
        done = 0
        while done < len(flips):
            batch = flips[done : done + 200]
            self._results.write_bytes(b"")
            ending = in_child(lambda: self._run_batch(batch), seconds=24 * 3600)  # noqa: B023
            counted = self._results.read_text("utf-8").splitlines()
            for line in counted:
                tally.add(json.loads(line))
            done += len(counted)
            if len(counted) < len(batch):
                flip = batch[len(counted)]
                tally.add({"tried": {flip.kind: 1}, "bugs": [f"{flip}: the process {ending.failure}"]})
                done += 1
        return tally

    def _settle_in(self) -> None:
        os.environ["RAGCLI_DATA_DIR"] = str(self._data)
        ragcli.collection.write.compaction.DEAD_ROW_MIN = 1  # type: ignore[misc]
        read_here()

    def _grow(self) -> dict[str, Any]:
        """The answers when more is taken in and nothing is damaged."""
        self._settle_in()
        command(*self._call)
        return {kind: as_set(each) for kind, each in ask(self._data / NAME).items()}

    def _run_batch(self, flips: list[Flip]) -> None:
        with suppress(ValueError, OSError):  # macOS refuses a limit on memory
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        self._settle_in()
        with self._results.open("a", encoding="utf-8") as results:
            for number, flip in enumerate(flips):
                signal.alarm(_LIMIT)
                tally = Tally()
                quiet = os.fstat(2).st_size
                self._flip(flip, tally, number)
                if os.fstat(2).st_size > quiet:
                    told = os.pread(2, 300, quiet).decode(errors="replace")
                    tally.bugs.append(f"{flip}: a library wrote to the terminal: {told}")
                results.write(json.dumps(asdict(tally)) + "\n")
                results.flush()

    def _flip(self, flip: Flip, tally: Tally, turn: int) -> None:
        tally.tried[flip.kind] = 1
        self._reset(flip.master)
        path = self._data / flip.file
        times = path.stat()
        with path.open("r+b") as file:
            file.seek(flip.at)
            byte = file.read(1)[0]
            file.seek(flip.at)
            file.write(bytes([byte ^ flip.mask]))
        if flip.rot:
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        original = self._original[flip.master]
        found = ask(self._data / NAME)
        problems, bug = _caught(lambda: list(Collection(self._data / NAME).verify()))
        if bug:
            tally.bugs.append(f"{flip}: verify: {bug}")
        if turn % _BY_COMMAND == 0:
            told = _by_command(self._data)
            tally.bugs += [f"{flip}: {each}" for each in told["bugs"]]
            if not problems and told != self._by_command[flip.master]:
                tally.silent.append(f"{flip}: a command says otherwise and verify is silent")
        self._compare(flip, found, original, problems, tally)
        if problems and flip.kind not in ("store", "log"):
            if not any(Path(flip.file).name in each or flip.file.split("/")[1] in each for each in problems):
                tally.wrong.append(f"{flip}: verify does not name the file but says {problems}")
            if turn % _MENDED == 0:
                self._repair(flip, original, tally)
            elif turn % _MENDED == 1:
                self._take_in_more(flip, tally)
        elif problems and turn % _MENDED == 0:
            _, bug = _caught(lambda: repair(Collection(self._data / NAME), lambda: self._encoder))
            if bug:
                tally.bugs.append(f"{flip}: repair: {bug}")
            for kind, after in ask(self._data / NAME).items():
                self._check_passages(flip, kind, after, tally)

    def _reset(self, master: str) -> None:
        # Never the same place twice: where a writer failed, a thread of the word index may still be writing.
        if self._turn:
            shutil.rmtree(self._data, ignore_errors=True)
        self._turn += 1
        self._data = self._folder / f"data{self._turn}-{os.getpid()}"
        shutil.copytree(self._masters[master], self._data)
        os.environ["RAGCLI_DATA_DIR"] = str(self._data)

    def _take_in_more(self, flip: Flip, tally: Tally) -> None:
        """Ingest on top of the damage, with compaction; if `verify` is content then, so must the answers be."""
        answer = command(*self._call)
        if answer.is_bug:
            tally.bugs.append(f"{flip}: ingest: {answer.err}")
        problems, bug = _caught(lambda: list(Collection(self._data / NAME).verify()))
        if bug:
            tally.bugs.append(f"{flip}: verify after an ingest: {bug}")
        elif not problems:
            after = {kind: as_set(each) for kind, each in ask(self._data / NAME).items()}
            others = [kind for kind, each in self._grown[flip.master].items() if after[kind] != each]
            if others:
                tally.silent.append(f"{flip}: after an ingest {others} differ and verify is silent")

    def _compare(
        self, flip: Flip, found: dict[str, Any], original: dict[str, Any], problems: list[str], tally: Tally
    ) -> None:
        others = [kind for kind in original if found[kind] != original[kind]]
        errors = [kind for kind in others if "error" in found[kind]]
        for kind in others:
            self._check_passages(flip, kind, found[kind], tally)
        if problems:
            tally.named += 1
            tally.refused += bool(errors)
            tally.ranked_otherwise += len(errors) < len(others)
        elif others:
            told = json.dumps(found[others[0]])[:300]
            tally.silent.append(f"{flip}: {', '.join(others)} differ and verify is silent: {told}")
        else:
            tally.harmless += 1

    def _check_passages(self, flip: Flip, kind: str, found: Any, tally: Tally) -> None:
        if "bug" in found:
            tally.bugs.append(f"{flip}: {kind}: {found['bug']}")
        elif "hits" in found:
            strange = {*found["hits"]} - self._known[kind]
            if strange:
                tally.wrong.append(f"{flip}: {kind} gives {min(strange)[:300]}")

    def _repair(self, flip: Flip, original: dict[str, Any], tally: Tally) -> None:
        _, bug = _caught(lambda: repair(Collection(self._data / NAME), lambda: self._encoder))
        if bug:
            tally.bugs.append(f"{flip}: repair: {bug}")
        problems, _ = _caught(lambda: list(Collection(self._data / NAME).verify()))
        after = ask(self._data / NAME)
        others = [kind for kind in original if as_set(after[kind]) != as_set(original[kind])]
        if problems or others:
            tally.unrepaired.append(f"{flip}: after repair verify says {problems}, and {others} differ")
        else:
            tally.repaired += 1


def _by_command(data: Path) -> dict[str, Any]:
    os.environ["RAGCLI_DATA_DIR"] = str(data)
    told = {question: answer_to(question, NAME) for question in QUESTIONS}
    listed = command("collections", "--json")
    bugs = [bug for _, bug in told.values() if bug] + ([listed.err] if listed.is_bug else [])
    return {question: answer for question, (answer, _) in told.items()} | {"bugs": bugs}


def _caught(call: Callable[[], Any]) -> tuple[Any, str | None]:
    """The value and no bug; or what was told instead, as a list; or the traceback."""
    try:
        return call(), None
    except RagcliError as error:
        return [str(error)], None
    except Exception:
        return [], traceback.format_exc()[-1500:]

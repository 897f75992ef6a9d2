"""Writing a collection, as one committed state, into an archive.

The state is a reader's snapshot, so a writer may go on beside it. It is checked from front to end before a byte is
written. The store is copied table by table into a new one: what was deleted, and still lies in the free pages of the
old, does not travel, and neither do the rows of chunks that are gone. The lexical index stays behind: it is built
anew from the texts in seconds, and a stranger's index files are nothing to open.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Final, Literal

from ragcli.collection.archive import (
    ARCHIVE,
    MEMBERS,
    STORE_MEMBER,
    TFIDF_MEMBERS,
    Label,
    Member,
    new_hash,
    write_archive,
)
from ragcli.collection.collection import Collection
from ragcli.collection.names import STORE, draft_folder
from ragcli.collection.schema import FORMAT
from ragcli.collection.snapshot import Snapshot
from ragcli.collection.store import create_store
from ragcli.errors import CollectionError

if TYPE_CHECKING:
    from ragcli.collection.generation import Generation
    from ragcli.collection.rows import IntArray

Phase = Literal["checking", "copying", "indexing"]
Watcher = Callable[[Phase, int, int], None]
"""Told the phase, and of how many bytes how many are done; (phase, 0, 0) where that cannot be told."""

_TABLES: Final = (
    "files",
    "failures",
    "documents",
    "layouts",
    "pieces",
    "squeezed",
    "sieves",
    "sieve_rows",
    "metadata",
    "chunks",
)
_OF_ALL: Final = ("sieves", "sieve_rows")
"""Tables that are made of all texts together. Without them exact search takes longer and finds the same."""
_ROWS: Final = 1024
_PIECE: Final = 1 << 20
_EXPORTED: Final = ("store", "sieves", "arrays", "tfidf")


@dataclass(frozen=True, slots=True)
class Own:
    """Of a collection with tenants: the rows that are not one tenant's, and the counts of word pieces in those."""

    dead: IntArray
    frequency: IntArray


@dataclass(frozen=True, slots=True)
class Transfer:
    """What was exported or imported: the collection, its counts, and the bytes of the archive."""

    collection: str
    generation: int
    documents: int
    chunks: int
    bytes: int


def ignore_progress(_phase: Phase, _done: int, _total: int) -> None:
    """A watcher that does not look."""


def export_collection(collection: Collection, stream: IO[bytes], watch: Watcher = ignore_progress) -> Transfer:
    """Write the collection's present state to a stream of bytes, as one archive.

    Of a collection with tenants only what the tenant may read that it was opened for is exported; TenantNeeded
    without one. Raises CollectionError if the state is damaged, or if there is no room to prepare it: the store is
    copied first, into the data directory or, where that may not be written, the system's folder for temporary files.
    """
    from ragcli._version import __version__

    with collection.snapshot() as snapshot, _work_folder(collection) as work:
        watch("checking", 0, 0)
        with _prepared(collection.name, work):
            damage = _damage(snapshot)
            if damage:
                raise CollectionError(
                    f"The collection '{collection.name}' is damaged ({damage[0]}) and was not exported;"
                    f" `ragcli collections verify {collection.name} --repair` mends what can be mended."
                )
            record, places = snapshot.copy_to(work)
            total = sum(size for _, size in places.values())
            hashed = counter(watch, "checking", total)
            label = Label(
                archive=ARCHIVE,
                format=FORMAT,
                ragcli=__version__,
                name=collection.name,
                generation=record.generation,
                documents=record.documents,
                chunks=record.chunks,
                members=tuple(_member(name, *places[name], hashed) for name in MEMBERS if name in places),
            )
        copied = counter(watch, "copying", total)
        size = write_archive(stream, label, lambda name: places[name][0].open("rb"), copied)
    return Transfer(collection.name, record.generation, record.documents, record.chunks, size)


def _damage(snapshot: Snapshot) -> list[str]:
    """What is damaged of what goes into an archive. With tenants, that is told of the whole as it is now."""
    if not snapshot.restricted:
        return [problem.sentence for problem in snapshot.problems() if problem.part in _EXPORTED]
    with Snapshot(snapshot.folder, everything=True) as whole:
        return [problem.sentence for problem in whole.problems() if problem.part in _EXPORTED]


def counter(watch: Watcher, phase: Phase, total: int) -> Callable[[int], None]:
    """A function that is told how many bytes more are done, and tells the watcher how many are in all."""
    done = 0

    def moved(size: int) -> None:
        nonlocal done
        done += size
        watch(phase, done, total)

    return moved


@contextmanager
def _prepared(name: str, work: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise CollectionError(
            f"The export of '{name}' cannot be prepared in {work.parent}: {reason}. Nothing was exported."
        ) from error


@contextmanager
def _work_folder(collection: Collection) -> Iterator[Path]:
    if os.access(collection.path.parent, os.W_OK):
        with draft_folder(collection.path.parent, collection.name) as folder:
            yield folder
    else:
        with TemporaryDirectory(prefix="ragcli-") as folder:
            yield Path(folder)


def _member(name: str, path: Path, size: int, moved: Callable[[int], None]) -> Member:
    state: blake2b = new_hash()
    left = size
    with path.open("rb", buffering=0) as source:
        while left and (piece := source.read(min(_PIECE, left))):
            state.update(piece)
            left -= len(piece)
            moved(len(piece))
    if left:
        raise CollectionError(f"{path} is shorter than it should be; `ragcli collections verify` says more.")
    return Member(name, size, state.hexdigest())


def copy_state(
    folder: Path, connection: sqlite3.Connection, record: Generation, work: Path, own: Own | None = None
) -> tuple[Generation, Mapping[str, tuple[Path, int]]]:
    """Prepare a state for its journey; its record there, and the file and length of each member of the archive.

    The connection has a read transaction open. Files that can go as they are stay where they are. With `own`, what
    was made of all tenants' texts is made anew or left behind; the connection shows one tenant's alone.
    """
    fresh = replace(record, arrays=1, lexical=1, tfidf=record.tfidf and 1, reserved_from=None)
    with closing(create_store(work)) as copy:
        # A copy that is not complete is thrown away: nothing needs to be safe before its end.
        copy.execute("PRAGMA journal_mode = OFF")
        copy.execute("PRAGMA synchronous = OFF")
        copy.execute("BEGIN")
        for table in _TABLES:
            if own is None or table not in _OF_ALL:
                _copy_table(connection, copy, table)
        if own is None:
            _copy_table(connection, copy, "blobs", "WHERE slot = 1")
            copy.execute("DELETE FROM sqlite_sequence WHERE name = 'documents'")
            sequence = connection.execute("SELECT name, seq FROM sqlite_sequence WHERE name = 'documents'").fetchall()
            copy.executemany("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", sequence)
        else:
            # The highest numbers tell how much there is of others.
            (highest,) = copy.execute("SELECT ifnull(max(number), 0) FROM chunks").fetchone()
            fresh = replace(fresh, next_number=highest + 1)
        fresh, places = _copy_arrays(folder, connection, record, fresh, work, copy, own)
        if own is not None:
            fresh, fitted = _fit_anew(copy, fresh, work)
            places |= fitted
        elif record.tfidf_name is not None:
            _copy_segments(connection, copy, record.tfidf or 0, "file LIKE 'tfidf/%'")
            for name in TFIDF_MEMBERS:
                path = folder / record.tfidf_name / name.removeprefix("tfidf/")
                places[name] = path, path.stat().st_size
        _write_record(copy, fresh)
        copy.execute("COMMIT")
        copy.execute("PRAGMA journal_mode = WAL")
    path = work / STORE
    return fresh, {STORE_MEMBER: (path, path.stat().st_size), **places}


def _fit_anew(
    copy: sqlite3.Connection, record: Generation, work: Path
) -> tuple[Generation, dict[str, tuple[Path, int]]]:
    """Fit TF-IDF to the chunks of the copy, if its collection has one."""
    from ragcli.collection.blobs import put_segments
    from ragcli.collection.catalogue import chunk_texts
    from ragcli.collection.finish import whole_file
    from ragcli.index.tfidf import fit_tfidf

    if record.tfidf is None or not record.chunks:
        return replace(record, tfidf=None, tfidf_generation=None), {}
    numbers = [number for (number,) in copy.execute("SELECT number FROM chunks ORDER BY number")]
    fit_tfidf(work / "tfidf", numbers, (text for _, text in chunk_texts(copy)))
    paths = [work / "tfidf" / name.removeprefix("tfidf/") for name in TFIDF_MEMBERS]
    put_segments(copy, 1, [whole_file(path) for path in paths])
    places = {f"tfidf/{path.name}": (path, path.stat().st_size) for path in paths}
    return replace(record, tfidf_generation=record.generation), places


def _write_record(copy: sqlite3.Connection, record: Generation) -> None:
    from ragcli.collection.generation import write_generation

    write_generation(copy, record)


def _copy_arrays(
    folder: Path,
    connection: sqlite3.Connection,
    record: Generation,
    fresh: Generation,
    work: Path,
    copy: sqlite3.Connection,
    own: Own | None,
) -> tuple[Generation, dict[str, tuple[Path, int]]]:
    import numpy as np

    from ragcli.collection.blobs import put_integers, put_segments, read_integers
    from ragcli.collection.rowfiles import RowFiles, StoredRows, array_files
    from ragcli.index.arrays import row_bytes

    dead = read_integers(connection, "dead") if own is None else own.dead
    if own is not None and len(own.frequency):
        put_integers(copy, "frequency", own.frequency)
    source, edition = folder, record.arrays
    if len(dead):
        live = np.ones(record.rows, np.bool_)
        live[dead] = False
        source, edition = work, 1
        with (
            closing(StoredRows(folder, record)) as old,
            RowFiles(work, replace(fresh, rows=0, tokens=0)) as rows,
        ):
            for first in range(0, record.rows, _ROWS):
                rows.copy(old, first, live[first : first + _ROWS])
            put_segments(copy, 1, rows.sync())
            fresh = replace(fresh, rows=rows.rows, tokens=rows.tokens)
        put_integers(copy, "dead", np.empty(0, np.int32))
    else:
        _copy_segments(connection, copy, record.arrays, "file NOT LIKE 'tfidf/%'")
    places = {}
    if fresh.rows:
        for file in array_files(fresh):
            length = file.length(fresh.rows, fresh.tokens) * row_bytes(file.dtype, file.shape)
            places[file.name] = file.path(source, edition), length
    return fresh, places


def _copy_table(connection: sqlite3.Connection, copy: sqlite3.Connection, table: str, where: str = "") -> None:
    columns = [row[1] for row in copy.execute(f"PRAGMA table_info({table})")]
    named, marks = ", ".join(columns), ", ".join("?" * len(columns))
    rows = connection.execute(f"SELECT {named} FROM {table} {where}")  # noqa: S608
    copy.executemany(f"INSERT INTO {table} ({named}) VALUES ({marks})", rows)  # noqa: S608


def _copy_segments(connection: sqlite3.Connection, copy: sqlite3.Connection, edition: int, which: str) -> None:
    rows = connection.execute(
        f"SELECT 1, file, start, stop, checksum FROM segments WHERE edition = ? AND {which}",  # noqa: S608
        (edition,),
    )
    copy.executemany("INSERT INTO segments (edition, file, start, stop, checksum) VALUES (?, ?, ?, ?, ?)", rows)

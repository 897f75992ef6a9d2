"""Copy one committed state, table by table, into a new store and compacted arrays.

What was deleted and still lies in free pages of the old store is not copied, nor are rows of chunks that are gone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from ragcli.collection.maintain.archive_format import (
    STORE_MEMBER,
    TFIDF_MEMBERS,
)
from ragcli.collection.read.tenant_views import TenantArrays
from ragcli.collection.store.chunk_arrays import (
    ChunkArrayReader,
    ChunkArrayWriter,
    array_files,
    copy_live_rows,
    put_integers,
    put_segments,
    read_integers,
)
from ragcli.collection.store.generation_record import Generation, write_generation
from ragcli.collection.store.schema import STORE_FILE
from ragcli.collection.store.sqlite_connection import create_store
from ragcli.collection.write.compaction import fit_stored_chunks
from ragcli.index.append_only_array import row_bytes

_COPIED_TABLES: Final = (
    "files",
    "failures",
    "documents",
    "layouts",
    "text_pieces",
    "folded_text",
    "bloom_filters",
    "bloom_rows",
    "metadata",
    "chunks",
)


_SHARED_TABLES: Final = ("bloom_filters", "bloom_rows")
"""Tables that are made of all texts together. Without them exact search takes longer and finds the same."""


def copy_state(
    folder: Path, connection: sqlite3.Connection, record: Generation, work: Path, own: TenantArrays | None = None
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
        for table in _COPIED_TABLES:
            if own is None or table not in _SHARED_TABLES:
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
            fresh, fitted = _refit_tfidf(copy, fresh, work)
            places |= fitted
        elif record.tfidf_name is not None:
            _copy_segments(connection, copy, record.tfidf or 0, "file LIKE 'tfidf/%'")
            for name in TFIDF_MEMBERS:
                path = folder / record.tfidf_name / name.removeprefix("tfidf/")
                places[name] = path, path.stat().st_size
        write_generation(copy, fresh)
        copy.execute("COMMIT")
        copy.execute("PRAGMA journal_mode = WAL")
    path = work / STORE_FILE
    return fresh, {STORE_MEMBER: (path, path.stat().st_size), **places}


def _refit_tfidf(
    copy: sqlite3.Connection, record: Generation, work: Path
) -> tuple[Generation, dict[str, tuple[Path, int]]]:
    """Fit TF-IDF to the chunks of the copy, if its collection has one."""
    if record.tfidf is None or not record.chunks:
        return replace(record, tfidf=None, tfidf_generation=None), {}
    segments = fit_stored_chunks(copy, work / "tfidf")
    put_segments(copy, 1, segments)
    places = {each.file: (work / each.file, each.stop) for each in segments}
    return replace(record, tfidf_generation=record.generation), places


def _copy_arrays(
    folder: Path,
    connection: sqlite3.Connection,
    record: Generation,
    fresh: Generation,
    work: Path,
    copy: sqlite3.Connection,
    own: TenantArrays | None,
) -> tuple[Generation, dict[str, tuple[Path, int]]]:
    dead = read_integers(connection, "dead") if own is None else own.dead
    if own is not None and len(own.frequency):
        put_integers(copy, "frequency", own.frequency)
    source, edition = folder, record.arrays
    if len(dead):
        source, edition = work, 1
        with (
            closing(ChunkArrayReader(folder, record)) as old,
            ChunkArrayWriter(work, replace(fresh, rows=0, tokens=0)) as rows,
        ):
            copy_live_rows(old, rows, record.rows, dead)
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

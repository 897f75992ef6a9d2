"""Checking a collection: every checksum, count and cross-reference, as far as damage can be told from data.

SQLite checks its own structure; seals in the store check its content; checksums in the store check every byte of
the arrays and of the TF-IDF; tantivy's files carry their own. What is left are the references from one to another.
The check reads one committed state, so it can run beside a writer.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np

from ragcli.collection.array_checks import check_arrays
from ragcli.collection.calibration import stored_text
from ragcli.collection.generation import Generation
from ragcli.collection.manifest import MANIFEST, manifest
from ragcli.collection.seals import card_of, chunk_seal, failure_seal, frame_seal, seal_document, seal_file
from ragcli.collection.sieves import damaged_sieves
from ragcli.collection.structure import altered_definitions
from ragcli.collection.texts import checked_text
from ragcli.errors import CollectionError, RagcliError

Part = Literal["store", "sieves", "arrays", "lexical", "tfidf", "manifest"]
_MOST: Final = 20
_TRIES: Final = 3
_PAUSE: Final = 0.05


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and in which part of the collection."""

    part: Part
    sentence: str


def find_problems(folder: Path, connection: sqlite3.Connection, record: Generation) -> list[Problem]:
    """Everything wrong with the collection in that state; the connection has a read transaction open."""
    problems: list[Problem] = []
    for part in ("store", "sieves", "arrays", "lexical", "tfidf", "manifest"):
        found: list[str] = []
        try:
            for sentence in _CHECKS[part](folder, connection, record):
                found.append(sentence)
                if len(found) > _MOST:
                    found[-1] = f"there is more of that kind in the {part}"
                    break
        except (RagcliError, sqlite3.Error, OSError, ValueError, TypeError, LookupError) as error:
            # What is damaged may break the check itself in any way that wrong data can.
            found.append(f"the {part} cannot be checked to the end: {error}")
        problems += [Problem(part, sentence) for sentence in found]
    return problems


def _check_store(_folder: Path, connection: sqlite3.Connection, record: Generation) -> Iterator[str]:
    for (sentence,) in connection.execute("PRAGMA integrity_check"):
        if sentence != "ok":
            yield f"store.db: {sentence}"
    for name in altered_definitions(connection):
        yield f"store.db: {name} is not defined as it was made"
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"store.db: row {row} of {table} refers to nothing in {parent}"
    for table, counted in (("documents", record.documents), ("chunks", record.chunks)):
        (there,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
        if there != counted:
            yield f"there are {there:,} {table} in the store, and its record says {counted:,}"
    for number, source in damaged_documents(connection):
        yield f"the document '{source}' (number {number}) is damaged in the store"
    for number, source in damaged_files(connection):
        yield f"the record of the file '{source}' (number {number}) is damaged in the store"
    for number, source in damaged_failures(connection):
        yield f"the record of the failure of '{source}' (number {number}) is damaged in the store"
    if damaged_calibration(connection):
        yield "store.db: the gate's calibration is not what was stored"
    yield from _check_counter(connection)


def damaged_calibration(connection: sqlite3.Connection) -> bool:
    """Is the gate's calibration something else than what was stored?"""
    try:
        stored_text(connection)
    except (CollectionError, UnicodeDecodeError):
        return True
    return False


def _check_counter(connection: sqlite3.Connection) -> Iterator[str]:
    """Sieves cover documents by their numbers, so a number given twice would be one that exact search passes over."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'documents'").fetchone()
    (last,) = connection.execute(
        "SELECT max(ifnull((SELECT max(number) FROM documents), 0), ifnull((SELECT max(last) FROM sieves), 0))"
    ).fetchone()
    if last > (row[0] if row is not None else 0):
        yield "store.db: the last number that a document had is lost"


def damaged_files(connection: sqlite3.Connection) -> Iterator[tuple[int, str]]:
    """(number, source) of the files whose record is not what was stored."""
    for number, source, seal in connection.execute("SELECT number, source, seal FROM files").fetchall():
        if seal_file(connection, number) != seal:
            yield number, source


def damaged_failures(connection: sqlite3.Connection) -> Iterator[tuple[int, str]]:
    """(number, source) of the failures whose record is not what was stored."""
    for number, *row, seal in connection.execute("SELECT number, file, source, reason, failed_at, seal FROM failures"):
        if failure_seal(*row) != seal:
            yield number, row[1]


def damaged_documents(connection: sqlite3.Connection) -> Iterator[tuple[int, str]]:
    """(number, source) of the documents whose text, chunks or other data are not what was stored."""
    rows = connection.execute(
        "SELECT d.number, d.source, d.seal, d.card, d.characters, d.chunks, l.seal FROM documents d"
        " LEFT JOIN layouts l ON l.document = d.number ORDER BY d.number"
    ).fetchall()
    for number, source, seal, card, characters, chunks, text in rows:
        try:
            whole = checked_text(connection, number, text)
            if (
                seal_document(connection, number) != seal
                or card_of(connection, number) != card
                or not _frame_fits(connection, number)
                or len(whole) != characters
                or not _chunks_fit(connection, number, whole, chunks)
            ):
                yield number, source
        except (RagcliError, sqlite3.Error, ValueError, TypeError):
            yield number, source


def _frame_fits(connection: sqlite3.Connection, document: int) -> bool:
    query = "SELECT pages, headings, spans, joins, frame FROM layouts WHERE document = ?"
    *layout, frame = connection.execute(query, (document,)).fetchone()
    return bool(frame_seal(document, *layout) == frame)


def _chunks_fit(connection: sqlite3.Connection, document: int, text: str, count: int) -> bool:
    rows = connection.execute(
        "SELECT number, document, ordinal, start, stop, page_start, page_end, heading, seal FROM chunks"
        " WHERE document = ? ORDER BY ordinal",
        (document,),
    ).fetchall()
    return len(rows) == count and all(
        row[2] == at and 0 <= row[3] < row[4] <= len(text) and chunk_seal(row[:8], text[row[3] : row[4]]) == row[8]
        for at, row in enumerate(rows)
    )


def _check_sieves(_folder: Path, connection: sqlite3.Connection, _record: Generation) -> Iterator[str]:
    for number in damaged_sieves(connection):
        yield f"store.db: sieve {number}, by which exact search chooses documents, is not what was stored"


def _check_lexical(folder: Path, connection: sqlite3.Connection, record: Generation) -> Iterator[str]:
    from ragcli.index.lexical import LexicalIndex, damaged_files

    place = folder / record.lexical_name
    damaged = damaged_files(place)
    for _ in range(_TRIES):
        if not damaged:
            break
        # A writer at work merges files and removes them; what is damaged is so the next time too.
        time.sleep(_PAUSE)
        damaged = sorted({*damaged} & {*damaged_files(place)})
    for name in damaged:
        yield f"{place.name}/{name} is not what was written"
    if damaged:
        return
    indexed = LexicalIndex(place).numbers()
    known = np.fromiter((row[0] for row in connection.execute("SELECT number FROM chunks ORDER BY number")), np.int64)
    missing = np.setdiff1d(known, indexed)
    if len(missing):
        yield f"{len(missing):,} chunks are missing from the lexical index"
    # A writer at work, or one that died, leaves chunks here that the store does not know; the next takes them out.
    owed = {row[0] for row in connection.execute("SELECT number FROM lexical_deletes")}
    excused = record.reserved_from if record.reserved_from is not None else record.next_number
    strays = [n for n in np.setdiff1d(indexed, known).tolist() if n not in owed and n < excused]
    if strays:
        yield f"{len(strays):,} chunks are in the lexical index and not in the store"


def _check_tfidf(folder: Path, connection: sqlite3.Connection, record: Generation) -> Iterator[str]:
    from ragcli.collection.finish import whole_file
    from ragcli.index.tfidf import TfidfReader

    if record.tfidf_name is None:
        return
    place = folder / record.tfidf_name
    recorded = connection.execute(
        "SELECT file, checksum FROM segments WHERE edition = ? AND file LIKE 'tfidf/%'", (record.tfidf,)
    ).fetchall()
    if not recorded:
        yield "the checksums of the TF-IDF are missing from the store"
    damaged = False
    for name, checksum in recorded:
        # The last part alone: what the store says must not lead out of the folder.
        path = place / str(name).rpartition("/")[2]
        if not path.is_file() or whole_file(path).checksum != checksum:
            damaged = True
            yield f"{place.name}/{path.name} is not what was written"
    if damaged or record.tfidf_stale:
        return
    known = [row[0] for row in connection.execute("SELECT number FROM chunks ORDER BY number")]
    if TfidfReader(place).numbers.tolist() != known:
        yield "the TF-IDF was fitted to other chunks than the store has"


def _check_manifest(folder: Path, connection: sqlite3.Connection, record: Generation) -> Iterator[str]:
    try:
        stated = json.loads((folder / MANIFEST).read_text("utf-8"))
        generation = stated["generation"]
    except (OSError, ValueError, TypeError, LookupError) as error:
        yield f"{MANIFEST} cannot be read ({error})"
        return
    if isinstance(generation, int) and generation > record.generation:
        # A torn log makes SQLite fall back to the commit before it, which is whole, and says nothing.
        yield f"the store has gone back to generation {record.generation}; {MANIFEST} tells of {generation}"
        return
    # A writer that was killed before its end leaves the manifest of an earlier generation; that is no damage.
    if generation == record.generation and {**stated, "ragcli": ""} != {**manifest(connection, record), "ragcli": ""}:
        yield f"{MANIFEST} does not agree with the store"


_CHECKS: Final = {
    "store": _check_store,
    "sieves": _check_sieves,
    "arrays": check_arrays,
    "lexical": _check_lexical,
    "tfidf": _check_tfidf,
    "manifest": _check_manifest,
}

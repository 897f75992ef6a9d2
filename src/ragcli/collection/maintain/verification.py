"""Integrity checks: SQLite structure, row hashes, array checksums, cross-references.

SQLite checks its own structure; row hashes check the content of the store; checksums in the store check every byte of
arrays and TF-IDF; tantivy's files carry their own. What is left are the references from one to another. From damaged
stretches of an array follow the rows that cannot be trusted. The check reads one committed state, so it can run
beside a writer.
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
import numpy.typing as npt

from ragcli.collection.read.document_bloom_filters import damaged_bloom_filters
from ragcli.collection.store.chunk_arrays import (
    CHUNK_NUMBERS,
    ROW_CHECKSUMS,
    TOKEN_OFFSETS,
    ArrayFile,
    ChunkArrayReader,
    array_files,
    count_token_frequency,
    read_integers,
    sign_bits_file,
)
from ragcli.collection.store.document_text import verified_text
from ragcli.collection.store.generation_record import MANIFEST_FILE, Generation, manifest_content
from ragcli.collection.store.metadata_layers import decode_metadata, metadata_rows
from ragcli.collection.store.row_hash import HashedTable, hash_row, is_row_intact, new_hash
from ragcli.collection.store.schema import altered_definitions
from ragcli.collection.store.stored_calibration import read_calibration_text
from ragcli.errors import CollectionError, RagcliError
from ragcli.index.append_only_array import row_bytes

CollectionPart = Literal["store", "bloom_filters", "arrays", "lexical", "tfidf", "manifest"]
_MOST: Final = 20
_TRIES: Final = 3
_PAUSE: Final = 0.05


@dataclass(frozen=True, slots=True)
class IntegrityProblem:
    """One thing that is wrong, and in which part of the collection."""

    part: CollectionPart
    sentence: str


def find_problems(folder: Path, connection: sqlite3.Connection, record: Generation) -> list[IntegrityProblem]:
    """Everything wrong with the collection in that state; the connection has a read transaction open."""
    problems: list[IntegrityProblem] = []
    for part in ("store", "bloom_filters", "arrays", "lexical", "tfidf", "manifest"):
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
        problems += [IntegrityProblem(part, sentence) for sentence in found]
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
    for number, source in damaged_rows_of(connection, "files"):
        yield f"the record of the file '{source}' (number {number}) is damaged in the store"
    for number, source in damaged_rows_of(connection, "failures"):
        yield f"the record of the failure of '{source}' (number {number}) is damaged in the store"
    if damaged_calibration(connection):
        yield "store.db: the gate's calibration is not what was stored"
    yield from _check_counter(connection)


def damaged_calibration(connection: sqlite3.Connection) -> bool:
    """Is the gate's calibration something else than what was stored?"""
    try:
        read_calibration_text(connection)
    except (CollectionError, UnicodeDecodeError):
        return True
    return False


def _check_counter(connection: sqlite3.Connection) -> Iterator[str]:
    """Bloom filters cover documents by their numbers, so exact search would pass over a number given twice."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'documents'").fetchone()
    (last,) = connection.execute(
        "SELECT max(ifnull((SELECT max(number) FROM documents), 0), ifnull((SELECT max(last) FROM bloom_filters), 0))"
    ).fetchone()
    if last > (row[0] if row is not None else 0):
        yield "store.db: the last number that a document had is lost"


def damaged_rows_of(connection: sqlite3.Connection, table: Literal["files", "failures"]) -> Iterator[tuple[int, str]]:
    """(number, source) of the files or failures whose record is not what was stored."""
    query = f"SELECT number, CAST(source AS BLOB) FROM {table}"  # noqa: S608
    for number, source in connection.execute(query).fetchall():
        if not is_row_intact(connection, table, number):
            yield number, bytes(source).decode(errors="replace")


_OF_DOCUMENT: Final[tuple[HashedTable, ...]] = ("documents", "layouts", "folded_text")


def damaged_documents(connection: sqlite3.Connection) -> Iterator[tuple[int, str]]:
    """(number, source) of the documents whose text, chunks or other data are not what was stored."""
    query = "SELECT number, CAST(source AS BLOB) FROM documents ORDER BY number"
    for number, source in connection.execute(query).fetchall():
        try:
            intact = all(is_row_intact(connection, table, number) for table in _OF_DOCUMENT) and _parts_match(
                connection, number
            )
        except (RagcliError, sqlite3.Error, ValueError, TypeError, LookupError):
            intact = False
        if not intact:
            yield number, bytes(source).decode(errors="replace")


def _parts_match(connection: sqlite3.Connection, document: int) -> bool:
    """Do text, chunks and rows of metadata go with the rows of a document that are intact themselves?"""
    characters, chunks, metadata, text_hash = connection.execute(
        "SELECT d.characters, d.chunks, d.metadata, l.text_hash FROM documents d"
        " JOIN layouts l ON l.document = d.number WHERE d.number = ?",
        (document,),
    ).fetchone()
    text = verified_text(connection, document, text_hash)
    stored = connection.execute(
        "SELECT key, position, type, text, number FROM metadata WHERE document = ?", (document,)
    ).fetchall()
    return (
        len(text) == characters
        and _chunks_match(connection, document, text, chunks)
        and {*stored} == {*metadata_rows(decode_metadata(metadata))}
    )


def _chunks_match(connection: sqlite3.Connection, document: int, text: str, count: int) -> bool:
    rows = connection.execute(
        "SELECT number, document, ordinal, start, stop, page_start, page_end, heading, row_hash FROM chunks"
        " WHERE document = ? ORDER BY ordinal",
        (document,),
    ).fetchall()
    return len(rows) == count and all(
        row[2] == at and 0 <= row[3] < row[4] <= len(text) and hash_row((*row[:8], text[row[3] : row[4]])) == row[8]
        for at, row in enumerate(rows)
    )


def _check_bloom_filters(_folder: Path, connection: sqlite3.Connection, _record: Generation) -> Iterator[str]:
    for number in damaged_bloom_filters(connection):
        yield f"store.db: bloom filter {number}, by which exact search chooses documents, is not what was stored"


def _check_lexical(folder: Path, connection: sqlite3.Connection, record: Generation) -> Iterator[str]:
    from ragcli.index.bm25 import LexicalIndex
    from ragcli.index.tantivy_integrity import damaged_index_files

    place = folder / record.lexical_name
    damaged = damaged_index_files(place)
    for _ in range(_TRIES):
        if not damaged:
            break
        # A writer at work merges files and removes them; what is damaged is so the next time too.
        time.sleep(_PAUSE)
        damaged = sorted({*damaged} & {*damaged_index_files(place)})
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
    from ragcli.collection.store.chunk_arrays import file_segment
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
        if not path.is_file() or file_segment(path).checksum != checksum:
            damaged = True
            yield f"{place.name}/{path.name} is not what was written"
    if damaged or record.tfidf_stale:
        return
    known = [row[0] for row in connection.execute("SELECT number FROM chunks ORDER BY number")]
    if TfidfReader(place).numbers.tolist() != known:
        yield "the TF-IDF was fitted to other chunks than the store has"


def _check_manifest(folder: Path, connection: sqlite3.Connection, record: Generation) -> Iterator[str]:
    try:
        stated = json.loads((folder / MANIFEST_FILE).read_text("utf-8"))
        generation = stated["generation"]
    except (OSError, ValueError, TypeError, LookupError) as error:
        yield f"{MANIFEST_FILE} cannot be read ({error})"
        return
    if isinstance(generation, int) and generation > record.generation:
        # A torn log makes SQLite fall back to the commit before it, which is whole, and says nothing.
        yield f"the store has gone back to generation {record.generation}; {MANIFEST_FILE} tells of {generation}"
        return
    # A writer that was killed before its end leaves the manifest of an earlier generation; that is no damage.
    if generation == record.generation and {**stated, "ragcli": ""} != {
        **manifest_content(connection, record),
        "ragcli": "",
    }:
        yield f"{MANIFEST_FILE} does not agree with the store"


ByteRange = tuple[int, int]
_REMADE: Final = (sign_bits_file(0).name, ROW_CHECKSUMS.name)
_BLOCK: Final = 8 << 20
_ROWS: Final = 1024


def damaged_byte_ranges(
    folder: Path, connection: sqlite3.Connection, record: Generation
) -> dict[ArrayFile, list[ByteRange]]:
    """Byte ranges of the committed length of each array that are missing or not what was written."""
    return {
        file: ranges
        for file in array_files(record)
        if (ranges := list(_damaged_ranges(folder, connection, record, file)))
    }


def _damaged_ranges(
    folder: Path, connection: sqlite3.Connection, record: Generation, file: ArrayFile
) -> Iterator[ByteRange]:
    need = file.length(record.rows, record.tokens) * row_bytes(file.dtype, file.shape) if record.rows else 0
    stretches = connection.execute(
        "SELECT start, stop, checksum FROM segments WHERE edition = ? AND file = ? AND start < ? ORDER BY start",
        (record.arrays, file.name, need),
    ).fetchall()
    path = file.path(folder, record.arrays)
    covered = 0
    for start, stop, checksum in stretches:
        if start > covered:
            yield covered, start
        if _checksum(path, start, stop) != checksum:
            yield start, stop
        covered = max(covered, stop)
    if covered < need:
        yield covered, need


def _checksum(path: Path, start: int, stop: int) -> bytes | None:
    state = new_hash()
    try:
        with path.open("rb", buffering=0) as stream:
            stream.seek(start)
            while start < stop:
                block = stream.read(min(_BLOCK, stop - start))
                if not block:
                    return None
                state.update(block)
                start += len(block)
    except OSError:
        return None
    return state.digest()


def intact_rows(folder: Path, record: Generation, damage: dict[ArrayFile, list[ByteRange]]) -> npt.NDArray[np.bool_]:
    """(rows,) which rows can be trusted in all arrays."""
    sound = np.ones(record.rows, np.bool_)
    bounds: npt.NDArray[np.int64] | None = None
    for file, ranges in damage.items():
        # The signs of the vectors and the sums are made whenever a row is written.
        if file.per != "token" and file.name not in _REMADE:
            # A damaged bound spoils the row before it and the row after it.
            before = 1 if file.per == "bound" else 0
            for first, last in _rows_in_range(file, ranges):
                sound[max(0, first - before) : last] = False
    token_files = [file for file in damage if file.per == "token"]
    if token_files and TOKEN_OFFSETS not in {*damage}:
        bounds = np.asarray(TOKEN_OFFSETS.open(folder, record))
    for file in token_files:
        if bounds is None:
            sound[:] = False
            continue
        for first, last in _rows_in_range(file, damage[file]):
            touched = np.searchsorted(bounds, [first, last - 1], side="right") - 1
            sound[max(0, int(touched[0])) : int(touched[1]) + 1] = False
    if not damage:
        for first, mask in damaged_rows(folder, record):
            sound[first : first + len(mask)] &= ~mask
    return sound


def damaged_rows(folder: Path, record: Generation) -> Iterator[tuple[int, npt.NDArray[np.bool_]]]:
    """(first row, mask) of all rows, some at a time: which are not what their own checksums say."""
    stored = ChunkArrayReader(folder, record)
    try:
        for first in range(0, record.rows, _ROWS):
            yield first, stored.unsound(first, min(_ROWS, record.rows - first))
    finally:
        stored.close()


def _rows_in_range(file: ArrayFile, ranges: list[ByteRange]) -> Iterator[tuple[int, int]]:
    size = row_bytes(file.dtype, file.shape)
    for start, stop in ranges:
        yield start // size, -(-stop // size)


def check_arrays(folder: Path, connection: sqlite3.Connection, record: Generation) -> Iterator[str]:
    """What is wrong with the arrays, in sentences."""
    damage = damaged_byte_ranges(folder, connection, record)
    for file, ranges in damage.items():
        start, stop = ranges[0]
        more = f" and {len(ranges) - 1} more stretches" if len(ranges) > 1 else ""
        yield f"{file.path(folder, record.arrays).name}: bytes {start:,} to {stop:,}{more} are not what was written"
    if damage:
        return
    numbers = np.asarray(CHUNK_NUMBERS.open(folder, record))
    dead = read_integers(connection, "dead")
    if len(numbers) > 1 and not (np.diff(numbers) > 0).all():
        yield "rows.ids does not ascend"
    if len(dead) and not ((np.diff(dead) > 0).all() and dead[0] >= 0 and dead[-1] < record.rows):
        yield "the list of dead rows is damaged"
        return
    known = np.fromiter((row[0] for row in connection.execute("SELECT number FROM chunks ORDER BY number")), np.int64)
    bad = sum(int(mask.sum()) for _, mask in damaged_rows(folder, record))
    if bad:
        yield f"{bad:,} rows of the arrays are not what their checksums in rows.sums say"
    live = np.delete(numbers, dead)
    if not np.array_equal(live, known):
        yield (
            f"{len(np.setdiff1d(known, live)):,} chunks have no row in the arrays, and"
            f" {len(np.setdiff1d(live, known)):,} rows have no chunk"
        )
    if record.dimension and record.rows:
        yield from _check_tokens(folder, connection, record, dead)


def _check_tokens(
    folder: Path, connection: sqlite3.Connection, record: Generation, dead: npt.ArrayLike
) -> Iterator[str]:
    bounds = np.asarray(TOKEN_OFFSETS.open(folder, record))
    if bounds[0] != 0 or bounds[-1] != record.tokens or (np.diff(bounds) < 0).any():
        yield "tokens.offsets does not divide the tokens into rows"
        return
    if not np.array_equal(count_token_frequency(folder, record, dead), read_integers(connection, "frequency")):
        yield "the counts of word pieces do not agree with the chunks"


_CHECKS: Final = {
    "store": _check_store,
    "bloom_filters": _check_bloom_filters,
    "arrays": check_arrays,
    "lexical": _check_lexical,
    "tfidf": _check_tfidf,
    "manifest": _check_manifest,
}

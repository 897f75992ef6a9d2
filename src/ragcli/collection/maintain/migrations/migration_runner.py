"""Bring a collection of an older disk format up to date, in place and crash-safe.

New files are written beside and named by no one until one transaction commits the new format. What is damaged is not
hashed anew, or it would be intact from then on.
"""

from __future__ import annotations

import sqlite3
import struct
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ragcli.collection.maintain.migrations import legacy_hashes
from ragcli.collection.store.locks import writer_lock
from ragcli.collection.store.schema import APPLICATION_ID, METADATA_TABLE, OLDEST_STORE_FORMAT, STORE_FILE, STORE_FORMAT
from ragcli.collection.store.sqlite_connection import open_for_writing, stored_format, transaction, translated_errors
from ragcli.errors import CollectionBusy, CollectionError

if TYPE_CHECKING:
    from ragcli.collection.store.chunk_arrays import Segment
    from ragcli.collection.store.generation_record import Generation

_VERSION_AT: Final = 60
_APPLICATION_AT: Final = 68
_SUMS_FROM: Final = 3
"""The format from which on there are cards, frames, `rows.sums`, and seals of files and failures."""
_SEALED: Final = (("files", "seal"), ("failures", "seal"), ("documents", "card"), ("layouts", "frame"))
_LAYERED: Final = (
    ("files", "born_ns INTEGER"),
    ("files", "sidecar BLOB"),
    ("files", "meta TEXT NOT NULL DEFAULT '{}'"),
    ("documents", "layers TEXT NOT NULL DEFAULT '{}'"),
)
_ROWS: Final = 1024
# Most likely another process is at the same upgrade, and that is a matter of seconds.
LOCK_WAIT_SECONDS: Final = 10.0
_POLL: Final = 0.05


def needs_migration(folder: Path) -> bool:
    """Has the collection a format that `upgrade` can bring to the present one? Reads eight bytes."""
    try:
        with (folder / STORE_FILE).open("rb", buffering=0) as stream:
            head = stream.read(_APPLICATION_AT + 4)
        (version,), (application,) = (struct.unpack_from(">i", head, at) for at in (_VERSION_AT, _APPLICATION_AT))
    except (OSError, struct.error):
        return False
    return bool(application == APPLICATION_ID and OLDEST_STORE_FORMAT <= version < STORE_FORMAT)


def migrate(folder: Path, notify: Callable[[str], None] | None = None) -> None:
    """Bring the collection to the present format, if it has an older one.

    Raises CollectionBusy where another process writes and goes on to, CollectionError where the folder cannot be
    written.
    """
    last = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            return _migrate_locked(folder, notify)
        except CollectionBusy:
            if time.monotonic() >= last:
                raise
            time.sleep(_POLL)


def _migrate_locked(folder: Path, notify: Callable[[str], None] | None) -> None:
    try:
        # Not every command that opens a collection has --wait.
        with (
            writer_lock(folder, hint=""),
            translated_errors(folder),
            closing(open_for_writing(folder, any_format=True)) as connection,
        ):
            # The bytes of the file may be older than its log, and another process may have been here first.
            if OLDEST_STORE_FORMAT <= stored_format(connection) < STORE_FORMAT:
                if notify is not None:
                    notify(f"the collection '{folder.name}' is from an older ragcli and is brought up to date.")
                _apply_migrations(folder, connection)
    except CollectionError as error:
        raise type(error)(
            f"The collection '{folder.name}' is from an older ragcli and must be brought up to date first. {error}"
        ) from error


def _apply_migrations(folder: Path, connection: sqlite3.Connection) -> None:
    from ragcli.collection.store.chunk_arrays import put_segments
    from ragcli.collection.store.generation_record import BUILDING, CURRENT, find_generation, write_manifest

    version = stored_format(connection)
    current, building = (find_generation(connection, slot) for slot in (CURRENT, BUILDING))
    records = [record for record in (current, building) if record] if version < _SUMS_FROM else []
    segments = [(record.arrays, _write_sums(folder, connection, record)) for record in records]
    with transaction(connection):
        if version < _SUMS_FROM:
            for table, column in _SEALED:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} BLOB NOT NULL DEFAULT x''")
        sound = legacy_hashes.intact_rows_of_old_format(connection, cards=version >= _SUMS_FROM)
        for table, column in _LAYERED:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
        _keep_layers(connection, sound)
        for edition, made in segments:
            put_segments(connection, edition, made)
        connection.execute(f"PRAGMA user_version = {STORE_FORMAT}")
    if current is not None:
        write_manifest(folder, connection, current)


def _keep_layers(connection: sqlite3.Connection, sound: legacy_hashes.IntactRows) -> None:
    """Make the metadata anew from the layers they come in, and seal everything that was sound.

    What was damaged keeps its old seals, which fit nothing any more.
    """
    from ragcli.collection.store.metadata_layers import update_metadata
    from ragcli.collection.store.row_hash import (
        hash_failure_record,
        hash_layout,
        update_document_hashes,
        update_file_record_hash,
    )

    connection.execute("DROP TABLE metadata")
    for statement in METADATA_TABLE:
        connection.execute(statement)
    for number in sound.files:
        update_file_record_hash(connection, number)
    for number, *row in sound.failures:
        connection.execute("UPDATE failures SET seal = ? WHERE number = ?", (hash_failure_record(*row), number))
    for number in sound.documents:
        query = "SELECT pages, headings, spans, joins FROM layouts WHERE document = ?"
        for layout in connection.execute(query, (number,)).fetchall():
            frame = hash_layout(number, *layout)
            connection.execute("UPDATE layouts SET frame = ? WHERE document = ?", (frame, number))
        (told,) = connection.execute("SELECT metadata FROM documents WHERE number = ?", (number,)).fetchone()
        update_metadata(connection, number, legacy_hashes.layers_of(told))
        update_document_hashes(connection, number)


def _write_sums(folder: Path, connection: sqlite3.Connection, record: Generation) -> tuple[Segment, ...]:
    """Write `rows.sums` for one edition of the arrays; its checksum."""
    from hashlib import blake2b

    import numpy as np

    from ragcli.collection.maintain.verification import damaged_byte_ranges, intact_rows
    from ragcli.collection.store.chunk_arrays import ROW_CHECKSUMS, ChunkArrayReader, Segment
    from ragcli.collection.store.schema import HASH_SIZE
    from ragcli.index.append_only_array import RowWriter, row_bytes

    if not (record.dimension and record.rows):
        return ()
    damage = {
        file: ranges
        for file, ranges in damaged_byte_ranges(folder, connection, record).items()
        if file.name != ROW_CHECKSUMS.name
    }
    sound = intact_rows(folder, record, damage) if damage else np.ones(record.rows, np.bool_)
    state, stored = blake2b(digest_size=HASH_SIZE), ChunkArrayReader(folder, record)
    path = ROW_CHECKSUMS.path(folder, record.arrays)
    path.unlink(missing_ok=True)
    with closing(stored), RowWriter(path, ROW_CHECKSUMS.dtype, ROW_CHECKSUMS.shape, 0) as writer:
        for first in range(0, record.rows, _ROWS):
            count = min(_ROWS, record.rows - first)
            sums = np.zeros((count, 3), np.uint32)
            for at in range(count):
                try:
                    sums[at] = stored.sums(first + at, 1)[0]
                except CollectionError:
                    sound[first + at] = False
            sums[~sound[first : first + count]] ^= 0xFFFFFFFF
            data = sums.astype(ROW_CHECKSUMS.dtype)
            writer.append(data)
            state.update(data.tobytes())
        writer.sync()
    length = record.rows * row_bytes(ROW_CHECKSUMS.dtype, ROW_CHECKSUMS.shape)
    return (Segment(ROW_CHECKSUMS.name, 0, length, state.digest()),)

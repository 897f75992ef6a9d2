"""Bringing a collection of an older format to the present one, in place.

What is added can be made from what is there: seals, and the checksums of single rows. New files are written beside
and named by no one until one transaction of the store commits the new format, so a run that is killed leaves the old
collection, and readers that have it open go on reading it. What is damaged is not sealed anew, or it would be sound
from then on: it gets seals that fit nothing, and `verify` tells of it as before.
"""

from __future__ import annotations

import sqlite3
import struct
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ragcli.collection import old_seals
from ragcli.collection.lock import writer_lock
from ragcli.collection.names import STORE
from ragcli.collection.schema import APPLICATION_ID, FORMAT, METADATA_TABLE, OLDEST
from ragcli.collection.store import explained, open_for_writing, stored_format, transaction
from ragcli.errors import CollectionBusy, CollectionError

if TYPE_CHECKING:
    from ragcli.collection.generation import Generation
    from ragcli.collection.rowfiles import Segment

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
PATIENCE: Final = 10.0
_POLL: Final = 0.05


def is_old(folder: Path) -> bool:
    """Has the collection a format that `upgrade` can bring to the present one? Reads eight bytes."""
    try:
        with (folder / STORE).open("rb", buffering=0) as stream:
            head = stream.read(_APPLICATION_AT + 4)
        (version,), (application,) = (struct.unpack_from(">i", head, at) for at in (_VERSION_AT, _APPLICATION_AT))
    except (OSError, struct.error):
        return False
    return bool(application == APPLICATION_ID and OLDEST <= version < FORMAT)


def upgrade(folder: Path, notify: Callable[[str], None] | None = None) -> None:
    """Bring the collection to the present format, if it has an older one.

    Raises CollectionBusy where another process writes and goes on to, CollectionError where the folder cannot be
    written.
    """
    last = time.monotonic() + PATIENCE
    while True:
        try:
            return _try(folder, notify)
        except CollectionBusy:
            if time.monotonic() >= last:
                raise
            time.sleep(_POLL)


def _try(folder: Path, notify: Callable[[str], None] | None) -> None:
    try:
        # Not every command that opens a collection has --wait.
        with (
            writer_lock(folder, hint=""),
            explained(folder),
            closing(open_for_writing(folder, any_format=True)) as connection,
        ):
            # The bytes of the file may be older than its log, and another process may have been here first.
            if OLDEST <= stored_format(connection) < FORMAT:
                if notify is not None:
                    notify(f"the collection '{folder.name}' is from an older ragcli and is brought up to date.")
                _upgrade(folder, connection)
    except CollectionError as error:
        raise type(error)(
            f"The collection '{folder.name}' is from an older ragcli and must be brought up to date first. {error}"
        ) from error


def _upgrade(folder: Path, connection: sqlite3.Connection) -> None:
    from ragcli.collection.blobs import put_segments
    from ragcli.collection.generation import BUILDING, CURRENT, find_generation
    from ragcli.collection.manifest import write_manifest

    version = stored_format(connection)
    current, building = (find_generation(connection, slot) for slot in (CURRENT, BUILDING))
    records = [record for record in (current, building) if record] if version < _SUMS_FROM else []
    segments = [(record.arrays, _write_sums(folder, connection, record)) for record in records]
    with transaction(connection):
        if version < _SUMS_FROM:
            for table, column in _SEALED:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {column} BLOB NOT NULL DEFAULT x''")
        sound = old_seals.sound_parts(connection, cards=version >= _SUMS_FROM)
        for table, column in _LAYERED:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
        _keep_layers(connection, sound)
        for edition, made in segments:
            put_segments(connection, edition, made)
        connection.execute(f"PRAGMA user_version = {FORMAT}")
    if current is not None:
        write_manifest(folder, connection, current)


def _keep_layers(connection: sqlite3.Connection, sound: old_seals.Sound) -> None:
    """Make the metadata anew from the layers they come in, and seal everything that was sound.

    What was damaged keeps its old seals, which fit nothing any more.
    """
    from ragcli.collection.metadata import settle_metadata
    from ragcli.collection.seals import failure_seal, frame_seal, reseal, reseal_file

    connection.execute("DROP TABLE metadata")
    for statement in METADATA_TABLE:
        connection.execute(statement)
    for number in sound.files:
        reseal_file(connection, number)
    for number, *row in sound.failures:
        connection.execute("UPDATE failures SET seal = ? WHERE number = ?", (failure_seal(*row), number))
    for number in sound.documents:
        query = "SELECT pages, headings, spans, joins FROM layouts WHERE document = ?"
        for layout in connection.execute(query, (number,)).fetchall():
            frame = frame_seal(number, *layout)
            connection.execute("UPDATE layouts SET frame = ? WHERE document = ?", (frame, number))
        (told,) = connection.execute("SELECT metadata FROM documents WHERE number = ?", (number,)).fetchone()
        settle_metadata(connection, number, old_seals.layers_of(told))
        reseal(connection, number)


def _write_sums(folder: Path, connection: sqlite3.Connection, record: Generation) -> tuple[Segment, ...]:
    """Write `rows.sums` for one edition of the arrays; its checksum."""
    from hashlib import blake2b

    import numpy as np

    from ragcli.collection.array_checks import damaged_stretches, sound_rows
    from ragcli.collection.rowfiles import SUMS, Segment, StoredRows
    from ragcli.collection.schema import DIGEST
    from ragcli.index.arrays import RowWriter, row_bytes

    if not (record.dimension and record.rows):
        return ()
    damage = {
        file: ranges for file, ranges in damaged_stretches(folder, connection, record).items() if file.name != SUMS.name
    }
    sound = sound_rows(folder, record, damage) if damage else np.ones(record.rows, np.bool_)
    state, stored = blake2b(digest_size=DIGEST), StoredRows(folder, record)
    path = SUMS.path(folder, record.arrays)
    path.unlink(missing_ok=True)
    with closing(stored), RowWriter(path, SUMS.dtype, SUMS.shape, 0) as writer:
        for first in range(0, record.rows, _ROWS):
            count = min(_ROWS, record.rows - first)
            sums = np.zeros((count, 3), np.uint32)
            for at in range(count):
                try:
                    sums[at] = stored.sums(first + at, 1)[0]
                except CollectionError:
                    sound[first + at] = False
            sums[~sound[first : first + count]] ^= 0xFFFFFFFF
            data = sums.astype(SUMS.dtype)
            writer.append(data)
            state.update(data.tobytes())
        writer.sync()
    length = record.rows * row_bytes(SUMS.dtype, SUMS.shape)
    return (Segment(SUMS.name, 0, length, state.digest()),)

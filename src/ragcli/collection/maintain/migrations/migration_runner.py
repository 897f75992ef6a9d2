"""Bring a collection of an older disk format up to date, in place and crash-safe.

Each step is one transaction that changes the tables and the format's number together, so a run that is killed leaves a
collection of one format or of the next, and the next run goes on from there. A step that writes files writes them
beside the old ones, under names that only its commit makes valid.
"""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Final

from ragcli.collection.store.locks import writer_lock
from ragcli.collection.store.schema import APPLICATION_ID, STORE_FILE, STORE_FORMAT
from ragcli.collection.store.sqlite_connection import open_for_writing, stored_format, transaction, translated_errors
from ragcli.errors import CollectionError

Migration = Callable[[Path, sqlite3.Connection], None]
"""Changes the store of the collection in a folder from one format to the next, inside a transaction."""

MIGRATIONS: Final[Mapping[int, Migration]] = MappingProxyType({})
"""The steps there are, by the format they begin with."""

# Offsets of user_version and application_id in the header of an SQLite file.
_VERSION_AT: Final = 60
_APPLICATION_AT: Final = 68


def needs_migration(folder: Path, migrations: Mapping[int, Migration] = MIGRATIONS) -> bool:
    """Has the collection a format that a migration begins with? Reads eight bytes, or none where there is no step."""
    if not migrations:
        return False
    try:
        with (folder / STORE_FILE).open("rb", buffering=0) as stream:
            head = stream.read(_APPLICATION_AT + 4)
        (version,), (application,) = (struct.unpack_from(">i", head, at) for at in (_VERSION_AT, _APPLICATION_AT))
    except (OSError, struct.error):
        return False
    return application == APPLICATION_ID and version in migrations


def migrate(
    folder: Path, notify: Callable[[str], None] | None = None, migrations: Mapping[int, Migration] = MIGRATIONS
) -> None:
    """Apply every migration that the collection needs, waiting for another process that is at it.

    Raises CollectionError where the folder cannot be written or the store is damaged.
    """
    try:
        with (
            writer_lock(folder, wait=True, notify=notify),
            translated_errors(folder),
            closing(open_for_writing(folder, lambda version: version in {*migrations, STORE_FORMAT})) as connection,
        ):
            # The header of the file may be older than its log, and another process may have been here first.
            if stored_format(connection) in migrations and notify is not None:
                notify(f"the collection '{folder.name}' is from an older ragcli and is brought up to date.")
            while (version := stored_format(connection)) in migrations:
                with transaction(connection):
                    migrations[version](folder, connection)
                    connection.execute(f"PRAGMA user_version = {version + 1}")
    except CollectionError as error:
        raise type(error)(
            f"The collection '{folder.name}' is from an older ragcli and must be brought up to date first. {error}"
        ) from error

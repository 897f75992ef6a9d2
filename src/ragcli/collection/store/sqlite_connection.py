"""SQLite connections to `store.db`: WAL mode, transactions, error translation, safety checks.

One writer at a time (see `locks`), any number of readers; readers see the state of the moment they began and never
wait. A commit is on the disk when it returns (synchronous=FULL). Readers open the file read-only, also from a folder
that cannot be written. A collection copied from somebody may hold anything: symbolic links, devices, triggers and
views are refused.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ragcli.collection.store.locks import share_writer_lock
from ragcli.collection.store.schema import APPLICATION_ID, STORE_FILE, STORE_FORMAT, create_tables
from ragcli.errors import CollectionError, MissingCollection

BUSY_MS: Final = 10_000


def create_store(folder: Path) -> sqlite3.Connection:
    """A new, empty store in `folder`, readable by the user alone, open for writing."""
    path = folder / STORE_FILE
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    connection = _connect(path, "rw")
    connection.execute("PRAGMA page_size = 8192")
    connection.execute("PRAGMA journal_mode = WAL")
    _for_writing(connection)
    with transaction(connection):
        create_tables(connection)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {STORE_FORMAT}")
    return connection


def open_for_writing(folder: Path, readable: Callable[[int], bool] = STORE_FORMAT.__eq__) -> sqlite3.Connection:
    """Open the store for its one writer, who holds the lock.

    CollectionError if it is damaged or its format is not `readable`; only a migration reads another than ours.
    """
    with translated_errors(folder):
        connection = _connect(_existing_store(folder), "rw")
        try:
            _check_format(connection, folder, readable)
            _for_writing(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def open_for_reading(folder: Path) -> sqlite3.Connection:
    """The store for reading only. The connection may be used from several threads, one at a time."""
    path = _existing_store(folder)
    with translated_errors(folder):
        connection = _connect(path, "ro")
        try:
            _check_format(connection, folder)
        except sqlite3.OperationalError as error:
            connection.close()
            connection = _open_unwritable(folder, path, error)
        except BaseException:
            connection.close()
            raise
        connection.execute("PRAGMA query_only = ON")
        return connection


def _open_unwritable(folder: Path, path: Path, error: sqlite3.OperationalError) -> _Connection:
    """The store where SQLite can't make the shared-memory file that WAL mode wants: no right to write, or no room.

    If no log is waiting, the database file alone is the whole state. That it stays so, while it is read without
    SQLite's own locks, is seen to by holding writers off; where they couldn't write either, there is no need.
    """
    writable = os.access(folder, os.W_OK)
    if writable and _wal_pending(path):
        raise error
    if _wal_pending(path):
        raise CollectionError(
            f"The collection at {folder} was left by a writer that was killed, and the folder cannot be written to"
            " finish its log; run any ragcli command on it once with write access."
        )
    lock = share_writer_lock(folder)
    if writable and lock is None:
        raise error
    connection = _connect(path, "ro&immutable=1")
    connection.lock = lock
    try:
        _check_format(connection, folder)
    except BaseException:
        connection.close()
        raise
    return connection


class _Connection(sqlite3.Connection):
    """A connection that gives a lock back when it is closed."""

    lock: int | None = None

    def close(self) -> None:
        super().close()
        if self.lock is not None:
            os.close(self.lock)
            self.lock = None


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything inside is committed as one, or not at all."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _existing_store(folder: Path) -> Path:
    path = folder / STORE_FILE
    if not path.is_file():
        raise MissingCollection(
            f"There is no collection '{folder.name}' in {folder.parent}; `ragcli collections` lists those there are."
        )
    with translated_errors(folder):
        refuse_links(folder)
    return path


def _connect(path: Path, mode: str) -> _Connection:
    connection = sqlite3.connect(
        f"file:{quote(os.fsencode(path.absolute()))}?mode={mode}",
        uri=True,
        timeout=BUSY_MS / 1000,
        isolation_level=None,
        check_same_thread=False,
        factory=_Connection,
    )
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _for_writing(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA fullfsync = ON")


def _check_format(
    connection: sqlite3.Connection, folder: Path, readable: Callable[[int], bool] = STORE_FORMAT.__eq__
) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    version = stored_format(connection)
    if application != APPLICATION_ID:
        raise CollectionError(
            f"{folder / STORE_FILE} is not a ragcli collection; move it away or use another data directory."
        )
    refuse_triggers(connection, folder)
    if readable(version):
        return
    told = f"The collection at {folder} has format {version}, from"
    if version > STORE_FORMAT:
        raise CollectionError(
            f"{told} a newer ragcli; this one reads format {STORE_FORMAT}. Update ragcli, or make the collection anew:"
            f" `ragcli collections delete {folder.name}`, then ingest the documents again."
        )
    if version < 1:
        raise CollectionError(
            f"The collection at {folder} is damaged: it has format {version}, which no ragcli makes."
            f" `ragcli collections delete {folder.name}` removes it; then ingest the documents again."
        )
    raise CollectionError(
        f"{told} an older ragcli; `ragcli collections show {folder.name}` brings it up to date, where its folder can"
        " be written."
    )


def stored_format(connection: sqlite3.Connection) -> int:
    """The format that the store says it has."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _wal_pending(path: Path) -> bool:
    log = path.with_name(path.name + "-wal")
    try:
        return log.stat().st_size > 0
    except OSError:
        return False


@contextmanager
def translated_errors(folder: Path) -> Iterator[None]:
    """Turn SQLite's and the system's errors into sentences about the collection."""
    try:
        yield
    except OSError as error:
        raise CollectionError(
            f"The collection at {folder} cannot be read or written: {error.strerror or error}."
            " What was committed is intact."
        ) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        # SQLite's complaints quote what is damaged, and Python wants them in UTF-8.
        raise CollectionError(damage(folder, error)) from error


@contextmanager
def translated_read_errors(folder: Path) -> Iterator[None]:
    """As `translated_errors`, for reading what may be damaged in any way: what can't be decoded is a sentence too."""
    with translated_errors(folder):
        try:
            yield
        except (ValueError, TypeError, LookupError) as error:
            raise CollectionError(damage(folder, error)) from error


def damage(folder: Path, error: Exception) -> str:
    """The sentence for a store that SQLite refuses."""
    if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
        return f"The collection '{folder.name}' is locked by another program ({error}); try again."
    if isinstance(error, sqlite3.OperationalError) and ("full" in str(error) or "disk I/O" in str(error)):
        return (
            f"The collection at {folder} cannot be written ({error}): is the disk full? What was committed is intact."
        )
    return (
        f"The store of the collection at {folder} cannot be read ({error});"
        f" `ragcli collections verify {folder.name}` says what is damaged."
    )


def refuse_links(folder: Path) -> None:
    """CollectionError if anything in the folder, or in a folder in it, is neither a file nor a folder."""
    inner = [entry.path for entry in _regular_entries(os.fspath(folder)) if entry.is_dir(follow_symlinks=False)]
    for path in inner:
        # A writer may remove an old edition at any moment.
        with suppress(FileNotFoundError):
            _regular_entries(path)


def refuse_triggers(connection: sqlite3.Connection, folder: Path) -> None:
    """CollectionError if the store has triggers or views, which no ragcli made and which act when it is used."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type NOT IN ('table', 'index')").fetchone()
    if found is not None:
        raise CollectionError(
            f"The store of the collection at {folder} has the trigger or view '{found[0]}', which ragcli did not make;"
            f" nothing of it is used. `ragcli collections delete {folder.name}` removes the collection."
        )


def _regular_entries(folder: str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        if not entry.is_file(follow_symlinks=False) and not entry.is_dir(follow_symlinks=False):
            kind = "a link" if entry.is_symlink() else "no file"
            raise CollectionError(
                f"{entry.path} is {kind}, and a collection has files of its own only; nothing of it is used. Put the"
                " file itself there, or remove the collection's folder."
            )
    return found

"""Making a collection of an archive that came from another machine.

The archive is trusted with nothing. Its members go, checked as they come, into a draft that nobody sees. The store
must have the tables that this program makes, to the letter, so nothing in it can run; its record must ask for exactly
the files that came. The lexical index is built from the texts, and then the draft is verified like any collection.
Only if all of it is sound does it become visible, in one rename.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ragcli.collection.archive import MEMBERS, ArchiveReader, Label
from ragcli.collection.collection import Collection, check_settings
from ragcli.collection.exporting import Transfer, Watcher, counter, ignore_progress
from ragcli.collection.lock import make_lock_files
from ragcli.collection.manifest import write_manifest
from ragcli.collection.names import check_name, draft_folder, fsync_folder, name_taken, publish
from ragcli.collection.repairing import build_lexical
from ragcli.collection.schema import FORMAT
from ragcli.collection.store import memory_store, open_for_writing
from ragcli.errors import CollectionError, InputError, RagcliError, UsageError

if TYPE_CHECKING:
    from ragcli.collection.generation import Generation


def import_collection(
    data_dir: Path,
    stream: IO[bytes],
    *,
    name: str | None = None,
    called: str = "The archive",
    watch: Watcher = ignore_progress,
) -> Transfer:
    """Read an archive from a stream into a new collection, called `name` or as the archive says.

    Raises InputError for an archive that is damaged, cut off, made by something else or by a newer ragcli,
    CollectionError if there is such a collection already or no room for it. Nothing is left then.
    """
    reader = ArchiveReader(stream, called)
    label = reader.label
    _check_label(label, called)
    try:
        target = check_name(label.name if name is None else name)
    except UsageError as error:
        if name is None:
            raise InputError(f"{called} is damaged: {error} Nothing was imported.") from None
        raise
    if os.path.lexists(data_dir / target):
        raise name_taken(data_dir, target, "; give the imported one another name with --name")
    with draft_folder(data_dir, target) as folder, _explained(data_dir, called):
        _check_room(folder, label)
        _take_members(reader, folder, label, watch)
        watch("indexing", 0, 0)
        _complete(folder, label, called)
        watch("checking", 0, 0)
        # By another handle than the draft's writer: as any reader will see it.
        problems = Collection(folder).verify()
        if problems:
            raise InputError(f"{called} holds a damaged collection ({problems[0]}). Nothing was imported.")
        for place in (path for path in folder.rglob("*") if path.is_dir()):
            fsync_folder(place)
        publish(folder, data_dir, target)
    return Transfer(target, label.generation, label.documents, label.chunks, reader.size)


def _check_label(label: Label, called: str) -> None:
    if label.format > FORMAT:
        raise InputError(
            f"{called} was made by a newer ragcli ({label.ragcli}): its collection has format {label.format}, and this"
            f" one reads format {FORMAT}. Update ragcli, and import it again."
        )
    if label.format < FORMAT:
        raise InputError(
            f"{called} was made by an older ragcli ({label.ragcli}): its collection has format {label.format}, and"
            f" this one reads format {FORMAT}. Open the collection with this ragcli where it lies, which brings it up"
            " to date, and export it again."
        )


def _check_room(folder: Path, label: Label) -> None:
    free = shutil.disk_usage(folder).free
    if label.size > free:
        raise CollectionError(f"there is no room: it needs {label.size:,} bytes, and {free:,} are free")


def _take_members(reader: ArchiveReader, folder: Path, label: Label, watch: Watcher) -> None:
    moved = counter(watch, "copying", label.size)
    for member, pieces in reader.members():
        # Every name there may be is one of ours; the folder is new, and nothing in it is a link.
        path = folder / MEMBERS[MEMBERS.index(member.name)]
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for piece in pieces:
                file.write(piece)
                moved(len(piece))
            file.flush()
            os.fsync(file.fileno())


def _complete(folder: Path, label: Label, called: str) -> None:
    """Check what the store is and says, and make what did not travel."""
    with closing(open_for_writing(folder)) as connection:
        try:
            _check_tables(connection)
            record = _check_record(connection, label)
        except (RagcliError, sqlite3.Error, ValueError, TypeError, LookupError) as error:
            raise InputError(f"{called} holds a damaged collection ({error}). Nothing was imported.") from error
        make_lock_files(folder)
        build_lexical(folder / record.lexical_name, connection)
        write_manifest(folder, connection, record)


@contextmanager
def _explained(data_dir: Path, called: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise CollectionError(
            f"{called} cannot be imported into {data_dir}: {error.strerror or error}. Nothing was imported."
        ) from error
    except (CollectionError, sqlite3.Error) as error:
        raise CollectionError(
            f"{called} cannot be imported into {data_dir} ({error}). Nothing was imported."
        ) from error


def _check_tables(connection: sqlite3.Connection) -> None:
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    with closing(memory_store()) as ours:
        if connection.execute(query).fetchall() != ours.execute(query).fetchall():
            raise CollectionError("its store has other tables than ragcli makes")


def _check_record(connection: sqlite3.Connection, label: Label) -> Generation:
    from ragcli.collection.generation import BUILDING, find_generation, read_generation
    from ragcli.collection.rowfiles import array_files

    record = read_generation(connection)
    check_settings(record.settings)
    if (record.arrays, record.lexical, record.tfidf or 1) != (1, 1, 1) or find_generation(connection, BUILDING):
        raise CollectionError("its record is not that of an export")
    if (record.generation, record.documents, record.chunks) != (label.generation, label.documents, label.chunks):
        raise CollectionError("its record does not agree with the label")
    wanted = {"store.db"} | {file.name for file in array_files(record) if record.rows}
    came = {member.name for member in label.members}
    if {name for name in came if not name.startswith("tfidf/")} != wanted:
        raise CollectionError("its files are not those that its record names")
    if (record.tfidf is not None) != any(name.startswith("tfidf/") for name in came):
        raise CollectionError("its files are not those that its record names")
    return record

"""Export a snapshot as an archive, and import an archive as a new collection.

Export checks the state from front to end before a byte is written; the lexical index stays behind, since it is built
anew from the texts in seconds and a stranger's index files are nothing to open. Import trusts the archive with
nothing: its members go, checked as they come, into a staging folder; the store must have exactly our tables; the
result is verified and published in one rename.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING, Final, Literal

from ragcli.atomic_files import fsync_directory
from ragcli.collection.data_directory import check_name, name_taken, publish, staging_folder
from ragcli.collection.handle import Collection, check_settings
from ragcli.collection.maintain.archive_format import (
    ARCHIVE_FORMAT,
    ARCHIVE_MEMBERS,
    ArchiveManifest,
    ArchiveMember,
    ArchiveReader,
    write_archive,
)
from ragcli.collection.maintain.repairing import build_lexical_index
from ragcli.collection.maintain.store_copy import copy_state
from ragcli.collection.maintain.verification import find_problems
from ragcli.collection.read.snapshot import Snapshot
from ragcli.collection.read.tenant_views import TenantArrays
from ragcli.collection.store.generation_record import write_manifest
from ragcli.collection.store.locks import make_lock_files
from ragcli.collection.store.row_hash import new_hash
from ragcli.collection.store.schema import STORE_FORMAT, altered_definitions
from ragcli.collection.store.sqlite_connection import open_for_writing
from ragcli.errors import CollectionError, InputError, MissingCollection, RagcliError, UsageError

if TYPE_CHECKING:
    from ragcli.collection.store.generation_record import Generation


TransferPhase = Literal["checking", "copying", "indexing"]
TransferListener = Callable[[TransferPhase, int, int], None]
"""Told the phase, and of how many bytes how many are done; (phase, 0, 0) where that cannot be told."""
_PIECE: Final = 1 << 20
_EXPORTED: Final = ("store", "bloom_filters", "arrays", "tfidf")


@dataclass(frozen=True, slots=True)
class TransferReport:
    """What was exported or imported: the collection, its counts, and the bytes of the archive."""

    collection: str
    generation: int
    documents: int
    chunks: int
    bytes: int


def ignore_progress(_phase: TransferPhase, _done: int, _total: int) -> None:
    """A watcher that does not look."""


def export_collection(
    collection: Collection, stream: IO[bytes], watch: TransferListener = ignore_progress
) -> TransferReport:
    """Write the collection's present state to a stream of bytes, as one archive.

    Of a collection with tenants only what the tenant may read that it was opened for is exported; TenantNeeded
    without one. Raises CollectionError if the state is damaged, or if there is no room to prepare it: the store is
    copied first, into the data directory or, where that may not be written, the system's folder for temporary files.
    """
    from ragcli._version import __version__

    with collection.snapshot() as snapshot, _work_folder(collection) as work:
        if snapshot.restricted and not snapshot.record.documents:
            raise MissingCollection(
                f"The collection '{collection.name}' has no document of a tenant '{collection.tenant}', so there is"
                " nothing to export."
            )
        watch("checking", 0, 0)
        with _prepared(collection.name, work):
            damage = _damage(snapshot)
            if damage:
                raise CollectionError(
                    f"The collection '{collection.name}' is damaged ({damage[0]}) and was not exported;"
                    f" `ragcli collections verify {collection.name} --repair` mends what can be mended."
                )
            own = TenantArrays(snapshot.dead, snapshot.token_frequency) if snapshot.restricted else None
            record, places = copy_state(snapshot.folder, snapshot.connection, snapshot.record, work, own)
            total = sum(size for _, size in places.values())
            hashed = byte_counter(watch, "checking", total)
            label = ArchiveManifest(
                archive=ARCHIVE_FORMAT,
                format=STORE_FORMAT,
                ragcli=__version__,
                name=collection.name,
                generation=record.generation,
                documents=record.documents,
                chunks=record.chunks,
                members=tuple(_member(name, *places[name], hashed) for name in ARCHIVE_MEMBERS if name in places),
            )
        copied = byte_counter(watch, "copying", total)
        size = write_archive(stream, label, lambda name: places[name][0].open("rb"), copied)
    return TransferReport(collection.name, record.generation, record.documents, record.chunks, size)


def _damage(snapshot: Snapshot) -> list[str]:
    """What is damaged of what goes into an archive. With tenants, that is told of the whole as it is now."""
    with Snapshot(snapshot.folder, everything=True) if snapshot.restricted else nullcontext(snapshot) as whole:
        problems = find_problems(whole.folder, whole.connection, whole.record)
    return [problem.sentence for problem in problems if problem.part in _EXPORTED]


def byte_counter(watch: TransferListener, phase: TransferPhase, total: int) -> Callable[[int], None]:
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
        with staging_folder(collection.path.parent, collection.name) as folder:
            yield folder
    else:
        with TemporaryDirectory(prefix="ragcli-") as folder:
            yield Path(folder)


def _member(name: str, path: Path, size: int, moved: Callable[[int], None]) -> ArchiveMember:
    state = new_hash()
    left = size
    with path.open("rb", buffering=0) as source:
        while left and (piece := source.read(min(_PIECE, left))):
            state.update(piece)
            left -= len(piece)
            moved(len(piece))
    if left:
        raise CollectionError(f"{path} is shorter than it should be; `ragcli collections verify` says more.")
    return ArchiveMember(name, size, state.hexdigest())


def import_collection(
    data_dir: Path,
    stream: IO[bytes],
    *,
    name: str | None = None,
    called: str = "The archive",
    watch: TransferListener = ignore_progress,
) -> TransferReport:
    """Read an archive from a stream into a new collection, called `name` or as the archive says.

    Raises InputError for an archive that is damaged, cut off, made by something else or by a newer ragcli,
    CollectionError if there is such a collection already or no room for it. Nothing is left then.
    """
    reader = ArchiveReader(stream, called)
    label = reader.label
    _check_archive_format(label, called)
    try:
        target = check_name(label.name if name is None else name)
    except UsageError as error:
        if name is None:
            raise InputError(f"{called} is damaged: {error} Nothing was imported.") from None
        raise
    if os.path.lexists(data_dir / target):
        raise name_taken(data_dir, target, "; give the imported one another name with --name")
    with staging_folder(data_dir, target) as folder, _import_errors_translated(data_dir, called):
        _check_free_space(folder, label)
        _extract_members(reader, folder, label, watch)
        watch("indexing", 0, 0)
        _complete_import(folder, label, called)
        watch("checking", 0, 0)
        # By another handle than the one that wrote it: as any reader will see it.
        problems = Collection(folder).verify()
        if problems:
            raise InputError(f"{called} holds a damaged collection ({problems[0]}). Nothing was imported.")
        for place in (path for path in folder.rglob("*") if path.is_dir()):
            fsync_directory(place)
        publish(folder, data_dir, target)
    return TransferReport(target, label.generation, label.documents, label.chunks, reader.size)


def _check_archive_format(label: ArchiveManifest, called: str) -> None:
    if label.format > STORE_FORMAT:
        raise InputError(
            f"{called} was made by a newer ragcli ({label.ragcli}): its collection has format {label.format}, and this"
            f" one reads format {STORE_FORMAT}. Update ragcli, and import it again."
        )


def _check_free_space(folder: Path, label: ArchiveManifest) -> None:
    free = shutil.disk_usage(folder).free
    if label.size > free:
        raise CollectionError(f"there is no room: it needs {label.size:,} bytes, and {free:,} are free")


def _extract_members(reader: ArchiveReader, folder: Path, label: ArchiveManifest, watch: TransferListener) -> None:
    moved = byte_counter(watch, "copying", label.size)
    for member, pieces in reader.members():
        # Every name there may be is one of ours; the folder is new, and nothing in it is a link.
        path = folder / ARCHIVE_MEMBERS[ARCHIVE_MEMBERS.index(member.name)]
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for piece in pieces:
                file.write(piece)
                moved(len(piece))
            file.flush()
            os.fsync(file.fileno())


def _complete_import(folder: Path, label: ArchiveManifest, called: str) -> None:
    """Check what the store is and says, and make what did not travel."""
    with closing(open_for_writing(folder)) as connection:
        try:
            if altered_definitions(connection):
                raise CollectionError("its store has other tables than ragcli makes")
            record = _check_record(connection, label)
        except (RagcliError, sqlite3.Error, ValueError, TypeError, LookupError) as error:
            raise InputError(f"{called} holds a damaged collection ({error}). Nothing was imported.") from error
        make_lock_files(folder)
        build_lexical_index(folder / record.lexical_name, connection)
        write_manifest(folder, connection, record)


@contextmanager
def _import_errors_translated(data_dir: Path, called: str) -> Iterator[None]:
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


def _check_record(connection: sqlite3.Connection, label: ArchiveManifest) -> Generation:
    from ragcli.collection.store.chunk_arrays import array_files
    from ragcli.collection.store.generation_record import BUILDING, find_generation, read_generation

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

"""Generation record of a committed state, and `manifest.json` written from it.

The record is one row of the store, so it changes with the documents in the same transaction. File names are built
from its numbers and never read from the store: a collection's own data cannot point outside its folder. The manifest
is for people and other programs; it is never read for work and may lag behind a run that was killed.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from ragcli.atomic_files import replace_file_atomically
from ragcli.collection.store.row_hash import hash_bytes, hash_row
from ragcli.collection.store.schema import STORE_FORMAT
from ragcli.errors import CollectionError
from ragcli.types import NO_ENCODER as NO_ENCODER
from ragcli.types import CollectionSettings

CURRENT: Final = 1
BUILDING: Final = 2
Slot = Literal[1, 2]

_DEFAULT_SETTINGS: Final = CollectionSettings()


@dataclass(frozen=True, slots=True)
class Generation:
    """One committed state. `arrays`, `lexical` and `tfidf` number the editions of the derived files.

    `rows` counts all rows of the arrays, the dead included, and `tokens` all token vectors. `next_number` is the
    first chunk number never handed out; from `reserved_from` on, numbers were handed out and may not be used.
    """

    generation: int
    committed_at: str
    settings: CollectionSettings
    fingerprint: str | None
    dimension: int
    vocabulary: int
    arrays: int
    rows: int
    tokens: int
    lexical: int
    tfidf: int | None
    tfidf_generation: int | None
    documents: int
    chunks: int
    next_number: int
    reserved_from: int | None
    last_ingest: str | None

    @property
    def lexical_name(self) -> str:
        """Folder of the lexical index."""
        return edition_name("lexical", "", self.lexical)

    @property
    def tfidf_name(self) -> str | None:
        """Folder of the TF-IDF arrays, None when there are none."""
        return None if self.tfidf is None else edition_name("tfidf", "", self.tfidf)

    @property
    def keeps_bits(self) -> bool:
        """Are the signs of token vectors kept?"""
        return self.settings.token_vectors == "bits"  # noqa: S105

    def made_by(self, fingerprint: str, dimension: int) -> bool:
        """Can the vectors be by the model with those weights and that dimension?"""
        return self.fingerprint in (None, fingerprint) and self.dimension in (0, dimension)

    @property
    def tfidf_stale(self) -> bool:
        """Have chunks come or gone since the TF-IDF was fitted?"""
        return self.tfidf_generation != self.generation


def edition_name(stem: str, suffix: str, edition: int) -> str:
    """File name of an edition: the first has the plain name, later ones a number."""
    return f"{stem}{suffix}" if edition == 1 else f"{stem}-{edition}{suffix}"


def first_generation(settings: CollectionSettings) -> Generation:
    """The state of a collection nothing was put into yet."""
    return Generation(
        generation=0,
        committed_at=utc_now(),
        settings=settings,
        fingerprint=None,
        dimension=0,
        vocabulary=0,
        arrays=1,
        rows=0,
        tokens=0,
        lexical=1,
        tfidf=None,
        tfidf_generation=None,
        documents=0,
        chunks=0,
        next_number=1,
        reserved_from=None,
        last_ingest=None,
    )


def next_generation(record: Generation, *, same_chunks: bool) -> Generation:
    """The record that comes after. With the same chunks, a TF-IDF that fitted before still fits."""
    fits = same_chunks and not record.tfidf_stale
    return replace(
        record,
        generation=record.generation + 1,
        committed_at=utc_now(),
        tfidf_generation=record.generation + 1 if fits else record.tfidf_generation,
    )


_COLUMNS: Final = tuple(column.name for column in fields(Generation))
_NUMBERS: Final = ("generation", "dimension", "vocabulary", "rows", "tokens", "documents", "chunks", "next_number")


def read_generation(connection: sqlite3.Connection, slot: Slot = CURRENT) -> Generation:
    """The record in `slot`. CollectionError if there is none or it makes no sense."""
    record = find_generation(connection, slot)
    if record is None:
        raise CollectionError(
            "The store has no generation record; the collection is damaged and must be ingested anew."
        )
    return record


def find_generation(connection: sqlite3.Connection, slot: Slot) -> Generation | None:
    """The record in `slot`, or None."""
    query = f"SELECT {', '.join(_COLUMNS)}, row_hash FROM generation WHERE slot = ?"  # noqa: S608
    row = connection.execute(query, (slot,)).fetchone()
    if row is None:
        return None
    *stored, row_hash = row
    if hash_row(stored) != row_hash:
        raise CollectionError("The generation record in the store is damaged; the collection must be ingested anew.")
    values = dict(zip(_COLUMNS, stored, strict=True))
    values["settings"] = decode_settings(values["settings"])
    record = Generation(**values)
    _check_record_types(record)
    return record


def _check_record_types(record: Generation) -> None:
    """CollectionError if a value is not of its kind: SQLite keeps any in any column, and files are named by these."""
    numbers = [getattr(record, name) for name in _NUMBERS]
    editions = [record.arrays, record.lexical, 1 if record.tfidf is None else record.tfidf]
    texts = [record.committed_at, record.fingerprint or "", record.last_ingest or ""]
    if (
        not all(type(number) is int and number >= 0 for number in [*numbers, *editions])
        or 0 in editions
        or not all(isinstance(text, str) for text in texts)
    ):
        raise CollectionError(
            "The generation record in the store makes no sense; the collection must be ingested anew."
        )


def write_generation(connection: sqlite3.Connection, record: Generation, slot: Slot = CURRENT) -> None:
    """Put the record into `slot`, inside the caller's transaction."""
    values = [encode_settings(record.settings) if name == "settings" else getattr(record, name) for name in _COLUMNS]
    places = ", ".join("?" * (len(_COLUMNS) + 2))
    connection.execute(
        f"INSERT OR REPLACE INTO generation (slot, {', '.join(_COLUMNS)}, row_hash) VALUES ({places})",  # noqa: S608
        (slot, *values, hash_row(values)),
    )


def encode_settings(settings: CollectionSettings) -> str:
    """Settings as stored: JSON with sorted keys."""
    return json.dumps(asdict(settings), sort_keys=True)


def decode_settings(text: str) -> CollectionSettings:
    """Settings from their stored form. CollectionError if they are not settings."""
    try:
        settings = CollectionSettings(**json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise CollectionError(f"The settings in the store are damaged ({error}).") from error
    for field in fields(CollectionSettings):
        value, kind = getattr(settings, field.name), type(getattr(_DEFAULT_SETTINGS, field.name))
        if field.name == "tenant_key" and (value is None or type(value) is str):
            continue
        if type(value) is not kind:
            raise CollectionError(f"The settings in the store are damaged ({field.name} is {value!r}).")
    return settings


def utc_now() -> str:
    """The time as stored: ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


MANIFEST_FILE: Final = "manifest.json"


def write_manifest(folder: Path, connection: sqlite3.Connection, record: Generation) -> None:
    """Write the manifest of that state, whole or not at all. A manifest that says so already is left alone."""
    text = json.dumps(manifest_content(connection, record), indent=2, sort_keys=True) + "\n"
    path = folder / MANIFEST_FILE
    try:
        if path.read_text("utf-8") == text:
            return
    except (OSError, UnicodeDecodeError):
        pass
    replace_file_atomically(path, text.encode(), durable=True)


def manifest_content(connection: sqlite3.Connection, record: Generation) -> dict[str, Any]:
    """What the manifest of that state says."""
    from ragcli._version import __version__

    files: dict[str, str] = {}
    for file, checksum in connection.execute(
        "SELECT file, checksum FROM segments WHERE edition = ? OR file LIKE 'tfidf/%' ORDER BY file, start",
        (record.arrays,),
    ):
        # An array has a checksum for every commit; a checksum over them stands for the file.
        if file in files:
            checksum = hash_bytes(bytes.fromhex(files[file]), checksum)
        files[file] = checksum.hex()
    settings = asdict(record.settings)
    return {
        "format": STORE_FORMAT,
        "ragcli": __version__,
        "generation": record.generation,
        "documents": record.documents,
        "chunks": record.chunks,
        "chunking": {key: settings.pop(key) for key in ("chunk_size", "overlap")},
        "models": {
            "encoder": {"name": settings.pop("encoder"), "sha256": record.fingerprint, "dimension": record.dimension}
        },
        "settings": settings,
        "checksums": files,
    }

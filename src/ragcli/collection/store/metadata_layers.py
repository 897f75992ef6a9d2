"""Layered document metadata (file, document, sidecar, `--meta`): merge, encode, index in SQL.

Layers are kept apart in `documents.layers`, so a changed sidecar or a moved file changes the metadata without the
document being read again. The merged result is stored twice: as JSON in `documents.metadata`, which is shown, and in
the table `metadata`, one row per value (a list one per item), indexed by key, type, and text or number. A date has
its ISO text and, as its number, seconds since 1970.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from os import fsdecode
from pathlib import PurePath
from typing import Any, Final

from ragcli.collection.store.document_text import to_json
from ragcli.text.characters import replace_surrogates
from ragcli.text.datetimes import date_text, epoch_seconds, parse_metadata_text, to_utc
from ragcli.types import Metadata, MetadataValue

_LARGEST: Final = 2**63
MetadataPatch = Mapping[str, MetadataValue | None]
"""What somebody says over what others said; None takes a key away."""


@dataclass(frozen=True, slots=True)
class ExternalMetadata:
    """What is said of a file's documents from outside it.

    `sidecar` None means that nothing is known of it (it could not be read), and what it said before stays;
    `sidecar_hash` is the hash of its bytes, None if there is none. `meta` is said over what `--meta` said before.
    """

    sidecar: MetadataPatch | None = field(default_factory=dict)
    sidecar_hash: bytes | None = None
    meta: MetadataPatch = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetadataLayers:
    """What each says of one document: itself, the sidecar of its file, and `--meta`."""

    document: Mapping[str, MetadataValue]
    sidecar: MetadataPatch = field(default_factory=dict)
    meta: MetadataPatch = field(default_factory=dict)

    def under(self, outside: ExternalMetadata) -> MetadataLayers:
        """The layers when this is said from outside."""
        sidecar = self.sidecar if outside.sidecar is None else outside.sidecar
        return MetadataLayers(self.document, sidecar, {**self.meta, **outside.meta})


def clean_metadata(metadata: Metadata) -> dict[str, MetadataValue]:
    """What can be stored and printed: no lone surrogates, no numbers that JSON does not have, dates as dates."""
    return {(name := replace_surrogates(str(key))): _clean_value(name, value) for key, value in metadata.items()}


def clean_patch(said: MetadataPatch) -> dict[str, MetadataValue | None]:
    """The same for what may take keys away."""
    return {
        (name := replace_surrogates(str(key))): None if value is None else _clean_value(name, value)
        for key, value in said.items()
    }


def _clean_value(key: str, value: Any) -> MetadataValue:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -_LARGEST <= value < _LARGEST else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [replace_surrogates(str(item)) for item in value]
    if isinstance(value, datetime):
        try:
            value = to_utc(value)
        except OverflowError:
            return str(value.isoformat())
    return parse_metadata_text(key, date_text(value) if isinstance(value, date) else replace_surrogates(str(value)))


def encode_metadata(metadata: MetadataPatch) -> str:
    """Metadata as stored."""
    return to_json({key: date_text(value) if isinstance(value, date) else value for key, value in metadata.items()})


def decode_metadata(text: str) -> dict[str, MetadataValue]:
    """Inverse of `encode_metadata`, for what takes no key away."""
    return {
        key: parse_metadata_text(key, value) if isinstance(value, str) else value
        for key, value in json.loads(text).items()
    }


def encode_layers(layers: MetadataLayers) -> str:
    """Layers as stored; those that say nothing are left out."""
    parts = {"document": layers.document, "sidecar": layers.sidecar, "meta": layers.meta}
    return to_json({name: json.loads(encode_metadata(said)) for name, said in parts.items() if said})


def decode_layers(text: str) -> MetadataLayers:
    """Inverse of `encode_layers`."""
    parts = {name: decode_metadata(json.dumps(said)) for name, said in json.loads(text).items()}
    return MetadataLayers(**({"document": {}} | parts))


def merge_layers(place: Mapping[str, MetadataValue], layers: MetadataLayers) -> dict[str, MetadataValue]:
    """What holds: each layer over the one before. A date brings its year with it, and a year drops another's date."""
    whole: dict[str, MetadataValue] = dict(place)
    for said in (layers.document, layers.sidecar, layers.meta):
        for key, value in said.items():
            if value is None or value == []:
                whole.pop(key, None)
            else:
                whole[key] = value
        day, year = said.get("date"), said.get("year")
        if isinstance(day, date) and "year" not in said:
            whole["year"] = day.year
        elif year is not None and "date" not in said and getattr(whole.get("date"), "year", year) != year:
            del whole["date"]
    return whole


def stored_layers(connection: sqlite3.Connection, number: int) -> MetadataLayers:
    """The layers of document `number`."""
    (layers,) = connection.execute("SELECT layers FROM documents WHERE number = ?", (number,)).fetchone()
    return decode_layers(layers)


def metadata_would_change(connection: sqlite3.Connection, number: int, layers: MetadataLayers) -> bool:
    """Would these layers, or the file's place as it is now, change what is said of document `number`?"""
    before = connection.execute("SELECT layers, metadata FROM documents WHERE number = ?", (number,)).fetchone()
    whole = encode_metadata(merge_layers(_stored_file_metadata(connection, number), layers))
    return bool(before != (encode_layers(layers), whole))


def update_metadata(connection: sqlite3.Connection, number: int, layers: MetadataLayers) -> None:
    """Give document `number` these layers and what they make with its file's place. Its hash must be renewed after."""
    metadata = encode_metadata(merge_layers(_stored_file_metadata(connection, number), layers))
    connection.execute(
        "UPDATE documents SET layers = ?, metadata = ? WHERE number = ?",
        (encode_layers(layers), metadata, number),
    )
    connection.execute("DELETE FROM metadata WHERE document = ?", (number,))
    write_metadata(connection, number, decode_metadata(metadata))


def _stored_file_metadata(connection: sqlite3.Connection, number: int) -> dict[str, MetadataValue]:
    row = connection.execute(
        "SELECT f.path, f.source, d.kind, d.title, f.mtime_ns, f.birthtime_ns FROM documents d"
        " JOIN files f ON f.number = d.file WHERE d.number = ?",
        (number,),
    ).fetchone()
    return file_metadata(*row)


def file_metadata(
    path: bytes,
    source: str,
    kind: str,
    title: str | None,
    modified_ns: int | None,
    birthtime_ns: int | None,
) -> dict[str, MetadataValue]:
    """What a document's file says of it by being where it is, and its kind and title."""
    found: dict[str, MetadataValue] = {"kind": kind}
    if title:
        found["title"] = title
    if path == b"-":
        return found
    whole = PurePath(replace_surrogates(fsdecode(path)))
    found |= {"path": str(whole), "file": whole.name}
    if folders := _folders(whole, PurePath(source)):
        found["folder"] = folders
    if whole.suffix:
        found["suffix"] = whole.suffix.lower().removeprefix(".")
    for key, time in (("modified", modified_ns), ("created", birthtime_ns)):
        if time and (moment := _moment(time)) is not None:
            found[key] = moment
    return found


def _folders(path: PurePath, source: PurePath) -> list[str]:
    """The folders that the file is in, from the one that was named for the ingest inwards."""
    inside = list(source.parts[:-1]) if path.parts[-len(source.parts) :] == source.parts else []
    above = path.parts[: len(path.parts) - len(inside) - 1]
    root = [above[-1]] if len(above) > 1 else []
    return [*root, *inside]


def _moment(time_ns: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC)
    except (OverflowError, ValueError, OSError):  # a clock that was wrong by thousands of years
        return None


def write_metadata(connection: sqlite3.Connection, number: int, metadata: Mapping[str, MetadataValue]) -> None:
    """Fill the side table for document `number`; the metadata must be clean."""
    connection.executemany(
        "INSERT INTO metadata (document, key, position, type, text, number) VALUES (?, ?, ?, ?, ?, ?)",
        ((number, *row) for row in metadata_rows(metadata)),
    )


def metadata_rows(
    metadata: Mapping[str, MetadataValue],
) -> Iterator[tuple[str, int, str, str | None, int | float | None]]:
    """(key, position, type, text, number) for every value; types are text, date, number, boolean and item."""
    for key, value in metadata.items():
        if isinstance(value, bool):
            yield key, 0, "boolean", None, int(value)
        elif isinstance(value, (int, float)):
            yield key, 0, "number", None, value
        elif isinstance(value, list):
            for position, item in enumerate(value):
                yield key, position, "item", item, None
        elif isinstance(value, date):
            yield key, 0, "date", date_text(value), epoch_seconds(value)
        else:
            yield key, 0, "text", value, None

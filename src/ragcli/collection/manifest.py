"""`manifest.json`: what a collection is, for people and for other programs.

It is written from the store at the end of a run and never read for work, so it may lag behind a run that was
killed. The checksums are the store's.
"""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from ragcli.collection.generation import Generation
from ragcli.collection.names import fsync_folder
from ragcli.collection.schema import DIGEST, FORMAT

MANIFEST: Final = "manifest.json"


def write_manifest(folder: Path, connection: sqlite3.Connection, record: Generation) -> None:
    """Write the manifest of that state, whole or not at all. A manifest that says so already is left alone."""
    text = json.dumps(manifest(connection, record), indent=2, sort_keys=True) + "\n"
    path = folder / MANIFEST
    try:
        if path.read_text("utf-8") == text:
            return
    except (OSError, UnicodeDecodeError):
        pass
    fresh = folder / f"{MANIFEST}.new"
    descriptor = os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    fresh.replace(path)
    fsync_folder(folder)


def manifest(connection: sqlite3.Connection, record: Generation) -> dict[str, Any]:
    """What the manifest of that state says."""
    from ragcli._version import __version__

    files: dict[str, str] = {}
    for file, checksum in connection.execute(
        "SELECT file, checksum FROM segments WHERE edition = ? OR file LIKE 'tfidf/%' ORDER BY file, start",
        (record.arrays,),
    ):
        # An array has a checksum for every commit; a checksum over them stands for the file.
        if file in files:
            checksum = blake2b(bytes.fromhex(files[file]) + checksum, digest_size=DIGEST).digest()
        files[file] = checksum.hex()
    settings = asdict(record.settings)
    return {
        "format": FORMAT,
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

"""Sidecar files: metadata of a document in a TOML or JSON file beside it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ragcli.config.toml_reader import parse_toml
from ragcli.documents.file_access import content_hash, display_name, read_bytes
from ragcli.documents.metadata_normalization import external_metadata, syntax_error_reason
from ragcli.errors import DocumentError
from ragcli.types import MetadataValue

SIDECAR_SUFFIXES: Final = (".meta.toml", ".meta.json")
_MAX_SIDECAR_BYTES: Final = 1 << 20


def is_sidecar(name: str) -> bool:
    """Does a file of that name say something of another?"""
    return name.lower().endswith(SIDECAR_SUFFIXES)


def sidecar_names(name: str) -> Iterator[str]:
    """What a sidecar of the file of that name may be called, in the order in which they count."""
    yield from (f"{name}{ending}" for ending in SIDECAR_SUFFIXES)
    stem = Path(name).stem
    if stem != name:
        yield from (f"{stem}{ending}" for ending in SIDECAR_SUFFIXES)


def load_sidecar(path: Path) -> tuple[bytes, bytes]:
    """A sidecar's bytes and their hash. Raises DocumentError if there are none to be had.

    A link is none: it could lead anywhere.
    """
    if path.is_symlink():
        raise DocumentError(f"{display_name(path)} is a link, so it is not read.")
    data = read_bytes(path, _MAX_SIDECAR_BYTES + 1)
    if len(data) > _MAX_SIDECAR_BYTES:
        raise DocumentError(f"{display_name(path)} is over a megabyte, which no sidecar needs.")
    return data, content_hash(data)


def parse_sidecar(data: bytes, path: Path) -> dict[str, MetadataValue | None]:
    """What a sidecar says; None under a key takes the key from the document. Raises DocumentError."""
    name = display_name(path)
    try:
        if path.suffix.lower() == ".toml":
            said: object = parse_toml(data.decode("utf-8-sig"))
        else:
            said = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DocumentError(f"{name} is not UTF-8 text.") from error
    except (ValueError, RecursionError) as error:
        what = "TOML" if path.suffix.lower() == ".toml" else "JSON"
        raise DocumentError(f"{name} cannot be read as {what}: {syntax_error_reason(error)}.") from error
    if not isinstance(said, Mapping):
        raise DocumentError(f"{name} is not a table of keys and values.")
    for key, value in said.items():
        if isinstance(value, float) and not math.isfinite(value):
            # Left out, it would leave the word to the document, which may say something else.
            raise DocumentError(f"{name} gives '{key}' a number that is none ({value}).")
    return external_metadata(said)

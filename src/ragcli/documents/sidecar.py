"""Sidecars: what somebody says of a document in a file beside it.

`paper.pdf` may have `paper.pdf.meta.toml`, `paper.pdf.meta.json`, `paper.meta.toml` or `paper.meta.json`, and the
first of these that is there counts. A sidecar is a table of keys and values; it is never a document itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ragcli.config.toml import parse_toml
from ragcli.documents.content import content_hash, open_regular
from ragcli.documents.metadata import described, unreadable
from ragcli.documents.options import called
from ragcli.errors import DocumentError
from ragcli.records import MetadataValue

ENDINGS: Final = (".meta.toml", ".meta.json")
_LARGEST: Final = 1 << 20


def is_sidecar(name: str) -> bool:
    """Does a file of that name say something of another?"""
    return name.lower().endswith(ENDINGS)


def sidecar_names(name: str) -> Iterator[str]:
    """What a sidecar of the file of that name may be called, in the order in which they count."""
    yield from (f"{name}{ending}" for ending in ENDINGS)
    stem = Path(name).stem
    if stem != name:
        yield from (f"{stem}{ending}" for ending in ENDINGS)


def load_sidecar(path: Path) -> tuple[bytes, bytes]:
    """A sidecar's bytes and their hash. Raises DocumentError if there are none to be had.

    A link is none: it could lead anywhere.
    """
    if path.is_symlink():
        raise DocumentError(f"{called(path)} is a link, so it is not read.")
    try:
        with open_regular(path) as stream:
            data = stream.read(_LARGEST + 1)
    except OSError as error:
        raise DocumentError(f"{called(path)} cannot be read: {error.strerror or error}.") from error
    if len(data) > _LARGEST:
        raise DocumentError(f"{called(path)} is over a megabyte, which no sidecar needs.")
    return data, content_hash(data)


def parse_sidecar(data: bytes, path: Path) -> dict[str, MetadataValue | None]:
    """What a sidecar says; None under a key takes the key from the document. Raises DocumentError."""
    name = called(path)
    try:
        if path.suffix.lower() == ".toml":
            said: object = parse_toml(data.decode("utf-8-sig"))
        else:
            said = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DocumentError(f"{name} is not UTF-8 text.") from error
    except (ValueError, RecursionError) as error:
        what = "TOML" if path.suffix.lower() == ".toml" else "JSON"
        raise DocumentError(f"{name} cannot be read as {what}: {unreadable(error)}.") from error
    if not isinstance(said, Mapping):
        raise DocumentError(f"{name} is not a table of keys and values.")
    for key, value in said.items():
        if isinstance(value, float) and not math.isfinite(value):
            # Left out, it would leave the word to the document, which may say something else.
            raise DocumentError(f"{name} gives '{key}' a number that is none ({value}).")
    return described(said)

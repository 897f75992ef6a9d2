"""Document identity across collections: which chunks are copies and which one is ranked."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from ragcli.engines import CollectionReader
    from ragcli.types import StoredChunk

DocumentIdentity = str | Callable[["StoredChunk"], Hashable]
"""`content`, `path`, `none`, a key of metadata, or a function from a chunk to what its document is known by."""

IDENTITY_KINDS: Final = ("content", "path", "none")

# Rounding differs with a row's place in the product; different texts are further apart.
_SCORE_TOLERANCE: Final = 1e-5

IdentityKey = tuple[Hashable, ...]
ChunkAddress = tuple[int, int]
"""A candidate: which of the collections it is from, and its chunk number there."""


def document_identities(
    reader: CollectionReader, chunks: Mapping[int, StoredChunk], identity: DocumentIdentity
) -> dict[int, IdentityKey]:
    """What the document of each chunk, by number, is known by. One without such a thing is like no other."""
    alone: dict[int, IdentityKey] = {
        number: ("alone", chunk.collection, chunk.document_id) for number, chunk in chunks.items()
    }
    if callable(identity):
        return alone | _known({number: identity(chunk) for number, chunk in chunks.items()})
    if identity == "none":
        return alone
    if identity not in IDENTITY_KINDS:
        values = {number: chunk.metadata.get(identity) for number, chunk in chunks.items()}
        return alone | _known({number: _hashable(value) for number, value in values.items()})
    places = reader.provenance(list(chunks))
    if identity == "content":
        return alone | _known({number: place.text for number, place in places.items()})
    # Records that came through a pipe have no path that would tell them from those of another pipe.
    return alone | _known({number: (place.path, place.record) for number, place in places.items() if not place.piped})


def _known(values: Mapping[int, Hashable]) -> dict[int, IdentityKey]:
    return {number: ("same", value) for number, value in values.items() if value not in (None, "", ())}


def _hashable(value: object) -> Hashable:
    if isinstance(value, list):
        return tuple(value)
    return value if isinstance(value, Hashable) else str(value)


def find_copies(
    readers: Sequence[CollectionReader], candidates: Sequence[ChunkAddress], preferred: Callable[[str], float]
) -> dict[ChunkAddress, tuple[ChunkAddress, ...]]:
    """The candidates that are the same stretch of the same text in several collections: one, and its copies.

    The one is that of the collection that is preferred most, the first among equals.
    """
    numbers: dict[int, list[int]] = {}
    for owner, number in candidates:
        numbers.setdefault(owner, []).append(number)
    first: dict[tuple[bytes, int, int], ChunkAddress] = {}
    found: dict[ChunkAddress, tuple[ChunkAddress, ...]] = {}
    for owner in sorted(numbers, key=lambda owner: (-preferred(readers[owner].name), owner)):
        for number, place in readers[owner].provenance(numbers[owner]).items():
            kept = first.setdefault((place.text, place.start, place.stop), (owner, number))
            # A text that is twice in one collection is two documents there.
            if kept[0] != owner:
                found[kept] = (*found.get(kept, ()), (owner, number))
    return found


def may_be_copies(owners: npt.NDArray[np.int64], scores: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]:
    """Places of those whose vectors score as another collection's do: the only ones that can be the same passage."""
    if len(scores) < 2:
        return np.zeros(0, dtype=np.int64)
    order = np.argsort(scores, kind="stable")
    starts = np.concatenate([[0], 1 + np.flatnonzero(np.diff(scores[order]) > _SCORE_TOLERANCE)])
    whose = owners[order]
    mixed = np.minimum.reduceat(whose, starts) != np.maximum.reduceat(whose, starts)
    return np.sort(order[np.repeat(mixed, np.diff([*starts, len(scores)]))])

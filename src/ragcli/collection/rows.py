"""What the arrays hold of one chunk, and the checksums by which a single row is known to be sound."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ragcli.index.tokens import pack_signs

if TYPE_CHECKING:
    from ragcli.models.protocols import Encoding

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]
SignArray = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Row:
    """What the arrays hold of one chunk: vector (d,), token signs (t, ceil(d/8)), word pieces (t,)."""

    vector: FloatArray
    bits: SignArray
    pieces: IntArray


def row_of(encoding: Encoding) -> Row:
    """What is kept of a chunk's encoding."""
    return Row(
        np.asarray(encoding.vector, np.float32),
        pack_signs(np.asarray(encoding.tokens, np.float32)),
        np.asarray(encoding.token_ids, np.int32),
    )


def empty_row() -> Row:
    """The row of a chunk in a collection without an encoder."""
    return Row(np.empty(0, np.float32), np.empty((0, 0), np.uint8), np.empty(0, np.int32))


SUMMED: Final = ("vector", "bits", "pieces")
"""The parts of a row that have a checksum each, in the order in which these are kept."""


def sums_of(number: int, row: Row, *, bits: bool = True) -> tuple[int, int, int]:
    """The three checksums of a row; that of its token bits is of nothing if they are not kept."""
    parts = (row.vector.astype("<f4", copy=False), row.bits if bits else row.bits[:0], row.pieces.astype("<i4"))
    vector, signs, pieces = (checksum(number, np.ascontiguousarray(part).data) for part in parts)
    return vector, signs, pieces


def checksum(number: int, part: memoryview) -> int:
    """CRC-32 of the bytes of a part of a row, and of the number of the chunk whose row it is."""
    return zlib.crc32(part, zlib.crc32(number.to_bytes(8, "little", signed=True)))

"""Tar archive format of an exported collection: manifest first, then hashed members.

Uncompressed tar can be written to a pipe and read from one, which a zip can't, and a reader meets each member once,
under one name and one size. Readers take exactly what the manifest says, and only names from a fixed list: no paths,
no links, no devices.

Headers are `tarfile`'s; the walk from one to the next is not, because its stream mode reads what a header calls a long
name or a pax record into memory before it gives the member (600 MB for one that claims 300 MB), and passes over
damaged padding and whatever follows the end.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import IO, Final

from ragcli.collection.store.chunk_arrays import ARRAY_NAMES
from ragcli.collection.store.row_hash import hash_bytes, new_hash
from ragcli.errors import InputError

ARCHIVE_FORMAT: Final = 1
"""The format of the archive itself; the collection's own is beside it in the label."""

ARCHIVE_MANIFEST_MEMBER: Final = "ragcli-collection.json"
STORE_MEMBER: Final = "store.db"
TFIDF_MEMBERS: Final = tuple(
    f"tfidf/{name}"
    for name in (
        "about.json",
        "columns.i64",
        "idf.f64",
        "numbers.i64",
        "rows.i32",
        "stopwords.txt",
        "terms.i64",
        "vocabulary.txt",
        "weights.f32",
    )
)
ARCHIVE_MEMBERS: Final = (STORE_MEMBER, *(stem + suffix for stem, suffix in ARRAY_NAMES), *TFIDF_MEMBERS)
"""All there may be in an archive beside the label, by the place in the collection's folder."""

_BLOCK: Final = tarfile.BLOCKSIZE
_PIECE: Final = 1 << 20
_MOST_LABEL: Final = 1 << 20
_MOST_PADDING: Final = 1 << 20
_COMPRESSED: Final = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ", "xz"), (b"BZh", "bzip2"))

ByteListener = Callable[[int], None]
"""Told how many bytes more have passed."""


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """A file in the archive: its name, its size in bytes, and the BLAKE2b of its bytes in hexadecimal."""

    name: str
    size: int
    blake2b: str


@dataclass(frozen=True, slots=True)
class ArchiveManifest:
    """What an archive says of itself. `format` is that of the collection; `members` come in this order."""

    archive: int
    format: int
    ragcli: str
    name: str
    generation: int
    documents: int
    chunks: int
    members: tuple[ArchiveMember, ...]

    @property
    def size(self) -> int:
        """Bytes of all members together."""
        return sum(member.size for member in self.members)


def write_archive(
    stream: IO[bytes], label: ArchiveManifest, open_member: Callable[[str], IO[bytes]], moved: ByteListener
) -> int:
    """Write the whole archive; its size in bytes. InputError if a member is no longer what the label says."""
    written = _write_member(stream, ARCHIVE_MANIFEST_MEMBER, encode_archive_manifest(label))
    for member in label.members:
        written += stream.write(_header(member.name, member.size))
        state, left = new_hash(), member.size
        with open_member(member.name) as source:
            while left and (piece := source.read(min(_PIECE, left))):
                state.update(piece)
                stream.write(piece)
                left -= len(piece)
                moved(len(piece))
        if left or state.hexdigest() != member.blake2b:
            raise InputError(f"{member.name} changed while it was written into the archive; try again.")
        written += member.size + stream.write(_padding(member.size))
    written += stream.write(bytes(2 * _BLOCK))
    stream.flush()
    return written


def encode_archive_manifest(label: ArchiveManifest) -> bytes:
    """The label as JSON, with a hash over the rest as its last entry."""
    told = asdict(label)
    return (json.dumps(told | {"hash": _hash_manifest(told)}, indent=1) + "\n").encode()


class ArchiveReader:
    """Reads an archive from a stream, from front to end. `called` is what errors call it; `size` counts bytes read.

    Every method raises InputError for an archive that is damaged, cut off, or not of this kind.
    """

    def __init__(self, stream: IO[bytes], called: str) -> None:
        self._stream = stream
        self._called = called
        self.size = 0
        self.label = self._read_label()

    def members(self) -> Iterator[tuple[ArchiveMember, Iterator[bytes]]]:
        """Each member with its bytes, which must be taken before the next and are checked when the last is taken."""
        for member in self.label.members:
            name, size = self._next_header()
            if (name, size) != (member.name, member.size):
                raise self._wrong(f"it has '{name}' where its label has '{member.name}'")
            yield member, self._content(member)
        self._read_end()

    def _take(self, size: int) -> bytes:
        data = self._stream.read(size)
        self.size += len(data)
        return data

    def _content(self, member: ArchiveMember) -> Iterator[bytes]:
        state, left = new_hash(), member.size
        while left:
            piece = self._take(min(_PIECE, left))
            if not piece:
                raise self._wrong(f"it ends in the middle of '{member.name}'; perhaps it was cut off on its way")
            state.update(piece)
            left -= len(piece)
            yield piece
        if state.hexdigest() != member.blake2b:
            raise self._wrong(f"'{member.name}' is not what was put into it")
        self._read_padding(member.size)

    def _read_label(self) -> ArchiveManifest:
        first = self._take(_BLOCK)
        for magic, kind in _COMPRESSED:
            if first.startswith(magic):
                raise InputError(
                    f"{self._called} is compressed with {kind}; decompress it on the way:"
                    f" `{kind} -dc FILE | ragcli collections import -`."
                )
        foreign = InputError(f"{self._called} is not an archive that `ragcli collections export` has made.")
        try:
            info = tarfile.TarInfo.frombuf(first, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError):
            raise foreign from None
        if info.name != ARCHIVE_MANIFEST_MEMBER or info.type != tarfile.REGTYPE or not 0 < info.size <= _MOST_LABEL:
            raise foreign
        text = self._take(info.size)
        if len(text) < info.size:
            raise self._wrong("it ends in its label; perhaps it was cut off on its way")
        self._read_padding(info.size)
        return self._decode_label(text)

    def _decode_label(self, text: bytes) -> ArchiveManifest:
        try:
            told = json.loads(text)
            archive = told["archive"]
        except (ValueError, TypeError, LookupError, RecursionError):
            raise self._wrong("its label cannot be read") from None
        if isinstance(archive, int) and archive > ARCHIVE_FORMAT:
            raise InputError(f"{self._called} is of a newer kind of archive ({archive}); update ragcli to import it.")
        try:
            told_hash = told.pop("hash")
            members = tuple(ArchiveMember(**each) for each in told["members"])
            label = replace(ArchiveManifest(**told), members=members)
        except (TypeError, LookupError, AttributeError):
            raise self._wrong("its label cannot be read") from None
        if _hash_manifest(told) != told_hash:
            raise self._wrong("its label is not what was put into it")
        numbers = (label.format, label.generation, label.documents, label.chunks, *(each.size for each in members))
        if (
            not all(type(number) is int and number >= 0 for number in numbers)
            or archive != ARCHIVE_FORMAT
            or label.format < 1
        ):
            raise self._wrong("its label makes no sense")
        self._check_names([each.name for each in members])
        return label

    def _check_names(self, names: Sequence[object]) -> None:
        for at, name in enumerate(names):
            if name not in ARCHIVE_MEMBERS:
                raise self._wrong(f"it has {name!r}, which is no part of a collection")
            if name in names[:at]:
                raise self._wrong(f"it has {name!r} twice")
        if STORE_MEMBER not in names:
            raise self._wrong("it has no store")

    def _next_header(self) -> tuple[str, int]:
        header = self._take(_BLOCK)
        if len(header) < _BLOCK or not any(header):
            raise self._wrong("it ends before its last member; perhaps it was cut off on its way")
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
        except (tarfile.HeaderError, ValueError):
            raise self._wrong("a header in it cannot be read") from None
        if info.type != tarfile.REGTYPE:
            raise self._wrong(f"'{info.name}' in it is no plain file")
        return info.name, info.size

    def _read_padding(self, size: int) -> None:
        wanted = _padding(size)
        if self._take(len(wanted)) != wanted:
            raise self._wrong("it is damaged between two members")

    def _read_end(self) -> None:
        after = self._take(2 * _BLOCK)
        if len(after) < 2 * _BLOCK:
            raise self._wrong("its end is missing; perhaps it was cut off on its way")
        padding = self._take(_MOST_PADDING)
        if any(after) or any(padding) or self._take(1):
            raise self._wrong("something follows its last member")

    def _wrong(self, what: str) -> InputError:
        return InputError(f"{self._called} is damaged: {what}. Nothing was imported.")


def _write_member(stream: IO[bytes], name: str, content: bytes) -> int:
    return stream.write(_header(name, len(content)) + content + _padding(len(content)))


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    # GNU's way of writing sizes of 8 GB and more changes nothing for those below, and needs no header beside.
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


def _hash_manifest(told: object) -> str:
    return hash_bytes(json.dumps(told, sort_keys=True).encode()).hex()

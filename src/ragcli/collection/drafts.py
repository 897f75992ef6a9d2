"""A document on its way into the store: read and cut, its chunks numbered, perhaps not yet embedded.

A draft is made outside any transaction and put into the store in one, so a document is there whole or not at
all, and its old version goes in the commit that brings the new one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from os import fsencode
from typing import Literal

from ragcli.collection.generation import now
from ragcli.collection.metadata import Layers, Outside, clean_metadata, encode_metadata, settle_metadata
from ragcli.collection.schema import DIGEST
from ragcli.collection.seals import chunk_seal, reseal
from ragcli.collection.texts import clean, clean_or_none, encode_layout, to_json, write_text
from ragcli.records import Chunk, CollectionSettings, Document, Heading

ChunkTable = Literal["chunks", "next_chunks"]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it was when its content was hashed. `path` is absolute; `hash` None if it changed while read."""

    path: str
    source: str
    hash: bytes | None
    size: int
    mtime_ns: int
    ctime_ns: int
    engine: str
    born_ns: int | None = None
    outside: Outside = field(default_factory=Outside)


@dataclass(frozen=True, slots=True)
class Cut:
    """A document cut into chunks. Chunk `i` has the number `first_number + i`."""

    document: Document
    chunks: tuple[Chunk, ...]
    digests: tuple[bytes, ...]
    first_number: int

    @property
    def numbers(self) -> range:
        """The numbers of its chunks."""
        return range(self.first_number, self.first_number + len(self.chunks))

    def text(self, at: int) -> str:
        """The text of chunk `at`."""
        return self.document.text[self.chunks[at].start : self.chunks[at].end]


@dataclass(frozen=True, slots=True)
class Draft:
    """A document of a file, cut, to be put into the store, in place of the document `replaces` if there is one."""

    file: SourceFile
    cut: Cut
    hash: bytes
    replaces: int | None


def clean_document(document: Document) -> Document:
    """The document as it can be stored; offsets stay as they are."""
    return replace(
        document,
        text=clean(document.text),
        record_id=clean_or_none(document.record_id),
        title=clean_or_none(document.title),
        metadata=clean_metadata(document.metadata),
        headings=tuple(Heading(each.level, clean(each.title), each.start) for each in document.headings),
        warnings=tuple(clean(each) for each in document.warnings),
    )


def document_hash(document: Document) -> bytes:
    """Hash of all a document says, to know it again in a file whose other records changed."""
    pages, headings, spans, joins = encode_layout(document)
    metadata = json.loads(encode_metadata(document.metadata))
    said = [document.kind, document.title, metadata, document.text, pages, headings, spans, joins.hex()]
    return digest(to_json(said).encode())


def digest(data: bytes) -> bytes:
    """The store's hash of some bytes."""
    return blake2b(data, digest_size=DIGEST).digest()


def cut_document(document: Document, settings: CollectionSettings, reserve: Callable[[int], int]) -> Cut:
    """Cut a clean document; `reserve` gives the first of so many new numbers."""
    from ragcli.documents.chunking import chunk_document

    chunks = chunk_document(document, size=settings.chunk_size, overlap=settings.overlap)
    digests = tuple(digest(text.encode()) for text in chunk_inputs(document, chunks, settings))
    return Cut(document, chunks, digests, reserve(len(chunks)))


def chunk_inputs(document: Document, chunks: Sequence[Chunk], settings: CollectionSettings) -> Iterator[str]:
    """What the encoder is given for each chunk: its text, with title or heading before it as settings say."""
    from ragcli.documents.chunking import embedding_text

    for chunk in chunks:
        yield embedding_text(
            document.text[chunk.start : chunk.end],
            title=document.title,
            heading=chunk.heading,
            context=settings.context,
        )


def put_document(
    connection: sqlite3.Connection, draft: Draft, file: int, names: tuple[str, str] | None, before: Layers
) -> int:
    """Insert the draft's document and chunks; its number.

    `names` are the id and source of the document it replaces, which must be gone already; a new one gets its own.
    `before` is what the sidecar and `--meta` said of it before this run.
    """
    document = draft.cut.document
    identity, source = names or _new_names(connection, draft)
    at = now()
    cursor = connection.execute(
        "INSERT INTO documents (id, file, record_id, source, kind, title, hash, metadata, warnings, characters, pages,"
        " chunks, ingested_at, seal) VALUES (?, ?, ?, ?, ?, ?, ?, '', ?, ?, ?, ?, ?, x'')",
        (
            identity,
            file,
            document.record_id,
            source,
            document.kind,
            document.title,
            draft.hash,
            to_json(document.warnings),
            len(document.text),
            len(document.pages),
            len(draft.cut.chunks),
            at,
        ),
    )
    number = cursor.lastrowid or 0
    write_text(connection, number, document)
    layers = Layers(document.metadata, before.sidecar, before.meta).under(draft.file.outside)
    settle_metadata(connection, number, layers)
    put_chunks(connection, number, draft.cut)
    reseal(connection, number)
    return number


def put_chunks(connection: sqlite3.Connection, document: int, cut: Cut, *, table: ChunkTable = "chunks") -> None:
    """Insert a document's chunks."""
    rows = []
    for number, chunk, digest_of_input in zip(cut.numbers, cut.chunks, cut.digests, strict=True):
        place = (chunk.ordinal, chunk.start, chunk.end, chunk.page_start, chunk.page_end, clean_or_none(chunk.heading))
        seal = chunk_seal((number, document, *place), cut.document.text[chunk.start : chunk.end])
        rows.append((number, document, *place, digest_of_input, seal))
    connection.executemany(
        f"INSERT INTO {table} (number, document, ordinal, start, stop, page_start, page_end, heading, digest, seal)"  # noqa: S608
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def drop_document(connection: sqlite3.Connection, number: int) -> list[int]:
    """Delete a document with all that hangs on it; the numbers of its chunks, which are noted as lexical debts."""
    gone = [row[0] for row in connection.execute("SELECT number FROM chunks WHERE document = ?", (number,))]
    connection.executemany("INSERT OR IGNORE INTO lexical_deletes VALUES (?)", ((each,) for each in gone))
    connection.execute("DELETE FROM documents WHERE number = ?", (number,))
    return gone


def _new_names(connection: sqlite3.Connection, draft: Draft) -> tuple[str, str]:
    """An id and a source for a new document: the plain ones if no other document has them."""
    path = fsencode(draft.file.path)
    record = draft.cut.document.record_id
    if record is None:
        ids = [f"d{blake2b(path + salt, digest_size=5).hexdigest()}" for salt in (b"", b"\x001", b"\x002", b"\x003")]
        sources = [clean(draft.file.source), clean(draft.file.path)]
    else:
        tag = blake2b(path, digest_size=4).hexdigest()
        ids = [record, f"{record}~{tag}"]
        sources = [record, f"{clean(draft.file.source)}#{record}", f"{clean(draft.file.path)}#{record}"]
    return first_free(connection, "id", ids), first_free(connection, "source", sources)


def first_free(connection: sqlite3.Connection, column: Literal["id", "source"], names: Sequence[str]) -> str:
    """The first of the names that no document has yet; the last with a number behind it if all are taken."""
    query = f"SELECT 1 FROM documents WHERE {column} = ?"  # noqa: S608
    for name in names:
        if connection.execute(query, (name,)).fetchone() is None:
            return name
    at = 2
    while connection.execute(query, (f"{names[-1]}~{at}",)).fetchone() is not None:
        at += 1
    return f"{names[-1]}~{at}"

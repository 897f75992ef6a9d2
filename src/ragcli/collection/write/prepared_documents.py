"""Documents prepared for a commit: cleaned, chunked, numbered; and their SQL inserts and deletes.

A document is prepared outside any transaction and inserted in one, so it is there whole or not at all, and its old
version goes in the commit that brings the new one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from os import fsencode
from typing import Literal

from ragcli.collection.store.document_text import (
    LAYOUT_COLUMNS,
    check_layout,
    decode_pages,
    encode_layout,
    replace_surrogates_or_none,
    to_json,
    unpack_integers,
    verified_text,
    write_text,
)
from ragcli.collection.store.generation_record import utc_now
from ragcli.collection.store.metadata_layers import (
    ExternalMetadata,
    MetadataLayers,
    clean_metadata,
    encode_metadata,
    update_metadata,
)
from ragcli.collection.store.row_hash import hash_bytes, hash_row, update_row_hash
from ragcli.errors import CollectionError
from ragcli.text.characters import replace_surrogates
from ragcli.types import Chunk, CollectionSettings, Document, Heading

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
    birthtime_ns: int | None = None
    outside: ExternalMetadata = field(default_factory=ExternalMetadata)


@dataclass(frozen=True, slots=True)
class ChunkedDocument:
    """A document cut into chunks. Chunk `i` has the number `first_number + i`."""

    document: Document
    chunks: tuple[Chunk, ...]
    input_hashes: tuple[bytes, ...]
    first_number: int

    @property
    def numbers(self) -> range:
        """The numbers of its chunks."""
        return range(self.first_number, self.first_number + len(self.chunks))

    def text(self, at: int) -> str:
        """The text of chunk `at`."""
        return self.document.text[self.chunks[at].start : self.chunks[at].end]


@dataclass(frozen=True, slots=True)
class PreparedDocument:
    """A document of a file, cut, to be put into the store, in place of the document `replaces` if there is one."""

    file: SourceFile
    cut: ChunkedDocument
    hash: bytes
    replaces: int | None


def reading_versions(kind: str) -> tuple[str, str, str]:
    """What reads a document of that kind now: the parser, its version, and the version of the chunker."""
    from ragcli.documents.chunking import CHUNKER_VERSION
    from ragcli.documents.parser_registry import parser_version

    return kind, parser_version(kind), CHUNKER_VERSION


def clean_document(document: Document) -> Document:
    """The document as it can be stored; offsets stay as they are."""
    return replace(
        document,
        text=replace_surrogates(document.text),
        record_id=replace_surrogates_or_none(document.record_id),
        title=replace_surrogates_or_none(document.title),
        metadata=clean_metadata(document.metadata),
        headings=tuple(Heading(each.level, replace_surrogates(each.title), each.start) for each in document.headings),
        warnings=tuple(replace_surrogates(each) for each in document.warnings),
    )


def hash_document_content(document: Document) -> bytes:
    """Hash of all a document says, to know it again in a file whose other records changed."""
    pages, headings, spans, joins = encode_layout(document)
    metadata = json.loads(encode_metadata(document.metadata))
    said = [document.kind, document.title, metadata, document.text, pages, headings, spans, joins.hex()]
    return hash_bytes(to_json(said).encode())


def split_document(document: Document, settings: CollectionSettings, reserve: Callable[[int], int]) -> ChunkedDocument:
    """Cut a clean document; `reserve` gives the first of so many new numbers."""
    from ragcli.documents.chunking import chunk_document

    chunks = chunk_document(document, size=settings.chunk_size, overlap=settings.overlap)
    input_hashes = tuple(hash_bytes(text.encode()) for text in embedding_inputs(document, chunks, settings))
    return ChunkedDocument(document, chunks, input_hashes, reserve(len(chunks)))


def embedding_inputs(document: Document, chunks: Sequence[Chunk], settings: CollectionSettings) -> Iterator[str]:
    """What the encoder is given for each chunk: its text, with title or heading before it as settings say."""
    from ragcli.documents.chunking import embedding_text

    for chunk in chunks:
        yield embedding_text(
            document.text[chunk.start : chunk.end],
            title=document.title,
            heading=chunk.heading,
            context=settings.context,
        )


def insert_document(
    connection: sqlite3.Connection,
    prepared: PreparedDocument,
    file: int,
    names: tuple[str, str] | None,
    before: MetadataLayers,
) -> int:
    """Insert a document and its chunks; its number.

    `names` are the id and source of the document it replaces, which must be gone already; a new one gets its own.
    `before` is what the sidecar and `--meta` said of it before this run.
    """
    document = prepared.cut.document
    identity, source = names or _new_names(connection, prepared)
    cursor = connection.execute(
        "INSERT INTO documents (id, file, record_id, source, kind, title, hash, metadata, warnings, characters, pages,"
        " chunks, ingested_at, layers, parser, parser_version, chunker_version, row_hash)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, '', ?, ?, ?, ?, ?, '', ?, ?, ?, x'')",
        (
            identity,
            file,
            document.record_id,
            source,
            document.kind,
            document.title,
            prepared.hash,
            to_json(document.warnings),
            len(document.text),
            len(document.pages),
            len(prepared.cut.chunks),
            utc_now(),
            *reading_versions(document.kind),
        ),
    )
    number = cursor.lastrowid or 0
    write_text(connection, number, document)
    layers = MetadataLayers(document.metadata, before.sidecar, before.meta).under(prepared.file.outside)
    update_metadata(connection, number, layers)
    insert_chunks(connection, number, prepared.cut)
    update_row_hash(connection, "documents", number)
    return number


def insert_chunks(
    connection: sqlite3.Connection, document: int, cut: ChunkedDocument, *, table: ChunkTable = "chunks"
) -> None:
    """Insert a document's chunks."""
    rows = []
    for number, chunk, input_hash in zip(cut.numbers, cut.chunks, cut.input_hashes, strict=True):
        place = (
            chunk.ordinal,
            chunk.start,
            chunk.end,
            chunk.page_start,
            chunk.page_end,
            replace_surrogates_or_none(chunk.heading),
        )
        text = cut.document.text[chunk.start : chunk.end]
        rows.append((number, document, *place, input_hash, hash_row((number, document, *place, text))))
    connection.executemany(
        f"INSERT INTO {table} (number, document, ordinal, start, stop, page_start, page_end, heading,"  # noqa: S608
        " input_hash, row_hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def delete_document(connection: sqlite3.Connection, number: int) -> list[int]:
    """Delete a document with all that hangs on it; the numbers of its chunks, which are noted as lexical debts."""
    gone = [row[0] for row in connection.execute("SELECT number FROM chunks WHERE document = ?", (number,))]
    connection.executemany("INSERT OR IGNORE INTO lexical_deletes VALUES (?)", ((each,) for each in gone))
    connection.execute("DELETE FROM documents WHERE number = ?", (number,))
    return gone


def _new_names(connection: sqlite3.Connection, prepared: PreparedDocument) -> tuple[str, str]:
    """An id and a source for a new document: the plain ones if no other document has them."""
    path = fsencode(prepared.file.path)
    record = prepared.cut.document.record_id
    if record is None:
        ids = [f"d{blake2b(path + salt, digest_size=5).hexdigest()}" for salt in (b"", b"\x001", b"\x002", b"\x003")]
        sources = [replace_surrogates(prepared.file.source), replace_surrogates(prepared.file.path)]
    else:
        tag = blake2b(path, digest_size=4).hexdigest()
        ids = [record, f"{record}~{tag}"]
        sources = [
            record,
            f"{replace_surrogates(prepared.file.source)}#{record}",
            f"{replace_surrogates(prepared.file.path)}#{record}",
        ]
    return first_unused_name(connection, "id", ids), first_unused_name(connection, "source", sources)


def first_unused_name(connection: sqlite3.Connection, column: Literal["id", "source"], names: Sequence[str]) -> str:
    """The first of the names that no document has yet; the last with a number behind it if all are taken."""
    query = f"SELECT 1 FROM documents WHERE {column} = ?"  # noqa: S608
    for name in names:
        if connection.execute(query, (name,)).fetchone() is None:
            return name
    at = 2
    while connection.execute(query, (f"{names[-1]}~{at}",)).fetchone() is not None:
        at += 1
    return f"{names[-1]}~{at}"


def read_document(connection: sqlite3.Connection, number: int) -> Document:
    """The document as its reader gave it, without parsing its file again. CollectionError if it is damaged."""
    row = connection.execute(
        f"SELECT d.kind, d.record_id, d.title, d.layers, d.warnings, {LAYOUT_COLUMNS}"  # noqa: S608
        " FROM documents d JOIN layouts l ON l.document = d.number WHERE d.number = ?",
        (number,),
    ).fetchone()
    if row is None:
        raise CollectionError(f"Document {number} is missing from the store; `ragcli collections verify` says more.")
    kind, record_id, title, layers, warnings, *layout = row
    check_layout(number, layout)
    pages, headings, spans, joins, text_hash, _ = layout
    from ragcli.collection.store.metadata_layers import decode_layers

    try:
        return Document(
            text=verified_text(connection, number, text_hash),
            kind=kind,
            record_id=record_id,
            title=title,
            metadata=decode_layers(layers).document,
            pages=decode_pages(pages),
            headings=tuple(Heading(*heading) for heading in json.loads(headings)),
            joins=unpack_integers(joins),
            spans=tuple((start, end) for start, end in json.loads(spans)),
            warnings=tuple(json.loads(warnings)),
        )
    except (ValueError, TypeError) as error:
        raise CollectionError(f"Document {number} is damaged in the store ({error}).") from error

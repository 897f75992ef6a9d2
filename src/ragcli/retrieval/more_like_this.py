"""More like this: a chunk, a document or a file as the query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from ragcli.errors import InputError, MissingCollection
from ragcli.types import NO_ENCODER

if TYPE_CHECKING:
    from ragcli.engines import CollectionReader
    from ragcli.models import Encoder, FloatArray
    from ragcli.types import Document, StoredChunk

MAX_QUERY_CHARS: Final = 2_400
"""Characters of a document's most telling chunks that stand for it."""
_MOST_EMBEDDED: Final = 128
"""Chunks of a new document that are embedded, spread evenly over it."""

Sampled = TypeVar("Sampled")
EncoderLoader = Callable[[str], "Encoder"]


@dataclass(frozen=True, slots=True)
class SimilarityQuery:
    """A question made of passages. `vector` (d,) is None where there is no encoder; `left_out` are chunk numbers by
    their collection."""

    text: str
    vector: FloatArray | None
    left_out: Mapping[CollectionReader, frozenset[int]]


class SimilarityTarget:
    """What hits are to be like: chunks of a collection, or a document that was read for it."""

    def __init__(
        self,
        source: tuple[CollectionReader, Sequence[StoredChunk]] | Document,
        left_out: Mapping[CollectionReader, frozenset[int]],
    ) -> None:
        self._source = source
        self._left_out = left_out
        self._seen: dict[str, SimilarityQuery] = {}

    def query_for(self, readers: Sequence[CollectionReader], encoder: EncoderLoader) -> SimilarityQuery:
        """The question to ask collections that share an encoder."""
        name = readers[0].settings.encoder
        if name not in self._seen:
            texts, vectors = self._passages(readers[0], encoder)
            mean = None if vectors is None else _mean(vectors)
            self._seen[name] = SimilarityQuery(_central_text(texts, vectors, mean), mean, self._left_out)
        return self._seen[name]

    def _passages(self, asked: CollectionReader, encoder: EncoderLoader) -> tuple[list[str], FloatArray | None]:
        name = asked.settings.encoder
        if not isinstance(self._source, tuple):
            texts, inputs = _chunked(self._source, asked)
            return texts, None if name == NO_ENCODER else encoder(name).encode(inputs)
        reader, chunks = self._source
        if name == NO_ENCODER:
            return [chunk.text for chunk in chunks], None
        if reader.settings.encoder == name:
            return [chunk.text for chunk in chunks], reader.vectors([chunk.number for chunk in chunks])
        texts = [chunk.text for chunk in _evenly_sampled(chunks)]
        return texts, encoder(name).encode(texts)


def find_target(readers: Sequence[CollectionReader], like: str) -> SimilarityTarget:
    """The chunk of that id, the document of that id, source or path, or else the file.

    MissingCollection if there is none of them; InputError if the file cannot be read as one document.
    """
    for reader in readers:
        if (chunk := reader.find_chunk(like)) is not None:
            place = reader.provenance([chunk.number])[chunk.number]
            characters = reader.document(chunk.document_id).characters
            left_out = _chunks_of_same_text(readers, place.text, characters, (chunk.start, chunk.end))
            return SimilarityTarget((reader, [chunk]), left_out)
    path = _path(like)
    for reader in readers:
        for name in (like, *([str(path)] if path is not None else [])):
            try:
                row = reader.document(name)
            except MissingCollection:
                continue
            chunks = reader.document_chunks(row.document_id)
            if not chunks:
                raise InputError(f"{like} has no text, so nothing is like it.")
            place = reader.provenance([chunks[0].number])[chunks[0].number]
            return SimilarityTarget((reader, chunks), _chunks_of_same_text(readers, place.text, row.characters, None))
    if path is None:
        raise MissingCollection(
            f"There is no chunk or document '{like[:200]}' in the collections searched, and no such file;"
            " `ragcli documents` lists the documents."
        )
    from ragcli.collection import hash_text

    document = _read(path)
    return SimilarityTarget(document, _chunks_of_same_text(readers, hash_text(document.text), len(document.text), None))


def _path(like: str) -> Path | None:
    """The absolute path of the file that is meant, if there is one."""
    try:
        path = Path(like).expanduser().absolute()
        return path if path.is_file() else None
    except (OSError, RuntimeError, ValueError):  # too long for a name, or no such user's home
        return None


def _chunks_of_same_text(
    readers: Sequence[CollectionReader], text: bytes, characters: int, stretch: tuple[int, int] | None
) -> dict[CollectionReader, frozenset[int]]:
    found = {}
    for reader in readers:
        places = reader.same_text(text, characters)
        numbers = frozenset(number for number, *place in places if stretch is None or tuple(place) == stretch)
        if numbers:
            found[reader] = numbers
    return found


def _read(path: Path) -> Document:
    """The one document of a file, parsed apart from this process, as at ingest."""
    from ragcli.collection.write.prepared_documents import clean_document
    from ragcli.documents import ReadOptions, read_files
    from ragcli.types import Failure

    documents: list[Document] = []
    for reading in read_files([path], ReadOptions(workers=1)):
        for item in reading.items:
            if isinstance(item, Failure):
                raise InputError(f"{path}: {item.reason.removeprefix(f'{path.name}: ')}")
            documents.append(clean_document(item))
            if len(documents) > 1:
                raise InputError(f"{path} holds many documents; name one of them, by its id, once it is ingested.")
    if not documents or not documents[0].text.strip():
        raise InputError(f"{path} has no text, so nothing is like it.")
    return documents[0]


def _chunked(document: Document, asked: CollectionReader) -> tuple[list[str], list[str]]:
    """The texts of a document's chunks, and what the encoder is given for each, as the collection would have them."""
    from ragcli.documents import chunk_document, embedding_text

    settings = asked.settings
    chunks = _evenly_sampled(chunk_document(document, size=settings.chunk_size, overlap=settings.overlap))
    texts = [document.text[chunk.start : chunk.end] for chunk in chunks]
    return texts, [
        embedding_text(text, title=document.title, heading=chunk.heading, context=settings.context)
        for text, chunk in zip(texts, chunks, strict=True)
    ]


def _evenly_sampled(items: Sequence[Sampled]) -> Sequence[Sampled]:
    if len(items) <= _MOST_EMBEDDED:
        return items
    return [items[round(at)] for at in np.linspace(0, len(items) - 1, _MOST_EMBEDDED).tolist()]


def _mean(vectors: FloatArray) -> FloatArray:
    mean = vectors.mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), dtype=np.float32)


def _central_text(texts: Sequence[str], vectors: FloatArray | None, mean: FloatArray | None) -> str:
    """The passages nearest to the mean, in reading order, as many as fit; the first ones where there are no vectors."""
    if len(texts) == 1:
        return texts[0]
    order: Sequence[int] = range(len(texts))
    if vectors is not None and mean is not None:
        order = np.argsort(-(vectors @ mean), kind="stable").tolist()
    chosen: list[int] = []
    room = MAX_QUERY_CHARS
    for place in order:
        if chosen and len(texts[place]) > room:
            break
        chosen.append(place)
        room -= len(texts[place])
    return "\n".join(texts[place] for place in sorted(chosen))

"""Data types shared by all packages: documents, chunks, hits, metadata and settings.

Frozen values, no behaviour beyond reading themselves. All offsets count characters (code points) of the document's
text, start inclusive, end exclusive. Pages are numbered from 1, as a viewer counts them; `label` is what is printed
on the page ("iv", "117").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Literal

MetadataValue = str | int | float | bool | date | list[str]
"""What a document may be said to be. A moment is a `datetime` in UTC, which is a `date` too (see `dates`)."""
Metadata = Mapping[str, MetadataValue]
NO_ENCODER = "none"
"""Settings with this encoder name make a collection without vectors: lexical and exact search only."""
Notify = Callable[[str], None]
"""Is told sentences for the person while something takes its time."""
ScoreType = Literal["cosine", "bm25", "dense", "fused", "rerank", "other"]


@dataclass(frozen=True, slots=True)
class PageSpan:
    """Where one page stands in the document's text."""

    number: int
    label: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: its depth (1 is the outermost), its words, and where its section starts."""

    level: int
    title: str
    start: int


@dataclass(frozen=True, slots=True)
class Document:
    """A document as a reader gives it.

    `joins` are ascending offsets into `text` where a word was broken at a line end and put together again. If
    `text[offset]` is a hyphen, the hyphen was kept ("high-latency") and may be absent from the true word;
    otherwise the parts were joined right before `offset` ("recommen|dation") and a hyphen may belong there.
    Both readings stay searchable. `spans` are (start, end) ranges, such as code fences, that a chunk
    boundary should leave whole where they fit.
    """

    text: str
    kind: str
    record_id: str | None = None
    title: str | None = None
    metadata: Metadata = field(default_factory=dict)
    pages: tuple[PageSpan, ...] = ()
    headings: tuple[Heading, ...] = ()
    joins: tuple[int, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Chunk:
    """A passage of a document: `document.text[start:end]`."""

    ordinal: int
    start: int
    end: int
    page_start: int | None = None
    page_end: int | None = None
    heading: str | None = None


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk read back from a collection, with what is needed to show and cite it.

    `number` is the store's own integer for it, never used again after deletion; `chunk_id` is what people see.
    """

    number: int
    chunk_id: str
    document_id: str
    collection: str
    source: str
    path: str | None
    title: str | None
    text: str
    ordinal: int
    start: int
    end: int
    page_start: int | None
    page_end: int | None
    heading: str | None
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hit:
    """A ranked chunk. `scores` has every stage's own score, None where that stage did not run.

    `source_score` is the score that it had in its own collection's ranking, where rankings were merged or weighed,
    and `origin` the name under which an agent knows that collection. `duplicates` are the passages that say the
    same and were left out for it; `others` are more hits of the same document, where hits are grouped by document.
    """

    rank: int
    chunk: StoredChunk
    score: float
    score_type: ScoreType
    cosine: float
    reranker: str | None
    scores: Mapping[str, float | None]
    source_score: float | None = None
    origin: str | None = None
    duplicates: tuple[StoredChunk, ...] = ()
    others: tuple[Hit, ...] = ()


@dataclass(frozen=True, slots=True)
class GrepHit:
    """One exact match. `start` and `end` are offsets into the chunk's text, as in the seed's `search_exact`."""

    collection: str
    source: str
    path: str | None
    document_id: str
    chunk_id: str
    chunk_index: int
    page: int | None
    heading: str | None
    match: str
    snippet: str
    start: int
    end: int
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A document that could not be taken in, and why."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class CollectionSettings:
    """What is fixed when a collection is created. Changing any of it means `ragcli reindex`.

    `tenant_key` is the key of the metadata that says whose a document is; with one, nothing of the collection is read
    without saying for whom (see `ragcli.collection.read.tenant_views`). It is fixed for good. `search_engine` is what
    ranks its chunks (see `ragcli.engines`).
    """

    chunk_size: int = 1200
    overlap: int = 200
    encoder: str = "sentence-transformers/all-MiniLM-L6-v2"
    token_vectors: Literal["bits", "none"] = "bits"  # noqa: S105
    context: Literal["none", "title", "heading"] = "heading"
    tenant_key: str | None = None
    search_engine: str = "local"

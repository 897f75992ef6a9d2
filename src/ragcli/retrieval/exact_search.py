"""Exact search over collections: a phrase or a regular expression in the documents' texts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragcli.engines import opened
from ragcli.errors import UsageError
from ragcli.types import GrepHit

if TYPE_CHECKING:
    from ragcli.collection import Collection, DocumentText
    from ragcli.engines import CollectionReader
    from ragcli.filters import Filter
    from ragcli.index.pattern_matching import PatternMatcher


@dataclass(frozen=True, slots=True)
class GrepRequest:
    """What to look for. `ignore_case` None means the default: literals ignore case, regexes do not.

    At most one hit a chunk unless `every`; at most `max_hits` in all (None: no limit), the last marked
    `truncated` when there was more to find. `context` is in characters on each side. `where` keeps to documents
    whose metadata meet a filter (see `ragcli.filters`).
    """

    pattern: str
    regex: bool = False
    ignore_case: bool | None = None
    word: bool = False
    max_hits: int | None = 10
    context: int = 300
    every: bool = False
    where: Filter | None = None

    def __post_init__(self) -> None:
        if self.max_hits is not None and self.max_hits < 1:
            raise UsageError(f"--max-hits must be at least 1, not {self.max_hits}.")
        if self.context < 0:
            raise UsageError(f"--context cannot be negative, and {self.context} is.")


@dataclass(frozen=True, slots=True)
class SourceCount:
    """How many hits one document has."""

    collection: str
    source: str
    path: str | None
    count: int


def grep(collections: Sequence[Collection | CollectionReader], request: GrepRequest) -> tuple[GrepHit, ...]:
    """Hits in order of collection, source and place.

    Raises UsageError for a pattern that is empty or no regular expression, InputError for one that takes
    too long.
    """
    hits: list[GrepHit] = []
    for hit in _all_hits(collections, request):
        if request.max_hits is not None and len(hits) == request.max_hits:
            hits[-1] = replace(hits[-1], truncated=True)
            break
        hits.append(hit)
    return tuple(hits)


def count(collections: Sequence[Collection | CollectionReader], request: GrepRequest) -> tuple[SourceCount, ...]:
    """Hits per document, documents without any left out; `max_hits` does not apply."""
    matcher = _matcher(request)
    counts = []
    for collection in collections:
        with opened(collection) as reader:
            for document in reader.document_texts(matcher.prefilter, request.where):
                found = sum(1 for _ in _document_hits(reader.name, document, matcher, request))
                if found:
                    counts.append(SourceCount(reader.name, document.source, document.path, found))
    return tuple(counts)


def _all_hits(collections: Sequence[Collection | CollectionReader], request: GrepRequest) -> Iterator[GrepHit]:
    matcher = _matcher(request)
    for collection in collections:
        with opened(collection) as reader:
            for document in reader.document_texts(matcher.prefilter, request.where):
                yield from _document_hits(reader.name, document, matcher, request)


def _matcher(request: GrepRequest) -> PatternMatcher:
    from ragcli.index.pattern_matching import compile_pattern

    ignore_case = not request.regex if request.ignore_case is None else request.ignore_case
    return compile_pattern(request.pattern, regex=request.regex, ignore_case=ignore_case, word=request.word)


def _document_hits(
    collection: str, document: DocumentText, matcher: PatternMatcher, request: GrepRequest
) -> Iterator[GrepHit]:
    text = document.text
    starts = [chunk.start for chunk in document.chunks]
    taken: set[int] = set()
    for start, end in matcher.find_all(text, document.joins):
        place = _chunk_at(document, starts, start, end)
        if place is None or (place in taken and not request.every):
            continue
        taken.add(place)
        chunk = document.verified_chunk(place)
        low, high = max(0, start - request.context), min(len(text), end + request.context)
        page = next((span.number for span in document.pages if span.start <= start < span.end), chunk.page_start)
        yield GrepHit(
            collection=collection,
            source=document.source,
            path=document.path,
            document_id=document.document_id,
            chunk_id=f"{document.document_id}:{chunk.ordinal}",
            chunk_index=chunk.ordinal,
            page=page,
            heading=chunk.heading,
            match=text[start:end],
            snippet=("..." if low > 0 else "") + text[low:high] + ("..." if high < len(text) else ""),
            start=start - chunk.start,
            end=end - chunk.start,
        )


def _chunk_at(document: DocumentText, starts: list[int], start: int, end: int) -> int | None:
    last = bisect_right(starts, start) - 1
    if last < 0:
        return None
    holding = [place for place in range(max(0, last - 8), last + 1) if start < document.chunks[place].end]
    whole = [place for place in holding if end <= document.chunks[place].end]
    return (whole or holding or [last])[0]

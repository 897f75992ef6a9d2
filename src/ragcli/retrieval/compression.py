"""Extractive compression: keep the sentences of a passage that answer the query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol

from ragcli.retrieval.rerank import sentence_scores
from ragcli.text.sentences import sentence_spans

if TYPE_CHECKING:
    from ragcli.retrieval.request import KeptSpan
    from ragcli.retrieval.search_session import SearchSession
    from ragcli.types import Hit, StoredChunk


MAX_SENTENCES: Final = 4
SCORE_GAP: Final = " … "
"""Stands between two kept stretches of a shortened text where something was left out."""

_BLANKS: Final = re.compile(r"\s+")
# One short line that ends without a stop, or is marked as a heading.
_HEADING: Final = re.compile(r"#{1,6}\s.*|[^\n]{1,100}(?<![.!?…:;,。！？”\"')\]])")
_MARKS: Final = re.compile(r"^\W+|\W+$")


def extractive_compressor(session: SearchSession, reranker: str | None) -> Compressor:
    """Keeps the sentences that `reranker` prefers: the one that ordered the hits, or late interaction.

    One elsewhere is not asked for sentences; late interaction is, as for none.
    """

    def compress(question: str, chunks: Sequence[StoredChunk]) -> Sequence[CharacterSpans]:
        spans = [_sentences(chunk.text) for chunk in chunks]
        passages = [
            (chunk, [chunk.text[start:end] for start, end in mine]) for chunk, mine in zip(chunks, spans, strict=True)
        ]
        scores = sentence_scores(session, question, passages, reranker)
        return [
            tuple(mine[place] for place in best_sentence_positions(each.tolist()))
            for mine, each in zip(spans, scores, strict=True)
        ]

    return compress


def _sentences(text: str) -> list[tuple[int, int]]:
    """The spans to choose from: a heading has the question's words more often than an answer, and is none."""
    spans = sentence_spans(text)
    told = [(start, end) for start, end in spans if not _HEADING.fullmatch(text, start, end)]
    return told or spans


def best_sentence_positions(scores: Sequence[float]) -> list[int]:
    """Which of a passage's sentences are kept, ascending."""
    if not scores:
        return []
    ordered = sorted(scores)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    wanted = (ordered[-1] + median) / 2
    places = sorted(range(len(scores)), key=lambda place: (-scores[place], place))[:MAX_SENTENCES]
    return sorted(place for place in places if scores[place] >= wanted)


def spans_of_sentences(passage: str, sentences: Sequence[str]) -> CharacterSpans:
    """Where those of the sentences stand that the passage has, blanks and the marks around them aside.

    A sentence that the passage has not is left out. A part of one brings the whole, so that nothing is quoted out of
    the middle.
    """
    spans = sentence_spans(passage)
    kept: set[tuple[int, int]] = set()
    for sentence in sentences:
        words = [re.escape(word) for word in _BLANKS.split(_MARKS.sub("", sentence)) if word]
        found = re.search(r"\s+".join(words), passage) if words else None
        if found:
            kept |= {(start, end) for start, end in spans if start < found.end() and end > found.start()}
    return tuple(sorted(kept))


def compress_hit(hit: Hit, stretches: Sequence[KeptSpan]) -> Hit:
    """The hit with nothing but the stretches in its text, and on their pages; without any, the hit as it is."""
    if not stretches:
        return hit
    chunk = hit.chunk
    text = chunk.text[stretches[0].start : stretches[0].end]
    for before, after in pairwise(stretches):
        between = chunk.text[before.end : after.start]
        text += (SCORE_GAP if between.strip() else between) + chunk.text[after.start : after.end]
    pages = [page for each in stretches if (page := each.page) is not None]
    ends = [page for each in stretches if (page := each.page_end) is not None]
    return replace(
        hit,
        chunk=replace(
            chunk,
            text=text,
            page_start=min(pages) if pages else chunk.page_start,
            page_end=max(ends) if ends else chunk.page_end,
        ),
    )


class Compressor(Protocol):
    """Picks the sentences of a passage that answer a question."""

    def __call__(self, question: str, chunks: Sequence[StoredChunk]) -> Sequence[CharacterSpans]:
        """For each chunk the stretches of its text to keep; nothing for one that has no sentence to keep."""
        ...


CharacterSpans = tuple[tuple[int, int], ...]
"""Stretches of a text as (start, end), ascending."""

"""A passage cut to the sentences that answer, each left as it stands, in the order in which it stands.

How well a sentence answers is what the reranker says of it alone. Those are kept that lie nearer to the passage's
best sentence than to its usual one, its median, and four at most: a rule without a threshold, because rerankers have
scales of their own. What a language model picks is kept only where the passage has it, word for word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from ragcli.retrieval.sentences import sentence_scores
from ragcli.retrieval.spans import sentence_spans

if TYPE_CHECKING:
    from ragcli.records import Hit, StoredChunk
    from ragcli.retrieval.query import Searcher
    from ragcli.retrieval.techniques.steps import Compressor, Spans
    from ragcli.retrieval.techniques.values import Stretch

MOST_SENTENCES: Final = 4
GAP: Final = " … "
"""Stands between two kept stretches of a shortened text where something was left out."""

_BLANKS: Final = re.compile(r"\s+")
# One short line that ends without a stop, or is marked as a heading.
_HEADING: Final = re.compile(r"#{1,6}\s.*|[^\n]{1,100}(?<![.!?…:;,。！？”\"')\]])")
_MARKS: Final = re.compile(r"^\W+|\W+$")


def extractive_compressor(searcher: Searcher, reranker: str | None) -> Compressor:
    """Keeps the sentences that `reranker` prefers: the one that ordered the hits, or late interaction.

    One elsewhere is not asked for sentences; late interaction is, as for none.
    """

    def compress(question: str, chunks: Sequence[StoredChunk]) -> Sequence[Spans]:
        spans = [_sentences(chunk.text) for chunk in chunks]
        passages = [
            (chunk, [chunk.text[start:end] for start, end in mine]) for chunk, mine in zip(chunks, spans, strict=True)
        ]
        scores = sentence_scores(searcher, question, passages, reranker)
        return [
            tuple(mine[place] for place in best_places(each.tolist())) for mine, each in zip(spans, scores, strict=True)
        ]

    return compress


def _sentences(text: str) -> list[tuple[int, int]]:
    """The spans to choose from: a heading has the question's words more often than an answer, and is none."""
    spans = sentence_spans(text)
    told = [(start, end) for start, end in spans if not _HEADING.fullmatch(text, start, end)]
    return told or spans


def best_places(scores: Sequence[float]) -> list[int]:
    """Which of a passage's sentences are kept, ascending."""
    if not scores:
        return []
    ordered = sorted(scores)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    wanted = (ordered[-1] + median) / 2
    places = sorted(range(len(scores)), key=lambda place: (-scores[place], place))[:MOST_SENTENCES]
    return sorted(place for place in places if scores[place] >= wanted)


def stretches_of(passage: str, sentences: Sequence[str]) -> Spans:
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


def shortened(hit: Hit, stretches: Sequence[Stretch]) -> Hit:
    """The hit with nothing but the stretches in its text, and on their pages; without any, the hit as it is."""
    if not stretches:
        return hit
    chunk = hit.chunk
    text = chunk.text[stretches[0].start : stretches[0].end]
    for before, after in pairwise(stretches):
        between = chunk.text[before.end : after.start]
        text += (GAP if between.strip() else between) + chunk.text[after.start : after.end]
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

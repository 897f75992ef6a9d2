"""What a judge looks at: the hits, and the whole pool that they were cut from.

The hits are the user's, found by whatever pipeline, reranker or technique was asked for. The pool is always the
same: the best 40 chunks of BM25 and of the dense stage with every stage's score, late interaction's too, all for
the question as it was asked. So a judge's numbers mean the same whatever found the hits, and an expanded or
rewritten query cannot look better than the question merely because it has more of the documents' own words in it.
Chunks that only such a query found join the pool and are scored by the question.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from ragcli.collection import NO_ENCODER

if TYPE_CHECKING:
    from ragcli.gate.pool import JudgedPool
    from ragcli.gate.values import Decision, Preset
    from ragcli.records import Hit
    from ragcli.retrieval.query import Searcher
    from ragcli.retrieval.request import QueryRequest, QueryResult


class Evidence:
    """A question and what was found for it. What is more is read when a judge asks, so the searcher must be open."""

    def __init__(self, searcher: Searcher, request: QueryRequest, question: str, result: QueryResult) -> None:
        self.searcher = searcher
        self.request = request
        self.question = question
        self.result = result

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What is shown to the user, best first."""
        return self.result.hits

    @cached_property
    def pools(self) -> tuple[JudgedPool, ...]:
        """The candidates with all that tells how well they fit the question, one pool for each encoder."""
        from ragcli.gate.pool import judged_pools

        return judged_pools(self.searcher, self.request, self.question, self.hits)

    @property
    def alone(self) -> bool:
        """Is there but one passage in all that is searched, so that nothing can be compared with it?"""
        return sum(each.chunk_count for each in self.searcher.snapshots) == 1

    @property
    def degraded(self) -> str | None:
        """What the judge has to do without, in a sentence; None when nothing is missing."""
        bare = [
            each.collection
            for each in self.searcher.snapshots
            if each.settings.encoder == NO_ENCODER and each.chunk_count
        ]
        if self.alone:
            return "There is only one passage, with nothing to compare it with; it is judged by shared words."
        if not bare:
            return None
        return f"Without an encoder, {', '.join(bare)} {'is' if len(bare) == 1 else 'are'} judged by words alone."


class Judge(Protocol):
    """Anything that says whether evidence suffices."""

    @property
    def name(self) -> str:
        """How people choose it, and what traces call it."""
        ...

    def judge(self, evidence: Evidence, preset: Preset = "balanced") -> Decision:
        """Whether the evidence suffices to answer its question; `strict` asks for more, `lenient` for less."""
        ...


def gather_evidence(
    searcher: Searcher, request: QueryRequest, *, question: str | None = None, result: QueryResult | None = None
) -> Evidence:
    """The evidence for one question, to be judged while the searcher is open.

    `question` is what was asked, where `request` holds a rewriting of it. `result` is what was found for the
    request, where that was not by a plain query.
    """
    found = result if result is not None else searcher.query(request)
    return Evidence(searcher, request, question if question is not None else request.text, found)

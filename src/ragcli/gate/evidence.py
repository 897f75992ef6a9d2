"""What a judge looks at: the hits, and the whole pool that they were cut from.

The hits are the user's, found by whatever pipeline, reranker or technique was asked for. The pool is always the
same: the best 40 chunks of BM25 and of the dense stage with every stage's score, late interaction's too, all for
the question as it was asked. So a judge's numbers mean the same whatever found the hits, and an expanded or
rewritten query cannot look better than the question merely because it has more of the documents' own words in it.
Chunks that only such a query found join the pool and are scored by the question.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ragcli.gate.values import Decision, Preset
    from ragcli.records import Hit
    from ragcli.retrieval.query import Searcher
    from ragcli.retrieval.request import QueryRequest, QueryResult


@dataclass(frozen=True, slots=True)
class Evidence:
    """A question, what was found for it, and how. `degraded` says which part of the judging had to do without what."""

    question: str
    result: QueryResult
    degraded: str | None = None

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What is shown to the user, best first."""
        return self.result.hits


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
    return Evidence(question if question is not None else request.text, found)

"""How deep to look for as many hits as are asked for, where a few documents or one text would have all the places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ragcli.records import Hit
    from ragcli.retrieval.pipelines import Pipeline
    from ragcli.retrieval.ranked import Ranked
    from ragcli.retrieval.request import QueryRequest

_DEEPEST: Final = 400
"""Candidates of each stage from which on no more are looked for in place of those that say the same."""


def documents_needed(request: QueryRequest) -> int:
    """How many documents the candidates must be of for `top` hits, where one document may not have them all."""
    return request.top if request.group or request.max_per_source is not None else 0


def larger_pool(request: QueryRequest, pipeline: Pipeline, groups: Sequence[Ranked], hits: Sequence[Hit]) -> int | None:
    """How large a pool has room for others, where passages that say the same have filled it and too few hits came.

    None where the hits are enough, there is nothing more to find, or a reranker would take seconds for so many.
    """
    depth = max(request.pool or pipeline.pool, request.top)
    if len(hits) >= request.top or depth >= _DEEPEST or not any(hit.duplicates for hit in hits):
        return None
    if any(group.reranker not in (None, "late") for group in groups):
        return None
    return 4 * depth if any(len(group.pool) >= depth for group in groups) else None

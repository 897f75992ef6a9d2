"""A search by query techniques, for `ragcli.gate.ask`: planned once, asked as often as the gate sends it back.

What a language model has made of a question holds for the retries too: they only add words to what is asked. Passages
are judged whole; `cut` shortens those that are shown.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ragcli.llm.giving_up import GivesUp
from ragcli.retrieval.rm3 import CHUNKS
from ragcli.retrieval.techniques import plan, run, steps_of
from ragcli.retrieval.techniques.asking import NO_MODEL

if TYPE_CHECKING:
    from pathlib import Path

    from ragcli.llm.protocols import LanguageModel
    from ragcli.retrieval.query import Searcher
    from ragcli.retrieval.request import QueryRequest, QueryResult
    from ragcli.retrieval.techniques import Plan, Query, TechniqueResult, Techniques


class TechniqueSearch:
    """Stands in for `searcher.query` where a question is to be asked by techniques.

    `planned` says how it is asked; `planned.question` is what the gate should judge. Raises UsageError for a
    technique that can have no effect in the request's pipeline.
    """

    def __init__(
        self,
        searcher: Searcher,
        request: QueryRequest,
        techniques: Techniques,
        model: LanguageModel | None = None,
        *,
        prompts: Path | None = None,
    ) -> None:
        techniques.check(request)
        self._searcher = searcher
        self._steps = steps_of(techniques, GivesUp(model) if model is not None else None, prompts=prompts)
        deep = replace(request, top=max(request.top, CHUNKS))
        lacking = techniques.need_a_model if model is None else ()
        self.planned = plan(searcher, deep, self._steps, techniques.history, lacking=lacking, why=NO_MODEL)
        self._asked: list[Plan] = []

    def __call__(self, request: QueryRequest) -> QueryResult:
        """What is found, in whole passages."""
        self._asked.append(_with_words(self.planned, request))
        return run(self._searcher, self._asked[-1], replace(self._steps, cut=False)).result

    def shown(self, attempt: int, top: int) -> TechniqueResult:
        """What the attempt of that number found, cut to its first `top` hits and, if that was asked for, shortened."""
        asked = self._asked[attempt]
        queries = tuple(replace(each, request=replace(each.request, top=top)) for each in asked.queries)
        return run(
            self._searcher, replace(asked, request=replace(asked.request, top=top), queries=queries), self._steps
        )


def _with_words(planned: Plan, request: QueryRequest) -> Plan:
    """The plan with the words that the gate has added to its request, in the queries that are the question's own."""
    behind = request.text[len(planned.request.text) :]
    added = request.expansion[len(planned.request.expansion) :]
    if not (behind or added):
        return planned

    def longer(query: Query) -> Query:
        if query.weight < 1.0:
            return query
        asked = query.request
        return replace(query, request=replace(asked, text=asked.text + behind, expansion=(*asked.expansion, *added)))

    return replace(planned, queries=tuple(map(longer, planned.queries)))

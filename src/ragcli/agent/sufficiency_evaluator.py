"""Evaluator role by the sufficiency judge, with RM3 expansion for the next round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ragcli.agent.collection_retriever import CollectionRetriever
from ragcli.agent.data_model import Judgement, Result, SubTask
from ragcli.agent.result_ranking import rrf_reranker, with_source_scores
from ragcli.agent.roles import Evaluator, Reranker
from ragcli.errors import UsageError

if TYPE_CHECKING:
    from ragcli.grounding.sufficiency.evidence import Decision, Preset, SufficiencyJudge, SufficiencyJudgeName
    from ragcli.retrieval.request import QueryRequest, QueryResult
    from ragcli.retrieval.searcher import Searcher

FEEDBACK_WORDS: Final = 5
"""How many words a goal gets at most for the next round."""


def gate_evaluator(
    sources: Mapping[str, Any],
    *,
    judge: SufficiencyJudge | SufficiencyJudgeName = "calibrated",
    preset: Preset = "balanced",
    words: int = FEEDBACK_WORDS,
    prerank: Reranker | None = None,
) -> Evaluator:
    """An evaluator that keeps everything, and finds it sufficient when the gate does.

    `sources` is the agent's mapping; the gate judges what comes of ragcli's collections among them. `judge` (a name,
    or one of your own) and `preset` are as in `ragcli ask`. With `words` 0 the goal is never put in other words, so
    there is one round. `prerank` puts what was found in order (`rrf_reranker`). Raises UsageError when a sub-task has
    no collection among its sources.
    """

    def evaluator(task: SubTask, results: Sequence[Result]) -> Judgement:
        from ragcli.grounding.sufficiency.evidence import gather_evidence

        retrievers = _collections(sources, task)
        question = task.purpose or task.goal
        ranked = (prerank or rrf_reranker)(results)
        names = frozenset(each.collection.name for each in retrievers)
        with _searcher(retrievers) as searcher:
            request = retrievers[0].request(question)
            found = _as_found(request, ranked, names)
            evidence = gather_evidence(searcher, request, question=question, result=found)
            decision = _judge(judge, retrievers).judge(evidence, preset)
            goal = None if decision.passed else _expanded_queries(searcher, request, found, words)
        again = goal is None or goal.casefold() == task.goal.casefold()
        return Judgement(
            with_source_scores(ranked, results),
            sufficient=decision.passed,
            refinement=None if again or goal is None else SubTask(goal, task.sources),
            reason=decision.explanation,
            signals=_signals(decision),
        )

    return evaluator


def _collections(sources: Mapping[str, Any], task: SubTask) -> list[CollectionRetriever]:
    there = [sources[name] for name in task.sources if name in sources]
    collections = [each for each in there if isinstance(each, CollectionRetriever)]
    if not collections:
        raise UsageError("The gate judges what ragcli's own collections give, and this sub-task has none of them.")
    return collections


def _judge(
    judge: SufficiencyJudge | SufficiencyJudgeName, retrievers: Sequence[CollectionRetriever]
) -> SufficiencyJudge:
    if not isinstance(judge, str):
        return judge
    from ragcli.grounding import open_judge

    # Which calibration holds depends on what is searched, so each sub-task has its own judge.
    return open_judge(judge, [each.collection for each in retrievers])


def _searcher(retrievers: Sequence[CollectionRetriever]) -> Searcher:
    from ragcli.retrieval.searcher import Searcher

    first = retrievers[0]
    handles = {(each.collection.path, each.collection.tenant): each.collection for each in retrievers}
    return Searcher(list(handles.values()), engine=first.engine, notify=first.notify, models=first.models)


def _as_found(request: QueryRequest, ranked: Sequence[Result], names: frozenset[str]) -> QueryResult:
    """The results as what a query gave. Those of other sources are left out: the gate can look nothing up there."""
    from ragcli.retrieval.request import QueryResult

    hits = [hit for hit in ranked if hit.chunk.collection in names]
    reranker = next((hit.reranker for hit in hits if hit.reranker), None)
    return QueryResult(
        tuple(replace(hit, rank=rank) for rank, hit in enumerate(hits, 1)), (), request.pipeline, reranker
    )


def _expanded_queries(searcher: Searcher, request: QueryRequest, found: QueryResult, words: int) -> str | None:
    """The question with the telling words of what it has found, or None where there are none."""
    from ragcli.retrieval.expansion.rm3 import new_terms, rm3_expansion

    if words < 1:
        return None
    # Some of the words are the question's own; those cost no place.
    added = new_terms(request, rm3_expansion(searcher, request, found, words=2 * words))[:words]
    return f"{request.text} {' '.join(added)}" if added else None


def _signals(decision: Decision) -> dict[str, Any]:
    return {
        "judge": decision.judge,
        "score": decision.score,
        "threshold": decision.threshold,
        "reasons": decision.reasons,
        "features": dict(decision.features),
    }

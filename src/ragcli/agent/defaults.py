"""The roles without a language model: one task, the words as they are, everything kept, nothing asked twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragcli.agent.roles import Retriever
from ragcli.agent.values import Judgement, LowLevelQuery, Query, Result, SubTask


def single_subtask_planner(query: Query, sources: Mapping[str, Retriever]) -> list[SubTask]:
    """One sub-task over all sources, the question as it is."""
    return [SubTask(goal=query.text, sources=tuple(sources))]


def identity_formulator(task: SubTask, source: str) -> list[LowLevelQuery]:
    """The goal, word for word, as the one query."""
    return [LowLevelQuery(source=source, query=task.goal)]


def passthrough_evaluator(task: SubTask, results: Sequence[Result]) -> Judgement:  # noqa: ARG001
    """Keeps everything, finds it sufficient and never goes back."""
    return Judgement(relevant=list(results), sufficient=True)


def identity_citer(results: Sequence[Result]) -> Sequence[Result]:
    """The results as they are: to verify a citation takes a claim, and that is `ragcli check`'s work."""
    return results


def splitting_planner(query: Query, sources: Mapping[str, Retriever]) -> list[SubTask]:
    """One sub-task over all sources for each question in the query that shows its seams; by rule, without a model.

    "How does Raft elect a leader, and how does a sketch count?" is two; see `ragcli.retrieval.techniques.splitting`.
    """
    from ragcli.retrieval.techniques.splitting import split_question

    return [SubTask(goal=part, sources=tuple(sources)) for part in split_question(query.text)]

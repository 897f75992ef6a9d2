"""The search agent: a loop over replaceable roles across any number of sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragcli.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ragcli.agent.ask_agent import standard_agent
    from ragcli.agent.collection_retriever import (
        CollectionRetriever,
        CollectionsView,
        as_retriever,
        ask_all_sources,
        collection_sources,
        collections_view,
        share_searcher,
    )
    from ragcli.agent.data_model import (
        AgentRun,
        Budget,
        Judgement,
        LowLevelQuery,
        Query,
        Result,
        Retrieval,
        Round,
        SubTask,
        TaskTrace,
        Trace,
        make_result,
        result_key,
    )
    from ragcli.agent.llm_roles import make_llm_citer, make_llm_evaluator, make_llm_formulator, make_llm_planner
    from ragcli.agent.result_ranking import Identity, Selection, make_rrf_reranker, rrf_reranker, score_reranker, select
    from ragcli.agent.roles import (
        Citer,
        Evaluator,
        Formulator,
        Planner,
        Reranker,
        Retriever,
        identity_citer,
        identity_formulator,
        passthrough_evaluator,
        single_subtask_planner,
        splitting_planner,
    )
    from ragcli.agent.search_loop import SingleContextAgent, make_search_agent
    from ragcli.agent.sufficiency_evaluator import gate_evaluator

__all__ = [
    "AgentRun",
    "Budget",
    "Citer",
    "CollectionRetriever",
    "CollectionsView",
    "Evaluator",
    "Formulator",
    "Identity",
    "Judgement",
    "LowLevelQuery",
    "Planner",
    "Query",
    "Reranker",
    "Result",
    "Retrieval",
    "Retriever",
    "Round",
    "Selection",
    "SingleContextAgent",
    "SubTask",
    "TaskTrace",
    "Trace",
    "as_retriever",
    "ask_all_sources",
    "collection_sources",
    "collections_view",
    "gate_evaluator",
    "identity_citer",
    "identity_formulator",
    "make_llm_citer",
    "make_llm_evaluator",
    "make_llm_formulator",
    "make_llm_planner",
    "make_result",
    "make_rrf_reranker",
    "make_search_agent",
    "passthrough_evaluator",
    "result_key",
    "rrf_reranker",
    "score_reranker",
    "select",
    "share_searcher",
    "single_subtask_planner",
    "splitting_planner",
    "standard_agent",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "ask_agent": "standard_agent",
        "collection_retriever": (
            "CollectionRetriever CollectionsView as_retriever ask_all_sources collection_sources "
            "collections_view share_searcher"
        ),
        "data_model": (
            "AgentRun Budget Judgement LowLevelQuery Query Result Retrieval Round SubTask TaskTrace Trace "
            "make_result result_key"
        ),
        "llm_roles": "make_llm_citer make_llm_evaluator make_llm_formulator make_llm_planner",
        "result_ranking": "Identity Selection make_rrf_reranker rrf_reranker score_reranker select",
        "roles": (
            "Citer Evaluator Formulator Planner Reranker Retriever identity_citer identity_formulator "
            "passthrough_evaluator single_subtask_planner splitting_planner"
        ),
        "search_loop": "SingleContextAgent make_search_agent",
        "sufficiency_evaluator": "gate_evaluator",
    },
)

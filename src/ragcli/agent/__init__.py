"""The search agent: a loop over roles, each of which can be replaced, across any number of sources.

    from ragcli.agent import collection_sources, make_search_agent

    agent = make_search_agent(collection_sources("papers", "notes"))
    results = agent("how is noise mitigated in short circuits")

Without a language model it retrieves, merges by rank and stops. `gate_evaluator` makes it look again where the
evidence does not suffice; the roles of `ragcli.agent.language` put a language model in charge of that and of more.
`agent.run` gives the trace as well, `agent.arun` is for event loops.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ragcli.agent.defaults import (
        identity_citer,
        identity_formulator,
        passthrough_evaluator,
        single_subtask_planner,
        splitting_planner,
    )
    from ragcli.agent.gated import gate_evaluator
    from ragcli.agent.language import make_llm_citer, make_llm_evaluator, make_llm_formulator, make_llm_planner
    from ragcli.agent.loop import SingleContextAgent, make_search_agent
    from ragcli.agent.merging import Identity, make_rrf_reranker, rrf_reranker, score_reranker
    from ragcli.agent.roles import Citer, Evaluator, Formulator, Planner, Reranker, Retriever
    from ragcli.agent.selection import Selection, select
    from ragcli.agent.sources import (
        CollectionRetriever,
        CollectionsView,
        as_retriever,
        collection_sources,
        collections_view,
        joined,
        pooled,
    )
    from ragcli.agent.standard import standard_agent
    from ragcli.agent.trace import AgentRun, Retrieval, Round, TaskTrace, Trace
    from ragcli.agent.values import (
        Budget,
        Judgement,
        LowLevelQuery,
        Query,
        Result,
        SubTask,
        make_result,
        result_key,
    )

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
    "collection_sources",
    "collections_view",
    "gate_evaluator",
    "identity_citer",
    "identity_formulator",
    "joined",
    "make_llm_citer",
    "make_llm_evaluator",
    "make_llm_formulator",
    "make_llm_planner",
    "make_result",
    "make_rrf_reranker",
    "make_search_agent",
    "passthrough_evaluator",
    "pooled",
    "result_key",
    "rrf_reranker",
    "score_reranker",
    "select",
    "single_subtask_planner",
    "splitting_planner",
    "standard_agent",
]

_NAMES: Final = {
    "defaults": ("identity_citer identity_formulator passthrough_evaluator single_subtask_planner splitting_planner"),
    "gated": "gate_evaluator",
    "language": "make_llm_citer make_llm_evaluator make_llm_formulator make_llm_planner",
    "loop": "SingleContextAgent make_search_agent",
    "merging": "Identity make_rrf_reranker rrf_reranker score_reranker",
    "roles": "Citer Evaluator Formulator Planner Reranker Retriever",
    "selection": "Selection select",
    "sources": "CollectionRetriever CollectionsView as_retriever collection_sources collections_view joined pooled",
    "standard": "standard_agent",
    "trace": "AgentRun Retrieval Round TaskTrace Trace",
    "values": "Budget Judgement LowLevelQuery Query Result SubTask make_result result_key",
}
_WHERE: Final = MappingProxyType({name: module for module, names in _NAMES.items() for name in names.split()})


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)

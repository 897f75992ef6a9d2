"""The agent loop: plan, formulate, retrieve, rerank, evaluate, cite."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import Parameter, signature
from typing import Any, Final

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
    result_key,
)
from ragcli.agent.result_ranking import round_robin_by_source, rrf_reranker
from ragcli.agent.roles import (
    AnyCiter,
    AnyEvaluator,
    AnyFormulator,
    AnyPlanner,
    AnyReranker,
    Retriever,
    checked_judgement,
    checked_queries,
    checked_results,
    checked_tasks,
    identity_citer,
    identity_formulator,
    passthrough_evaluator,
    single_subtask_planner,
)
from ragcli.agent.scheduler import (
    LoopGenerator,
    RetrievalBatch,
    RetrievalJob,
    RetrievalOutcome,
    RoleCall,
    run_loop,
    run_loop_async,
)
from ragcli.errors import LanguageModelError, UsageError

CONCURRENCY: Final = 4
"""How many retrievals are under way at once, unless the agent is told otherwise."""


@dataclass(frozen=True, slots=True)
class SingleContextAgent:
    """One loop, with every role injected. Call it with a question; it may be used again and again.

    `concurrency` is how many retrievals run at once; with 1, each runs in the caller's own thread.
    """

    sources: Mapping[str, Retriever]
    planner: AnyPlanner = single_subtask_planner
    formulator: AnyFormulator = identity_formulator
    evaluator: AnyEvaluator = passthrough_evaluator
    reranker: AnyReranker = rrf_reranker
    citer: AnyCiter = identity_citer
    budget: Budget = field(default_factory=Budget)
    concurrency: int = CONCURRENCY

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise UsageError(f"concurrency must be at least 1, not {self.concurrency}.")

    def __call__(self, query: str | Query) -> list[Result]:
        """The results, best first. Errors as for `run`."""
        return list(self.run(query).results)

    def run(self, query: str | Query) -> AgentRun:
        """The results and the trace of how they came about.

        Raises RoleError when a role gives what it may not, UsageError for an empty query, and a source's own error
        when no source could be asked at all.
        """
        return run_loop(_Run(self, _query(query)).steps(), self.concurrency)

    async def arun(self, query: str | Query) -> AgentRun:
        """`run` for an event loop (asyncio or trio); roles that block run in threads."""
        return await run_loop_async(_Run(self, _query(query)).steps(), self.concurrency)


def make_search_agent(
    sources: Mapping[str, Retriever],
    *,
    planner: AnyPlanner | None = None,
    formulator: AnyFormulator | None = None,
    evaluator: AnyEvaluator | None = None,
    reranker: AnyReranker | None = None,
    citer: AnyCiter | None = None,
    budget: Budget | None = None,
    concurrency: int = CONCURRENCY,
) -> SingleContextAgent:
    """An agent over any mapping of names to retrievers, with the role that needs no language model for each left out.

    `collection_sources()` and `collections_view()` make such mappings of ragcli's collections. A retriever of your
    own takes a query and keyword arguments and gives `Hit`s (`make_result` makes one); hits that do not say which
    source they are from get the name that it is registered under.
    """
    return SingleContextAgent(
        sources=sources,
        planner=planner or single_subtask_planner,
        formulator=formulator or identity_formulator,
        evaluator=evaluator or passthrough_evaluator,
        reranker=reranker or rrf_reranker,
        citer=citer or identity_citer,
        budget=budget or Budget(),
        concurrency=concurrency,
    )


class _Run:
    """One question on its way through the loop."""

    def __init__(self, agent: SingleContextAgent, query: Query) -> None:
        self.agent = agent
        self.query = query
        self.warnings: dict[str, None] = {}
        self.outcomes: list[RetrievalOutcome] = []

    def steps(self) -> LoopGenerator[AgentRun]:
        agent, started = self.agent, time.perf_counter()
        planned = yield from self._ask(
            "planner", agent.planner, self.query, agent.sources, otherwise=single_subtask_planner
        )
        tasks: list[TaskTrace] = []
        for task in checked_tasks("The planner", planned):
            tasks.append((yield from self._pursue(task)))  # noqa: PERF401
        if self.outcomes and all(outcome.error for outcome in self.outcomes):
            raise next(outcome.error for outcome in self.outcomes if outcome.error)
        pool = [hit for task in tasks for hit in task.kept]
        ranked = checked_results(
            "The reranker", (yield from self._ask("reranker", agent.reranker, pool, otherwise=rrf_reranker))
        )
        keywords = {"query": self.query} if _takes_query(agent.citer) else {}
        cited = checked_results(
            "The citer",
            (yield from self._ask("citer", agent.citer, ranked, otherwise=identity_citer, keywords=keywords)),
        )
        results = tuple(replace(hit, rank=rank) for rank, hit in enumerate(cited, 1))
        return AgentRun(results, Trace(self.query, tuple(tasks), time.perf_counter() - started, tuple(self.warnings)))

    def _pursue(self, task: SubTask) -> LoopGenerator[TaskTrace]:
        agent, budget, started = self.agent, self.agent.budget, time.perf_counter()
        limit = budget.max_results_per_task
        purpose = task.purpose or task.goal
        current = replace(task, purpose=purpose)
        kept: list[Result] = []
        rounds: list[Round] = []
        ended = "The budget of rounds is spent."
        for number in range(1, budget.max_rounds + 1):
            began = time.perf_counter()
            retrievals = yield from self._retrieve(current)
            known = {result_key(hit) for hit in kept}
            fresh = [hit for each in retrievals for hit in each.hits if result_key(hit) not in known]
            # What an evaluator has kept stays; only what is new competes for the places that are left.
            pool = kept + round_robin_by_source(fresh, limit - len(kept))
            given = yield from self._ask("evaluator", agent.evaluator, current, pool, otherwise=_keep)
            judged = checked_judgement("The evaluator", given)
            kept = list(judged.relevant)[:limit]
            rounds.append(
                Round(number, current, tuple(retrievals), len(pool), judged, tuple(kept), time.perf_counter() - began)
            )
            if judged.sufficient:
                ended = "Enough was found."
                break
            if judged.refinement is None:
                ended = "The evaluator had no further query."
                break
            current = replace(judged.refinement, purpose=purpose)
        return TaskTrace(
            task, tuple(rounds), tuple(kept), rounds[-1].judgement.sufficient, ended, time.perf_counter() - started
        )

    def _retrieve(self, task: SubTask) -> LoopGenerator[list[Retrieval]]:
        jobs: list[RetrievalJob] = []
        # A formulator may look at the other sources of the task, but only at those that will be asked.
        asked = replace(task, sources=tuple(self._chosen(task)))
        for source in asked.sources:
            given = yield from self._ask(
                "formulator", self.agent.formulator, asked, source, otherwise=identity_formulator
            )
            jobs += [self._job(source, each) for each in checked_queries("The formulator", given)]
        if not jobs:
            return []
        outcomes: list[RetrievalOutcome] = yield RetrievalBatch(tuple(jobs))
        self.outcomes += outcomes
        found = []
        for job, outcome in zip(jobs, outcomes, strict=True):
            name = job.query.source
            if outcome.error is not None:
                self._warn(f"The source '{name}' could not be asked: {outcome.error}")
            hits = tuple(hit if hit.origin is not None else replace(hit, origin=name) for hit in outcome.hits)
            found.append(Retrieval(job.query, hits, outcome.seconds, str(outcome.error) if outcome.error else None))
        return found

    def _chosen(self, task: SubTask) -> list[str]:
        known = []
        for source in dict.fromkeys(task.sources):
            if source in self.agent.sources:
                known.append(source)
            else:
                self._warn(f"There is no source '{source}', which a sub-task was to be pursued in.")
        most = self.agent.budget.max_sources_per_task
        if len(known) > most:
            self._warn(f"The budget of {most} sources a sub-task left out {', '.join(known[most:])}.")
        return known[:most]

    def _job(self, source: str, query: LowLevelQuery) -> RetrievalJob:
        sources = self.agent.sources
        asked = LowLevelQuery(source, query.query, {**self.query.constraints, **query.params})
        return RetrievalJob(asked, lambda: sources[source])

    def _ask(
        self,
        role: str,
        function: Callable[..., Any],
        *arguments: Any,
        otherwise: Callable[..., Any],
        keywords: Mapping[str, Any] | None = None,
    ) -> LoopGenerator[Any]:
        try:
            return (yield RoleCall(function, arguments, keywords or {}))
        except LanguageModelError as error:
            self._warn(f"The {role} was done without: {error}")
            return otherwise(*arguments)

    def _warn(self, sentence: str) -> None:
        self.warnings[sentence] = None


def _query(query: str | Query) -> Query:
    given = query if isinstance(query, Query) else Query(query)
    if not given.text.strip():
        raise UsageError("The question is empty; give some words to look for.")
    return given


def _keep(task: SubTask, results: Sequence[Result]) -> Judgement:  # noqa: ARG001
    """What an evaluator that failed is taken to have said: keep what there is, it may not be enough, stop."""
    return Judgement(list(results), sufficient=False, reason="Nobody could judge the results.")


def _takes_query(citer: Callable[..., Any]) -> bool:
    try:
        parameters = signature(citer).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(each.name == "query" and each.kind is not Parameter.POSITIONAL_ONLY for each in parameters)

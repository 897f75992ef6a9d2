"""Plan the sub-queries of a request by its techniques, run them, and merge their rankings."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeVar

from ragcli.errors import LanguageModelError, UsageError
from ragcli.retrieval.expansion.decomposition import MAX_SUBQUESTIONS, split_question
from ragcli.retrieval.expansion.query_rewriting import TechniqueFunctions
from ragcli.retrieval.fusion import merge_hits, merge_rankings
from ragcli.retrieval.pipelines import PIPELINES
from ragcli.retrieval.request import (
    DeepRanking,
    KeptSpan,
    QueryPlan,
    QueryRequest,
    QueryResult,
    StageTime,
    SubQuery,
    SubQuestionHits,
)
from ragcli.types import NO_ENCODER

if TYPE_CHECKING:
    from ragcli.retrieval.compression import CharacterSpans
    from ragcli.retrieval.search_session import SearchSession
    from ragcli.types import Hit, StoredChunk


PARAPHRASE_WEIGHT: Final = 0.75
"""What all other ways to put a question weigh together, against 1 for the question itself."""
FEEDBACK_HITS: Final = 10

NO_LANGUAGE_MODEL: Final = (
    "There is no language model to ask (--llm-base-url and --llm-model, or base_url and model under [llm] in "
    "collections.toml)."
)

Value = TypeVar("Value")


def plan_queries(
    session: SearchSession, request: QueryRequest, functions: TechniqueFunctions, *, lacking: Sequence[str] = ()
) -> QueryPlan:
    """How the request is asked by its techniques. `lacking` are those, by their options, that want a language model
    that there is not.

    Raises UsageError for a technique that can have no effect; a language model's failure is in the plan.
    """
    without = _without_vectors(session) if request.hyde else ()
    if without and len(without) == len(session.readers):
        raise UsageError("--hyde compares passages by meaning, and what is searched was ingested without an encoder.")
    work = _TechniqueLog(list(lacking), NO_LANGUAGE_MODEL if lacking else "")
    question = request.text
    if functions.rewrite is not None:
        rewrite, asked = functions.rewrite, question
        question = work.do("rewrite", "--rewrite", lambda: rewrite(asked, request.history), asked)
    parts: tuple[str, ...] = (question,)
    if functions.decompose is not None:
        decompose, whole = functions.decompose, question
        nothing: Sequence[str] = ()
        found = work.do("decompose", "--decompose", lambda: decompose(whole), nothing)
        parts = tuple(found)[:MAX_SUBQUESTIONS] or split_question(whole)
    queries: list[SubQuery] = []
    for number, part in enumerate(parts):
        asked_part = replace(request.without_techniques(), text=part)
        queries += _sub_queries(session, asked_part, request.hyde, number, functions, work)
    return QueryPlan(request, question, parts, tuple(queries), tuple(work.failed), work.why, tuple(work.times))


def run_plan(session: SearchSession, plan: QueryPlan, functions: TechniqueFunctions) -> QueryResult:
    """Ask what was planned, merge what is found, and cut it if the request says so."""
    work = _TechniqueLog(list(plan.failed), plan.why)
    request = plan.request
    if len(plan.queries) == 1:
        result = session.query(_as_asked(plan.queries[0], request))
        places = [0] * len(result.hits)
    else:
        results = [session.query(_merge_request(query.request, request)) for query in plan.queries]
        started = time.perf_counter()
        hits, places = merge_hits(plan.queries, results, request)
        work.times.append(StageTime("merge", time.perf_counter() - started, f"{len(results)} queries by rrf"))
        result = _merged(results, hits)
    kept: tuple[tuple[KeptSpan, ...], ...] = ()
    if request.compress is not None and result.hits:
        kept = _kept_spans(session, plan, result, places, functions, work)
        result = replace(result, hits=_compressed_hits(result.hits, kept))
    plan = replace(plan, failed=tuple(work.failed), why=work.why)
    return replace(
        result,
        stages=(*plan.times, *result.stages, *work.times),
        warnings=(*result.warnings, *plan.warnings, *_hyde_warnings(session, request)),
        plan=plan,
        groups=_groups(plan, result.hits, places),
        kept=kept,
    )


def _as_asked(query: SubQuery, request: QueryRequest) -> QueryRequest:
    """The one query of a plan, as many hits deep as its request is now."""
    return replace(query.request, top=request.top, group=request.group, max_per_source=request.max_per_source)


def expand_plan(plan: QueryPlan, request: QueryRequest, longer: QueryRequest) -> QueryPlan:
    """The plan of `request` with the terms that `longer` has beside it, in the queries that are the question's own."""
    behind = longer.text[len(request.text) :]
    added = longer.expansion[len(request.expansion) :]

    def expanded(query: SubQuery) -> SubQuery:
        if query.weight < 1.0:
            return query
        asked = query.request
        return replace(query, request=replace(asked, text=asked.text + behind, expansion=(*asked.expansion, *added)))

    return replace(plan, queries=tuple(map(expanded, plan.queries)))


def _without_vectors(session: SearchSession) -> tuple[str, ...]:
    return tuple(each.name for each in session.readers if each.settings.encoder == NO_ENCODER)


def _hyde_warnings(session: SearchSession, request: QueryRequest) -> Iterator[str]:
    if request.hyde and (without := _without_vectors(session)):
        yield f"--hyde says nothing to {', '.join(without)}, ingested without an encoder."


def rank_plan(session: SearchSession, plan: QueryPlan, *, chunks: int = 0, documents: int = 0) -> DeepRanking:
    """The order that `run_plan` cuts its hits from, and what lies below; see `Searcher.ranking`."""
    rankings = [session.ranking(query.request, chunks=chunks, documents=documents) for query in plan.queries]
    if len(rankings) == 1:
        return rankings[0]
    rerankers = [ranking.reranker for ranking in rankings if ranking.reranker]
    merged = merge_rankings(plan.queries, rankings, depth=_depth(plan.request))
    return DeepRanking(merged, rerankers[0] if rerankers else None)


@dataclass(slots=True)
class _TechniqueLog:
    """What goes on around the steps: their times, and which of them failed and why."""

    failed: list[str]
    why: str
    times: list[StageTime] = field(default_factory=list)

    def do(self, stage: str, option: str, call: Callable[[], Value], otherwise: Value) -> Value:
        """What the call gives, or `otherwise` when a language model fails in it."""
        started = time.perf_counter()
        try:
            return call()
        except LanguageModelError as error:
            if option not in self.failed:
                self.failed.append(option)
            self.why = self.why or str(error)
            return otherwise
        finally:
            self.times.append(StageTime(stage, time.perf_counter() - started, ""))


def _sub_queries(
    session: SearchSession,
    request: QueryRequest,
    passages: int,
    part: int,
    functions: TechniqueFunctions,
    work: _TechniqueLog,
) -> list[SubQuery]:
    """The queries for one part of a question, the part itself first."""
    asked = request
    others: Sequence[str] = ()
    nothing: Sequence[str] = ()
    if functions.vary is not None:
        vary = functions.vary
        others = work.do("vary", "--expand llm", lambda: vary(request.text), nothing)
    if functions.imagine is not None:
        imagine = functions.imagine
        written = work.do("imagine", "--hyde", lambda: imagine(request.text, passages), nothing)
        asked = replace(asked, hypothetical=(*asked.hypothetical, *written))
    if functions.feedback is not None:
        started = time.perf_counter()
        first = session.query(replace(asked, top=min(FEEDBACK_HITS, _depth(asked)), max_per_source=None, group=False))
        asked = functions.feedback(session, asked, first)
        work.times.append(StageTime("feedback", time.perf_counter() - started, f"{len(first.hits)} hits"))
    weight = PARAPHRASE_WEIGHT / max(len(others), 1)
    return [SubQuery(asked, part, 1.0), *(SubQuery(replace(request, text=other), part, weight) for other in others)]


def _depth(request: QueryRequest) -> int:
    """How many hits of each query take part in the merging: as many as a first stage gives to its pool."""
    return max(request.pool or PIPELINES[request.pipeline].pool, request.top)


def _merge_request(query: QueryRequest, request: QueryRequest) -> QueryRequest:
    return replace(query, top=_depth(request), max_per_source=None, group=False)


def _merged(results: Sequence[QueryResult], hits: tuple[Hit, ...]) -> QueryResult:
    """Several results as one, each stage's times added up."""
    seconds: defaultdict[str, float] = defaultdict(float)
    details: dict[str, str] = {}
    for stage in (stage for result in results for stage in result.stages):
        seconds[stage.stage] += stage.seconds
        details.setdefault(stage.stage, stage.detail)
    rerankers = [result.reranker for result in results if result.reranker]
    return QueryResult(
        hits,
        tuple(StageTime(stage, seconds[stage], detail) for stage, detail in details.items()),
        results[0].pipeline,
        rerankers[0] if rerankers else None,
        tuple(dict.fromkeys(warning for result in results for warning in result.warnings)),
    )


def _groups(plan: QueryPlan, hits: Sequence[Hit], places: Sequence[int]) -> tuple[SubQuestionHits, ...]:
    """The hits by the part that ranked them best, the parts in the order of their best hits."""
    if len(plan.parts) < 2:
        return ()
    of_part: defaultdict[int, list[Hit]] = defaultdict(list)
    for hit, place in zip(hits, places, strict=True):
        of_part[place].append(hit)
    numbers = sorted(range(len(plan.parts)), key=lambda number: of_part[number][0].rank if of_part[number] else 10**9)
    return tuple(SubQuestionHits(plan.parts[number], tuple(of_part[number])) for number in numbers)


def _kept_spans(
    session: SearchSession,
    plan: QueryPlan,
    result: QueryResult,
    places: Sequence[int],
    functions: TechniqueFunctions,
    work: _TechniqueLog,
) -> tuple[tuple[KeptSpan, ...], ...]:
    """Which sentences of each hit are kept for the part of the question that found it."""
    of_name = {reader.name: reader for reader in session.readers}
    kept: list[tuple[KeptSpan, ...]] = [()] * len(result.hits)
    started = time.perf_counter()
    for number, part in enumerate(plan.parts):
        mine = [at for at, place in enumerate(places) if place == number]
        chunks = [result.hits[at].chunk for at in mine]
        for at, chunk, spans in zip(
            mine, chunks, _spans_to_keep(session, part, chunks, result, functions, work), strict=True
        ):
            reader = of_name[chunk.collection]
            kept[at] = tuple(
                KeptSpan(start, end, reader.page_of(chunk, start), reader.page_of(chunk, max(start, end - 1)))
                for start, end in spans
            )
    work.times.append(StageTime("compress", time.perf_counter() - started, f"{len(result.hits)} passages"))
    return tuple(kept)


def _spans_to_keep(
    session: SearchSession,
    question: str,
    chunks: Sequence[StoredChunk],
    result: QueryResult,
    functions: TechniqueFunctions,
    work: _TechniqueLog,
) -> list[CharacterSpans]:
    from ragcli.retrieval.compression import extractive_compressor

    none: Sequence[CharacterSpans] = [()] * len(chunks)
    compress = functions.compress
    found = none if compress is None else work.do("pick", "--compress llm", lambda: compress(question, chunks), none)
    spans = list(found)
    left = [at for at, each in enumerate(spans) if not each]
    by_reranker = extractive_compressor(session, result.reranker)(question, [chunks[at] for at in left])
    for at, each in zip(left, by_reranker, strict=True):
        spans[at] = each
    return spans


def _compressed_hits(hits: Sequence[Hit], kept: Sequence[Sequence[KeptSpan]]) -> tuple[Hit, ...]:
    from ragcli.retrieval.compression import compress_hit

    return tuple(compress_hit(hit, stretches) for hit, stretches in zip(hits, kept, strict=True))

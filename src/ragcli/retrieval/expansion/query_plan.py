"""Plan the sub-queries of a request by its techniques, run them, and merge their rankings."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from ragcli.collection import NO_ENCODER
from ragcli.errors import LanguageModelError, UsageError
from ragcli.llm.chat_model import CircuitBreaker
from ragcli.retrieval.expansion.decomposition import MAX_SUBQUESTIONS, split_question
from ragcli.retrieval.expansion.query_rewriting import TechniqueFunctions, technique_functions
from ragcli.retrieval.expansion.rm3 import RM3_CHUNKS
from ragcli.retrieval.fusion import merge_hits, merge_rankings
from ragcli.retrieval.pipelines import PIPELINES
from ragcli.retrieval.request import DeepRanking, QueryRequest, QueryResult, StageTime
from ragcli.retrieval.techniques import KeptSpan, QueryPlan, SubQuery, SubQuestionHits, TechniqueResult, Techniques

if TYPE_CHECKING:
    from ragcli.llm.chat_model import LanguageModel, Message
    from ragcli.retrieval.compression import CharacterSpans
    from ragcli.retrieval.request import QueryRequest, QueryResult
    from ragcli.retrieval.searcher import Searcher
    from ragcli.retrieval.techniques import QueryPlan, SubQuery, TechniqueResult, Techniques
    from ragcli.types import Hit, StoredChunk


PARAPHRASE_WEIGHT: Final = 0.75
"""What all other ways to put a question weigh together, against 1 for the question itself."""
FEEDBACK_HITS: Final = 10

NO_LANGUAGE_MODEL: Final = (
    "There is no language model to ask (--llm-base-url and --llm-model, or base_url and model under [llm] in "
    "collections.toml)."
)

Value = TypeVar("Value")


def search_with_techniques(
    searcher: Searcher,
    request: QueryRequest,
    techniques: Techniques,
    model: LanguageModel | None = None,
    *,
    prompts: Path | None = None,
    no_model: str = NO_LANGUAGE_MODEL,
) -> TechniqueResult:
    """Answer a question by techniques. `prompts` is a folder of the user's own; `no_model` says why there is none.

    Raises UsageError for a technique that can have no effect in the pipeline; a language model's failure is a warning.
    """
    techniques.check(request)
    steady = CircuitBreaker(model) if model is not None else None
    steps = technique_functions(techniques, steady, prompts=prompts)
    lacking = techniques.need_a_model if model is None else ()
    return run_plan(
        searcher, plan_queries(searcher, request, steps, techniques.history, lacking=lacking, why=no_model), steps
    )


def plan_queries(
    searcher: Searcher,
    request: QueryRequest,
    steps: TechniqueFunctions,
    history: Sequence[Message] = (),
    *,
    lacking: Sequence[str] = (),
    why: str = "",
) -> QueryPlan:
    """What is to be asked. `lacking` are techniques, by their options, that cannot be used, and `why`."""
    without = _without_vectors(searcher) if steps.passages else ()
    if without and len(without) == len(searcher.snapshots):
        raise UsageError("--hyde compares passages by meaning, and what is searched was ingested without an encoder.")
    work = _TechniqueLog(list(lacking), why if lacking else "")
    question = request.text
    if steps.rewrite is not None:
        rewrite, asked = steps.rewrite, question
        question = work.do("rewrite", "--rewrite", lambda: rewrite(asked, history), asked)
    parts: tuple[str, ...] = (question,)
    if steps.decompose is not None:
        decompose, whole = steps.decompose, question
        nothing: Sequence[str] = ()
        found = work.do("decompose", "--decompose", lambda: decompose(whole), nothing)
        parts = tuple(found)[:MAX_SUBQUESTIONS] or split_question(whole)
    queries: list[SubQuery] = []
    for number, part in enumerate(parts):
        queries += _sub_queries(searcher, replace(request, text=part), number, steps, work)
    return QueryPlan(request, question, parts, tuple(queries), tuple(work.failed), work.why, tuple(work.times))


def run_plan(searcher: Searcher, planned: QueryPlan, steps: TechniqueFunctions) -> TechniqueResult:
    """Ask what was planned, merge what is found, and cut it if `steps` says so."""
    work = _TechniqueLog(list(planned.failed), planned.why)
    if len(planned.queries) == 1:
        result = searcher.query(planned.queries[0].request)
        places = [0] * len(result.hits)
    else:
        results = [searcher.query(_merge_request(query.request)) for query in planned.queries]
        started = time.perf_counter()
        hits, places = merge_hits(planned.queries, results, planned.request)
        work.times.append(StageTime("merge", time.perf_counter() - started, f"{len(results)} queries by rrf"))
        result = _merged(results, hits)
    kept: tuple[tuple[KeptSpan, ...], ...] = ()
    if steps.cut and result.hits:
        kept = _kept_spans(searcher, planned, result, places, steps, work)
        result = replace(result, hits=_compressed_hits(result.hits, kept))
    planned = replace(planned, failed=tuple(work.failed), why=work.why)
    result = replace(
        result,
        stages=(*planned.times, *result.stages, *work.times),
        warnings=(*result.warnings, *planned.warnings, *_hyde_warnings(searcher, steps)),
    )
    return TechniqueResult(result, planned, _groups(planned, result.hits, places), kept)


def _without_vectors(searcher: Searcher) -> tuple[str, ...]:
    return tuple(each.collection for each in searcher.snapshots if each.settings.encoder == NO_ENCODER)


def _hyde_warnings(searcher: Searcher, steps: TechniqueFunctions) -> Iterator[str]:
    if steps.passages and (without := _without_vectors(searcher)):
        yield f"--hyde says nothing to {', '.join(without)}, ingested without an encoder."


def deep_ranking(searcher: Searcher, planned: QueryPlan, *, chunks: int = 0, documents: int = 0) -> DeepRanking:
    """The order that `run` cuts its hits from, and what lies below; see `Searcher.ranking`."""
    rankings = [searcher.ranking(query.request, chunks=chunks, documents=documents) for query in planned.queries]
    if len(rankings) == 1:
        return rankings[0]
    rerankers = [ranking.reranker for ranking in rankings if ranking.reranker]
    merged = merge_rankings(planned.queries, rankings, depth=_depth(planned.request))
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
    searcher: Searcher, request: QueryRequest, part: int, steps: TechniqueFunctions, work: _TechniqueLog
) -> list[SubQuery]:
    """The queries for one part of a question, the part itself first."""
    asked = request
    others: Sequence[str] = ()
    nothing: Sequence[str] = ()
    if steps.vary is not None:
        vary = steps.vary
        others = work.do("vary", "--expand llm", lambda: vary(request.text), nothing)
    if steps.imagine is not None:
        imagine = steps.imagine
        passages = work.do("imagine", "--hyde", lambda: imagine(request.text, steps.passages), nothing)
        asked = replace(asked, hypothetical=(*asked.hypothetical, *passages))
    if steps.feedback is not None:
        started = time.perf_counter()
        first = searcher.query(replace(asked, top=min(FEEDBACK_HITS, _depth(asked)), max_per_source=None, group=False))
        asked = steps.feedback(searcher, asked, first)
        work.times.append(StageTime("feedback", time.perf_counter() - started, f"{len(first.hits)} hits"))
    weight = PARAPHRASE_WEIGHT / max(len(others), 1)
    return [SubQuery(asked, part, 1.0), *(SubQuery(replace(request, text=other), part, weight) for other in others)]


def _depth(request: QueryRequest) -> int:
    """How many hits of each query take part in the merging: as many as a first stage gives to its pool."""
    return max(request.pool or PIPELINES[request.pipeline].pool, request.top)


def _merge_request(request: QueryRequest) -> QueryRequest:
    return replace(request, top=_depth(request), max_per_source=None, group=False)


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


def _groups(planned: QueryPlan, hits: Sequence[Hit], places: Sequence[int]) -> tuple[SubQuestionHits, ...]:
    """The hits by the part that ranked them best, the parts in the order of their best hits."""
    if len(planned.parts) < 2:
        return ()
    of_part: defaultdict[int, list[Hit]] = defaultdict(list)
    for hit, place in zip(hits, places, strict=True):
        of_part[place].append(hit)
    numbers = sorted(
        range(len(planned.parts)), key=lambda number: of_part[number][0].rank if of_part[number] else 10**9
    )
    return tuple(SubQuestionHits(planned.parts[number], tuple(of_part[number])) for number in numbers)


def _kept_spans(
    searcher: Searcher,
    planned: QueryPlan,
    result: QueryResult,
    places: Sequence[int],
    steps: TechniqueFunctions,
    work: _TechniqueLog,
) -> tuple[tuple[KeptSpan, ...], ...]:
    """Which sentences of each hit are kept for the part of the question that found it."""
    of_name = {snapshot.collection: snapshot for snapshot in searcher.snapshots}
    kept: list[tuple[KeptSpan, ...]] = [()] * len(result.hits)
    started = time.perf_counter()
    for number, part in enumerate(planned.parts):
        mine = [at for at, place in enumerate(places) if place == number]
        chunks = [result.hits[at].chunk for at in mine]
        for at, chunk, spans in zip(
            mine, chunks, _spans_to_keep(searcher, part, chunks, result, steps, work), strict=True
        ):
            snapshot = of_name[chunk.collection]
            kept[at] = tuple(
                KeptSpan(start, end, snapshot.page_of(chunk, start), snapshot.page_of(chunk, max(start, end - 1)))
                for start, end in spans
            )
    work.times.append(StageTime("compress", time.perf_counter() - started, f"{len(result.hits)} passages"))
    return tuple(kept)


def _spans_to_keep(
    searcher: Searcher,
    question: str,
    chunks: Sequence[StoredChunk],
    result: QueryResult,
    steps: TechniqueFunctions,
    work: _TechniqueLog,
) -> list[CharacterSpans]:
    from ragcli.retrieval.compression import extractive_compressor

    none: Sequence[CharacterSpans] = [()] * len(chunks)
    compress = steps.compress
    found = none if compress is None else work.do("pick", "--compress llm", lambda: compress(question, chunks), none)
    spans = list(found)
    left = [at for at, each in enumerate(spans) if not each]
    by_reranker = extractive_compressor(searcher, result.reranker)(question, [chunks[at] for at in left])
    for at, each in zip(left, by_reranker, strict=True):
        spans[at] = each
    return spans


def _compressed_hits(hits: Sequence[Hit], kept: Sequence[Sequence[KeptSpan]]) -> tuple[Hit, ...]:
    from ragcli.retrieval.compression import compress_hit

    return tuple(compress_hit(hit, stretches) for hit, stretches in zip(hits, kept, strict=True))


class PlannedSearch:
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
        self._steps = technique_functions(
            techniques, CircuitBreaker(model) if model is not None else None, prompts=prompts
        )
        deep = replace(request, top=max(request.top, RM3_CHUNKS))
        lacking = techniques.need_a_model if model is None else ()
        self.planned = plan_queries(
            searcher, deep, self._steps, techniques.history, lacking=lacking, why=NO_LANGUAGE_MODEL
        )
        self._asked: list[QueryPlan] = []

    def __call__(self, request: QueryRequest) -> QueryResult:
        """What is found, in whole passages."""
        self._asked.append(_with_expansion(self.planned, request))
        return run_plan(self._searcher, self._asked[-1], replace(self._steps, cut=False)).result

    def shown(self, attempt: int, top: int) -> TechniqueResult:
        """What the attempt of that number found, cut to its first `top` hits and, if that was asked for, shortened."""
        asked = self._asked[attempt]
        queries = tuple(replace(each, request=replace(each.request, top=top)) for each in asked.queries)
        return run_plan(
            self._searcher, replace(asked, request=replace(asked.request, top=top), queries=queries), self._steps
        )


def _with_expansion(planned: QueryPlan, request: QueryRequest) -> QueryPlan:
    """The plan with the words that the gate has added to its request, in the queries that are the question's own."""
    behind = request.text[len(planned.request.text) :]
    added = request.expansion[len(planned.request.expansion) :]
    if not (behind or added):
        return planned

    def longer(query: SubQuery) -> SubQuery:
        if query.weight < 1.0:
            return query
        asked = query.request
        return replace(query, request=replace(asked, text=asked.text + behind, expansion=(*asked.expansion, *added)))

    return replace(planned, queries=tuple(map(longer, planned.queries)))

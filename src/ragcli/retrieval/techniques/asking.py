"""From a question and its techniques to what is asked of the collections, and from all that is found to one ranking.

The order is always the same: the question is made to stand alone, then taken apart; each part is asked with the
passages and the words that techniques add to it, and beside it other ways to put it. The rankings are merged
(`merging`), the other ways to put a part counting less together than the part itself, so that a language model's fancy
cannot outvote the question. Then passages are cut.

`plan` does what comes before the search, `run` the rest; `search` is both. Where a language model fails, the plan goes
on without it and has a warning, one whatever failed.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from ragcli.collection import NO_ENCODER
from ragcli.errors import LanguageModelError, UsageError
from ragcli.llm.giving_up import GivesUp
from ragcli.retrieval.pipelines import PIPELINES
from ragcli.retrieval.request import QueryRequest, QueryResult, RankedChunks, StageTime
from ragcli.retrieval.techniques.merging import merge_hits, merge_rankings
from ragcli.retrieval.techniques.splitting import MOST_PARTS, split_question
from ragcli.retrieval.techniques.steps import Steps, steps_of
from ragcli.retrieval.techniques.values import Group, Plan, Query, Stretch, TechniqueResult, Techniques

if TYPE_CHECKING:
    from ragcli.llm.protocols import LanguageModel, Message
    from ragcli.records import Hit, StoredChunk
    from ragcli.retrieval.query import Searcher
    from ragcli.retrieval.techniques.steps import Spans

VARIATIONS_WEIGHT: Final = 0.75
"""What all other ways to put a question weigh together, against 1 for the question itself."""
FEEDBACK_HITS: Final = 10

NO_MODEL: Final = (
    "There is no language model to ask (--llm-base-url and --llm-model, or base_url and model under [llm] in "
    "collections.toml)."
)

Value = TypeVar("Value")


def search(
    searcher: Searcher,
    request: QueryRequest,
    techniques: Techniques,
    model: LanguageModel | None = None,
    *,
    prompts: Path | None = None,
    no_model: str = NO_MODEL,
) -> TechniqueResult:
    """Answer a question by techniques. `prompts` is a folder of the user's own; `no_model` says why there is none.

    Raises UsageError for a technique that can have no effect in the pipeline; a language model's failure is a warning.
    """
    techniques.check(request)
    steady = GivesUp(model) if model is not None else None
    steps = steps_of(techniques, steady, prompts=prompts)
    lacking = techniques.need_a_model if model is None else ()
    return run(searcher, plan(searcher, request, steps, techniques.history, lacking=lacking, why=no_model), steps)


def plan(
    searcher: Searcher,
    request: QueryRequest,
    steps: Steps,
    history: Sequence[Message] = (),
    *,
    lacking: Sequence[str] = (),
    why: str = "",
) -> Plan:
    """What is to be asked. `lacking` are techniques, by their options, that cannot be used, and `why`."""
    without = _without_vectors(searcher) if steps.passages else ()
    if without and len(without) == len(searcher.snapshots):
        raise UsageError("--hyde compares passages by meaning, and what is searched was ingested without an encoder.")
    work = _Work(list(lacking), why if lacking else "")
    question = request.text
    if steps.rewrite is not None:
        rewrite, asked = steps.rewrite, question
        question = work.do("rewrite", "--rewrite", lambda: rewrite(asked, history), asked)
    parts: tuple[str, ...] = (question,)
    if steps.decompose is not None:
        decompose, whole = steps.decompose, question
        nothing: Sequence[str] = ()
        found = work.do("decompose", "--decompose", lambda: decompose(whole), nothing)
        parts = tuple(found)[:MOST_PARTS] or split_question(whole)
    queries: list[Query] = []
    for number, part in enumerate(parts):
        queries += _queries(searcher, replace(request, text=part), number, steps, work)
    return Plan(request, question, parts, tuple(queries), tuple(work.failed), work.why, tuple(work.times))


def run(searcher: Searcher, planned: Plan, steps: Steps) -> TechniqueResult:
    """Ask what was planned, merge what is found, and cut it if `steps` says so."""
    work = _Work(list(planned.failed), planned.why)
    if len(planned.queries) == 1:
        result = searcher.query(planned.queries[0].request)
        places = [0] * len(result.hits)
    else:
        results = [searcher.query(_deep(query.request)) for query in planned.queries]
        started = time.perf_counter()
        hits, places = merge_hits(planned.queries, results, planned.request)
        work.times.append(StageTime("merge", time.perf_counter() - started, f"{len(results)} queries by rrf"))
        result = _merged(results, hits)
    kept: tuple[tuple[Stretch, ...], ...] = ()
    if steps.cut and result.hits:
        kept = _kept(searcher, planned, result, places, steps, work)
        result = replace(result, hits=_cut(result.hits, kept))
    planned = replace(planned, failed=tuple(work.failed), why=work.why)
    result = replace(
        result,
        stages=(*planned.times, *result.stages, *work.times),
        warnings=(*result.warnings, *planned.warnings, *_half_hyde(searcher, steps)),
    )
    return TechniqueResult(result, planned, _groups(planned, result.hits, places), kept)


def _without_vectors(searcher: Searcher) -> tuple[str, ...]:
    return tuple(each.collection for each in searcher.snapshots if each.settings.encoder == NO_ENCODER)


def _half_hyde(searcher: Searcher, steps: Steps) -> Iterator[str]:
    if steps.passages and (without := _without_vectors(searcher)):
        yield f"--hyde says nothing to {', '.join(without)}, ingested without an encoder."


def deep_ranking(searcher: Searcher, planned: Plan, *, chunks: int = 0, documents: int = 0) -> RankedChunks:
    """The order that `run` cuts its hits from, and what lies below; see `Searcher.ranking`."""
    rankings = [searcher.ranking(query.request, chunks=chunks, documents=documents) for query in planned.queries]
    if len(rankings) == 1:
        return rankings[0]
    rerankers = [ranking.reranker for ranking in rankings if ranking.reranker]
    merged = merge_rankings(planned.queries, rankings, depth=_depth(planned.request))
    return RankedChunks(merged, rerankers[0] if rerankers else None)


@dataclass(slots=True)
class _Work:
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


def _queries(searcher: Searcher, request: QueryRequest, part: int, steps: Steps, work: _Work) -> list[Query]:
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
    weight = VARIATIONS_WEIGHT / max(len(others), 1)
    return [Query(asked, part, 1.0), *(Query(replace(request, text=other), part, weight) for other in others)]


def _depth(request: QueryRequest) -> int:
    """How many hits of each query take part in the merging: as many as a first stage gives to its pool."""
    return max(request.pool or PIPELINES[request.pipeline].pool, request.top)


def _deep(request: QueryRequest) -> QueryRequest:
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


def _groups(planned: Plan, hits: Sequence[Hit], places: Sequence[int]) -> tuple[Group, ...]:
    """The hits by the part that ranked them best, the parts in the order of their best hits."""
    if len(planned.parts) < 2:
        return ()
    of_part: defaultdict[int, list[Hit]] = defaultdict(list)
    for hit, place in zip(hits, places, strict=True):
        of_part[place].append(hit)
    numbers = sorted(
        range(len(planned.parts)), key=lambda number: of_part[number][0].rank if of_part[number] else 10**9
    )
    return tuple(Group(planned.parts[number], tuple(of_part[number])) for number in numbers)


def _kept(
    searcher: Searcher, planned: Plan, result: QueryResult, places: Sequence[int], steps: Steps, work: _Work
) -> tuple[tuple[Stretch, ...], ...]:
    """Which sentences of each hit are kept for the part of the question that found it."""
    of_name = {snapshot.collection: snapshot for snapshot in searcher.snapshots}
    kept: list[tuple[Stretch, ...]] = [()] * len(result.hits)
    started = time.perf_counter()
    for number, part in enumerate(planned.parts):
        mine = [at for at, place in enumerate(places) if place == number]
        chunks = [result.hits[at].chunk for at in mine]
        for at, chunk, spans in zip(mine, chunks, _spans(searcher, part, chunks, result, steps, work), strict=True):
            snapshot = of_name[chunk.collection]
            kept[at] = tuple(
                Stretch(start, end, snapshot.page_of(chunk, start), snapshot.page_of(chunk, max(start, end - 1)))
                for start, end in spans
            )
    work.times.append(StageTime("compress", time.perf_counter() - started, f"{len(result.hits)} passages"))
    return tuple(kept)


def _spans(
    searcher: Searcher, question: str, chunks: Sequence[StoredChunk], result: QueryResult, steps: Steps, work: _Work
) -> list[Spans]:
    from ragcli.retrieval.techniques.compression import extractive_compressor

    none: Sequence[Spans] = [()] * len(chunks)
    compress = steps.compress
    found = none if compress is None else work.do("pick", "--compress llm", lambda: compress(question, chunks), none)
    spans = list(found)
    left = [at for at, each in enumerate(spans) if not each]
    by_reranker = extractive_compressor(searcher, result.reranker)(question, [chunks[at] for at in left])
    for at, each in zip(left, by_reranker, strict=True):
        spans[at] = each
    return spans


def _cut(hits: Sequence[Hit], kept: Sequence[Sequence[Stretch]]) -> tuple[Hit, ...]:
    from ragcli.retrieval.techniques.compression import shortened

    return tuple(shortened(hit, stretches) for hit, stretches in zip(hits, kept, strict=True))

"""Run a query: candidate pool, rerank, fuse, build hits; hold readers and models meanwhile."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from threading import RLock, local
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import numpy as np

from ragcli.engines import opened
from ragcli.errors import CollectionError, RerankerUnavailable, UsageError
from ragcli.retrieval.dedupe import documents_needed, pool_for_duplicates
from ragcli.retrieval.final_score import blend_recency, final_scores, recency_scores
from ragcli.retrieval.fusion import RRF_K, check_weights
from ragcli.retrieval.hit_builder import build_hits, ordered_candidates
from ragcli.retrieval.pipelines import PIPELINES, Pipeline, stages_of
from ragcli.retrieval.request import (
    MAX_ENCODED_CHARS,
    MAX_QUESTION_CHARS,
    DeepRanking,
    QueryPlan,
    QueryRequest,
    QueryResult,
    RankedChunk,
    StageTime,
)
from ragcli.retrieval.stages import (
    CandidatePool,
    EncodedQuery,
    RankedPool,
    StageScores,
    fill_pool,
    rank_stage,
    rocchio_vector,
)
from ragcli.types import NO_ENCODER

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from ragcli.collection import Collection
    from ragcli.engines import CollectionReader
    from ragcli.llm.chat_model import LanguageModel
    from ragcli.models import Encoder, Encoding, TextReranker
    from ragcli.models.model_loading import LoadedModelCache
    from ragcli.retrieval.expansion.query_rewriting import TechniqueFunctions
    from ragcli.retrieval.more_like_this import SimilarityTarget
    from ragcli.retrieval.pipelines import Stage
    from ragcli.types import Notify, ScoreType


LoadedModel = TypeVar("LoadedModel")
EngineName = Literal["auto", "onnx", "torch"]

# Seconds for which a reranker elsewhere that gave no scores is not asked again.
_RETRY_AFTER_SECONDS: Final = 60.0

# Characters of a filter that the record of a query's stages shows.
_MAX_FILTER_CHARS: Final = 200
SCORE_TYPES: Final[Mapping[Stage, ScoreType]] = {"tfidf": "cosine", "bm25": "bm25", "dense": "dense"}


class Searcher:
    """Answers questions over one committed state of some collections. A context manager.

    Many threads may ask at once. They share the models; each thread reads the state that was committed when it first
    asked, and keeps to it. Readers that are given in the place of collections are for one thread, and are left open
    at the end. `encoder` and `reranker` are the caller's own: the encoder must be the one that the collections were
    made with, the reranker is what `auto` chooses. `models` is where it puts and finds loaded models, for several
    searchers to share. `language_model` is asked by
    the query techniques that need one, with the user's own prompts out of the folder `prompts`; without it they are
    left out, of which a result has a warning.
    """

    def __init__(
        self,
        collections: Sequence[Collection | CollectionReader],
        *,
        engine: EngineName = "auto",
        notify: Notify | None = None,
        encoder: Encoder | None = None,
        reranker: TextReranker | None = None,
        models: LoadedModelCache | None = None,
        language_model: LanguageModel | None = None,
        prompts: Path | None = None,
    ):
        if not collections:
            raise UsageError("There is no collection to search; `ragcli ingest PATH` makes one.")
        self._collections = tuple(collections)
        self._engine = engine
        self._notify = notify
        self._models = models
        self._language_model = language_model
        self._prompts = prompts
        self._own_encoder = encoder
        self._own_reranker = reranker
        self._stack = ExitStack()
        self._state = local()
        self._lock = RLock()
        self._encoders: dict[str, Encoder] = {}
        self._rerankers: dict[tuple[str, str | None], TextReranker] = {}
        self._away: dict[str, tuple[float, str]] = {}
        self._told: set[str] = set()
        self._encodings: dict[tuple[str, str], Encoding] = {}
        self._names: dict[tuple[int, int], tuple[str, str]] = {}

    def __enter__(self) -> Searcher:
        self._open_readers()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def readers(self) -> tuple[CollectionReader, ...]:
        """The state of each collection that this thread searches, in the order given."""
        found: tuple[CollectionReader, ...] | None = getattr(self._state, "readers", None)
        return self._open_readers() if found is None else found

    def _open_readers(self) -> tuple[CollectionReader, ...]:
        with self._lock, ExitStack() as opening:
            readers = tuple(opening.enter_context(opened(each)) for each in self._collections)
            self._stack.push(opening.pop_all())
        self._state.readers = readers
        return readers

    def query(self, request: QueryRequest, *, plan: QueryPlan | None = None) -> QueryResult:
        """Ranked hits for one question.

        `plan` is how it is asked, where that has been planned before; its hits are then chosen as `request` says.
        Raises ModelUnavailable when a model is needed that is not on this machine, and UsageError for a technique
        that can have no effect. A language model's failure is a warning.
        """
        if plan is None and not request.techniques:
            return self._query_plain(request)
        from ragcli.retrieval.expansion.query_plan import run_plan

        functions = self._technique_functions(request, plan)
        return run_plan(
            self, self._plan(request, functions) if plan is None else replace(plan, request=request), functions
        )

    def plan(self, request: QueryRequest) -> QueryPlan:
        """How the request is asked by its techniques; the question itself where it names none. Errors as of `query`."""
        return self._plan(request, self._technique_functions(request, None))

    def _plan(self, request: QueryRequest, functions: TechniqueFunctions) -> QueryPlan:
        from ragcli.retrieval.expansion.query_plan import plan_queries

        wanting = request.model_techniques if self._language_model is None else ()
        return plan_queries(self, request, functions, lacking=[each for each in wanting if each != "--decompose"])

    def _technique_functions(self, request: QueryRequest, plan: QueryPlan | None) -> TechniqueFunctions:
        from ragcli.llm.chat_model import CircuitBreaker
        from ragcli.retrieval.expansion.query_rewriting import technique_functions

        model = self._language_model
        # One question may be asked by several techniques, which should not each wait for a model that is away.
        steady = None if model is None else CircuitBreaker(model, failure=plan.why if plan is not None else "")
        return technique_functions(request, steady, prompts=self._prompts)

    def _query_plain(self, request: QueryRequest) -> QueryResult:
        clock = StageTimer()
        pipeline = PIPELINES[request.pipeline]
        if request.weights:
            check_weights(dict(request.weights), [reader.name for reader in self.readers])
        encoded: dict[str, Encoding] = {}
        while True:
            groups = []
            for readers in _by_encoder(self.readers):
                name, question = readers[0].settings.encoder, self._question(readers, request)
                if name in encoded:
                    question.encoding = encoded[name]
                groups.append(self._rank(readers, pipeline, request, question, clock))
                if "encoding" in vars(question):
                    encoded[name] = question.encoding
            with clock.stage("hits", f"{request.top} asked for"):
                hits = build_hits(groups, request)
            deeper = pool_for_duplicates(request, pipeline, groups, hits)
            if deeper is None:
                break
            request = replace(request, pool=deeper)
        rerankers = [group.reranker for group in groups if group.reranker]
        return QueryResult(
            hits,
            clock.stages,
            request.pipeline,
            rerankers[0] if rerankers else None,
            (*_truncation_warnings(request.text, clock.stages), *dict.fromkeys(clock.warnings)),
        )

    def ranking(
        self, request: QueryRequest, *, plan: QueryPlan | None = None, chunks: int = 0, documents: int = 0
    ) -> DeepRanking:
        """The order that `query` cuts its hits from, and what lies below the pool, for looking deep.

        The pool and its order are the pipeline's own, however deep one looks. Below it come the chunks that the
        first stages rank next, merged by reciprocal rank, all with the pool's lowest score; no reranker has seen
        them. The ranking goes on until it has so many chunks of so many documents, where there are as many;
        `max_per_source` has no part in it. Question encodings are kept from call to call, so this is not what to
        time. With techniques the rankings of their queries are merged; `plan` is as for `query`. Raises UsageError
        for collections of different encoders.
        """
        if plan is not None or request.techniques:
            from ragcli.retrieval.expansion.query_plan import rank_plan

            return rank_plan(self, plan or self.plan(request), chunks=chunks, documents=documents)
        groups = _by_encoder(self.readers)
        if len(groups) > 1:
            raise UsageError("Only collections with the same encoder can be ranked in depth together.")
        if not groups:
            return DeepRanking((), None)
        readers = groups[0]
        total = sum(reader.chunk_count for reader in readers)
        name = readers[0].settings.encoder
        question = self._question(readers, request)
        encoding = self._encodings.get((name, question.text))
        if encoding is not None:
            question.encoding = encoding
        pipeline = PIPELINES[request.pipeline]
        clock = StageTimer()
        ranked = self._rank(readers, pipeline, replace(request, max_per_source=None, group=False), question, clock)
        self._tell_once(clock.warnings)
        if "encoding" in vars(question):
            self._encodings[name, question.text] = question.encoding
        pool = ranked.pool
        top = [
            (int(pool.owners[each.place]), int(pool.numbers[each.place]), each.score if each.mmr is None else each.mmr)
            for each in ordered_candidates([ranked], request)
        ]
        lowest = top[-1][2] if top else 0.0
        depth = max(2 * len(top), chunks, documents)
        while True:
            below = _below_pool(readers, stages_of(pipeline, ranked.reranker, encoder=name), question, depth)
            places = dict.fromkeys([(owner, number) for owner, number, _ in top] + below)
            names = self._chunk_names(readers, list(places))
            known = [place for place in places if place in names]
            if depth >= total or (len(known) >= chunks and len({names[place][1] for place in known}) >= documents):
                break
            depth *= 2
        scores = {(owner, number): score for owner, number, score in top}
        found = tuple(RankedChunk(*names[place], scores.get(place, lowest)) for place in known)
        return DeepRanking(found, ranked.reranker)

    def ranked(self, request: QueryRequest) -> tuple[tuple[RankedPool, EncodedQuery], ...]:
        """The whole pools that `query` would cut its hits from, one for each encoder, and the question as each read it.

        Question encodings are kept from call to call, as by `ranking`.
        """
        found = []
        for readers in _by_encoder(self.readers):
            question = self._question(readers, request)
            key = readers[0].settings.encoder, question.text
            if key in self._encodings:
                question.encoding = self._encodings[key]
            clock = StageTimer()
            found.append((self._rank(readers, PIPELINES[request.pipeline], request, question, clock), question))
            self._tell_once(clock.warnings)
            if "encoding" in vars(question):
                self._encodings[key] = question.encoding
        return tuple(found)

    def question_text(self, request: QueryRequest) -> str:
        """The words that a request asks for: its text, or those of the passages that hits are to be like."""
        if request.like is None:
            return request.text
        groups = _by_encoder(self.readers)
        return self._question(groups[0], request).text if groups else ""

    def _question(self, readers: Sequence[CollectionReader], request: QueryRequest) -> EncodedQuery:
        name = readers[0].settings.encoder
        titles = request.titles if request.titles is not None else PIPELINES[request.pipeline].titles
        liked = self._liked(request.like).query_for(readers, self.encoder) if request.like is not None else None
        question = EncodedQuery(
            request.text[:MAX_QUESTION_CHARS] if liked is None else liked.text,
            lambda words: self.encoder(name).encode_tokens([words])[0],
            title_weight=titles,
            expansion=request.expansion,
            hypothetical=request.hypothetical,
            where=request.where,
        )
        if liked is not None:
            question.left_out = liked.left_out
            if liked.vector is not None:
                question.vector = liked.vector
        return question

    def _liked(self, like: str) -> SimilarityTarget:
        from ragcli.retrieval.more_like_this import find_target

        likes: dict[str, SimilarityTarget] = self._state.__dict__.setdefault("likes", {})
        if like not in likes:
            likes[like] = find_target(self.readers, like)
        return likes[like]

    def _chunk_names(
        self, readers: Sequence[CollectionReader], places: list[tuple[int, int]]
    ) -> dict[tuple[int, int], tuple[str, str]]:
        for owner, reader in enumerate(readers):
            missing = [number for at, number in places if at == owner and (at, number) not in self._names]
            for number, chunk in reader.chunks(missing).items():
                self._names[owner, number] = (chunk.chunk_id, chunk.document_id)
        return {place: self._names[place] for place in places if place in self._names}

    def _rank(
        self,
        readers: Sequence[CollectionReader],
        pipeline: Pipeline,
        request: QueryRequest,
        question: EncodedQuery,
        clock: StageTimer,
    ) -> RankedPool:
        name = readers[0].settings.encoder
        reranker = self._choose_reranker(pipeline, request, encoder=name)
        stages = stages_of(pipeline, reranker, encoder=name)
        depth = max(request.pool or pipeline.pool, request.top)
        if "dense" in stages or reranker == "late":
            with clock.stage("encoder", name):
                self.encoder(name)
            with clock.stage("encode", "the question"):
                _ = question.encoding if "dense" not in stages else question.vector
        if request.where is not None:
            from ragcli.filters import where_text

            with clock.stage("filter", where_text(request.where)[:_MAX_FILTER_CHARS]):
                for reader in readers:
                    reader.prepare(request.where)
        if request.rocchio is not None and "dense" in stages:
            question.vector = rocchio_vector(readers, question, request.rocchio)
        with clock.stage("pool", " ∪ ".join(f"{stage} {depth}" for stage in stages)):
            pool = fill_pool(
                readers,
                stages,
                question,
                depth,
                documents=documents_needed(request),
                preferred=_collection_preference(request),
            )
        scores = dict(pool.scores)
        if reranker is not None:
            with clock.stage("rerank", f"{len(pool)} chunks by {reranker}"):
                reranker, late = self._rerank(readers, pool, reranker, question, request, clock)
                scores |= late
        if pipeline.final == "fusion":
            with clock.stage("fuse", f"{' + '.join(scores)} by {request.fusion}"):
                final = final_scores(readers, replace(pool, scores=scores), pipeline, request, reranker)
            score_type: ScoreType = "fused"
        elif reranker is not None or pipeline.plain is None:
            final, score_type = scores["rerank"], "rerank"
        else:
            final, score_type = scores[pipeline.plain], SCORE_TYPES[pipeline.plain]
        if request.recency:
            with clock.stage("recency", f"half-life {request.half_life:g} days"):
                scores["recency"] = recency_scores(readers, pool, request.half_life)
                final, score_type = blend_recency(final, scores["recency"], request.recency), "fused"
        order = np.argsort(-final, kind="stable").tolist()
        return RankedPool(readers, replace(pool, scores=scores), order, final, score_type, reranker, question)

    def _choose_reranker(self, pipeline: Pipeline, request: QueryRequest, *, encoder: str) -> str | None:
        from ragcli.models import DEFAULT_CROSS_ENCODER, cross_encoder_available

        if request.reranker == "none" or (request.reranker == "auto" and not pipeline.reranks):
            return None
        if request.reranker == "late" and encoder == NO_ENCODER:
            raise UsageError("Late interaction needs an encoder, and this collection was made without one.")
        if request.reranker != "auto":
            return request.reranker
        if self._own_reranker is not None:
            return self._own_reranker.name
        if cross_encoder_available(DEFAULT_CROSS_ENCODER):
            return DEFAULT_CROSS_ENCODER
        return None if encoder == NO_ENCODER else "late"

    def _rerank(
        self,
        readers: Sequence[CollectionReader],
        pool: CandidatePool,
        reranker: str,
        question: EncodedQuery,
        request: QueryRequest,
        clock: StageTimer,
    ) -> tuple[str | None, dict[str, StageScores]]:
        """The scores and which reranker gave them: late interaction, if any, where one elsewhere gives none."""
        from ragcli.retrieval.rerank import cross_encoder_scores, late_interaction_scores

        encoder = readers[0].settings.encoder
        if reranker != "late":
            until, why = self._away.get(reranker, (0.0, ""))
            if time.monotonic() >= until:
                try:
                    model = self.reranker(reranker, request.reranker_key_env)
                    return reranker, {"rerank": cross_encoder_scores(readers, pool, model, question.text)}
                except RerankerUnavailable as error:
                    why = f"{error} The passages were " + (
                        "not reranked." if encoder == NO_ENCODER else "reranked by late interaction instead."
                    )
                    self._away[reranker] = time.monotonic() + _RETRY_AFTER_SECONDS, why
            clock.warnings.append(why)
        if encoder == NO_ENCODER:
            return None, {}
        return "late", late_interaction_scores(readers, pool, question, lambda: self.encoder(encoder))

    def encoder(self, name: str) -> Encoder:
        """The model of that name that collections here were made with, loaded when it is first asked for.

        Raises ModelUnavailable, or CollectionError when it is another model by the same name.
        """
        with self._lock:
            return self._encoder_of(name)

    def _encoder_of(self, name: str) -> Encoder:
        if name not in self._encoders:
            mine = [each for each in self.readers if each.settings.encoder == name and each.chunk_count]
            known = {each.fingerprint for each in mine if each.fingerprint is not None}
            encoder = self._own_encoder or self._load_encoder(name, known)
            for each in mine:
                # One name may stand for two models; vectors of the one say nothing about questions by the other.
                if each.fingerprint not in (None, encoder.fingerprint) or each.dimension not in (0, encoder.dimension):
                    raise CollectionError(
                        f"The collection '{each.name}' was made with another model of the name {name}; "
                        f"`ragcli reindex -c {each.name}` embeds it anew, or choose collections with -c."
                    )
            self._encoders[name] = encoder
        return self._encoders[name]

    def _load_encoder(self, name: str, known: set[str]) -> Encoder:
        from ragcli.models import load_encoder

        return self._shelved(
            (name, self._engine, frozenset(known)),
            lambda: load_encoder(name, engine=self._engine, notify=self._notify, weights=known, download=False),
        )

    def reranker(self, name: str, key_env: str | None = None) -> TextReranker:
        """The reranker of that name or address, loaded when it is first asked for. Raises ModelUnavailable."""
        if self._own_reranker is not None and name == self._own_reranker.name:
            return self._own_reranker
        key = name, key_env
        with self._lock:
            if key not in self._rerankers:
                from ragcli.models import load_reranker

                self._rerankers[key] = self._shelved(
                    key, lambda: load_reranker(name, notify=self._notify, key_env=key_env)
                )
            return self._rerankers[key]

    def _tell_once(self, warnings: Sequence[str]) -> None:
        for warning in warnings:
            if self._notify is not None and warning not in self._told:
                self._notify(warning)
            self._told.add(warning)

    def _shelved(self, key: Hashable, load: Callable[[], LoadedModel]) -> LoadedModel:
        return load() if self._models is None else self._models.take(key, load)


def query(
    collections: Sequence[Collection],
    request: QueryRequest,
    *,
    engine: EngineName = "auto",
    notify: Notify | None = None,
    language_model: LanguageModel | None = None,
    prompts: Path | None = None,
) -> QueryResult:
    """Open the collections, answer one question, close them."""
    with Searcher(
        collections, engine=engine, notify=notify, language_model=language_model, prompts=prompts
    ) as searcher:
        return searcher.query(request)


def _below_pool(
    readers: Sequence[CollectionReader], stages: Sequence[Stage], question: EncodedQuery, depth: int
) -> list[tuple[int, int]]:
    scores: defaultdict[tuple[int, int], float] = defaultdict(float)
    for owner, reader in enumerate(readers):
        for stage in stages:
            for rank, number in enumerate(rank_stage(reader, stage, question, depth)[0].tolist(), 1):
                scores[owner, number] += 1 / (RRF_K + rank)
    return sorted(scores, key=lambda place: -scores[place])


def _collection_preference(request: QueryRequest) -> Callable[[str], float] | None:
    """Which collection's copy of a passage is ranked, by its name, where copies of the same text count as one."""
    if request.identity != "content":
        return None
    weights = dict(request.weights)
    return lambda name: weights.get(name, 1.0)


def _truncation_warnings(text: str, stages: Sequence[StageTime]) -> tuple[str, ...]:
    """What to say of a question that was not read to its end."""
    said = f"The question has {len(text):,} characters; only the first"
    if any(stage.stage == "encode" for stage in stages) and len(text) > MAX_ENCODED_CHARS:
        words = f", and {MAX_QUESTION_CHARS:,} by words" if len(text) > MAX_QUESTION_CHARS else ""
        return (f"{said} {MAX_ENCODED_CHARS:,} were compared by meaning{words}.",)
    return (f"{said} {MAX_QUESTION_CHARS:,} were read.",) if len(text) > MAX_QUESTION_CHARS else ()


def _by_encoder(readers: Sequence[CollectionReader]) -> list[list[CollectionReader]]:
    groups: dict[str, list[CollectionReader]] = {}
    # An empty collection has no vectors yet, not even of a known length, and nothing to add.
    for reader in (each for each in readers if each.chunk_count):
        groups.setdefault(reader.settings.encoder, []).append(reader)
    return list(groups.values())


class StageTimer:
    """Times the stages of one query, and keeps its warnings."""

    def __init__(self) -> None:
        self._stages: list[StageTime] = []
        self.warnings: list[str] = []

    @property
    def stages(self) -> tuple[StageTime, ...]:
        return tuple(self._stages)

    @contextmanager
    def stage(self, name: str, detail: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._stages.append(StageTime(name, time.perf_counter() - started, detail))

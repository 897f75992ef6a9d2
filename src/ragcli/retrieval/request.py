"""The search request, its plan and its result: plain values without arrays or heavy imports."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from ragcli.errors import UsageError
from ragcli.options import OptionError
from ragcli.options.option_model import check_request
from ragcli.options.query_options import MAX_WEIGHT, REQUEST_OPTIONS
from ragcli.retrieval.pipelines import PIPELINES
from ragcli.types import Hit, StoredChunk

if TYPE_CHECKING:
    from ragcli.filters import Filter
    from ragcli.llm.chat_model import Message

PIPELINE_NAMES: Final = tuple(PIPELINES)
DEFAULT_PIPELINE: Final = "hybrid"
MAX_QUESTION_CHARS: Final = 20_000
"""Characters of a question that are read."""
MAX_ENCODED_CHARS: Final = 5_000
"""Characters of a question that go through the encoder; comparing each of their tokens takes up to three seconds."""


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A question and how to answer it. Ranges and choices are those of the option table (`ragcli.options`).

    `pool` is how many candidates each first stage gives (None: the pipeline's own number). `reranker` is
    `auto`, `late`, `none`, a cross-encoder's name or folder, or a reranker elsewhere: `cohere:MODEL`, `jina:MODEL`
    or an address, with its key in the environment variable `reranker_key_env`. Where that one gives no scores, late
    interaction does.

    The rest is for comparing ways to rank, and None leaves the pipeline's own value: `fusion` of the stages by
    z-scores, min-max scores, reciprocal ranks (with `rrf_k`), or a convex mix of BM25 and dense alone (`alpha` is
    the share of dense); the weights `bm25`, `dense`, `rerank` and `window` in it; the weight of `feedback` after
    it; how much `titles` count in BM25; `rocchio`, the share of the question in a dense query that is moved towards
    its first three hits (Rocchio 1971; 1 is the question alone).

    `expansion` is words for the BM25 stage to look for beside the question's own, each with its weight against 1 for
    one of the question's; `ragcli.retrieval.expansion.rm3` finds such words. `hypothetical` is passages that could
    answer the question; the dense stage looks for the mean of their vectors and the question's (Gao et al., ACL 2023,
    arXiv:2212.10496).

    The rest arranges what was found, over one or many collections. `weights` are (collection, weight) pairs, 1 where
    none is given. `diversity` is the share of novelty in maximal marginal relevance. `recency` is the share of a
    document's newness, which halves every `half_life` days. `identity` is what makes documents in different
    collections the same: `content`, `path`, `none`, a key of metadata, or a function from a chunk to a key. Passages
    that say the same are shown once unless `keep_duplicates`. `group` gives the best hit of each document, with the
    document's others under it. `like` is the id of a chunk, a document or a file to find passages similar to, in
    place of a text.

    Techniques put the question in another way, or cut what is found. `expand` adds to the question: words of its best
    passages to the BM25 stage (`rm3`), or other ways to put it, asked beside it (`llm`). `rewrite` makes it stand
    alone, with what was said before in `history`. `hyde` is the number of hypothetical passages that a language model
    writes, for the dense stage. `decompose` takes the question apart into questions that are asked one by one.
    `compress` cuts the passages found to the sentences that answer: those the reranker prefers (`extractive`), or
    those a language model picks (`llm`). Which of them need a language model says `model_techniques`; without one
    `decompose` goes by rules.

    `where` keeps to documents whose metadata meet a filter (see `ragcli.filters`). It acts before anything is ranked,
    so `top` hits come where so many chunks meet it; what words weigh is still taken from the whole collection.
    """

    text: str
    top: int = 5
    pipeline: str = DEFAULT_PIPELINE
    pool: int | None = None
    reranker: str = "auto"
    reranker_key_env: str | None = None
    max_per_source: int | None = None
    fusion: Literal["zscore", "minmax", "rrf", "convex"] = "zscore"
    rrf_k: int = 60
    alpha: float = 0.5
    bm25: float | None = None
    dense: float | None = None
    rerank: float | None = None
    window: float | None = None
    feedback: float | None = None
    titles: float | None = None
    rocchio: float | None = None
    expansion: tuple[tuple[str, float], ...] = ()
    hypothetical: tuple[str, ...] = ()
    weights: tuple[tuple[str, float], ...] = ()
    diversity: float | None = None
    recency: float | None = None
    half_life: float = 365.0
    identity: str | Callable[[StoredChunk], Hashable] = "content"
    keep_duplicates: bool = False
    group: bool = False
    like: str | None = None
    where: Filter | None = None
    expand: Literal["rm3", "llm"] | None = None
    rewrite: bool = False
    history: tuple[Message, ...] = ()
    hyde: int = 0
    decompose: bool = False
    compress: Literal["extractive", "llm"] | None = None

    def __post_init__(self) -> None:
        check_request(REQUEST_OPTIONS.values(), self)
        for name, weight in self.weights:
            if not 0.0 <= weight <= MAX_WEIGHT:
                raise UsageError(f"The weight of '{name}' must be a number that is not negative, not {weight}.")
        if self.text.strip() and self.like is not None:
            raise UsageError("A question and a passage to find others like it exclude each other; give one of them.")
        if not self.text.strip() and self.like is None:
            raise UsageError("The question is empty; give some words to look for.")
        if self.history and not self.rewrite:
            raise OptionError("A history is for {rewrite}, which makes a question stand alone; give both.")
        if self.like is not None and self.techniques:
            raise OptionError("{like} asks no question that could be put in other words; leave out one of the two.")
        stages = PIPELINES[self.pipeline].stages
        if self.expand == "rm3" and "bm25" not in stages:
            raise OptionError("{expand} rm3 adds words to the BM25 stage, and '{given}' has none.", given=self.pipeline)
        if self.hyde and "dense" not in stages:
            raise OptionError("{hyde} is for the dense stage, and '{given}' has none.", given=self.pipeline)

    @property
    def techniques(self) -> tuple[str, ...]:
        """The query techniques that it asks for, as options."""
        wanted = {
            "--rewrite": self.rewrite,
            "--decompose": self.decompose,
            f"--expand {self.expand}": self.expand is not None,
            "--hyde": self.hyde > 0,
            f"--compress {self.compress}": self.compress is not None,
        }
        return tuple(option for option, there in wanted.items() if there)

    @property
    def model_techniques(self) -> tuple[str, ...]:
        """Those among the techniques that ask a language model, as options; without one, `decompose` goes by rules."""
        return tuple(each for each in self.techniques if each not in ("--expand rm3", "--compress extractive"))

    def without_techniques(self) -> QueryRequest:
        """The same request with none of the techniques."""
        return replace(self, expand=None, rewrite=False, history=(), hyde=0, decompose=False, compress=None)


@dataclass(frozen=True, slots=True)
class StageTime:
    """How long one stage took, and on what."""

    stage: str
    seconds: float
    detail: str


@dataclass(frozen=True, slots=True)
class KeptSpan:
    """A sentence of a passage that was kept: where it stands in the chunk's text, and on which pages."""

    start: int
    end: int
    page: int | None = None
    page_end: int | None = None


@dataclass(frozen=True, slots=True)
class SubQuery:
    """One query that is asked: for which `part` of the question, and how much its ranking counts in the merging."""

    request: QueryRequest
    part: int = 0
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """How a question is asked.

    `request` is as it came in. `question` stands alone; `parts` are the questions it was taken apart into, itself
    where it was not. `queries` are asked, the part itself before the other ways to put it. `failed` are the
    techniques, by their options, that a language model could not do, and `why`. `times` is what planning took.
    """

    request: QueryRequest
    question: str
    parts: tuple[str, ...]
    queries: tuple[SubQuery, ...]
    failed: tuple[str, ...] = ()
    why: str = ""
    times: tuple[StageTime, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """One sentence or two on what failed, or nothing."""
        if not self.failed:
            return ()
        instead = [option for option in self.failed if option in _INSTEAD]
        if len(self.parts) < 2 and "--decompose" in instead:
            instead.remove("--decompose")
        said = [self.why]
        if without := [option for option in self.failed if option not in instead]:
            said.append(f"The question was asked without {_listed(without)}.")
        return (" ".join([*said, *(_INSTEAD[option] for option in instead)]),)


_INSTEAD: Final = {
    "--decompose": "The question was taken apart by its words alone.",
    "--compress llm": "The passages were shortened by the reranker.",
}


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


@dataclass(frozen=True, slots=True)
class SubQuestionHits:
    """What was found for one part of a question: its hits, by their rank in the whole."""

    question: str
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Ranked hits, best first, with the record of how they came about.

    The rest is of queries with techniques, and empty for others. `plan` is what was asked; where that was several
    queries, a hit's `score` is what its places in them come to, and its `source_score` the score that it had in one
    of them, as are its other scores. `groups` has the hits of each part of a question that was taken apart. `kept`
    says, hit by hit, which stretches of the chunk's text are left in the hit's; it is empty where nothing was
    compressed, and so is a hit's in which there was nothing to leave out.
    """

    hits: tuple[Hit, ...]
    stages: tuple[StageTime, ...]
    pipeline: str
    reranker: str | None
    warnings: tuple[str, ...] = ()
    plan: QueryPlan | None = None
    groups: tuple[SubQuestionHits, ...] = ()
    kept: tuple[tuple[KeptSpan, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class RankedChunk:
    """A chunk in a deep ranking, by its ids alone."""

    chunk_id: str
    document_id: str
    score: float


@dataclass(frozen=True, slots=True)
class DeepRanking:
    """A deep ranking, best first, and the reranker that ordered its top."""

    chunks: tuple[RankedChunk, ...]
    reranker: str | None

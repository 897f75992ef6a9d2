"""The search request and its result: plain values without arrays or heavy imports."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, Literal

from ragcli.errors import UsageError
from ragcli.types import Hit, StoredChunk

if TYPE_CHECKING:
    from ragcli.filters import Filter

PIPELINE_NAMES: Final = ("classic", "hybrid", "bm25", "tfidf", "dense")
DEFAULT_PIPELINE: Final = "hybrid"
MAX_QUESTION_CHARS: Final = 20_000
"""Characters of a question that are read."""
MAX_ENCODED_CHARS: Final = 5_000
"""Characters of a question that go through the encoder; comparing each of their tokens takes up to three seconds."""


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A question and how to answer it.

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

    def __post_init__(self) -> None:
        if self.pipeline not in PIPELINE_NAMES:
            raise UsageError(f"There is no pipeline '{self.pipeline}'; choose one of {', '.join(PIPELINE_NAMES)}.")
        for name, value in (("top", self.top), ("pool", self.pool), ("max-per-source", self.max_per_source)):
            if value is not None and value < 1:
                raise UsageError(f"--{name} must be at least 1, not {value}.")
        shares = (("alpha", self.alpha), ("rocchio", self.rocchio))
        for name, share in (*shares, ("diversity", self.diversity), ("recency", self.recency)):
            if share is not None and not 0.0 <= share <= 1.0:
                raise UsageError(f"{name} must lie between 0 and 1, not {share}.")
        if self.rrf_k < 1:
            raise UsageError(f"rrf_k must be at least 1, not {self.rrf_k}.")
        if not 0.0 < self.half_life < inf:
            raise UsageError(f"The half-life must be more than 0 days, not {self.half_life}.")
        for name, weight in self.weights:
            if not 0.0 <= weight < inf:
                raise UsageError(f"The weight of '{name}' must be a number that is not negative, not {weight}.")
        if self.text.strip() and self.like is not None:
            raise UsageError("A question and a passage to find others like it exclude each other; give one of them.")
        if not self.text.strip() and self.like is None:
            raise UsageError("The question is empty; give some words to look for.")


@dataclass(frozen=True, slots=True)
class StageTime:
    """How long one stage took, and on what."""

    stage: str
    seconds: float
    detail: str


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Ranked hits, best first, with the record of how they came about."""

    hits: tuple[Hit, ...]
    stages: tuple[StageTime, ...]
    pipeline: str
    reranker: str | None
    warnings: tuple[str, ...] = ()


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

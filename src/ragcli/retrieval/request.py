"""What is asked of the search, and what it answers.

These values cross from the command line to the search and back, so they hold no arrays and load no library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ragcli.errors import UsageError
from ragcli.records import Hit

PIPELINES: Final = ("classic", "hybrid", "bm25", "tfidf", "dense")
DEFAULT_PIPELINE: Final = "hybrid"


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A question and how to answer it.

    `pool` is how many candidates each first stage gives (None: the pipeline's own number). `reranker` is
    `auto`, `late`, `none`, or a cross-encoder's name or folder.
    """

    text: str
    top: int = 5
    pipeline: str = DEFAULT_PIPELINE
    pool: int | None = None
    reranker: str = "auto"
    max_per_source: int | None = None

    def __post_init__(self) -> None:
        if self.pipeline not in PIPELINES:
            raise UsageError(f"There is no pipeline '{self.pipeline}'; choose one of {', '.join(PIPELINES)}.")
        for name, value in (("top", self.top), ("pool", self.pool), ("max-per-source", self.max_per_source)):
            if value is not None and value < 1:
                raise UsageError(f"--{name} must be at least 1, not {value}.")
        if not self.text.strip():
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
class RankedChunks:
    """A deep ranking, best first, and the reranker that ordered its top."""

    chunks: tuple[RankedChunk, ...]
    reranker: str | None

"""How to search: the options that `query` and `ask` share, and the request that comes of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.options import Surroundings, complete_pipeline
from ragcli.cli.terminal import note, whole
from ragcli.errors import InputError, UsageError
from ragcli.retrieval.request import LONGEST_QUESTION, PIPELINES, QueryRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.collection import Collection
    from ragcli.filters import Filter
    from ragcli.records import Hit

Question = Annotated[str, typer.Argument(metavar="TEXT", help="The question; - reads it from stdin.")]
OptionalQuestion = Annotated[
    str | None, typer.Argument(metavar="TEXT", help="The question; - reads it from stdin.", show_default=False)
]
Top = Annotated[int | None, typer.Option("-n", "--top", metavar="N", help="How many hits (5).")]
PipelineName = Annotated[
    str | None,
    typer.Option(
        "--pipeline", metavar="P", help=f"One of {', '.join(PIPELINES)} (hybrid).", autocompletion=complete_pipeline
    ),
]
PoolSize = Annotated[
    int | None, typer.Option("--pool", metavar="N", help="Candidates from each first stage, to be reranked.")
]
RerankerName = Annotated[
    str | None,
    typer.Option(
        "--reranker",
        metavar="auto|late|none|MODEL",
        help="What orders the pool: late interaction, a cross-encoder by name or folder, or one elsewhere: "
        "cohere:MODEL, jina:MODEL, or the address of a /rerank endpoint (auto).",
    ),
]
RerankerKeyEnv = Annotated[
    str | None,
    typer.Option("--reranker-key-env", metavar="VARIABLE", help="The environment variable with that one's key."),
]
NoRerank = Annotated[bool, typer.Option("--no-rerank", help="Show the first stage's own order.")]
MaxPerSource = Annotated[
    int | None, typer.Option("--max-per-source", metavar="N", help="At most N hits from one document.")
]


def search_request(
    here: Surroundings,
    text: str,
    *,
    top: int | None,
    pipeline: str | None,
    pool: int | None,
    reranker: str | None,
    no_rerank: bool,
    max_per_source: int | None,
    reranker_key_env: str | None = None,
    where: Filter | None = None,
    like: str | None = None,
) -> QueryRequest:
    """The request that these options make, the configuration filling in what was not given."""
    if no_rerank and reranker not in (None, "none"):
        raise UsageError("--no-rerank and --reranker exclude each other; give one of them.")
    if reranker is None and not no_rerank:
        here.allow(("query", "reranker"), ("query", "reranker_key_env"))
    defaults = here.config.query
    if reranker is None and reranker_key_env is None:
        # A key that the configuration has for its own reranker is not sent to another one.
        reranker_key_env = defaults.reranker_key_env
    return QueryRequest(
        text=_question(text),
        top=top if top is not None else defaults.top,
        pipeline=pipeline if pipeline is not None else defaults.pipeline,
        pool=pool if pool is not None else defaults.pool,
        reranker="none" if no_rerank else reranker if reranker is not None else defaults.reranker,
        max_per_source=max_per_source if max_per_source is not None else defaults.max_per_source,
        reranker_key_env=reranker_key_env,
        where=where,
        like=like,
    )


def _question(text: str) -> str:
    if text == "-":
        # Four bytes a character at most; one more tells that there is more.
        text = sys.stdin.buffer.read(4 * LONGEST_QUESTION + 1).decode("utf-8", errors="replace").strip()
    if len(text) > LONGEST_QUESTION:
        raise InputError(f"The question has more than {LONGEST_QUESTION:,} characters; ask it in fewer words.")
    return whole(text)


def check_sources(collections: Sequence[Collection], hits: Sequence[Hit], *, strict: bool) -> None:
    """Say, in one line, which files behind the hits are not as they were when ingested; if strict, as an error."""
    from ragcli.collection import changed_sources

    stale = changed_sources(collections, [hit.chunk for hit in hits])
    if not stale:
        return
    names = ", ".join(stale[:3]) + (f" and {len(stale) - 3} more" if len(stale) > 3 else "")
    have = "has" if len(stale) == 1 else "have"
    sentence = f"{names} {have} changed or gone since ingest; `ragcli ingest` brings the collection up to date."
    if strict:
        raise InputError(sentence)
    note(sentence)

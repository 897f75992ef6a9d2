"""`ragcli query`: a question in, ranked passages out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.lean import LeanCommand, examples, new_app
from ragcli.cli.options import Choice, CollectionNames, Json, Surroundings, at_most_one, complete_pipeline
from ragcli.cli.terminal import name_line, note, whole, write, write_lines
from ragcli.errors import EXIT_DONE, InputError, UsageError
from ragcli.retrieval.request import LONGEST_QUESTION, PIPELINES, QueryRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.collection import Collection
    from ragcli.records import Hit, StoredChunk

app = new_app()


@app.command(
    cls=LeanCommand,
    epilog=examples(
        'ragcli query "how is noise mitigated in short circuits" -c papers',
        'ragcli query "distinct values with little memory" --top 3 --json | jq ".[0].text"',
        "echo 'what does a leader election do' | ragcli query - --paths",
    ),
)
def query(
    ctx: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The question; - reads it from stdin.")],
    collection: CollectionNames = None,
    top: Annotated[int | None, typer.Option("-n", "--top", metavar="N", help="How many hits (5).")] = None,
    pipeline: Annotated[
        str | None,
        typer.Option(
            "--pipeline",
            metavar="P",
            help=f"One of {', '.join(PIPELINES)} (hybrid).",
            autocompletion=complete_pipeline,
        ),
    ] = None,
    pool: Annotated[
        int | None, typer.Option("--pool", metavar="N", help="Candidates from each first stage, to be reranked.")
    ] = None,
    reranker: Annotated[
        str | None,
        typer.Option(
            "--reranker",
            metavar="auto|late|none|MODEL",
            help="What orders the pool: late interaction, or a cross-encoder by name or folder (auto).",
        ),
    ] = None,
    no_rerank: Annotated[bool, typer.Option("--no-rerank", help="Show the first stage's own order.")] = False,
    max_per_source: Annotated[
        int | None, typer.Option("--max-per-source", metavar="N", help="At most N hits from one document.")
    ] = None,
    as_json: Json = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Print JSON, one hit a line.")] = False,
    paths: Annotated[bool, typer.Option("--paths", help="Print the paths of the documents found, each once.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show every stage's score and time.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail when a hit's file has changed or gone since it was ingested.")
    ] = False,
) -> int:
    """Find the passages that answer a question.

    Candidates come from BM25 and from sentence vectors; the reranker reads them all and the scores are fused.
    Without -c, every collection is searched.
    """
    form = at_most_one(Choice("--json", as_json), Choice("--jsonl", jsonl), Choice("--paths", paths))
    if no_rerank and reranker not in (None, "none"):
        raise UsageError("--no-rerank and --reranker exclude each other; give one of them.")
    here = Surroundings(ctx)
    if reranker is None and not no_rerank:
        here.allow(("query", "reranker"))
    defaults = here.config.query
    request = QueryRequest(
        text=_question(text),
        top=top if top is not None else defaults.top,
        pipeline=pipeline if pipeline is not None else defaults.pipeline,
        pool=pool if pool is not None else defaults.pool,
        reranker="none" if no_rerank else reranker if reranker is not None else defaults.reranker,
        max_per_source=max_per_source if max_per_source is not None else defaults.max_per_source,
    )
    collections = here.collections(collection)

    from ragcli.retrieval.query import query as run_query

    result = run_query(collections, request, engine=here.config.engine, notify=note)
    for warning in result.warnings:
        note(warning)
    _check_sources(collections, result.hits, strict=strict)

    match form:
        case "--json":
            from ragcli.cli.output import hit_record, write_json

            write_json([hit_record(hit) for hit in result.hits])
        case "--jsonl":
            from ragcli.cli.output import hit_record, write_json_lines

            write_json_lines(hit_record(hit) for hit in result.hits)
        case "--paths":
            write_paths([hit.chunk for hit in result.hits], here)
        case _:
            from ragcli.cli.hits import hits_table

            write(hits_table(result, request, here.screen))
    if explain:
        from ragcli.cli.hits import stages_table

        # With a form for scripts, stdout is theirs; the times go where messages go.
        if form is None:
            write(stages_table(result, here.screen))
        else:
            sys.stderr.write(stages_table(result, here.side_screen))
    return EXIT_DONE


def write_paths(chunks: Sequence[StoredChunk], here: Surroundings) -> None:
    """Write each document's path, or its name where it has none, once and in the order of the hits."""
    names = dict.fromkeys(chunk.path or chunk.source for chunk in chunks)
    write_lines(name_line(name, here.screen) for name in names)


def _question(text: str) -> str:
    if text == "-":
        # Four bytes a character at most; one more tells that there is more.
        text = sys.stdin.buffer.read(4 * LONGEST_QUESTION + 1).decode("utf-8", errors="replace").strip()
    if len(text) > LONGEST_QUESTION:
        raise InputError(f"The question has more than {LONGEST_QUESTION:,} characters; ask it in fewer words.")
    return whole(text)


def _check_sources(collections: Sequence[Collection], hits: Sequence[Hit], *, strict: bool) -> None:
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

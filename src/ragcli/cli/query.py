"""`ragcli query`: a question in, ranked passages out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.lean import LeanCommand, examples, new_app
from ragcli.cli.options import Choice, CollectionNames, Json, Surroundings, at_most_one
from ragcli.cli.searching import (
    MaxPerSource,
    NoRerank,
    PipelineName,
    PoolSize,
    Question,
    RerankerName,
    Top,
    check_sources,
    search_request,
)
from ragcli.cli.terminal import name_line, note, write, write_lines
from ragcli.errors import EXIT_DONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.records import StoredChunk

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
    text: Question,
    collection: CollectionNames = None,
    top: Top = None,
    pipeline: PipelineName = None,
    pool: PoolSize = None,
    reranker: RerankerName = None,
    no_rerank: NoRerank = False,
    max_per_source: MaxPerSource = None,
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
    here = Surroundings(ctx)
    request = search_request(
        here,
        text,
        top=top,
        pipeline=pipeline,
        pool=pool,
        reranker=reranker,
        no_rerank=no_rerank,
        max_per_source=max_per_source,
    )
    collections = here.collections(collection)

    from ragcli.retrieval.query import query as run_query

    result = run_query(collections, request, engine=here.config.engine, notify=note)
    for warning in result.warnings:
        note(warning)
    check_sources(collections, result.hits, strict=strict)

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

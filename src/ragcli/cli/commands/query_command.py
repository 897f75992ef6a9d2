"""`ragcli query`: print ranked passages for a question."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import FastCommand, examples, new_app
from ragcli.cli.option_groups.common_options import CollectionNames, ExclusiveFlag, Json, exclusive_flag
from ragcli.cli.option_groups.filter_options import FilterJson, Since, Until, Where, filter_from, note_unknown_keys
from ragcli.cli.option_groups.llm_options import LlmBaseUrl, LlmKeyEnv, LlmModel, MaxLlmCalls
from ragcli.cli.option_groups.search_options import (
    Diversity,
    Grouped,
    HalfLife,
    IdentityKey,
    KeepDuplicates,
    Like,
    MaxPerSource,
    NoRerank,
    OptionalQuestion,
    PipelineName,
    PoolSize,
    Recency,
    RerankerKeyEnv,
    RerankerName,
    Top,
    Weights,
    arrangement,
    check_sources,
    search_request,
)
from ragcli.cli.option_groups.technique_options import (
    Compress,
    Decompose,
    Expand,
    History,
    Hyde,
    Rewrite,
    technique_fields,
    technique_model,
)
from ragcli.cli.terminal import name_line, note, write, write_lines
from ragcli.errors import EXIT_DONE, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.cli.terminal import Screen
    from ragcli.retrieval.request import QueryResult
    from ragcli.types import StoredChunk

app = new_app()


@app.command(
    cls=FastCommand,
    epilog=examples(
        'ragcli query "how is noise mitigated in short circuits" -c papers',
        'ragcli query "distinct values with little memory" --top 3 --json | jq ".[0].text"',
        "echo 'what does a leader election do' | ragcli query - --paths",
        'ragcli query "short circuits" --where \'year >= 2017 and author ~ "Temme"\' --since 5y',
        "ragcli query --like draft.md --group --recency 0.2",
        'ragcli query "compare raft with paxos" --decompose --expand rm3 --compress extractive',
    ),
)
def query(
    ctx: typer.Context,
    text: OptionalQuestion = None,
    collection: CollectionNames = None,
    top: Top = None,
    pipeline: PipelineName = None,
    pool: PoolSize = None,
    reranker: RerankerName = None,
    reranker_key_env: RerankerKeyEnv = None,
    no_rerank: NoRerank = False,
    max_per_source: MaxPerSource = None,
    where: Where = None,
    filter_json: FilterJson = None,
    since: Since = None,
    until: Until = None,
    weight: Weights = None,
    diversity: Diversity = None,
    recency: Recency = None,
    half_life: HalfLife = None,
    identity: IdentityKey = None,
    keep_duplicates: KeepDuplicates = False,
    group: Grouped = False,
    like: Like = None,
    expand: Expand = None,
    rewrite: Rewrite = False,
    history: History = None,
    hyde: Hyde = None,
    decompose: Decompose = False,
    compress: Compress = None,
    llm_base_url: LlmBaseUrl = None,
    llm_model: LlmModel = None,
    llm_key_env: LlmKeyEnv = None,
    max_llm_calls: MaxLlmCalls = None,
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
    form = exclusive_flag(
        ExclusiveFlag("--json", as_json), ExclusiveFlag("--jsonl", jsonl), ExclusiveFlag("--paths", paths)
    )
    if text is None and like is None:
        raise UsageError(
            "TEXT is missing: the question, or in place of it --like with a passage to find others like it."
        )
    here = CommandContext(ctx)
    arranged = arrangement(
        here,
        weight=weight,
        diversity=diversity,
        recency=recency,
        half_life=half_life,
        identity=identity,
        keep_duplicates=keep_duplicates,
        group=group,
    )
    request = search_request(
        here,
        text or "",
        top=top,
        pipeline=pipeline,
        pool=pool,
        reranker=reranker,
        no_rerank=no_rerank,
        max_per_source=max_per_source,
        reranker_key_env=reranker_key_env,
        where=filter_from(where, filter_json, since, until),
        like=like,
    )
    if like is not None and (expand or rewrite or history or hyde or decompose or compress):
        raise UsageError("--like asks no question that could be put in other words; leave out one of the two.")
    techniques = technique_fields(
        expand=expand, rewrite=rewrite, history=history, hyde=hyde, decompose=decompose, compress=compress
    )
    request = replace(request, **arranged, **techniques)
    language_model, prompts = technique_model(
        here, [request], base_url=llm_base_url, model=llm_model, key_env=llm_key_env, max_calls=max_llm_calls
    )
    collections = here.collections(collection)
    note_unknown_keys(collections, where, filter_json)

    from ragcli.retrieval.searcher import query as run_query

    result = run_query(
        collections,
        request,
        engine=here.config.engine,
        notify=note,
        language_model=language_model,
        prompts=prompts,
    )
    if result.plan is not None:
        from ragcli.cli.render.hit_table import rewritten_question_note

        if asked := rewritten_question_note(result):
            note(asked)
    for warning in result.warnings:
        note(warning)
    check_sources(collections, result.hits, strict=strict)

    if form == "--json":
        from ragcli.cli.render.json_output import write_json
        from ragcli.serialize import query_records

        write_json(list(query_records(result)))
    elif form == "--jsonl":
        from ragcli.cli.render.json_output import write_json_lines
        from ragcli.serialize import query_records

        write_json_lines(query_records(result))
    elif form == "--paths":
        write_paths([hit.chunk for hit in result.hits], here)
    else:
        from ragcli.cli.render.hit_table import hits_table

        write(hits_table(result, request.text, here.screen))
    if explain:
        # With a form for scripts, stdout is theirs; the times go where messages go.
        if form is None:
            write(_explained(result, here.screen))
        else:
            sys.stderr.write(_explained(result, here.stderr_screen))
    return EXIT_DONE


def _explained(result: QueryResult, screen: Screen) -> str:
    from ragcli.cli.render.hit_table import queries_table, stages_table

    shown = stages_table(result, screen)
    return shown if result.plan is None else shown + "\n" + queries_table(result.plan, screen)


def write_paths(chunks: Sequence[StoredChunk], here: CommandContext) -> None:
    """Write each document's path, or its name where it has none, once and in the order of the hits."""
    names = dict.fromkeys(chunk.path or chunk.source for chunk in chunks)
    write_lines(name_line(name, here.screen) for name in names)

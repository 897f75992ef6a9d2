"""`ragcli query`: print ranked passages for a question."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import examples, new_app
from ragcli.cli.option_groups.filter_options import note_unknown_keys
from ragcli.cli.option_groups.llm_options import technique_model
from ragcli.cli.option_groups.search_options import check_sources, query_request
from ragcli.cli.option_groups.table_parameters import exclusive_option, table_command
from ragcli.cli.terminal import name_line, note, write, write_lines
from ragcli.errors import EXIT_DONE
from ragcli.options import OptionError, OptionValues
from ragcli.options.command_options import QUERY_OUTPUT
from ragcli.options.query_options import QUERY_GROUPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.cli.terminal import Screen
    from ragcli.retrieval.request import QueryResult
    from ragcli.types import StoredChunk

app = new_app()


@table_command(
    app,
    *QUERY_GROUPS,
    QUERY_OUTPUT,
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
    here: CommandContext,
    values: OptionValues,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The question; - reads it from stdin.", show_default=False)
    ] = None,
) -> int:
    """Find the passages that answer a question.

    Candidates come from BM25 and from sentence vectors; the reranker reads them all and the scores are fused.
    Without -c, every collection is searched.
    """
    form = exclusive_option(values, "json", "jsonl", "paths_only")
    if text is None and values.like is None:
        raise OptionError(
            "TEXT is missing: the question, or in place of it {like} with a passage to find others like it."
        )
    request = query_request(here, values, text or "")
    language_model, prompts = technique_model(here, values, [request])
    collections = here.collections(values.collections)
    note_unknown_keys(collections, values)

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
    check_sources(collections, result.hits, strict=values.strict)

    if form == "json":
        from ragcli.cli.render.json_output import write_json
        from ragcli.serialize import query_records

        write_json(list(query_records(result)))
    elif form == "jsonl":
        from ragcli.cli.render.json_output import write_json_lines
        from ragcli.serialize import query_records

        write_json_lines(query_records(result))
    elif form == "paths_only":
        write_paths([hit.chunk for hit in result.hits], here)
    else:
        from ragcli.cli.render.hit_table import hits_table

        write(hits_table(result, request.text, here.screen))
    if values.explain:
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

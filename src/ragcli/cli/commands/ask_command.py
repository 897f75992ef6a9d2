"""`ragcli ask`: options and their validation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import FastCommand, examples, new_app
from ragcli.cli.option_groups.common_options import CollectionNames, ExclusiveFlag, Json, exclusive_flag
from ragcli.cli.option_groups.filter_options import FilterJson, Since, Until, Where, filter_from, note_unknown_keys
from ragcli.cli.option_groups.llm_options import (
    LlmBaseUrl,
    LlmKeyEnv,
    LlmModel,
    MaxLlmCalls,
    language_model,
    prompts_folder,
    required_language_model,
)
from ragcli.cli.option_groups.search_options import (
    Diversity,
    HalfLife,
    IdentityKey,
    KeepDuplicates,
    MaxPerSource,
    NoRerank,
    PipelineName,
    PoolSize,
    Question,
    Recency,
    RerankerKeyEnv,
    RerankerName,
    Top,
    Weights,
    arrangement,
    search_request,
)
from ragcli.cli.option_groups.technique_options import (
    Compress,
    Decompose,
    Expand,
    History,
    Hyde,
    Rewrite,
    Rounds,
    ShowTrace,
    UseAgent,
    agent_options,
    refuse_unused_llm_options,
    technique_fields,
)
from ragcli.cli.terminal import note
from ragcli.errors import EXIT_DONE, EXIT_INSUFFICIENT, MissingExtra, UsageError

if TYPE_CHECKING:
    from ragcli.llm.cached_client import RemoteLanguageModel

ChoiceName = TypeVar("ChoiceName", bound=str)

app = new_app()


@app.command(
    cls=FastCommand,
    epilog=examples(
        'ragcli ask "what colour is the fourth funnel of the Titanic" -c papers || echo "not in my papers"',
        'ragcli ask "how does a leader get elected" -c papers --extract',
        'ragcli ask "how does a leader get elected" -c papers --answer --llm-model gemma3:4b '
        "--llm-base-url http://localhost:11434/v1",
        'ragcli ask "which person wrote the protocol that Zeta uses" --agent --trace',
        'ragcli ask "who wrote it" --json | jq .verdict',
    ),
)
def ask(
    ctx: typer.Context,
    text: Question,
    collection: CollectionNames = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", metavar="strict|balanced|lenient", help="How much evidence it takes (balanced)."),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option("--judge", metavar="calibrated|heuristic", help="What weighs the evidence (calibrated)."),
    ] = None,
    retries: Annotated[
        int | None, typer.Option("--retries", metavar="N", help="Search at most N times more, in other words (2).")
    ] = None,
    override: Annotated[
        bool, typer.Option("--override", help="Let the question through whatever the judge says, and record that.")
    ] = False,
    extract: Annotated[
        bool, typer.Option("--extract", help="Answer with the best sentences, word for word and cited.")
    ] = False,
    answer: Annotated[
        bool, typer.Option("--answer", help="Let a language model answer from the evidence, citing it.")
    ] = False,
    sentences: Annotated[
        int | None, typer.Option("--sentences", metavar="N", help="How many sentences an extract has at most (3).")
    ] = None,
    prompt: Annotated[
        str | None, typer.Option("--prompt", metavar="FILE", help="The prompt for --answer, in place of our own.")
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            "--check",
            metavar="semantic|heuristic|llm|none",
            help="What holds each sentence of the model's answer against the evidence (semantic).",
        ),
    ] = None,
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
    agent: UseAgent = False,
    rounds: Rounds = None,
    trace: ShowTrace = False,
    as_json: Json = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show every attempt, what the judge saw, and every stage's time.")
    ] = False,
) -> int:
    """Say whether your documents answer a question, and show where.

    A judge weighs what the search has found. If that does not suffice, the search is repeated with words that the
    best passages use, at most twice. The exit code is 6 when the answer is not there, and then no language model is
    asked for one.
    """
    exclusive_flag(ExclusiveFlag("--extract", extract), ExclusiveFlag("--answer", answer))
    here = CommandContext(ctx)
    request = search_request(
        here,
        text,
        top=top,
        pipeline=pipeline,
        pool=pool,
        reranker=reranker,
        no_rerank=no_rerank,
        max_per_source=max_per_source,
        reranker_key_env=reranker_key_env,
        where=filter_from(where, filter_json, since, until),
    )
    arranged = arrangement(
        here,
        weight=weight,
        diversity=diversity,
        recency=recency,
        half_life=half_life,
        identity=identity,
        keep_duplicates=keep_duplicates,
    )
    techniques = technique_fields(
        expand=expand, rewrite=rewrite, history=history, hyde=hyde, decompose=decompose, compress=compress
    )
    request = replace(request, **arranged, **techniques)
    call = agent_options(rounds, retries, request, agent=agent, trace=trace)
    asks_a_model = answer or agent or bool(request.model_techniques)
    if not asks_a_model:
        refuse_unused_llm_options(
            llm_base_url=llm_base_url, llm_model=llm_model, llm_key_env=llm_key_env, max_llm_calls=max_llm_calls
        )
    if prompt is not None and not answer:
        raise UsageError("--prompt is for --answer, which asks a language model; give both.")
    if check is not None and not answer:
        raise UsageError("--check is for --answer; what --extract shows stands in the documents word for word.")
    if sentences is not None and (sentences < 1 or not extract):
        raise UsageError("--sentences takes a number from 1 on, and is for --extract.")
    model = _model(here, llm_base_url, llm_model, llm_key_env, max_llm_calls, needed=answer) if asks_a_model else None
    prompts = prompts_folder(here) if model is not None else None
    defaults = here.config.ask

    from ragcli.cli.commands.ask_execution import AskOptions, run_ask
    from ragcli.grounding.extractive_answer import ANSWER_SENTENCES
    from ragcli.grounding.faithfulness.claims import FAITHFULNESS_JUDGES
    from ragcli.grounding.sufficiency.evidence import PRESETS, SUFFICIENCY_JUDGES

    asking = AskOptions(
        preset=_one_of("--preset", PRESETS, preset or defaults.preset),
        judge=_one_of("--judge", SUFFICIENCY_JUDGES, judge or defaults.sufficiency_judge),
        retries=retries if retries is not None else defaults.retries,
        override=override,
        extract=(sentences or ANSWER_SENTENCES) if extract else None,
        answer=answer,
        prompt=_prompt(prompt, prompts) if answer else None,
        check=_one_of("--check", (*FAITHFULNESS_JUDGES, "none"), check or "semantic"),
        model=model,
        prompts=prompts,
        agent=call,
    )
    collections = here.collections(collection)
    note_unknown_keys(collections, where, filter_json)
    result = run_ask(here, collections, request, asking, as_json=as_json, explain=explain)
    return EXIT_INSUFFICIENT if result.verdict == "insufficient" else EXIT_DONE


def _model(
    here: CommandContext,
    base_url: str | None,
    model: str | None,
    key_env: str | None,
    max_calls: int | None,
    *,
    needed: bool,
) -> RemoteLanguageModel | None:
    if needed:
        return required_language_model(
            here, "--answer", base_url=base_url, model=model, key_env=key_env, max_calls=max_calls
        )
    try:
        return language_model(here, base_url=base_url, model=model, key_env=key_env, max_calls=max_calls)
    except MissingExtra as error:
        note(str(error))
        return None


def _prompt(file: str | None, folder: Path | None) -> str:
    from ragcli.llm.prompts import load_prompt

    return load_prompt("answer", Path(file).expanduser() if file is not None else folder)


def _one_of(option: str, choices: tuple[ChoiceName, ...], given: str) -> ChoiceName:
    for choice in choices:
        if given == choice:
            return choice
    raise UsageError(f"{option} takes one of {', '.join(choices)}, not '{given}'.")

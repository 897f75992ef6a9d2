"""`ragcli eval`: options and their validation, and the choice of what is measured."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.commands.eval_execution import EvaluationInputs, run_pipelines, score_runs
from ragcli.cli.lazy_group import FastCommand, examples, new_app
from ragcli.cli.option_groups.collection_options import ChunkSize, Context, EncoderName, Overlap, TokenVectors
from ragcli.cli.option_groups.common_options import CollectionName, ExclusiveFlag, Json, exclusive_flag
from ragcli.cli.option_groups.filter_options import FilterJson, Since, Until, Where, filter_from
from ragcli.cli.option_groups.llm_options import LlmBaseUrl, LlmKeyEnv, LlmModel, MaxLlmCalls
from ragcli.cli.render.evaluation_report import write_comparison
from ragcli.cli.terminal import note
from ragcli.errors import EXIT_DONE, UsageError
from ragcli.grounding.sufficiency.evidence import PRESETS, SUFFICIENCY_JUDGES

if TYPE_CHECKING:
    from ragcli.evaluation.pipeline_spec import PipelineSpec
    from ragcli.evaluation.run_comparison import RunResult
    from ragcli.evaluation.topics_qrels_runs import Run
    from ragcli.filters import Filter


LABELLING_PIPELINES: Final = "bm25,dense,hybrid"
LABELLING_DEPTH: Final = 10

app = new_app()

_Choice = TypeVar("_Choice", bound=str)


@app.command(
    cls=FastCommand,
    epilog=examples(
        "ragcli eval data/scifact --compare bm25,dense,hybrid --baseline bm25",
        "ragcli eval questions.jsonl -c papers --compare hybrid,hybrid:pool=50,reranker=late --per-query",
        "ragcli eval questions.jsonl -c papers --compare hybrid,hybrid:expand=rm3,hybrid:hyde=2,decompose=yes",
        "ragcli eval topics.txt -c papers --qrels papers.qrels --run-out hybrid.run",
        "ragcli eval --run theirs.run --qrels papers.qrels --metric nDCG@10 --metric 'R(rel=2)@20'",
        "ragcli eval --make-qrels questions.txt -c papers --qrels-out papers.qrels",
        "ragcli eval questions.jsonl -c papers --calibrate-gate",
        "ragcli eval -c papers --forget-gate",
    ),
)
def evaluate(
    ctx: typer.Context,
    data: Annotated[
        str | None,
        typer.Argument(metavar="[DATA]", help="A BEIR folder, or a file of questions.", show_default=False),
    ] = None,
    collection: CollectionName = None,
    qrels: Annotated[
        str | None, typer.Option("--qrels", metavar="FILE", help="What is relevant: TREC qrels, BEIR's, or JSONL.")
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--compare", metavar="P,P,…", help="Pipelines, with options if any: bm25,hybrid:pool=50,expand=rm3."
        ),
    ] = None,
    run: Annotated[
        list[str] | None, typer.Option("--run", metavar="FILE", help="Score this TREC run; may be repeated.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", metavar="M", help="A measure by its name in ir-measures; may be repeated."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="P", help="Show the change against this pipeline.")
    ] = None,
    per_query: Annotated[
        bool, typer.Option("--per-query", help="List wins and losses against the baseline, worst first.")
    ] = False,
    p_values: Annotated[bool, typer.Option("--p-values", help="Show the p-values of every pair.")] = False,
    alpha: Annotated[
        float, typer.Option("--alpha", metavar="P", help="Mark differences with a corrected p up to this.")
    ] = 0.05,
    depth: Annotated[
        int | None, typer.Option("--depth", metavar="N", help="Rank so many documents a question (100).")
    ] = None,
    split: Annotated[str | None, typer.Option("--split", metavar="NAME", help="Which qrels of a BEIR folder.")] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="beir|trec|tsv|queries|jsonl|lines", help="The form of DATA, if not detected."
        ),
    ] = None,
    topic_field: Annotated[
        str, typer.Option("--topic-field", metavar="title|desc|narr", help="The question in TREC topics.")
    ] = "title",
    level: Annotated[
        str, typer.Option("--level", metavar="auto|document|chunk", help="What is ranked and judged.")
    ] = "auto",
    run_out: Annotated[
        str | None, typer.Option("--run-out", metavar="FILE", help="Write TREC runs; {name} stands for the pipeline.")
    ] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Draw quality and recall: .svg, .html or .png.")
    ] = None,
    as_json: Json = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the table in Markdown.")] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="Print the table in LaTeX.")] = False,
    make_qrels: Annotated[
        str | None,
        typer.Option("--make-qrels", metavar="QUESTIONS", help="Label passages by hand for these questions."),
    ] = None,
    qrels_out: Annotated[
        str | None, typer.Option("--qrels-out", metavar="FILE", help="Where labels go: TREC qrels, or .jsonl.")
    ] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option(
            "--gate",
            metavar="calibrated|heuristic",
            help="Measure this gate too; `calibrated` is, where a question is labelled unanswerable.",
        ),
    ] = None,
    preset: Annotated[
        str, typer.Option("--preset", metavar="strict|balanced|lenient", help="How much the gate asks for.")
    ] = "balanced",
    calibrate_gate: Annotated[
        bool,
        typer.Option("--calibrate-gate", help="Fit the gate to these questions and keep that with the collection."),
    ] = False,
    forget_gate: Annotated[
        bool, typer.Option("--forget-gate", help="Let go of what --calibrate-gate has kept with the collection.")
    ] = False,
    where: Where = None,
    filter_json: FilterJson = None,
    since: Since = None,
    until: Until = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ingest the BEIR folder's corpus anew.")] = False,
    llm_base_url: LlmBaseUrl = None,
    llm_model: LlmModel = None,
    llm_key_env: LlmKeyEnv = None,
    max_llm_calls: MaxLlmCalls = None,
    chunk_size: ChunkSize = None,
    overlap: Overlap = None,
    encoder: EncoderName = None,
    token_vectors: TokenVectors = None,
    context: Context = None,
) -> int:
    """Measure pipelines on questions with known answers.

    DATA is a BEIR folder (corpus.jsonl, queries.jsonl, qrels/), of which the corpus is ingested once and kept; or,
    with -c, a file of questions: TREC topics, id and text with a tab between, JSONL with _id and text, each with
    --qrels; or JSONL with query and relevant_ids. Relevant ids are documents', sources' or chunks'.

    Letters at a value name the rows that it is significantly better than. Latency is measured here and now, one
    question at a time. A document stands where its best chunk does.

    With a filter, pipelines rank only documents that meet it; what else is judged relevant counts as not found.

    A line's "answerable": false marks a question that must be refused: the gate of `ragcli ask` is then measured too.
    """
    here = CommandContext(ctx)
    condition = filter_from(where, filter_json, since, until)
    if make_qrels is not None:
        _refuse_together(
            "--make-qrels", DATA=data, run=run, qrels=qrels, run_out=run_out, plot=plot, per_query=per_query
        )
        _refuse_together("--make-qrels", llm_base_url=llm_base_url, llm_model=llm_model, max_llm_calls=max_llm_calls)
        return _label_by_hand(make_qrels, qrels_out, collection, compare, depth, condition, here)
    if forget_gate:
        _refuse_together("--forget-gate", DATA=data, calibrate_gate=calibrate_gate, compare=compare, run=run, gate=gate)
        from ragcli.cli.commands.eval_execution import forget_gate as let_go

        return let_go(collection, here)
    if qrels_out is not None:
        raise UsageError("--qrels-out goes with --make-qrels, which names the questions to label.")
    shape = exclusive_flag(
        ExclusiveFlag("--json", as_json), ExclusiveFlag("--markdown", as_markdown), ExclusiveFlag("--latex", as_latex)
    )
    if not 0 < alpha < 1:
        raise UsageError(f"--alpha must lie between 0 and 1, not {alpha}.")
    if depth is not None and depth < 1:
        raise UsageError(f"--depth must be at least 1, not {depth}.")
    inputs = EvaluationInputs(
        data=Path(data).expanduser() if data is not None else None,
        collection=collection,
        qrels=Path(qrels).expanduser() if qrels is not None else None,
        form=_one_of("--format", form, ("beir", "trec", "tsv", "queries", "jsonl", "lines")),
        split=split,
        field=_one_of("--topic-field", topic_field, ("title", "desc", "narr")) or "title",
        level=None if level == "auto" else _one_of("--level", level, ("document", "chunk")),
        fresh=fresh,
    )
    if inputs.split is not None and not inputs.beir:
        raise UsageError("--split chooses the qrels of a BEIR folder; here there is none.")
    asked = {
        "chunk_size": chunk_size,
        "overlap": overlap,
        "encoder": encoder,
        "token_vectors": token_vectors,
        "context": context,
    }
    if (fresh or any(value is not None for value in asked.values())) and (collection is not None or not inputs.beir):
        raise UsageError("--fresh, chunking and models are for a BEIR folder's corpus; a collection has its own.")

    chosen = _one_of("--preset", preset, PRESETS) or "balanced"
    judges = (
        [_one_of("--gate", judge, SUFFICIENCY_JUDGES) or "calibrated" for judge in ",".join(gate).split(",")]
        if gate
        else None
    )
    if calibrate_gate:
        _refuse_together("--calibrate-gate", compare=compare, run=run, run_out=run_out, per_query=per_query, gate=gate)
        _refuse_together("--calibrate-gate", where=where, filter=filter_json, since=since, until=until)
        from ragcli.cli.commands.eval_execution import calibrate_gate as fit_gate

        return fit_gate(inputs, asked, chosen, shape, Path(plot).expanduser() if plot is not None else None, here)

    from ragcli.evaluation.ir_metrics import DEFAULT_MEASURES, check_measures, deepest_cutoff
    from ragcli.evaluation.run_comparison import compare_runs as put_side_by_side
    from ragcli.evaluation.trec_format import read_run

    if plot is not None:
        from ragcli.evaluation.plots import check_plot

        check_plot(Path(plot))
    measures = check_measures(metric or DEFAULT_MEASURES)
    runs = _named_runs([read_run(Path(each).expanduser()) for each in run or ()], run or ())
    specs = _with_filter(_specs(compare, here), condition) if compare or not runs else ()
    if condition is not None and (not specs or gate):
        raise UsageError("A filter is for pipelines; it narrows down neither runs from files nor what a gate sees.")
    if baseline is not None and baseline not in {spec.label for spec in specs} | {each.name for each in runs}:
        names = ", ".join([*(spec.label for spec in specs), *(each.name for each in runs)])
        raise UsageError(f"The baseline '{baseline}' is not among what is compared ({names}).")
    if specs:
        how_deep = depth if depth is not None else max(100, deepest_cutoff(measures))
        llm = {"base_url": llm_base_url, "model": llm_model, "key_env": llm_key_env, "max_calls": max_llm_calls}
        given, results, gates = run_pipelines(
            inputs, specs, measures, runs, asked, how_deep, here, llm=llm, judges=judges, preset=chosen
        )
    else:
        if judges is not None:
            raise UsageError("--gate is measured on a collection; name pipelines by --compare, or leave --run out.")
        gates = []
        given, results = score_runs(inputs, measures, runs)
    if condition is not None:
        from ragcli.filters import where_text

        notes = [f"Ranked are only documents that meet: {where_text(condition)}"]
        if any(topic.answerable is False for topic in (*given.topics, *given.unjudged)):
            notes.append("The gate was not measured, because a filter may keep out what a question's label rests on.")
        given = replace(given, notes=(*given.notes, *notes))
    if per_query and baseline is None and len(results) > 1:
        baseline = results[0].label
    comparison = put_side_by_side(given, measures, results, baseline=baseline, alpha=alpha)
    if run_out is not None:
        _write_runs(Path(run_out).expanduser(), results[: len(specs)])
    if plot is not None:
        from ragcli.evaluation.plots import write_plot

        write_plot(Path(plot).expanduser(), comparison)
    write_comparison(comparison, specs, gates, shape, here, per_query=per_query, p_values=p_values)
    return EXIT_DONE


def _specs(compare: Sequence[str] | None, here: CommandContext) -> tuple[PipelineSpec, ...]:
    from ragcli.evaluation.pipeline_spec import parse_specs

    if compare:
        return parse_specs(",".join(compare))
    here.allow(("query", "reranker"), ("query", "reranker_key_env"))
    defaults = here.config.query
    options = [f"pool={defaults.pool}"] if defaults.pool is not None else []
    options += [f"reranker={defaults.reranker}"] if defaults.reranker != "auto" else []
    options += [f"reranker_key_env={defaults.reranker_key_env}"] if defaults.reranker_key_env else []
    return parse_specs(defaults.pipeline + (":" + ",".join(options) if options else ""))


def _with_filter(specs: tuple[PipelineSpec, ...], condition: Filter | None) -> tuple[PipelineSpec, ...]:
    return specs if condition is None else tuple(replace(spec, where=condition) for spec in specs)


def _named_runs(runs: Sequence[Run], files: Sequence[str]) -> list[Run]:
    """The runs under names of their own: their tags, or where those are alike their files' names."""
    tags = [run.name for run in runs]
    if len(set(tags)) == len(tags):
        return list(runs)
    return [replace(run, name=file) for run, file in zip(runs, files, strict=True)]


def _write_runs(template: Path, results: Sequence[RunResult]) -> None:
    from ragcli.evaluation.trec_format import run_file_paths, write_run

    if not results:
        raise UsageError("--run-out writes the runs of pipelines; there is none to write.")
    paths = run_file_paths(template, [result.label for result in results])
    for result in results:
        write_run(paths[result.label], result.run)
        note(f"wrote {paths[result.label]}")


def _label_by_hand(
    questions: str,
    qrels_out: str | None,
    collection: str | None,
    compare: Sequence[str] | None,
    depth: int | None,
    condition: Filter | None,
    here: CommandContext,
) -> int:
    if qrels_out is None:
        raise UsageError("Say with --qrels-out FILE where the labels go.")
    if collection is None:
        raise UsageError("Say with -c which collection's passages are to be labelled.")
    from ragcli.cli.commands.eval_labelling import label_by_hand
    from ragcli.evaluation.dataset_loader import read_topics_of_format
    from ragcli.evaluation.pipeline_spec import parse_specs

    topics, _ = read_topics_of_format(Path(questions).expanduser())
    specs = _with_filter(parse_specs(",".join(compare) if compare else LABELLING_PIPELINES), condition)
    target = here.collection(collection)
    label_by_hand(target, topics, specs, Path(qrels_out).expanduser(), depth or LABELLING_DEPTH, here, sys.stdin)
    return EXIT_DONE


def _refuse_together(what: str, **options: object) -> None:
    for name, value in options.items():
        if value:
            shown = name if name.isupper() else "--" + name.replace("_", "-")
            raise UsageError(f"{what} and {shown} exclude each other.")


def _one_of(option: str, value: str | None, choices: tuple[_Choice, ...]) -> _Choice | None:
    if value is None:
        return None
    for choice in choices:
        if value == choice:
            return choice
    raise UsageError(f"{option} takes {', '.join(choices)}, not '{value}'.")

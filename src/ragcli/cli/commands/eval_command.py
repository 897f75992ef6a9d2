"""`ragcli eval`: options and their validation, and the choice of what is measured."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.commands.eval_execution import EvaluationInputs, run_pipelines, score_runs
from ragcli.cli.lazy_group import examples, new_app
from ragcli.cli.option_groups.collection_options import asked_settings
from ragcli.cli.option_groups.filter_options import filter_from
from ragcli.cli.option_groups.table_parameters import exclusive_option, table_command
from ragcli.cli.render.evaluation_report import write_comparison
from ragcli.cli.terminal import note
from ragcli.errors import EXIT_DONE, UsageError
from ragcli.options import OptionError, OptionValues
from ragcli.options.command_options import (
    CHUNKING,
    EVALUATION,
    EVALUATION_OUTPUT,
    GATE_EVALUATION,
    LABELLING,
    MEASURES,
)
from ragcli.options.query_options import FILTERS, LANGUAGE_MODEL, SPEC_OPTIONS

if TYPE_CHECKING:
    from ragcli.evaluation.pipeline_spec import PipelineSpec
    from ragcli.evaluation.run_comparison import RunResult
    from ragcli.evaluation.topics_qrels_runs import Run
    from ragcli.filters import Filter


LABELLING_PIPELINES: Final = "bm25,dense,hybrid"
LABELLING_DEPTH: Final = 10
# What the user likes to see first says nothing of what finds the right passage.
_NOT_MEASURED: Final = frozenset({"diversity", "recency", "half_life"})

app = new_app()


@table_command(
    app,
    EVALUATION,
    MEASURES,
    EVALUATION_OUTPUT,
    GATE_EVALUATION,
    LABELLING,
    FILTERS,
    LANGUAGE_MODEL,
    CHUNKING,
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
    here: CommandContext,
    values: OptionValues,
    data: Annotated[
        str | None,
        typer.Argument(metavar="[DATA]", help="A BEIR folder, or a file of questions.", show_default=False),
    ] = None,
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
    condition = filter_from(values)
    if values.make_qrels is not None:
        if data is not None:
            raise OptionError("{make_qrels} and DATA exclude each other.")
        _refuse_together(values, "make_qrels", "run", "qrels", "run_out", "plot", "per_query")
        _refuse_together(values, "make_qrels", "llm_base_url", "llm_model", "max_llm_calls")
        return _label_by_hand(values, condition, here)
    if values.forget_gate:
        if data is not None:
            raise OptionError("{forget_gate} and DATA exclude each other.")
        _refuse_together(values, "forget_gate", "calibrate_gate", "compare", "run", "gate")
        from ragcli.cli.commands.eval_execution import forget_gate as let_go

        return let_go(values.collection, here)
    if values.qrels_out is not None:
        raise OptionError("{qrels_out} goes with {make_qrels}, which names the questions to label.")
    shape = exclusive_option(values, "json", "markdown", "latex")
    inputs = EvaluationInputs(
        data=_path(data),
        collection=values.collection,
        qrels=_path(values.qrels),
        form=values.topic_format,
        split=values.split,
        field=values.topic_field,
        level=None if values.level == "auto" else values.level,
        fresh=values.fresh,
    )
    if inputs.split is not None and not inputs.beir:
        raise OptionError("{split} chooses the qrels of a BEIR folder; here there is none.")
    asked = asked_settings(values)
    if (inputs.fresh or asked) and (inputs.collection is not None or not inputs.beir):
        raise OptionError("{fresh}, chunking and models are for a BEIR folder's corpus; a collection has its own.")
    if values.calibrate_gate:
        _refuse_together(values, "calibrate_gate", "compare", "run", "run_out", "per_query", "gate")
        _refuse_together(values, "calibrate_gate", "where", "filter", "since", "until")
        from ragcli.cli.commands.eval_execution import calibrate_gate as fit_gate

        return fit_gate(inputs, asked, values.gate_preset, shape, _path(values.plot), here)

    from ragcli.evaluation.ir_metrics import DEFAULT_MEASURES, check_measures, deepest_cutoff
    from ragcli.evaluation.run_comparison import compare_runs as put_side_by_side
    from ragcli.evaluation.trec_format import read_run

    if values.plot is not None:
        from ragcli.evaluation.plots import check_plot

        check_plot(Path(values.plot))
    measures = check_measures(values.metric or DEFAULT_MEASURES)
    runs = _named_runs([read_run(Path(each).expanduser()) for each in values.run or ()], values.run or ())
    specs = _with_filter(_specs(values.compare, here), condition) if values.compare or not runs else ()
    if condition is not None and (not specs or values.gate):
        raise UsageError("A filter is for pipelines; it narrows down neither runs from files nor what a gate sees.")
    baseline = values.baseline
    if baseline is not None and baseline not in {spec.label for spec in specs} | {each.name for each in runs}:
        names = ", ".join([*(spec.label for spec in specs), *(each.name for each in runs)])
        raise UsageError(f"The baseline '{baseline}' is not among what is compared ({names}).")
    if specs:
        how_deep = values.depth or max(100, deepest_cutoff(measures))
        given, results, gates = run_pipelines(inputs, specs, measures, runs, asked, how_deep, here, values)
    else:
        if values.gate is not None:
            raise OptionError("{gate} is measured on a collection; name pipelines by {compare}, or leave {run} out.")
        gates = []
        given, results = score_runs(inputs, measures, runs)
    if condition is not None:
        from ragcli.filters import where_text

        notes = [f"Ranked are only documents that meet: {where_text(condition)}"]
        if any(topic.answerable is False for topic in (*given.topics, *given.unjudged)):
            notes.append("The gate was not measured, because a filter may keep out what a question's label rests on.")
        given = replace(given, notes=(*given.notes, *notes))
    if values.per_query and baseline is None and len(results) > 1:
        baseline = results[0].label
    comparison = put_side_by_side(given, measures, results, baseline=baseline, alpha=values.significance)
    if values.run_out is not None:
        _write_runs(Path(values.run_out).expanduser(), results[: len(specs)])
    if values.plot is not None:
        from ragcli.evaluation.plots import write_plot

        write_plot(Path(values.plot).expanduser(), comparison)
    write_comparison(comparison, specs, gates, shape, here, per_query=values.per_query, p_values=values.p_values)
    return EXIT_DONE


def _specs(compare: Sequence[str] | None, here: CommandContext) -> tuple[PipelineSpec, ...]:
    from ragcli.evaluation.pipeline_spec import PipelineSpec, parse_specs

    if compare:
        return parse_specs(",".join(compare))
    here.allow(("query", "reranker"), ("query", "reranker_key_env"))
    settled = here.config.query
    options = {
        name: value
        for name, value in settled.request_fields().items()
        if name in SPEC_OPTIONS and name not in _NOT_MEASURED
    }
    written = ",".join(f"{name}={value}" for name, value in options.items())
    return (PipelineSpec(settled.pipeline + (f":{written}" if written else ""), settled.pipeline, options),)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text).expanduser()


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
        raise OptionError("{run_out} writes the runs of pipelines; there is none to write.")
    paths = run_file_paths(template, [result.label for result in results])
    for result in results:
        write_run(paths[result.label], result.run)
        note(f"wrote {paths[result.label]}")


def _label_by_hand(values: OptionValues, condition: Filter | None, here: CommandContext) -> int:
    if values.qrels_out is None:
        raise OptionError("Say with {qrels_out} FILE where the labels go.")
    if values.collection is None:
        raise OptionError("Say with -c which collection's passages are to be labelled.")
    from ragcli.cli.commands.eval_labelling import label_by_hand
    from ragcli.evaluation.dataset_loader import read_topics_of_format
    from ragcli.evaluation.pipeline_spec import parse_specs

    topics, _ = read_topics_of_format(Path(values.make_qrels).expanduser())
    compared = ",".join(values.compare) if values.compare else LABELLING_PIPELINES
    specs = _with_filter(parse_specs(compared), condition)
    target, out = here.collection(values.collection), Path(values.qrels_out).expanduser()
    label_by_hand(target, topics, specs, out, values.depth or LABELLING_DEPTH, here, values, sys.stdin)
    return EXIT_DONE


def _refuse_together(values: OptionValues, what: str, *others: str) -> None:
    for name in others:
        if name in values.stated:
            raise OptionError(f"{{{what}}} and {{{name}}} exclude each other.")

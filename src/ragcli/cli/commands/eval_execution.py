"""Run `ragcli eval`: read topics and qrels, run pipelines, score runs, calibrate the gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragcli.cli.render.evaluation_report import has_calibration, write_calibration
from ragcli.cli.terminal import note
from ragcli.errors import EXIT_DONE, InputError, UsageError
from ragcli.options import OptionError
from ragcli.options.command_options import SUFFICIENCY_JUDGES

if TYPE_CHECKING:
    from ragcli.cli.command_context import CommandContext
    from ragcli.collection import Collection
    from ragcli.evaluation.dataset_loader import TopicFormat
    from ragcli.evaluation.gate_evaluation import GateReport
    from ragcli.evaluation.pipeline_spec import PipelineSpec
    from ragcli.evaluation.run_comparison import RunResult
    from ragcli.evaluation.topics_qrels_runs import EvaluationSet, Level, Run, Topic
    from ragcli.evaluation.trec_format import TopicField
    from ragcli.grounding.sufficiency.evidence import Preset
    from ragcli.models import Encoder
    from ragcli.options import OptionValues


@dataclass(frozen=True, slots=True)
class EvaluationInputs:
    """Where the questions and their answers are, and how to read them."""

    data: Path | None
    collection: str | None
    qrels: Path | None
    form: TopicFormat | None
    split: str | None
    field: TopicField
    level: Level | None
    fresh: bool

    @property
    def beir(self) -> bool:
        """Whether the questions are a BEIR folder's."""
        return self.data is not None and (self.form == "beir" or (self.form is None and self.data.is_dir()))


def run_pipelines(
    inputs: EvaluationInputs,
    specs: Sequence[PipelineSpec],
    measures: Sequence[str],
    runs: Sequence[Run],
    asked: Mapping[str, Any],
    depth: int,
    here: CommandContext,
    values: OptionValues,
) -> tuple[EvaluationSet, list[RunResult], list[GateReport]]:
    """Run the pipelines on the collection, or on the BEIR folder's corpus, and score `runs` beside them.

    `asked` are settings for a corpus that is yet to be ingested. Of `values`, those for a language model and for the
    gates to measure on the same questions are read.
    """
    from ragcli.cli.option_groups.llm_options import technique_model
    from ragcli.cli.render.progress_bar import query_progress
    from ragcli.evaluation.experiment import run_experiment as evaluate_pipelines
    from ragcli.evaluation.experiment import with_missing_notes
    from ragcli.evaluation.run_comparison import score_run

    model, prompts = technique_model(here, values, [spec.request("?", 1) for spec in specs])
    target, given = questions_for_collection(inputs, asked, here)
    level = inputs.level or ("document" if inputs.beir else None)
    with query_progress(here.stderr_screen) as progress:
        done = evaluate_pipelines(
            target,
            given,
            specs,
            measures,
            level=level,
            depth=depth,
            engine=here.config.engine,
            notify=note,
            progress=progress,
            model=model,
            prompts=prompts,
        )
    given = with_missing_notes(done.given, runs)
    results = [*done.results, *(score_run(each, given, measures) for each in runs)]
    # A filter may keep out the very document that a question's label rests on.
    filtered = any(spec.where is not None for spec in specs)
    return given, results, [] if filtered else gate_reports(target, given, _judges(values), values.gate_preset, here)


def _judges(values: OptionValues) -> list[str] | None:
    if values.gate is None:
        return None
    names = ",".join(values.gate).split(",")
    for name in names:
        if name not in SUFFICIENCY_JUDGES and not name.startswith("plugin:"):
            raise OptionError(
                "{gate} takes {choices}, not '{given}'.", choices=", ".join(SUFFICIENCY_JUDGES), given=name
            )
    return names


def questions_for_collection(
    inputs: EvaluationInputs, asked: Mapping[str, Any], here: CommandContext, *, labels: bool = False
) -> tuple[Collection, EvaluationSet]:
    """The collection that questions are for, ingested if it is a BEIR folder's corpus, and the questions.

    With `labels` it is enough that a question says whether it can be answered.
    """
    from ragcli.evaluation.beir_dataset import read_beir
    from ragcli.evaluation.dataset_loader import read_answerability_set, read_ranking_set

    if inputs.beir:
        assert inputs.data is not None  # noqa: S101
        if inputs.qrels is not None:
            raise UsageError("A BEIR folder has its own qrels; leave --qrels out, or choose a --split.")
        given = read_beir(inputs.data, inputs.split)
        return here.collection(inputs.collection) if inputs.collection else _corpus_collection(
            inputs, asked, here
        ), given
    if inputs.collection is None:
        raise UsageError("Say with -c which collection the questions are for, or name a BEIR folder.")
    target = here.collection(inputs.collection)
    read = read_answerability_set if labels else read_ranking_set
    return target, read(inputs.data, inputs.qrels, form=inputs.form, field=inputs.field)


def gate_reports(
    target: Collection, given: EvaluationSet, judges: Sequence[str] | None, preset: Preset, here: CommandContext
) -> list[GateReport]:
    """What the judges make of the questions; none where `judges` is None and no question is labelled unanswerable."""
    topics = (*given.topics, *given.unjudged)
    if judges is None and not any(topic.answerable is False for topic in topics):
        return []
    from ragcli.cli.render.progress_bar import query_progress
    from ragcli.evaluation.gate_evaluation import gate_questions, judge_questions, report_from_decisions
    from ragcli.grounding import open_judge
    from ragcli.retrieval.searcher import Searcher

    questions = gate_questions(topics, given.qrels, given.unknown)
    if not questions:
        raise InputError('The gate has nothing to be measured by: no question is labelled, by "answerable" or qrels.')
    opened = [open_judge(judge, [target]) for judge in judges or ("calibrated",)]
    with (
        query_progress(here.stderr_screen) as progress,
        Searcher([target], engine=here.config.engine, notify=note) as searcher,
    ):
        return [
            report_from_decisions(
                judge, preset, judge_questions(searcher, judge, questions, preset, progress), questions
            )
            for judge in opened
        ]


def score_runs(
    inputs: EvaluationInputs, measures: Sequence[str], runs: Sequence[Run]
) -> tuple[EvaluationSet, list[RunResult]]:
    """Score runs made elsewhere; no collection has a part in it."""
    from ragcli.evaluation.beir_dataset import read_beir
    from ragcli.evaluation.dataset_loader import detect_format, read_topics_of_format
    from ragcli.evaluation.experiment import evaluation_set_from_qrels
    from ragcli.evaluation.relevance_labels import read_labelled_questions
    from ragcli.evaluation.run_comparison import score_run
    from ragcli.evaluation.trec_format import read_qrels

    if inputs.collection is not None:
        raise UsageError("--run needs no collection; leave -c out, or name pipelines to compare with by --compare.")
    topics: tuple[Topic, ...] = ()
    judgements = None
    if inputs.beir:
        assert inputs.data is not None  # noqa: S101
        beir = read_beir(inputs.data, inputs.split)
        topics, judgements = (*beir.topics, *beir.unjudged), beir.qrels
    elif inputs.data is not None:
        topics, judgements = read_topics_of_format(inputs.data, inputs.form, inputs.field)
    if inputs.qrels is not None:
        labelled = detect_format(inputs.qrels) == "jsonl"
        if labelled:
            topics, judgements = read_labelled_questions(inputs.qrels)
        else:
            judgements = read_qrels(inputs.qrels)
    if judgements is None:
        raise UsageError("A run is scored against judgements; give them with --qrels FILE.")
    given = evaluation_set_from_qrels(judgements, runs, topics)
    if not any(query in judgements.judgements for run in runs for query in run.rankings):
        raise InputError("The runs and the qrels have no query in common; do their ids agree?")
    return given, [score_run(run, given, measures) for run in runs]


def _corpus_collection(inputs: EvaluationInputs, asked: Mapping[str, Any], here: CommandContext) -> Collection:
    from ragcli.cli.render.progress_bar import ingest_progress
    from ragcli.evaluation.beir_dataset import index_corpus

    folder = inputs.data
    assert folder is not None  # noqa: S101
    if "encoder" not in asked:
        here.allow(("defaults", "encoder"))
    settings = replace(here.config.defaults.settings, **asked)
    with ingest_progress(here.stderr_screen) as watch:

        def load() -> Encoder:
            from ragcli.models import load_encoder

            return load_encoder(settings.encoder, engine=here.config.engine, notify=watch.notify)

        corpus = index_corpus(here.data_dir, folder, settings, load, watch.listen, fresh=inputs.fresh)
    if corpus.failures:
        first = corpus.failures[0]
        note(f"{len(corpus.failures)} documents of {folder} were not taken in, such as {first.source}: {first.reason}")
    return corpus.collection


def calibrate_gate(
    inputs: EvaluationInputs,
    asked: Mapping[str, Any],
    preset: Preset,
    shape: str | None,
    plot: Path | None,
    here: CommandContext,
) -> int:
    """Fit, keep, print."""
    from ragcli.cli.render.progress_bar import query_progress
    from ragcli.evaluation.experiment import unknown_items
    from ragcli.evaluation.gate_evaluation import fit_gate_calibration, gate_questions, store_gate_calibration
    from ragcli.retrieval.searcher import Searcher

    if plot is not None:
        from ragcli.evaluation.plots import check_plot

        check_plot(plot)
    target, given = questions_for_collection(inputs, asked, here, labels=True)
    with (
        query_progress(here.stderr_screen) as progress,
        Searcher([target], engine=here.config.engine, notify=note) as searcher,
    ):
        unknown = unknown_items(searcher.readers[0], given.qrels)
        questions = gate_questions((*given.topics, *given.unjudged), given.qrels, unknown)
        calibrated = fit_gate_calibration(searcher, questions, preset, progress)
    store_gate_calibration(target, calibrated)
    note(
        f"the calibration is kept with the collection '{target.name}', and `ragcli ask -c {target.name}` goes by it; "
        f"`ragcli eval -c {target.name} --forget-gate` lets it go."
    )
    if plot is not None:
        from ragcli.evaluation.plots import write_reliability

        write_reliability(plot, (calibrated.before, calibrated.after), given.name)
    write_calibration(calibrated, target.name, shape, here)
    return EXIT_DONE


def forget_gate(name: str | None, here: CommandContext) -> int:
    """Let the collection be judged by the shipped gate again."""
    if name is None:
        raise UsageError("Say with -c which collection's calibration is to be forgotten.")
    target = here.collection(name)
    if has_calibration(target):
        target.store_calibration(None)
        note(f"the shipped gate judges '{name}' again.")
    else:
        note(f"the collection '{name}' has no calibration of its own; nothing was changed.")
    return EXIT_DONE

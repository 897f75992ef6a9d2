"""Where the figures of `ragcli eval` come from: pipelines run on a collection, or runs made elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragcli.cli.settings import absolute_model
from ragcli.cli.terminal import note
from ragcli.errors import InputError, UsageError

if TYPE_CHECKING:
    from ragcli.cli.options import Surroundings
    from ragcli.collection import Collection
    from ragcli.evaluation.comparison import Result
    from ragcli.evaluation.gating import GateReport
    from ragcli.evaluation.judgements import EvaluationSet, Level, Run, Topic
    from ragcli.evaluation.load import Format
    from ragcli.evaluation.specs import PipelineSpec
    from ragcli.evaluation.trec import TopicField
    from ragcli.gate.values import Preset
    from ragcli.models import Encoder


@dataclass(frozen=True, slots=True)
class Inputs:
    """Where the questions and their answers are, and how to read them."""

    data: Path | None
    collection: str | None
    qrels: Path | None
    form: Format | None
    split: str | None
    field: TopicField
    level: Level | None
    fresh: bool

    @property
    def beir(self) -> bool:
        """Whether the questions are a BEIR folder's."""
        return self.data is not None and (self.form == "beir" or (self.form is None and self.data.is_dir()))


def run_pipelines(
    inputs: Inputs,
    specs: Sequence[PipelineSpec],
    measures: Sequence[str],
    runs: Sequence[Run],
    asked: Mapping[str, Any],
    depth: int,
    here: Surroundings,
    *,
    llm: Mapping[str, Any] | None = None,
    judges: Sequence[str] | None = None,
    preset: Preset = "balanced",
) -> tuple[EvaluationSet, list[Result], list[GateReport]]:
    """Run the pipelines on the collection, or on the BEIR folder's corpus, and score `runs` beside them.

    `asked` are settings for a corpus that is yet to be ingested, None where not given; `llm` are options for a
    language model, for pipelines whose techniques ask one. `judges` are gates to measure on the same questions.
    """
    from ragcli.cli.comparison import counting
    from ragcli.cli.techniques import model_in_use
    from ragcli.evaluation.comparison import score_run
    from ragcli.evaluation.evaluate import evaluate as evaluate_pipelines
    from ragcli.evaluation.evaluate import with_missing_notes

    model = model_in_use(here, [spec.techniques for spec in specs], **(llm or {}))
    target, given = questions_for_collection(inputs, asked, here)
    level = inputs.level or ("document" if inputs.beir else None)
    with counting(here.side_screen) as progress:
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
        )
    given = with_missing_notes(done.given, runs)
    results = [*done.results, *(score_run(each, given, measures) for each in runs)]
    # A filter may keep out the very document that a question's label rests on.
    filtered = any(spec.where is not None for spec in specs)
    return given, results, [] if filtered else gate_reports(target, given, judges, preset, here)


def questions_for_collection(
    inputs: Inputs, asked: Mapping[str, Any], here: Surroundings, *, labels: bool = False
) -> tuple[Collection, EvaluationSet]:
    """The collection that questions are for, ingested if it is a BEIR folder's corpus, and the questions.

    With `labels` it is enough that a question says whether it can be answered.
    """
    from ragcli.evaluation.beir import read_beir
    from ragcli.evaluation.load import read_for_collection, read_labels

    if inputs.beir:
        assert inputs.data is not None  # noqa: S101
        if inputs.qrels is not None:
            raise UsageError("A BEIR folder has its own qrels; leave --qrels out, or choose a --split.")
        given = read_beir(inputs.data, inputs.split)
        return here.collection(inputs.collection) if inputs.collection else _corpus(inputs, asked, here), given
    if inputs.collection is None:
        raise UsageError("Say with -c which collection the questions are for, or name a BEIR folder.")
    target = here.collection(inputs.collection)
    read = read_labels if labels else read_for_collection
    return target, read(inputs.data, inputs.qrels, form=inputs.form, field=inputs.field)


def gate_reports(
    target: Collection, given: EvaluationSet, judges: Sequence[str] | None, preset: Preset, here: Surroundings
) -> list[GateReport]:
    """What the judges make of the questions; none where `judges` is None and no question is labelled unanswerable."""
    topics = (*given.topics, *given.unjudged)
    if judges is None and not any(topic.answerable is False for topic in topics):
        return []
    from ragcli.cli.comparison import counting
    from ragcli.evaluation.gating import decisions, gate_questions, report_of
    from ragcli.gate import open_judge
    from ragcli.retrieval.query import Searcher

    questions = gate_questions(topics, given.qrels, given.unknown)
    if not questions:
        raise InputError('The gate has nothing to be measured by: no question is labelled, by "answerable" or qrels.')
    opened = [open_judge(judge, [target]) for judge in judges or ("calibrated",)]
    with (
        counting(here.side_screen) as progress,
        Searcher([target], engine=here.config.engine, notify=note) as searcher,
    ):
        return [
            report_of(judge, preset, decisions(searcher, judge, questions, preset, progress), questions)
            for judge in opened
        ]


def score_runs(inputs: Inputs, measures: Sequence[str], runs: Sequence[Run]) -> tuple[EvaluationSet, list[Result]]:
    """Score runs made elsewhere; no collection has a part in it."""
    from ragcli.evaluation.beir import read_beir
    from ragcli.evaluation.comparison import score_run
    from ragcli.evaluation.evaluate import given_by_qrels
    from ragcli.evaluation.labelled import read_labelled
    from ragcli.evaluation.load import detect_format, read_any_topics
    from ragcli.evaluation.trec import read_qrels

    if inputs.collection is not None:
        raise UsageError("--run needs no collection; leave -c out, or name pipelines to compare with by --compare.")
    topics: tuple[Topic, ...] = ()
    judgements = None
    if inputs.beir:
        assert inputs.data is not None  # noqa: S101
        beir = read_beir(inputs.data, inputs.split)
        topics, judgements = (*beir.topics, *beir.unjudged), beir.qrels
    elif inputs.data is not None:
        topics, judgements = read_any_topics(inputs.data, inputs.form, inputs.field)
    if inputs.qrels is not None:
        labelled = detect_format(inputs.qrels) == "jsonl"
        if labelled:
            topics, judgements = read_labelled(inputs.qrels)
        else:
            judgements = read_qrels(inputs.qrels)
    if judgements is None:
        raise UsageError("A run is scored against judgements; give them with --qrels FILE.")
    given = given_by_qrels(judgements, runs, topics)
    if not any(query in judgements.judgements for run in runs for query in run.rankings):
        raise InputError("The runs and the qrels have no query in common; do their ids agree?")
    return given, [score_run(run, given, measures) for run in runs]


def _corpus(inputs: Inputs, asked: Mapping[str, Any], here: Surroundings) -> Collection:
    from ragcli.cli.progress import watched
    from ragcli.evaluation.corpora import corpus_collection

    folder = inputs.data
    assert folder is not None  # noqa: S101
    given = {name: value for name, value in asked.items() if value is not None}
    if "encoder" in given:
        given["encoder"] = absolute_model(given["encoder"])
    else:
        here.allow(("defaults", "encoder"))
    settings = replace(here.config.defaults.settings, **given)
    with watched(here.side_screen) as watch:

        def load() -> Encoder:
            from ragcli.models import load_encoder

            return load_encoder(settings.encoder, engine=here.config.engine, notify=watch.notify)

        corpus = corpus_collection(here.data_dir, folder, settings, load, watch.listen, fresh=inputs.fresh)
    if corpus.failures:
        first = corpus.failures[0]
        note(f"{len(corpus.failures)} documents of {folder} were not taken in, such as {first.source}: {first.reason}")
    return corpus.collection

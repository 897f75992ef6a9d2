"""Run `ragcli ask`: search, judge sufficiency, answer, and print as text or JSON.

On a terminal a language model's answer is shown while it is generated. The verdict and the evidence are printed
before it as the sufficiency judge gave them; what the faithfulness check makes of the answer follows after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from ragcli.cli.option_groups.search_options import check_sources
from ragcli.cli.terminal import note, safe, write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ragcli.agent import AgentRun
    from ragcli.cli.command_context import CommandContext
    from ragcli.cli.terminal import Screen
    from ragcli.collection import Collection
    from ragcli.filters import Filter
    from ragcli.grounding.ask import AskResult
    from ragcli.grounding.faithfulness.claims import FaithfulnessJudge
    from ragcli.grounding.sufficiency.evidence import Preset, SufficiencyJudgeName
    from ragcli.llm.cached_client import RemoteLanguageModel
    from ragcli.retrieval.request import QueryRequest
    from ragcli.retrieval.searcher import Searcher


@dataclass(frozen=True, slots=True)
class AskOptions:
    """How a question is judged and answered.

    `extract` is how many sentences an answer word for word may have, None for no such answer. With `answer` the
    `model` writes one, from `prompt` where that is not ours, and `check` judges its sentences (`none`: nobody does).
    `prompts` is the folder of the user's own prompts for query techniques. With `rounds` the question is searched for
    in so many rounds of the agent instead, by the `model` if there is one; `trace` shows all of its queries and hits.
    """

    preset: Preset
    judge: SufficiencyJudgeName
    retries: int
    override: bool
    extract: int | None = None
    answer: bool = False
    prompt: str | None = None
    check: str = "semantic"
    model: RemoteLanguageModel | None = None
    prompts: Path | None = None
    rounds: int | None = None
    trace: bool = False


def run_ask(
    here: CommandContext,
    collections: Sequence[Collection],
    request: QueryRequest,
    asking: AskOptions,
    *,
    as_json: bool,
    explain: bool,
) -> AskResult:
    """Ask, and write what comes of it to stdout."""
    from ragcli.retrieval.searcher import Searcher

    shown = _AskPrinter(here.screen, explain=explain, whole=asking.trace)
    with Searcher(
        collections,
        engine=here.config.engine,
        notify=note,
        language_model=asking.model,
        prompts=asking.prompts,
    ) as searcher:
        if asking.rounds is not None:
            shown.run, result = _run_agent(here, collections, request, asking, asking.rounds)
        else:
            result = _decide(searcher, collections, request, asking)
        told = len(result.trace.warnings)
        _note_all(result.trace.warnings)
        check_sources(collections, result.hits, strict=False)
        if asking.answer or asking.extract is not None:
            live = asking.answer and not as_json and here.screen.interactive and result.verdict != "insufficient"
            if live:
                shown.before(result)
            result = _with_answer(searcher, result, asking, shown if live else None)
            _note_all(result.trace.warnings[told:])
    if as_json:
        from ragcli.cli.render.json_output import write_json
        from ragcli.serialize import ask_record

        record = ask_record(result, asking.model)
        if shown.run is not None:
            from ragcli.serialize import agent_run_record

            record["agent"] = agent_run_record(shown.run)
        write_json(record)
    else:
        shown.after(result)
    return result


def _decide(
    searcher: Searcher, collections: Sequence[Collection], request: QueryRequest, asking: AskOptions
) -> AskResult:
    from ragcli.grounding import open_judge
    from ragcli.grounding.ask import decide

    return decide(
        searcher,
        request,
        judge=open_judge(asking.judge, collections),
        preset=asking.preset,
        retries=asking.retries,
        override=asking.override,
    )


def _with_answer(searcher: Searcher, result: AskResult, asking: AskOptions, live: _AskPrinter | None) -> AskResult:
    from ragcli.grounding.answers import model_writer
    from ragcli.grounding.ask import with_answer
    from ragcli.grounding.extractive_answer import ANSWER_SENTENCES, extract_writer

    extract = extract_writer(searcher, most=asking.extract or ANSWER_SENTENCES)
    if not asking.answer or asking.model is None:
        return with_answer(result, [extract])
    write_live = live.text if live is not None else None
    by_model = model_writer(asking.model, prompt=asking.prompt, on_text=write_live)
    return with_answer(result, [by_model, extract], _faithfulness_judges(searcher, asking))


def _faithfulness_judges(searcher: Searcher, asking: AskOptions) -> list[FaithfulnessJudge]:
    """The judge asked for, and one to stand in for a language model that fails."""
    from ragcli.grounding.judge_registry import open_faithfulness_judge

    if asking.check == "none":
        return []
    names = ["llm", "semantic"] if asking.check == "llm" else [asking.check]
    return [open_faithfulness_judge(name, searcher=searcher, model=asking.model) for name in names]


def _note_all(warnings: Sequence[str]) -> None:
    for warning in warnings:
        note(warning)


class _AskPrinter:
    """What has been shown of a result, so that it is shown once."""

    def __init__(self, screen: Screen, *, explain: bool, whole: bool = False) -> None:
        self.run: AgentRun | None = None
        self._whole = whole
        self._screen = screen
        self._explain = explain
        self._began = False
        self._wrote = False

    def before(self, result: AskResult) -> None:
        """The verdict and the evidence, before an answer is written."""
        from ragcli.cli.render.ask_report import evidence_text, verdict_text

        self._began = True
        write(verdict_text(result, self._screen))
        if self.run is not None:
            from ragcli.cli.render.ask_report import agent_tree

            write("\n" + agent_tree(self.run, self._screen, whole=self._whole))
        write(evidence_text(result, self._screen))

    def text(self, part: str) -> None:
        """A part of the answer as it comes."""
        if not self._wrote:
            from ragcli.cli.render.ask_report import answer_heading

            self._wrote = True
            write(answer_heading(self._screen))
            part = part.lstrip()
        write(safe(part))

    def after(self, result: AskResult) -> None:
        """All that has not been shown yet."""
        from ragcli.cli.render.ask_report import after_streaming_text, answer_text, explained_text

        if not self._began:
            self.before(result)
            write(answer_text(result, self._screen))
        else:
            by_model = self._wrote and result.answer is not None and not result.answer.quotes
            write(("\n" if self._wrote else "") + ("" if by_model else answer_text(result, self._screen)))
            write(after_streaming_text(result, self._screen))
        if self._explain:
            write(explained_text(result, self._screen))


def _run_agent(
    here: CommandContext,
    collections: Sequence[Collection],
    request: QueryRequest,
    asking: AskOptions,
    rounds: int,
) -> tuple[AgentRun, AskResult]:
    """The agent's run over the collections, and the verdict that comes of it."""
    from ragcli.agent import Query
    from ragcli.agent.ask_agent import ask_result, standard_agent
    from ragcli.agent.collection_retriever import RETRIEVER_TOP, as_retriever
    from ragcli.models.model_loading import LoadedModelCache

    models = LoadedModelCache()
    sources = {
        each.name: as_retriever(
            each, engine=here.config.engine, notify=note, models=models, **_query_parameters(request)
        )
        for each in collections
    }
    plans = asking.model is not None and len(collections) > 1
    agent = standard_agent(
        sources,
        judge=asking.judge,
        preset=asking.preset,
        model=asking.model,
        rounds=rounds,
        descriptions=_collection_descriptions(collections, request.where) if plans else None,
        prompts=asking.prompts,
        notify=note,
    )
    run = agent.run(Query(request.text, {"top": max(RETRIEVER_TOP, request.top)}))
    return run, ask_result(
        run, top=request.top, preset=asking.preset, pipeline=request.pipeline, override=asking.override
    )


def _query_parameters(request: QueryRequest) -> dict[str, Any]:
    """What the request says of how to search, for every query of the agent's."""
    return {
        each.name: getattr(request, each.name)
        for each in fields(request)
        if each.name not in _NOT_PARAMETERS and getattr(request, each.name) != each.default
    }


_NOT_PARAMETERS: Final = frozenset({"text", "top"})


def _collection_descriptions(collections: Sequence[Collection], where: Filter | None) -> dict[str, str]:
    """A few titles out of each collection, for a language model that plans where to look.

    What the filter keeps out may be just what no model is to be told of.
    """
    from ragcli.engines import open_reader

    about = {}
    for collection in collections:
        with open_reader(collection) as reader:
            titles: list[str] = []
            for document in reader.documents(where):
                title = " ".join((document.title or document.source).split())
                titles.append(title[:_MAX_TITLE_CHARACTERS])
                if len(titles) > _MAX_TITLES:
                    break
        more = "; …" if len(titles) > _MAX_TITLES else ""
        about[collection.name] = "; ".join(titles[:_MAX_TITLES]) + more
    return about


_MAX_TITLES: Final = 5


_MAX_TITLE_CHARACTERS: Final = 80

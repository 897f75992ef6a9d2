"""What `ragcli ask` does once it knows what is wanted: decide, answer, and say so on a screen or to a script.

On a terminal a language model's answer is shown while it is written. What it rests on must stand there before, so
there the verdict comes as the judge gave it, and what the check of the answer makes of it follows behind.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragcli.cli.searching import check_sources
from ragcli.cli.terminal import note, safe, write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ragcli.agent import AgentRun
    from ragcli.cli.agent import AgentCall
    from ragcli.cli.options import Surroundings
    from ragcli.cli.terminal import Screen
    from ragcli.collection import Collection
    from ragcli.gate.faithfulness import FaithfulnessJudge
    from ragcli.gate.rephrasing import TechniqueSearch
    from ragcli.gate.trace import AskResult
    from ragcli.gate.values import JudgeName, Preset
    from ragcli.llm.open import RemoteLanguageModel
    from ragcli.records import Hit
    from ragcli.retrieval.query import Searcher
    from ragcli.retrieval.request import QueryRequest
    from ragcli.retrieval.techniques import TechniqueResult, Techniques


@dataclass(frozen=True, slots=True)
class Asking:
    """How a question is judged and answered.

    `extract` is how many sentences an answer word for word may have, None for no such answer. With `answer` the
    `model` writes one, from `prompt` where that is not ours, and `check` judges its sentences (`none`: nobody does).
    `prompts` is the folder of the user's own prompts for the `techniques`. With `agent` the question is searched for
    in rounds instead, by the `model` if there is one.
    """

    preset: Preset
    judge: JudgeName
    retries: int
    override: bool
    extract: int | None = None
    answer: bool = False
    prompt: str | None = None
    check: str = "semantic"
    techniques: Techniques | None = None
    model: RemoteLanguageModel | None = None
    prompts: Path | None = None
    agent: AgentCall | None = None


def run_ask(
    here: Surroundings,
    collections: Sequence[Collection],
    request: QueryRequest,
    asking: Asking,
    *,
    as_json: bool,
    explain: bool,
) -> AskResult:
    """Ask, and write what comes of it to stdout."""
    from ragcli.retrieval.query import Searcher

    shown = _Shown(request, here.screen, explain=explain, whole=asking.agent is not None and asking.agent.trace)
    with Searcher(collections, engine=here.config.engine, notify=note) as searcher:
        search = _technique_search(searcher, request, asking)
        if asking.agent is not None:
            from ragcli.cli.agent import search_by_agent

            shown.run, result = search_by_agent(here, collections, request, asking)
        else:
            result = _decided(searcher, collections, request, asking, search)
        told = len(result.trace.warnings)
        _tell(result.trace.warnings)
        whole = result.hits
        wanted = asking.techniques
        if search is not None and wanted is not None and (wanted.decompose or wanted.compress is not None):
            shown.found = search.shown(result.trace.chosen, request.top)
            result = replace(result, hits=shown.found.result.hits)
        check_sources(collections, result.hits, strict=False)
        if asking.answer or asking.extract is not None:
            live = asking.answer and not as_json and here.screen.interactive and result.verdict != "insufficient"
            if live:
                shown.before(result)
            result = _answered(searcher, result, whole, asking, shown if live else None)
            _tell(result.trace.warnings[told:])
    if as_json:
        from ragcli.cli.output import write_json
        from ragcli.cli.traces import ask_record

        planned = search.planned if search is not None else None
        record = ask_record(result, asking.model, planned, found=shown.found)
        if shown.run is not None:
            from ragcli.cli.agent import run_record

            record["agent"] = run_record(shown.run)
        write_json(record)
    else:
        shown.after(result)
    return result


def _technique_search(searcher: Searcher, request: QueryRequest, asking: Asking) -> TechniqueSearch | None:
    if asking.techniques is None:
        return None
    from ragcli.gate.rephrasing import TechniqueSearch

    return TechniqueSearch(searcher, request, asking.techniques, asking.model, prompts=asking.prompts)


def _decided(
    searcher: Searcher,
    collections: Sequence[Collection],
    request: QueryRequest,
    asking: Asking,
    search: TechniqueSearch | None,
) -> AskResult:
    from ragcli.gate import open_judge
    from ragcli.gate.ask import decide

    return decide(
        searcher,
        request,
        judge=open_judge(asking.judge, collections),
        preset=asking.preset,
        retries=asking.retries,
        override=asking.override,
        question=search.planned.question if search is not None else None,
        search=search,
    )


def _answered(
    searcher: Searcher, result: AskResult, whole: Sequence[Hit], asking: Asking, live: _Shown | None
) -> AskResult:
    from ragcli.gate.answers import model_writer
    from ragcli.gate.ask import with_answer
    from ragcli.gate.extract import SENTENCES, extract_writer

    extract = extract_writer(searcher, most=asking.extract or SENTENCES, hits=whole)
    if not asking.answer or asking.model is None:
        return with_answer(result, [extract])
    write_live = live.text if live is not None else None
    by_model = model_writer(asking.model, prompt=asking.prompt, on_text=write_live)
    return with_answer(result, [by_model, extract], _judges(searcher, asking))


def _judges(searcher: Searcher, asking: Asking) -> list[FaithfulnessJudge]:
    """The judge asked for, and one to stand in for a language model that fails."""
    from ragcli.gate.faithfulness import open_faithfulness_judge

    if asking.check == "none":
        return []
    names = ["llm", "semantic"] if asking.check == "llm" else [asking.check]
    return [open_faithfulness_judge(name, searcher=searcher, model=asking.model) for name in names]


def _tell(warnings: Sequence[str]) -> None:
    for warning in warnings:
        note(warning)


class _Shown:
    """What has been shown of a result, so that it is shown once."""

    def __init__(self, request: QueryRequest, screen: Screen, *, explain: bool, whole: bool = False) -> None:
        self.run: AgentRun | None = None
        self.found: TechniqueResult | None = None
        self._whole = whole
        self._request = request
        self._screen = screen
        self._explain = explain
        self._began = False
        self._wrote = False

    def before(self, result: AskResult) -> None:
        """The verdict and the evidence, before an answer is written."""
        from ragcli.cli.verdicts import evidence_text, verdict_text

        self._began = True
        write(verdict_text(result, self._screen))
        if self.run is not None:
            from ragcli.cli.agent import run_tree

            write("\n" + run_tree(self.run, self._screen, whole=self._whole))
        write(evidence_text(result, self._request, self._screen, found=self.found))

    def text(self, part: str) -> None:
        """A part of the answer as it comes."""
        if not self._wrote:
            from ragcli.cli.verdicts import answer_head

            self._wrote = True
            write(answer_head(self._screen))
            part = part.lstrip()
        write(safe(part))

    def after(self, result: AskResult) -> None:
        """All that has not been shown yet."""
        from ragcli.cli.verdicts import afterwards_text, answer_text, explained_text

        if not self._began:
            self.before(result)
            write(answer_text(result, self._screen))
        else:
            by_model = self._wrote and result.answer is not None and not result.answer.quotes
            write(("\n" if self._wrote else "") + ("" if by_model else answer_text(result, self._screen)))
            write(afterwards_text(result, self._screen))
        if self._explain:
            write(explained_text(result, self._screen))

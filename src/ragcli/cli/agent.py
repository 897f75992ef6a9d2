"""`ragcli ask --agent`: what the agent did as a tree, what it found, and the whole trace for scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ragcli.cli.terminal import note, render, safe_line
from ragcli.errors import UsageError

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

    from ragcli.agent import AgentRun, LowLevelQuery, Round, TaskTrace
    from ragcli.cli.asking import Asking
    from ragcli.cli.options import Surroundings
    from ragcli.cli.terminal import Screen
    from ragcli.collection import Collection
    from ragcli.filters import Filter
    from ragcli.gate.trace import AskResult
    from ragcli.records import Hit
    from ragcli.retrieval.request import QueryRequest
    from ragcli.retrieval.techniques import Techniques

_ROUNDS: Final = 3
_SHOWN: Final = 3
"""Hits of a round that the tree shows, of those it brought and kept."""
_TITLES: Final = 5
_LONGEST_TITLE: Final = 80
_NOT_PARAMETERS: Final = frozenset({"text", "top"})


ByAgent = Annotated[
    bool,
    typer.Option(
        "--agent", help="Search in rounds: take the question apart, judge, and look for what is still missing."
    ),
]
Rounds = Annotated[
    int | None, typer.Option("--rounds", metavar="N", help="How many rounds the agent takes at most (3).")
]
WholeTrace = Annotated[
    bool, typer.Option("--trace", help="Show every query of the agent, what it brought, and the times.")
]


@dataclass(frozen=True, slots=True)
class AgentCall:
    """That the agent is to answer, in so many rounds a sub-task; `trace` shows every query and hit in the tree."""

    rounds: int
    trace: bool


def agent_call(
    rounds: int | None, retries: int | None, techniques: Techniques | None, *, agent: bool, trace: bool
) -> AgentCall | None:
    """What the options say of the agent; None where it is not asked for. Raises UsageError for what does not go."""
    if not agent:
        if rounds is not None or trace:
            raise UsageError(f"{'--rounds' if rounds is not None else '--trace'} is for --agent; give both.")
        return None
    if retries is not None:
        raise UsageError("--retries and --agent exclude each other; the agent has --rounds.")
    if techniques is not None:
        raise UsageError("The agent puts its queries itself; leave the query techniques out, or leave out --agent.")
    if rounds is not None and rounds < 1:
        raise UsageError(f"--rounds must be at least 1, not {rounds}.")
    return AgentCall(rounds if rounds is not None else _ROUNDS, trace)


def search_by_agent(
    here: Surroundings, collections: Sequence[Collection], request: QueryRequest, asking: Asking
) -> tuple[AgentRun, AskResult]:
    """The agent's run over the collections, and the verdict that comes of it."""
    from ragcli.agent import Query
    from ragcli.agent.outcome import ask_result
    from ragcli.agent.sources import TOP, as_retriever
    from ragcli.agent.standard import standard_agent
    from ragcli.models.shelf import ModelShelf

    models = ModelShelf()
    sources = {
        each.name: as_retriever(each, engine=here.config.engine, notify=note, models=models, **_parameters(request))
        for each in collections
    }
    plans = asking.model is not None and len(collections) > 1
    agent = standard_agent(
        sources,
        judge=asking.judge,
        preset=asking.preset,
        model=asking.model,
        rounds=asking.agent.rounds if asking.agent is not None else _ROUNDS,
        descriptions=_descriptions(collections, request.where) if plans else None,
        prompts=asking.prompts,
        notify=note,
    )
    run = agent.run(Query(request.text, {"top": max(TOP, request.top)}))
    return run, ask_result(
        run, top=request.top, preset=asking.preset, pipeline=request.pipeline, override=asking.override
    )


def run_tree(run: AgentRun, screen: Screen, *, whole: bool) -> str:
    """The sub-tasks and their rounds; with `whole`, every query, its hits, and the times."""
    from rich.tree import Tree

    trees = []
    several = len({hit.chunk.collection for hit in run.results}) > 1
    for task in run.trace.tasks:
        mark = "enough" if task.sufficient else "not enough"
        tree = Tree(_text(task.task.goal, mark, style="bold"), guide_style="dim")
        for turn in task.rounds:
            _add_round(tree, task, turn, whole=whole, several=several)
        trees.append(tree)
    return render(screen, *trees) + _footing(run)


def run_record(run: AgentRun) -> dict[str, Any]:
    """The whole trace as plain values: sub-tasks, rounds, queries, hits, judgements and times."""
    trace = run.trace
    return {
        "sufficient": trace.sufficient,
        "back_edges": trace.back_edges,
        "seconds": trace.seconds,
        "warnings": list(trace.warnings),
        "tasks": [
            {
                "goal": task.task.goal,
                "sources": list(task.task.sources),
                "sufficient": task.sufficient,
                "ended": task.ended,
                "seconds": task.seconds,
                "rounds": [_round_record(turn) for turn in task.rounds],
                "kept": [hit.chunk.chunk_id for hit in task.kept],
            }
            for task in trace.tasks
        ],
    }


def _round_record(turn: Round) -> dict[str, Any]:
    judged = turn.judgement
    refined = judged.refinement
    return {
        "number": turn.number,
        "goal": turn.task.goal,
        "seconds": turn.seconds,
        "queries": [
            {
                "sources": _sources(each.query),
                "query": each.query.query,
                "params": {name: _plain(value) for name, value in each.query.params.items() if name != "among"},
                "seconds": each.seconds,
                "error": each.error,
                "hits": [_hit_record(hit) for hit in each.hits],
            }
            for each in turn.retrievals
        ],
        "offered": turn.offered,
        "kept": [hit.chunk.chunk_id for hit in turn.kept],
        "judgement": {
            "sufficient": judged.sufficient,
            "reason": judged.reason,
            "refinement": None if refined is None else {"goal": refined.goal, "sources": list(refined.sources)},
            "signals": {name: _plain(value) for name, value in judged.signals.items()},
        },
    }


def _sources(query: LowLevelQuery) -> list[str]:
    """The collections that a query was put to, in one pool where there are several."""
    return list(query.params.get("among") or (query.source,))


def _hit_record(hit: Hit) -> dict[str, Any]:
    """A hit by its place and score; `ragcli show` reads its text."""
    chunk = hit.chunk
    return {
        "rank": hit.rank,
        "chunk_id": chunk.chunk_id,
        "collection": chunk.collection,
        "origin": hit.origin,
        "source": chunk.source,
        "page_start": chunk.page_start,
        "page_end": chunk.page_end,
        "heading": chunk.heading,
        "score": hit.score,
        "score_type": hit.score_type,
    }


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _add_round(tree: Tree, task: TaskTrace, turn: Round, *, whole: bool, several: bool) -> None:
    from ragcli.agent import result_key

    found = sum(len(each.hits) for each in turn.retrievals)
    counts = f"{_number(found, 'hit')}, {len(turn.kept)} kept" + (f", {_ms(turn.seconds)}" if whole else "")
    branch = tree.add(_text(f"{turn.number}. {turn.task.goal}", counts))
    if whole:
        for each in turn.retrievals:
            told = f"could not be asked: {each.error}" if each.error else f"{_number(len(each.hits), 'hit')}"
            # What is asked as the round has it need not be read again.
            words = "" if each.query.query == turn.task.goal else f": {each.query.query}"
            leaf = branch.add(_text(f"{', '.join(_sources(each.query))}{words}", f"{told}, {_ms(each.seconds)}"))
            for hit in each.hits:
                leaf.add(_hit_line(hit, several=several))
    else:
        known = {result_key(hit) for before in task.rounds[: turn.number - 1] for hit in before.kept}
        new = [hit for hit in turn.kept if result_key(hit) not in known]
        for hit in new[:_SHOWN]:
            branch.add(_hit_line(hit, several=several))
        if len(new) > _SHOWN:
            branch.add(_text(f"… and {_number(len(new) - _SHOWN, 'hit')} more", style="dim"))
    if turn.judgement.reason:
        branch.add(_text(turn.judgement.reason, style="italic"))
    if turn is not task.rounds[-1] and turn.judgement.refinement is not None:
        branch.add(_text(f"↻ {turn.judgement.refinement.goal}", style="cyan"))
    elif turn is task.rounds[-1] and not task.sufficient:
        branch.add(_text(task.ended, style="dim"))


def _hit_line(hit: Hit, *, several: bool) -> Text:
    from ragcli.cli.hits import place_of

    where = place_of(hit.chunk.source, hit.chunk.page_start, hit.chunk.page_end)
    collection = f"[{hit.chunk.collection}] " if several else ""
    return _text(f"{hit.score:.3f} {where}", f"{collection}{hit.chunk.chunk_id}")


def _text(words: str, more: str = "", style: str = "") -> Text:
    from rich.text import Text

    text = Text(safe_line(words), style=style)
    return text.append(f"  {safe_line(more)}", style="not bold not italic dim") if more else text


def _footing(run: AgentRun) -> str:
    trace = run.trace
    rounds = sum(len(task.rounds) for task in trace.tasks)
    return f"{_number(len(trace.tasks), 'sub-task')}, {_number(rounds, 'round')}, {_ms(trace.seconds)}\n"


def _number(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _parameters(request: QueryRequest) -> dict[str, Any]:
    """What the request says of how to search, for every query of the agent's."""
    return {
        each.name: getattr(request, each.name)
        for each in fields(request)
        if each.name not in _NOT_PARAMETERS and getattr(request, each.name) != each.default
    }


def _descriptions(collections: Sequence[Collection], where: Filter | None) -> dict[str, str]:
    """A few titles out of each collection, for a language model that plans where to look.

    What the filter keeps out may be just what no model is to be told of.
    """
    about = {}
    for collection in collections:
        with collection.snapshot() as snapshot:
            titles: list[str] = []
            for document in snapshot.documents(where):
                title = " ".join((document.title or document.source).split())
                titles.append(title[:_LONGEST_TITLE])
                if len(titles) > _TITLES:
                    break
        more = "; …" if len(titles) > _TITLES else ""
        about[collection.name] = "; ".join(titles[:_TITLES]) + more
    return about

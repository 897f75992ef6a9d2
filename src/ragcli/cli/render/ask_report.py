"""Render the result of `ask`: verdict, evidence, answer with citations, and the agent's trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ragcli.cli.render.hit_table import hits_table, location_text
from ragcli.cli.render.rich_table import Column, table
from ragcli.cli.terminal import BOLD, DIM, render, safe, safe_line
from ragcli.serialize import queried_collections

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text
    from rich.tree import Tree

    from ragcli.agent import AgentRun, Round, TaskTrace
    from ragcli.cli.terminal import Screen
    from ragcli.grounding.answers import Answer
    from ragcli.grounding.ask import AskResult, SearchAttempt
    from ragcli.grounding.sufficiency.evidence import AnswerVerdict
    from ragcli.types import Hit


_VERDICT_WORDS: Final[dict[AnswerVerdict, str]] = {
    "answerable": "Answerable",
    "insufficient": "Insufficient",
    "needs_review": "Needs review",
}
_VERDICT_STYLES: Final[dict[AnswerVerdict, str]] = {
    "answerable": "1;32",
    "insufficient": "1;31",
    "needs_review": "1;33",
}
_MAX_WORDS_SHOWN: Final = 6


def verdict_text(result: AskResult, screen: Screen) -> str:
    """The verdict, how the judge came to it, and what was done without."""
    from rich.text import Text

    decision, trace = result.decision, result.trace
    # A yes that is not the judge's must not look like one.
    word = _VERDICT_WORDS[result.verdict] + (" (overridden)" if trace.overridden else "")
    head = screen.style(word, _VERDICT_STYLES[result.verdict])
    how = f"{', '.join(decision.reasons)} ({decision.score:.2f}; {trace.preset} takes {decision.threshold:.2f})"
    lines = [decision.explanation, *result.review]
    if trace.overridden:
        lines.append("The judge was overridden.")
    if len(trace.attempts) > 1:
        lines.append(_searches_text(trace.attempts))
    if trace.degraded:
        lines.append(trace.degraded)
    return render(screen, Text.from_ansi(f"{head}: {how}")) + _paragraphs(lines, screen)


def evidence_text(result: AskResult, screen: Screen) -> str:
    """The passages that the verdict rests on."""
    return f"\n{screen.style('Evidence', BOLD)}\n{hits_table(result.found, result.question, screen)}"


def answer_heading(screen: Screen) -> str:
    """What stands over an answer."""
    return f"\n{screen.style('Answer', BOLD)}\n"


def answer_text(result: AskResult, screen: Screen) -> str:
    """The answer and what it cites; nothing where there is none."""
    answer = result.answer
    if answer is None:
        return ""
    if answer.quotes:
        return answer_heading(screen) + _quotes_text(answer, result, screen)
    return answer_heading(screen) + _paragraphs(safe(answer.text).split("\n"), screen) + cited_text(result, screen)


def cited_text(result: AskResult, screen: Screen) -> str:
    """The documents that an answer cites, each on its line, and what is wrong with its sentences."""
    answer = result.answer
    if answer is None or answer.quotes:
        return ""
    cited = [hit for hit in result.hits if hit.rank in answer.cited]
    places = [
        f"[{hit.rank}] {location_text(hit.chunk.source, hit.chunk.page_start, hit.chunk.page_end)}" for hit in cited
    ]
    lines = "\n" + "".join(screen.style(line, DIM) + "\n" for line in places) if places else ""
    return lines + _citation_problems(answer, result, screen)


def after_streaming_text(result: AskResult, screen: Screen) -> str:
    """What is to be said behind an answer that was shown while it was written."""
    head = screen.style(_VERDICT_WORDS[result.verdict], _VERDICT_STYLES[result.verdict])
    review = f"\n{head}\n" + _paragraphs(result.review, screen) if result.review else ""
    return cited_text(result, screen) + review


def explained_text(result: AskResult, screen: Screen) -> str:
    """Every attempt, the features that the chosen one was judged by, and the time that each stage took."""
    trace = result.trace
    columns = (
        Column("#", number=True),
        Column("score", number=True),
        Column("reasons"),
        Column("added words"),
        Column("ms", number=True),
    )
    rows = [
        (
            f"{number}{'*' if number - 1 == trace.chosen else ''}",
            f"{attempt.decision.score:.3f}",
            ", ".join(attempt.decision.reasons),
            ", ".join(f"{word} {weight:.2f}" for word, weight in attempt.added),
            f"{attempt.seconds * 1000:.0f}",
        )
        for number, attempt in enumerate(trace.attempts, 1)
    ]
    attempts = table(screen, columns, rows, title=f"Attempts (* judged; ended: {trace.stopped})")
    features = table(
        screen,
        (Column("feature"), Column("value", number=True)),
        [(name, f"{value:.3f}") for name, value in result.decision.features.items()],
        title=f"Features ({trace.judge})",
    )
    stages = [*trace.attempts[trace.chosen].stages, *trace.stages]
    times = table(
        screen,
        (Column("stage"), Column("ms", number=True), Column("on")),
        [
            *((stage.stage, f"{stage.seconds * 1000:.1f}", stage.detail) for stage in stages),
            ("all", f"{trace.seconds * 1000:.1f}", ""),
        ],
        title="Times",
    )
    return f"\n{attempts}\n{features}\n{times}"


def _searches_text(attempts: Sequence[SearchAttempt]) -> str:
    words = [word for word, _ in attempts[-1].added]
    more = ", …" if len(words) > _MAX_WORDS_SHOWN else "."
    also = f", at last also for {', '.join(words[:_MAX_WORDS_SHOWN])}{more}" if words else "."
    return f"Searched {len(attempts)} times{also}"


def _quotes_text(answer: Answer, result: AskResult, screen: Screen) -> str:
    hits = {hit.rank: hit for hit in result.hits}
    blocks = []
    for sentence, quote in zip(answer.sentences, answer.quotes, strict=True):
        place = location_text(hits[sentence.citations[0]].chunk.source, quote.page, quote.page)
        blocks.append(_paragraphs([safe(sentence.text)], screen) + screen.style(f"    {place}", DIM))
    return "\n".join(blocks) + "\n"


def _citation_problems(answer: Answer, result: AskResult, screen: Screen) -> str:
    said = []
    if answer.removed:
        said.append(
            "One citation named no passage and was removed."
            if answer.removed == 1
            else f"{answer.removed} citations named no passage and were removed."
        )
    said += [f"Cites nothing: {sentence}" for sentence in answer.uncited]
    for support in result.faithfulness.unsupported if result.faithfulness else ():
        missing = f" (not in the evidence: {', '.join(support.missing)})" if support.missing else ""
        said.append(f"Not supported: {support.claim}{missing}")
    return "\n" + _paragraphs(said, screen) if said else ""


def _paragraphs(lines: Sequence[str], screen: Screen) -> str:
    from rich.text import Text

    return "".join(render(screen, Text(safe_line(line))) for line in lines) if lines else ""


_MAX_HITS_SHOWN: Final = 3
"""Hits of a round that the tree shows, of those it brought and kept."""


def agent_tree(run: AgentRun, screen: Screen, *, whole: bool) -> str:
    """The sub-tasks and their rounds; with `whole`, every query, its hits, and the times."""
    from rich.tree import Tree

    trees = []
    several = len({hit.chunk.collection for hit in run.results}) > 1
    for task in run.trace.tasks:
        mark = "enough" if task.sufficient else "not enough"
        tree = Tree(_tree_text(task.task.goal, mark, style="bold"), guide_style="dim")
        for turn in task.rounds:
            _add_round(tree, task, turn, whole=whole, several=several)
        trees.append(tree)
    return render(screen, *trees) + _agent_footer(run)


def _add_round(tree: Tree, task: TaskTrace, turn: Round, *, whole: bool, several: bool) -> None:
    from ragcli.agent import result_key

    found = sum(len(each.hits) for each in turn.retrievals)
    counts = f"{_counted(found, 'hit')}, {len(turn.kept)} kept" + (f", {_milliseconds(turn.seconds)}" if whole else "")
    branch = tree.add(_tree_text(f"{turn.number}. {turn.task.goal}", counts))
    if whole:
        for each in turn.retrievals:
            told = f"could not be asked: {each.error}" if each.error else f"{_counted(len(each.hits), 'hit')}"
            # What is asked as the round has it need not be read again.
            words = "" if each.query.query == turn.task.goal else f": {each.query.query}"
            leaf = branch.add(
                _tree_text(
                    f"{', '.join(queried_collections(each.query))}{words}", f"{told}, {_milliseconds(each.seconds)}"
                )
            )
            for hit in each.hits:
                leaf.add(_hit_line(hit, several=several))
    else:
        known = {result_key(hit) for before in task.rounds[: turn.number - 1] for hit in before.kept}
        new = [hit for hit in turn.kept if result_key(hit) not in known]
        for hit in new[:_MAX_HITS_SHOWN]:
            branch.add(_hit_line(hit, several=several))
        if len(new) > _MAX_HITS_SHOWN:
            branch.add(_tree_text(f"… and {_counted(len(new) - _MAX_HITS_SHOWN, 'hit')} more", style="dim"))
    if turn.judgement.reason:
        branch.add(_tree_text(turn.judgement.reason, style="italic"))
    if turn is not task.rounds[-1] and turn.judgement.refinement is not None:
        branch.add(_tree_text(f"↻ {turn.judgement.refinement.goal}", style="cyan"))
    elif turn is task.rounds[-1] and not task.sufficient:
        branch.add(_tree_text(task.ended, style="dim"))


def _hit_line(hit: Hit, *, several: bool) -> Text:
    from ragcli.cli.render.hit_table import location_text

    where = location_text(hit.chunk.source, hit.chunk.page_start, hit.chunk.page_end)
    collection = f"[{hit.chunk.collection}] " if several else ""
    return _tree_text(f"{hit.score:.3f} {where}", f"{collection}{hit.chunk.chunk_id}")


def _tree_text(words: str, more: str = "", style: str = "") -> Text:
    from rich.text import Text

    text = Text(safe_line(words), style=style)
    return text.append(f"  {safe_line(more)}", style="not bold not italic dim") if more else text


def _agent_footer(run: AgentRun) -> str:
    trace = run.trace
    rounds = sum(len(task.rounds) for task in trace.tasks)
    return f"{_counted(len(trace.tasks), 'sub-task')}, {_counted(rounds, 'round')}, {_milliseconds(trace.seconds)}\n"


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"

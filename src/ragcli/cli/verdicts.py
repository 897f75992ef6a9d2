"""What `ask` says, as a person reads it: the verdict first, then why, then the evidence, then the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ragcli.cli.hits import hits_table, place_of
from ragcli.cli.tables import Column, table
from ragcli.cli.terminal import BOLD, DIM, render, safe, safe_line
from ragcli.retrieval.request import QueryResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.cli.terminal import Screen
    from ragcli.gate.answers import Answer
    from ragcli.gate.trace import AskResult, Attempt
    from ragcli.gate.values import Verdict
    from ragcli.retrieval.request import QueryRequest
    from ragcli.retrieval.techniques import TechniqueResult

_WORDS: Final[dict[Verdict, str]] = {
    "answerable": "Answerable",
    "insufficient": "Insufficient",
    "needs_review": "Needs review",
}
_STYLES: Final[dict[Verdict, str]] = {"answerable": "1;32", "insufficient": "1;31", "needs_review": "1;33"}
_SHOWN_WORDS: Final = 6


def verdict_text(result: AskResult, screen: Screen) -> str:
    """The verdict, how the judge came to it, and what was done without."""
    from rich.text import Text

    decision, trace = result.decision, result.trace
    # A yes that is not the judge's must not look like one.
    word = _WORDS[result.verdict] + (" (overridden)" if trace.overridden else "")
    head = screen.style(word, _STYLES[result.verdict])
    how = f"{', '.join(decision.reasons)} ({decision.score:.2f}; {trace.preset} takes {decision.threshold:.2f})"
    lines = [decision.explanation, *result.review]
    if trace.overridden:
        lines.append("The judge was overridden.")
    if len(trace.attempts) > 1:
        lines.append(_searches(trace.attempts))
    if trace.degraded:
        lines.append(trace.degraded)
    return render(screen, Text.from_ansi(f"{head}: {how}")) + _paragraphs(lines, screen)


def evidence_text(
    result: AskResult, request: QueryRequest, screen: Screen, *, found: TechniqueResult | None = None
) -> str:
    """The passages that the verdict rests on; `found` are they as techniques have grouped and shortened them."""
    if found is not None:
        from ragcli.cli.found import found_text

        return f"\n{screen.style('Evidence', BOLD)}\n{found_text(found, screen)}"
    chosen = result.trace.attempts[result.trace.chosen]
    hits = QueryResult(result.hits, chosen.stages, result.trace.pipeline, result.trace.reranker)
    return f"\n{screen.style('Evidence', BOLD)}\n{hits_table(hits, request, screen)}"


def answer_head(screen: Screen) -> str:
    """What stands over an answer."""
    return f"\n{screen.style('Answer', BOLD)}\n"


def answer_text(result: AskResult, screen: Screen) -> str:
    """The answer and what it cites; nothing where there is none."""
    answer = result.answer
    if answer is None:
        return ""
    if answer.quotes:
        return answer_head(screen) + _quoted(answer, result, screen)
    return answer_head(screen) + _paragraphs(safe(answer.text).split("\n"), screen) + cited_text(result, screen)


def cited_text(result: AskResult, screen: Screen) -> str:
    """The documents that an answer cites, each on its line, and what is wrong with its sentences."""
    answer = result.answer
    if answer is None or answer.quotes:
        return ""
    cited = [hit for hit in result.hits if hit.rank in answer.cited]
    places = [f"[{hit.rank}] {place_of(hit.chunk.source, hit.chunk.page_start, hit.chunk.page_end)}" for hit in cited]
    lines = "\n" + "".join(screen.style(line, DIM) + "\n" for line in places) if places else ""
    return lines + _complaints(answer, result, screen)


def afterwards_text(result: AskResult, screen: Screen) -> str:
    """What is to be said behind an answer that was shown while it was written."""
    head = screen.style(_WORDS[result.verdict], _STYLES[result.verdict])
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


def _searches(attempts: Sequence[Attempt]) -> str:
    words = [word for word, _ in attempts[-1].added]
    more = ", …" if len(words) > _SHOWN_WORDS else "."
    also = f", at last also for {', '.join(words[:_SHOWN_WORDS])}{more}" if words else "."
    return f"Searched {len(attempts)} times{also}"


def _quoted(answer: Answer, result: AskResult, screen: Screen) -> str:
    hits = {hit.rank: hit for hit in result.hits}
    blocks = []
    for sentence, quote in zip(answer.sentences, answer.quotes, strict=True):
        place = place_of(hits[sentence.citations[0]].chunk.source, quote.page, quote.page)
        blocks.append(_paragraphs([safe(sentence.text)], screen) + screen.style(f"    {place}", DIM))
    return "\n".join(blocks) + "\n"


def _complaints(answer: Answer, result: AskResult, screen: Screen) -> str:
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

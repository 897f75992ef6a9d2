"""Render ranked hits, their scores and stage times as tables that fit the screen.

On a wide screen source and passage stand side by side. On a narrow one a passage needs the whole width, so its source
goes above it. Hits of a decomposed question are grouped by its parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ragcli.cli.terminal import BOLD, render, safe_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table
    from rich.text import Text

    from ragcli.cli.terminal import Screen
    from ragcli.retrieval.request import QueryPlan, QueryResult, SubQuery
    from ragcli.types import Hit, StoredChunk


# From this width on, a column for the place leaves the passage some sixty characters, a good line to read.
WIDE_SCREEN: Final = 100
# Characters of a passage to show: about four lines wherever it stands.
_EXCERPT_NARROW: Final = 300
_EXCERPT_WIDE: Final = 420
# Other passages of the same document, and characters of each.
_OTHERS: Final = 3
_EXCERPT_OTHER: Final = 120
_NAME_PARTS: Final = re.compile(r"[^/\\_\- ]*[/\\_\- ]|[^/\\_\- ]+")


def hits_table(result: QueryResult, question: str, screen: Screen) -> str:
    """The hits of a query as text for this screen, by the part of the question that they are for where it has parts.

    The words of `question` are marked, or of what a technique has made of it.
    """
    hits = result.hits
    if not hits:
        return "No passage was found.\n"
    several = spans_collections(hits)
    # What is left of a passage was chosen to be read.
    limit = _NO_LIMIT if result.kept else None
    if not result.groups:
        asked = (result.plan.question if result.plan is not None else "") or question
        return hits_rows(hits, asked, screen, several=several, limit=limit) + hits_footer(result)
    blocks = []
    for group in result.groups:
        rows = hits_rows(group.hits, group.question, screen, several=several, limit=limit) if group.hits else ""
        none = "" if group.hits else "Nothing among the best hits is for this one alone.\n"
        blocks.append(screen.style(safe_line(group.question), BOLD) + f"\n{rows}{none}")
    return "\n".join(blocks) + hits_footer(result)


def spans_collections(hits: Sequence[Hit]) -> bool:
    """Whether the hits come from more than one collection, so that each must say which."""
    return len({hit.chunk.collection for hit in hits}) > 1


def hits_rows(hits: Sequence[Hit], question: str, screen: Screen, *, several: bool, limit: int | None = None) -> str:
    """Hits as a table, the words of the question marked; `limit` is the characters of a passage to show."""
    table = _empty_hit_table(screen)
    room = _location_width(screen)
    for hit in hits:
        place, passage = _location_cell(hit, room, several=several), _passage_cell(hit, question, screen, limit)
        if screen.width >= WIDE_SCREEN:
            table.add_row(str(hit.rank), f"{hit.score:.3f}", place, passage)
        else:
            from rich.console import Group

            table.add_row(str(hit.rank), f"{hit.score:.3f}", Group(place, passage))
    return render(screen, table)


def stages_table(result: QueryResult, screen: Screen) -> str:
    """Every stage's score for every hit, and every stage's time, as text for this screen."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    names = list(dict.fromkeys(name for hit in result.hits for name in hit.scores))
    scores = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Scores", title_justify="left")
    scores.add_column("#", justify="right")
    for name in names:
        scores.add_column(name, justify="right")
    scores.add_column("cosine", justify="right")
    scores.add_column("chunk", overflow="fold")
    for hit in result.hits:
        values = [hit.scores.get(name) for name in names]
        scores.add_row(
            str(hit.rank),
            *("-" if value is None else f"{value:.3f}" for value in values),
            f"{hit.cosine:.3f}",
            Text(safe_line(hit.chunk.chunk_id)),
        )
    times = Table(box=box.SIMPLE_HEAD, pad_edge=False, title="Times", title_justify="left")
    times.add_column("stage")
    times.add_column("ms", justify="right")
    times.add_column("on", overflow="fold")
    for stage in result.stages:
        times.add_row(stage.stage, f"{stage.seconds * 1000:.1f}", Text(safe_line(stage.detail)))
    times.add_row("all", f"{sum(stage.seconds for stage in result.stages) * 1000:.1f}", "")
    return render(screen, *([scores] if result.hits else []), times)


def location_text(source: str, page_start: int | None, page_end: int | None) -> str:
    """A source and its pages on one line, safe to show."""
    name, pages = safe_line(source), page_range_text(page_start, page_end)
    return f"{name}, {pages}" if pages else name


def page_range_text(start: int | None, end: int | None) -> str:
    """Pages as a citation has them, or nothing for a document without pages."""
    if start is None:
        return ""
    return f"p. {start}" if end is None or end == start else f"pp. {start}-{end}"


def _empty_hit_table(screen: Screen) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), width=screen.width, leading=1, show_edge=False
    )
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("Score", justify="right", no_wrap=True)
    if screen.width >= WIDE_SCREEN:
        table.add_column("Source", width=_location_width(screen), overflow="fold")
        table.add_column("Passage", ratio=1, overflow="fold")
    else:
        table.add_column("Source and passage", ratio=1, overflow="fold")
    return table


def _location_width(screen: Screen) -> int:
    return max(26, screen.width // 4) if screen.width >= WIDE_SCREEN else screen.width - 13


def _location_cell(hit: Hit, room: int, *, several: bool) -> Text:
    from rich.text import Text

    chunk = hit.chunk
    text = Text(_fold_location(chunk, room), style="cyan")
    if several:
        text.append(f" [{safe_line(chunk.collection)}]", style="not bold dim")
    if chunk.heading:
        text.append("\n" + safe_line(chunk.heading), style="italic dim")
    text.append("\n" + safe_line(chunk.chunk_id), style="dim")
    if same := len(hit.duplicates):
        text.append(f"\n+ {same} that {'says' if same == 1 else 'say'} the same", style="dim")
    return text


def _fold_location(chunk: StoredChunk, room: int) -> str:
    """Source and pages, broken at the name's own separators where a line is too short; Rich would break anywhere."""
    from rich.cells import cell_len

    parts = _NAME_PARTS.findall(safe_line(chunk.source))
    if pages := page_range_text(chunk.page_start, chunk.page_end):
        # The comma goes with the word before it, and where that fills its line, the line's end stands for it.
        last = "".join(parts[-1:])
        parts = [*parts[:-1], last if cell_len(last) % room == 0 else last + ",", f" {pages}"]
    lines = [""]
    for part in parts:
        if lines[-1] and cell_len(lines[-1] + part.rstrip()) > room:
            lines.append("")
        lines[-1] += part if lines[-1] else part.lstrip()
    return "\n".join(lines)


def _passage_cell(hit: Hit, question: str, screen: Screen, limit: int | None) -> Text:
    from rich.text import Text

    from ragcli.retrieval.snippets import make_snippet, mark_words

    if limit is None:
        limit = _EXCERPT_WIDE if screen.width >= WIDE_SCREEN else _EXCERPT_NARROW
    excerpt = make_snippet(hit.chunk.text, question, limit)
    shown = safe_line(excerpt.text)
    # Making a passage safe may fold blanks, and then the marks no longer stand where they stood.
    marks = excerpt.marks if shown == excerpt.text else mark_words(shown, question)
    text = Text(shown)
    for start, end in marks:
        text.stylize("bold", start, end)
    for other in hit.others[:_OTHERS]:
        place = page_range_text(other.chunk.page_start, other.chunk.page_end)
        words = safe_line(make_snippet(other.chunk.text, question, _EXCERPT_OTHER).text)
        name = safe_line(other.chunk.chunk_id)
        text.append(f"\n└ {name}{', ' if place else ''}{place}: ", style="dim").append(words)
    if more := len(hit.others) - _OTHERS:
        text.append(f"\n└ and {more} more" if more > 0 else "", style="dim")
    return text


def hits_footer(result: QueryResult) -> str:
    """How many hits there are, how they came about, and how long it took."""
    how = result.pipeline if result.reranker is None else f"{result.pipeline}, reranked by {result.reranker}"
    milliseconds = sum(stage.seconds for stage in result.stages) * 1000
    number = "1 hit" if len(result.hits) == 1 else f"{len(result.hits)} hits"
    return f"\n{number} ({safe_line(how)}, {milliseconds:.0f} ms)\n"


_NO_LIMIT: Final = 1 << 20
_MAX_QUERY_CHARACTERS: Final = 160


def rewritten_question_note(result: QueryResult) -> str | None:
    """The question as it was really asked, if a language model put it in other words."""
    plan = result.plan
    return f"asked: {plan.question}" if plan is not None and plan.question != plan.request.text else None


def queries_table(plan: QueryPlan, screen: Screen) -> str:
    """Every query that was asked, and what was added to it."""
    from ragcli.cli.render.rich_table import Column, table

    columns = (Column("weight", number=True), Column("query"), Column("added"))
    rows = [(f"{each.weight:.2f}", _shortened(each.request.text), _added_words(each)) for each in plan.queries]
    return table(screen, columns, rows, title="Asked")


def _added_words(query: SubQuery) -> str:
    words = ", ".join(f"{word} {weight:.2f}" for word, weight in query.request.expansion)
    return " / ".join([*([words] if words else []), *map(_shortened, query.request.hypothetical)])


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MAX_QUERY_CHARACTERS else words[:_MAX_QUERY_CHARACTERS] + "…"

"""`ragcli grep`: print exact matches of a phrase or a regular expression.

Scripts call this command in loops, so it loads no model, no index and no Rich: its output needs only lines and two
styles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import examples, new_app
from ragcli.cli.option_groups.filter_options import filter_from, note_unknown_keys
from ragcli.cli.option_groups.table_parameters import exclusive_option, table_command
from ragcli.cli.terminal import (
    DIM,
    MATCH,
    SOURCE,
    name_line,
    note,
    safe_line,
    without_surrogates,
    wrap,
    write,
    write_lines,
)
from ragcli.errors import EXIT_DONE, EXIT_NO_MATCH
from ragcli.options import OptionError, OptionValues
from ragcli.options.command_options import GREP, JSON
from ragcli.options.query_options import COLLECTIONS, FILTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.cli.terminal import Screen
    from ragcli.retrieval.exact_search import SourceCount
    from ragcli.types import GrepHit

app = new_app()


@table_command(
    app,
    COLLECTIONS,
    GREP,
    FILTERS,
    JSON,
    epilog=examples(
        'ragcli grep "negative average null energy"',
        "ragcli grep -E 'T_?[cC] ?= ?[0-9.]+ ?K' -c papers --all",
        'ragcli grep -l "quantum advantage" -c papers --where "year >= 2017"',
    ),
)
def grep(
    here: CommandContext,
    values: OptionValues,
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="The phrase, or with -E the regular expression.")],
) -> int:
    """Find an exact phrase or a regular expression.

    A phrase is found also where the page breaks it: across line ends, hyphens at line ends, ligatures, curly
    quotes and dashes. Exits 1 when nothing is found.
    """
    listing = exclusive_option(values, "files", "count")
    if values.max_hits is not None and listing:
        raise OptionError("{max_hits} limits hits, and {files} and {count} print none; leave it out.")

    from ragcli.retrieval.exact_search import GrepRequest
    from ragcli.retrieval.exact_search import count as run_count
    from ragcli.retrieval.exact_search import grep as run_grep

    request = GrepRequest(
        without_surrogates(pattern),
        regex=values.regex,
        ignore_case=values.ignore_case or None,
        word=values.word,
        max_hits=values.max_hits if values.max_hits is not None or values.every else 10,
        context=values.snippet_context,
        every=values.every,
        where=filter_from(values),
    )
    collections = here.collections(values.collections)
    note_unknown_keys(collections, values)
    if listing:
        counts = run_count(collections, request)
        _write_counts(counts, here.screen, as_json=values.json, numbers=values.count)
        return EXIT_DONE if counts else EXIT_NO_MATCH

    hits = run_grep(collections, request)
    if values.json:
        from ragcli.cli.render.json_output import write_json
        from ragcli.serialize import grep_record

        write_json([grep_record(hit) for hit in hits])
    else:
        _write_hits(hits, values.snippet_context, here.screen, several=len(collections) > 1)
    if hits and hits[-1].truncated:
        note(f"there are more than {len(hits)} hits; --max-hits N or --all shows more.")
    return EXIT_DONE if hits else EXIT_NO_MATCH


def _write_counts(counts: Sequence[SourceCount], screen: Screen, *, as_json: bool, numbers: bool) -> None:
    if as_json:
        from ragcli.cli.render.json_output import write_json

        write_json(
            [
                {"source": each.source, "collection": each.collection, "path": each.path}
                | ({"count": each.count} if numbers else {})
                for each in counts
            ]
        )
        return
    totals: dict[str, int] = {}
    for each in counts:
        name = each.path or each.source
        totals[name] = totals.get(name, 0) + each.count
    shown = {name: name_line(name, screen) for name in totals}
    write_lines(f"{shown[name]}:{total}" if numbers else shown[name] for name, total in totals.items())


def _write_hits(hits: Sequence[GrepHit], context: int, screen: Screen, *, several: bool) -> None:
    """Write each hit: a line saying where, then the passage with the match marked, wrapped on a screen only."""
    for number, hit in enumerate(hits):
        place = safe_line(hit.source) + (f", p. {hit.page}" if hit.page is not None else "")
        where = f" [{safe_line(hit.collection)}]" if several else ""
        head = screen.style(place, SOURCE) + screen.style(f"{where}  {safe_line(hit.chunk_id)}", DIM)
        write(("\n" if number else "") + head + "\n" + _snippet(hit, context, screen))


def _snippet(hit: GrepHit, context: int, screen: Screen) -> str:
    before, match, after = _three_parts(hit, context)
    text, start, end = before + match + after, len(before), len(before) + len(match)
    lines = wrap(text, max(screen.width - 2, 20)) if screen.interactive else [(0, len(text))]
    shown = []
    for low, high in lines:
        inside = (min(max(start, low), high), min(max(end, low), high))
        marked = screen.style(text[inside[0] : inside[1]], MATCH)
        shown.append("  " + text[low : inside[0]] + marked + text[inside[1] : high])
    return "\n".join(shown) + "\n"


def _three_parts(hit: GrepHit, context: int) -> tuple[str, str, str]:
    """What stands before the match, the match, and what stands after it, each on one line and safe."""
    at = _match_in_snippet(hit, context)
    before, match, after = hit.snippet[:at], hit.match, hit.snippet[at + len(hit.match) :]

    def fold(part: str) -> str:
        # A blank at the edge of a part separates it from its neighbour and must outlive the folding.
        left = " " if part[:1].isspace() else ""
        right = " " if part[-1:].isspace() and part.strip() else ""
        return left + safe_line(part) + right

    return fold(before).lstrip(), fold(match), fold(after).rstrip()


def _match_in_snippet(hit: GrepHit, context: int) -> int:
    """Where the match stands in the snippet, which has `context` characters on each side that is marked as cut."""
    length = len(hit.match)
    after_cut, before_cut = 3 + context, len(hit.snippet) - 3 - context - length
    guesses = (after_cut, before_cut, hit.start, hit.snippet.find(hit.match))
    return next((at for at in guesses if at >= 0 and hit.snippet.startswith(hit.match, at)), 0)

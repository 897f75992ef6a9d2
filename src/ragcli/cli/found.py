"""What a search by techniques found, as a person reads it and as scripts do.

The hits of a question that was taken apart stand under its parts, with their ranks in the whole. Scripts get the same
array of hits as ever, in the same order, each with the part that it is for and with what was left of its passage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from ragcli.cli.terminal import BOLD, safe_line

if TYPE_CHECKING:
    from ragcli.cli.terminal import Screen
    from ragcli.records import Hit
    from ragcli.retrieval.techniques import Query, TechniqueResult

_WHOLE: Final = 1 << 20
_SHOWN: Final = 160


def found_text(found: TechniqueResult, screen: Screen) -> str:
    """The hits, by the part of the question that they are for where there are parts."""
    from ragcli.cli.hits import footing, from_several, hits_rows

    hits = found.result.hits
    if not hits:
        return "No passage was found.\n"
    several = from_several(hits)
    # What is left of a passage was chosen to be read.
    limit = _WHOLE if found.kept else None
    if not found.groups:
        return hits_rows(hits, found.plan.question, screen, several=several, limit=limit) + footing(found.result)
    blocks = []
    for group in found.groups:
        rows = hits_rows(group.hits, group.question, screen, several=several, limit=limit) if group.hits else ""
        none = "" if group.hits else "Nothing among the best hits is for this one alone.\n"
        blocks.append(screen.style(safe_line(group.question), BOLD) + f"\n{rows}{none}")
    return "\n".join(blocks) + footing(found.result)


def found_records(found: TechniqueResult) -> Iterator[dict[str, Any]]:
    """Each hit under the contract's keys; with `sub_question` if there are parts, and `kept` if passages were cut."""
    from ragcli.cli.output import hit_record

    kept = {hit.rank: stretches for hit, stretches in zip(found.result.hits, found.kept, strict=False)}
    parts: list[tuple[str | None, Sequence[Hit]]] = [(group.question, group.hits) for group in found.groups]
    for question, hits in parts or [(None, found.result.hits)]:
        for hit in hits:
            record: dict[str, Any] = hit_record(hit)
            if question is not None:
                record["sub_question"] = question
            if found.kept:
                record["kept"] = [
                    {"start": each.start, "end": each.end, "page": each.page} for each in kept.get(hit.rank, ())
                ]
            yield record


def asked_note(found: TechniqueResult) -> str | None:
    """The question as it was really asked, if a language model put it in other words."""
    question = found.plan.question
    return f"asked: {question}" if question != found.plan.request.text else None


def asked_table(found: TechniqueResult, screen: Screen) -> str:
    """Every query that was asked, and what was added to it."""
    from ragcli.cli.tables import Column, table

    columns = (Column("weight", number=True), Column("query"), Column("added"))
    rows = [(f"{each.weight:.2f}", _short(each.request.text), _added(each)) for each in found.plan.queries]
    return table(screen, columns, rows, title="Asked")


def _added(query: Query) -> str:
    words = ", ".join(f"{word} {weight:.2f}" for word, weight in query.request.expansion)
    return " / ".join([*([words] if words else []), *map(_short, query.request.hypothetical)])


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _SHOWN else words[:_SHOWN] + "…"

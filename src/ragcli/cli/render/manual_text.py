"""Markdown of the manual as text for a terminal.

It knows the forms that the manual uses, and no more: headings, paragraphs, lists, fenced blocks and tables. Paragraphs
and table cells are wrapped to the screen; fenced blocks keep their lines. No Markdown library is loaded, so that
`ragcli help` answers at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ragcli.cli.terminal import BOLD, DIM, Screen, safe, wrap

_WIDEST: Final = 100
_INDENT: Final = "    "
_LIST_ITEM: Final = re.compile(r"(- |\d+\. )")
_LINK: Final = re.compile(r"\[([^\]]+)\]\(([^)]+)\)")
_CELL_BORDER: Final = re.compile(r"(?<!\\)\|")
_TABLE_RULE: Final = re.compile(r"\|[-:| ]+\|")


def manual_text(markdown: str, screen: Screen) -> str:
    """The page as text that is safe on a terminal, wrapped to the screen, headings in bold where colour is wanted."""
    lines = safe(markdown).splitlines()
    width = min(screen.width, _WIDEST)
    out: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        end = at + 1
        if line.startswith("```"):
            while end < len(lines) and not lines[end].startswith("```"):
                end += 1
            out += [f"{_INDENT}{each}".rstrip() for each in lines[at + 1 : end]]
            end += 1
        elif line.startswith("#"):
            out.append(screen.style(_inline(line.lstrip("# "), quotes=False), BOLD))
        elif line.startswith("|"):
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            out += _table(lines[at:end], width, screen)
        elif line:
            while end < len(lines) and lines[end] and not _starts_block(lines[end]):
                end += 1
            out += _paragraph(" ".join(each.strip() for each in lines[at:end]), width)
        else:
            out.append("")
        at = end
    return "\n".join(out).strip("\n") + "\n"


def _starts_block(line: str) -> bool:
    return line.startswith(("#", "|", "```")) or _LIST_ITEM.match(line) is not None


def _paragraph(text: str, width: int) -> Iterator[str]:
    marker = _LIST_ITEM.match(text)
    first = marker.group() if marker else ""
    body = _inline(text[len(first) :])
    for number, (start, end) in enumerate(wrap(body, max(width - len(first), 20))):
        yield (first if number == 0 else " " * len(first)) + body[start:end]


def _table(lines: Sequence[str], width: int, screen: Screen) -> Iterator[str]:
    rows = [_cells(line) for line in lines if not _TABLE_RULE.fullmatch(line)]
    columns = max(len(row) for row in rows)
    rows = [[*row, *[""] * (columns - len(row))] for row in rows]
    widths = _column_widths(rows, width - 2 * (columns - 1))
    for number, row in enumerate(rows):
        if number == 0 and not any(row):
            continue
        wrapped = [[cell[start:end] for start, end in wrap(cell, of)] for cell, of in zip(row, widths, strict=True)]
        for height in range(max(len(cell) for cell in wrapped)):
            parts = [cell[height] if height < len(cell) else "" for cell in wrapped]
            text = "  ".join(part + " " * (of - len(part)) for part, of in zip(parts, widths, strict=True))
            yield screen.style(text.rstrip(), BOLD) if number == 0 else text.rstrip()
        if number == 0:
            yield screen.style("─" * (sum(widths) + 2 * (columns - 1)), DIM)


def _cells(line: str) -> list[str]:
    return [_inline(cell.strip().replace("\\|", "|"), quotes=False) for cell in _CELL_BORDER.split(line.strip())[1:-1]]


def _column_widths(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """The widest cell of each column; where the sum exceeds the room, the widest columns share what is left."""
    widest = [max(len(row[number]) for row in rows) or 1 for number in range(len(rows[0]))]
    limit = max(widest)
    while sum(min(each, limit) for each in widest) > room and limit > 8:
        limit -= 1
    return [min(each, limit) for each in widest]


def _inline(text: str, *, quotes: bool = True) -> str:
    """The text without marks of links, emphasis and code; `quotes` keeps those of code that is no single word."""
    pieces = text.split("`")
    for number, piece in enumerate(pieces):
        if number % 2 == 0:
            pieces[number] = _LINK.sub(r"\1 (\2)", piece).replace("**", "").replace("*", "")
        elif quotes and (" " in piece or not any(character.isalnum() for character in piece)):
            pieces[number] = f"`{piece}`"
    return "".join(pieces)

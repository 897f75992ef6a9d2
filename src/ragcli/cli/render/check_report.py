"""Render checked sentences: verdict, missing facts and best passage of each, and a summary."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from ragcli.cli.render.hit_table import WIDE_SCREEN, location_text
from ragcli.cli.render.rich_table import Column, counted, table
from ragcli.cli.terminal import BOLD, DIM, safe_line, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.cli.terminal import Screen
    from ragcli.grounding.check.claim_check import CheckedSentence, CheckVerdict


_STYLES: Final[dict[CheckVerdict, str]] = {"supported": "1;32", "elsewhere": "1;33", "unsupported": "1;31"}
_EXCERPT: Final = 240
_INDENT: Final = 7


def check_text(shown: Sequence[CheckedSentence], found: Sequence[CheckedSentence], screen: Screen) -> str:
    """The sentences, each with its verdict, what is missing, and the best passage; then how many of which."""
    if not found:
        return "There is no sentence here that claims anything.\n"
    if screen.width >= WIDE_SCREEN and shown:
        return _wide_table(shown, screen) + "\n" + _check_footer(found)
    blocks = [_sentence_block(each, screen) for each in shown]
    return "".join(block + "\n" for block in blocks) + _check_footer(found)


def _sentence_block(checked: CheckedSentence, screen: Screen) -> str:
    head = f"{checked.sentence.line:>5}  "
    verdict = screen.style(checked.verdict, _STYLES[checked.verdict]) + f" {checked.support.score:.2f}"
    lines = [head + verdict, *_wrapped_lines(checked.sentence.text, screen, BOLD)]
    *said, place, quote = _evidence_lines(checked)
    for text in said:
        lines += _wrapped_lines(text, screen)
    if place:
        lines += [*_wrapped_lines(place, screen, DIM), *_wrapped_lines(quote, screen)]
    return "".join(line + "\n" for line in lines)


def _wide_table(shown: Sequence[CheckedSentence], screen: Screen) -> str:
    columns = (
        Column("Line", number=True),
        Column("Sentence"),
        Column("Verdict", whole=True),
        Column("Score", number=True),
        Column("Best passage"),
    )
    rows = []
    for each in shown:
        *said, place, quote = _evidence_lines(each)
        rows.append(
            (
                str(each.sentence.line),
                each.sentence.text + "".join(f" ({text})" for text in said),
                each.verdict,
                f"{each.support.score:.2f}",
                f"{place}: {quote}" if place else "none",
            )
        )
    return table(screen, columns, rows)


def _evidence_lines(checked: CheckedSentence) -> list[str]:
    """What is missing, what cannot be resolved, and at the end the best passage's place and words."""
    lines = []
    if checked.support.missing:
        lines.append(f"not found: {', '.join(checked.support.missing)}")
    if checked.unknown:
        lines.append(f"cites no document here: {', '.join(checked.unknown)}")
    if checked.chunk is None:
        return [*lines, "", ""]
    place = location_text(checked.chunk.source, checked.page, checked.page)
    lead = {"elsewhere": "not in what it cites, but in ", "supported": "", "unsupported": "nearest: "}
    quote = safe_line(checked.chunk.text[checked.support.start : checked.support.end])
    return [
        *lines,
        f"{lead[checked.verdict]}{place}  {checked.chunk.chunk_id}",
        quote if len(quote) <= _EXCERPT else quote[:_EXCERPT].rstrip() + " …",
    ]


def _wrapped_lines(text: str, screen: Screen, style: str = "") -> list[str]:
    shown = safe_line(text)
    parts = [shown[start:end] for start, end in wrap(shown, max(screen.width - _INDENT - 1, 20))]
    return [" " * _INDENT + (screen.style(part, style) if style else part) for part in parts]


def _check_footer(found: Sequence[CheckedSentence]) -> str:
    counts = Counter(each.verdict for each in found)
    said = [f"{counts['supported']} supported"]
    if counts["elsewhere"]:
        said.append(f"{counts['elsewhere']} by something else than cited")
    said.append(f"{counts['unsupported']} not supported")
    judges = " and ".join(f"'{name}'" for name in dict.fromkeys(each.judge for each in found))
    return f"{counted(len(found), 'sentence')} checked by {judges}: {', '.join(said)}.\n"

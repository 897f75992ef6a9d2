"""What `ragcli check` found, for a person and for a script."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from ragcli.cli.hits import WIDE, place_of
from ragcli.cli.tables import Column, counted, table
from ragcli.cli.terminal import BOLD, DIM, safe_line, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.cli.terminal import Screen
    from ragcli.gate.checking import CheckedSentence, CheckVerdict
    from ragcli.gate.drafts import Draft

_STYLES: Final[dict[CheckVerdict, str]] = {"supported": "1;32", "elsewhere": "1;33", "unsupported": "1;31"}
_EXCERPT: Final = 240
_INDENT: Final = 7


def check_text(shown: Sequence[CheckedSentence], found: Sequence[CheckedSentence], screen: Screen) -> str:
    """The sentences, each with its verdict, what is missing, and the best passage; then how many of which."""
    if not found:
        return "There is no sentence here that claims anything.\n"
    if screen.width >= WIDE and shown:
        return _table(shown, screen) + "\n" + _footing(found)
    blocks = [_block(each, screen) for each in shown]
    return "".join(block + "\n" for block in blocks) + _footing(found)


def check_record(
    shown: Sequence[CheckedSentence], found: Sequence[CheckedSentence], draft: Draft, judge: str
) -> dict[str, object]:
    """The same as JSON."""
    counts = Counter(each.verdict for each in found)
    return {
        "judge": judge,
        "checked": len(found),
        "supported": counts["supported"],
        "elsewhere": counts["elsewhere"],
        "unsupported": counts["unsupported"],
        "references": dict(draft.references),
        "sentences": [_record(each) for each in shown],
    }


def _record(checked: CheckedSentence) -> dict[str, object]:
    support, chunk = checked.support, checked.chunk
    passage: dict[str, object] | None = None
    if chunk is not None:
        passage = {
            "collection": chunk.collection,
            "source": chunk.source,
            "document_id": chunk.document_id,
            "chunk_id": chunk.chunk_id,
            "page": checked.page,
            "heading": chunk.heading,
            "text": chunk.text[support.start : support.end],
            "start": support.start,
            "end": support.end,
            "path": chunk.path,
        }
    return {
        "line": checked.sentence.line,
        "sentence": checked.sentence.text,
        "claim": checked.sentence.claim,
        "verdict": checked.verdict,
        "judge": checked.judge,
        "score": support.score,
        "missing": list(support.missing),
        "citations": [each.written for each in checked.sentence.citations],
        "unknown_citations": list(checked.unknown),
        "searched": checked.searched,
        "passage": passage,
    }


def _block(checked: CheckedSentence, screen: Screen) -> str:
    head = f"{checked.sentence.line:>5}  "
    verdict = screen.style(checked.verdict, _STYLES[checked.verdict]) + f" {checked.support.score:.2f}"
    lines = [head + verdict, *_wrapped(checked.sentence.text, screen, BOLD)]
    *said, place, quote = _found_text(checked)
    for text in said:
        lines += _wrapped(text, screen)
    if place:
        lines += [*_wrapped(place, screen, DIM), *_wrapped(quote, screen)]
    return "".join(line + "\n" for line in lines)


def _table(shown: Sequence[CheckedSentence], screen: Screen) -> str:
    columns = (
        Column("Line", number=True),
        Column("Sentence"),
        Column("Verdict", whole=True),
        Column("Score", number=True),
        Column("Best passage"),
    )
    rows = []
    for each in shown:
        *said, place, quote = _found_text(each)
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


def _found_text(checked: CheckedSentence) -> list[str]:
    """What is missing, what cannot be resolved, and at the end the best passage's place and words."""
    lines = []
    if checked.support.missing:
        lines.append(f"not found: {', '.join(checked.support.missing)}")
    if checked.unknown:
        lines.append(f"cites no document here: {', '.join(checked.unknown)}")
    if checked.chunk is None:
        return [*lines, "", ""]
    place = place_of(checked.chunk.source, checked.page, checked.page)
    lead = {"elsewhere": "not in what it cites, but in ", "supported": "", "unsupported": "nearest: "}
    quote = safe_line(checked.chunk.text[checked.support.start : checked.support.end])
    return [
        *lines,
        f"{lead[checked.verdict]}{place}  {checked.chunk.chunk_id}",
        quote if len(quote) <= _EXCERPT else quote[:_EXCERPT].rstrip() + " …",
    ]


def _wrapped(text: str, screen: Screen, style: str = "") -> list[str]:
    shown = safe_line(text)
    parts = [shown[start:end] for start, end in wrap(shown, max(screen.width - _INDENT - 1, 20))]
    return [" " * _INDENT + (screen.style(part, style) if style else part) for part in parts]


def _footing(found: Sequence[CheckedSentence]) -> str:
    counts = Counter(each.verdict for each in found)
    said = [f"{counts['supported']} supported"]
    if counts["elsewhere"]:
        said.append(f"{counts['elsewhere']} by something else than cited")
    said.append(f"{counts['unsupported']} not supported")
    judges = " and ".join(f"'{name}'" for name in dict.fromkeys(each.judge for each in found))
    return f"{counted(len(found), 'sentence')} checked by {judges}: {', '.join(said)}.\n"

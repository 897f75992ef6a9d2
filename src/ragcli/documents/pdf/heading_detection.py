"""Detect the headings of a PDF, from its outline where there is one, else from typography."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from ragcli.documents.pdf.page_model import OutlineEntry
from ragcli.documents.pdf.reflow import ReflowedText, TextLine
from ragcli.text.numerals import roman_value
from ragcli.types import Heading

_NUMBERED = re.compile(r"^((?:\d{1,2}|[A-Z])(?:\.\d{1,2}){0,3})[.:)]?\s+(\S.*)$")
_ROMAN_NUMBERED = re.compile(r"^([IVX]{1,5})\.\s+(\S.*)$")
_COMMON = re.compile(
    r"^(?:abstract|summary|(?:table of )?contents|introduction|background|related work|preliminaries|methods?"
    r"|materials and methods|results?|evaluation|experiments?|discussion|results and discussion|conclusions?"
    r"|concluding remarks|future work|acknowledge?ments?|references|bibliography|appendix(?: [a-z])?)[.:]?$",
    re.IGNORECASE,
)
_PAGE_AFTER = re.compile(r"[^\d.]\s?[.\s]*\s\d{1,3}$")
_LARGER = 1.12
_LONGEST = 110


def find_headings(flow: ReflowedText, outline: Sequence[OutlineEntry], body: float) -> tuple[Heading, ...]:
    """The document's headings in the order of the text. `body` is the size of most of its letters."""
    found = _from_outline(flow, outline)
    if len(found) < 2 or 2 * len(found) < len(outline):
        printed = _from_typography(flow, body)
        found = max(found, printed, key=len)
    return tuple(found)


def _alphanumerics(text: str) -> tuple[str, list[int]]:
    """Letters and digits only, in lower case, and where each stood."""
    kept = list(map(str.isalnum, text))
    places = list(compress(range(len(text)), kept))
    small = list(map(str.lower, compress(text, kept)))
    squeezed = "".join(small)
    if len(squeezed) != len(places):  # a capital with more than one small letter
        places = [place for place, letters in zip(places, small, strict=True) for _ in letters]
    return squeezed, places


def _from_outline(flow: ReflowedText, outline: Sequence[OutlineEntry]) -> list[Heading]:
    headings: list[Heading] = []
    pages: dict[int, tuple[str, list[int]]] = {}
    begins: set[int] = {line.start for line in flow.lines if line.begins}
    last = -1
    for entry in outline:
        words, _ = _alphanumerics(entry.title)
        if entry.page is None or not 0 <= entry.page < len(flow.pages) or len(words) < 2:
            continue
        span = flow.pages[entry.page]
        if entry.page not in pages:
            text, places = _alphanumerics(flow.text[span.start : span.end])
            pages[entry.page] = text, [span.start + place for place in places]
        start = _place(words, *pages[entry.page], begins, last)
        if start is None:
            continue
        last = start
        headings.append(Heading(entry.level, " ".join(entry.title.split()), start))
    return sorted(headings, key=lambda heading: heading.start)


def _place(words: str, text: str, places: list[int], begins: set[int], after: int) -> int | None:
    """Where the words stand on their page: at a paragraph's start if they do, and behind the heading before."""
    loose: int | None = None
    at = text.find(words)
    while at >= 0:
        start = places[at]
        numbered = at
        while numbered > 0 and at - numbered < 8 and places[numbered] not in begins:
            numbered -= 1
        if places[numbered] in begins and (numbered == at or text[numbered:at].isdigit()) and places[numbered] > after:
            return places[numbered]
        if start > after and loose is None:
            loose = start
        at = text.find(words, at + 1)
    return loose if len(words) > 11 else None


@dataclass(frozen=True, slots=True)
class _Candidate:
    text: str
    start: int
    size: float
    bold: bool


def _from_typography(flow: ReflowedText, body: float) -> list[Heading]:
    candidates = list(_standalone_paragraphs(flow, body))
    return _numbered_headings(candidates) or _common_headings(candidates)


def _standalone_paragraphs(flow: ReflowedText, body: float) -> list[_Candidate]:
    """Paragraphs of one or two lines that are larger or bolder than the body."""
    out: list[_Candidate] = []
    lines = flow.lines
    number = 0
    while number < len(lines):
        end = number + 1
        while end < len(lines) and not lines[end].begins:
            end += 1
        group = lines[number:end]
        text = " ".join(flow.text[group[0].start : group[-1].end].split())
        if len(group) <= 2 and (_stands_out(group, body) or _is_numbered_capitals(text)):
            while end < len(lines) and len(group) < 3 and _continues(group[-1], lines[end]):
                group = lines[number : end + 1]
                end += 1
                text = " ".join(flow.text[group[0].start : group[-1].end].split())
            if len(text) <= _LONGEST and not text.endswith((",", ";")) and not _in_contents(text, lines, number, end):
                out.append(_Candidate(text, group[0].start, max(p.line.size for p in group), group[0].line.bold))
        number = end
    return out


def _stands_out(group: Sequence[TextLine], body: float) -> bool:
    return all(
        placed.line.size >= _LARGER * body or (placed.line.bold and placed.line.size > 0.85 * body) for placed in group
    )


def _is_numbered_capitals(text: str) -> bool:
    """True for a numbered heading in capitals, which some journals set in the body's own size."""
    return text.isupper() and _number(text.title() if text[:1].isdigit() else text) is not None


def _continues(placed: TextLine, following: TextLine) -> bool:
    """True if a heading's next line stands right under it and is printed just like it."""
    line, after = placed.line, following.line
    return (
        placed.page == following.page
        and abs(line.size - after.size) < 0.3
        and line.bold == after.bold
        and line.size > 0
        and 0 < line.baseline - after.baseline < 1.45 * line.size
        and _number("1 " + following.line.text) is not None
        and _number(following.line.text) is None
    )


def _in_contents(text: str, lines: Sequence[TextLine], number: int, end: int) -> bool:
    """True for a line of a table of contents or a running head: a heading and its page's number."""
    if not _PAGE_AFTER.search(text):
        return False
    around = [placed.line.text for placed in (*lines[max(0, number - 3) : number], *lines[end : end + 3])]
    top = number == 0 or lines[number - 1].page != lines[number].page
    return top or sum(bool(_PAGE_AFTER.search(other)) for other in around) >= 1


def _numbered_headings(candidates: Sequence[_Candidate]) -> list[Heading]:
    """The candidates whose numbers count on: 1, 1.1, 1.2, 2, … ; or I, II, …; with the common unnumbered ones."""
    headings: list[Heading] = []
    last: tuple[int, ...] = ()
    numbered = 0
    for candidate in candidates:
        number = _number(candidate.text)
        if number is not None and _follows(last, number):
            last = number
            numbered += 1
            headings.append(Heading(len(number), candidate.text, candidate.start))
        elif _COMMON.match(candidate.text):
            headings.append(Heading(1, candidate.text, candidate.start))
    return headings if numbered >= 2 else []


def _number(text: str) -> tuple[int, ...] | None:
    found = _NUMBERED.match(text)
    if found and found.group(1)[0].isdigit() and found.group(2)[0].isalpha():
        return tuple(int(part) for part in found.group(1).split("."))
    found = _ROMAN_NUMBERED.match(text)
    return (roman_value(found.group(1)),) if found else None


def _follows(last: tuple[int, ...], number: tuple[int, ...]) -> bool:
    """True if `number` may come after `last` in a count; a section or two may have been missed."""
    if not last:
        return number[0] in (0, 1, 2) and len(number) <= 2
    if number <= last:
        return False
    common = 0
    while common < min(len(last), len(number)) and last[common] == number[common]:
        common += 1
    if common == len(last):  # deeper: 2 → 2.1
        return number[common] <= 2
    return number[common] - last[common] <= 2 and all(part <= 2 for part in number[common + 1 :])


def _common_headings(candidates: Sequence[_Candidate]) -> list[Heading]:
    """The common headings, and what is printed like them; nothing if fewer than two are there."""
    common = [candidate for candidate in candidates if _COMMON.match(candidate.text)]
    if len(common) < 2:
        return []
    styles = {(round(candidate.size), candidate.bold) for candidate in common}
    first = common[0].start
    return [
        Heading(1, candidate.text, candidate.start)
        for candidate in candidates
        if candidate in common
        or (
            candidate.start > first
            and (round(candidate.size), candidate.bold) in styles
            and candidate.text[:1].isupper()
            and not candidate.text.endswith(".")
        )
    ]

"""Reflow lines into running text: dehyphenation, paragraphs, and the page of every character."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ragcli.documents.character_repair import repair_line, tex_ligature_codes
from ragcli.documents.pdf.page_model import Line, PageLines
from ragcli.documents.pdf.paragraph_breaks import PARAGRAPH, SPACE, LineSpacing, PageLine, reorder_interrupted
from ragcli.text.characters import SOFT_HYPHEN
from ragcli.types import PageSpan

_HARD_HYPHEN = re.compile(r"\w-$")


class TextLine(NamedTuple):
    """A line and where it stands in the text. `begins` says that a paragraph starts with it."""

    line: Line
    page: int
    start: int
    end: int
    begins: bool


@dataclass(frozen=True, slots=True)
class ReflowedText:
    """The running text, its pages and joins, and where each line went."""

    text: str
    pages: tuple[PageSpan, ...]
    joins: tuple[int, ...]
    lines: tuple[TextLine, ...]


def reflow(pages: Sequence[PageLines], body: float) -> ReflowedText:
    """The pages' lines as one text. `body` is the size of most letters."""
    rows = _repaired_lines(pages)
    spacing = LineSpacing(rows, [page.placed for page in pages])
    separators = spacing.separators()
    order = reorder_interrupted(rows, separators, body)
    if order is not None:
        rows, separators = spacing.reordered(order, separators)
    breaks = [row.line.broken for row in rows]
    known = count_words(zip((row.line.text for row in rows), [False, *breaks], breaks, strict=False))
    out: list[str] = []
    placed: list[TextLine] = []
    joins: list[int] = []
    starts: dict[int, int] = {}
    length = 0
    for number, ((line, page), separator, broken) in enumerate(zip(rows, separators, breaks, strict=True)):
        words, after = line.text, separators[number + 1] if number + 1 < len(rows) else ""
        joined = kept = False
        if broken:
            words = words.rstrip(SOFT_HYPHEN)
            following = rows[number + 1].line.text if after else ""
            joined = after == SPACE and following[:1].isalnum()
            kept = not joined or keeps_hyphen(words, following, known)
        if SOFT_HYPHEN in words:
            words, inner = _without_soft(words, length)
            joins += inner
        start = length
        if page not in starts:
            starts[page] = start
        if kept:
            words += "-"
        length += len(words)
        placed.append(TextLine(line, page, start, length, separator == PARAGRAPH or number == 0))
        out.append(words)
        if joined:
            joins.append(length - 1 if kept else length)
        elif after:
            out.append(after)
            length += len(after)
    return ReflowedText("".join(out), _spans(pages, starts, length), tuple(joins), tuple(placed))


def _repaired_lines(pages: Sequence[PageLines]) -> list[PageLine]:
    tex = tex_ligature_codes(line.text for page in pages for line in page.lines)
    rows: list[PageLine] = []
    for index, page in enumerate(pages):
        for line in page.lines:
            text = repair_line(line.text, tex)
            if text.endswith("-") and _HARD_HYPHEN.search(text[-2:]):
                text = text[:-1] + SOFT_HYPHEN
            if text and text != SOFT_HYPHEN:
                rows.append(PageLine(_with_text(line, text), index))
    return rows


def _with_text(line: Line, text: str) -> Line:
    if text == line.text:
        return line
    return Line(text, line.x0, line.x1, line.baseline, line.size, line.bold)


def _without_soft(words: str, offset: int) -> tuple[str, list[int]]:
    """Soft hyphens inside a line go; each leaves a join."""
    joins: list[int] = []
    parts = words.split(SOFT_HYPHEN)
    for part in parts[:-1]:
        offset += len(part)
        if not joins or joins[-1] != offset:
            joins.append(offset)
    return "".join(parts), joins


def _spans(pages: Sequence[PageLines], starts: dict[int, int], length: int) -> tuple[PageSpan, ...]:
    spans: list[PageSpan] = []
    end = length
    for index in range(len(pages) - 1, -1, -1):
        start = starts.get(index, end)
        spans.append(PageSpan(index + 1, pages[index].label, start, end))
        end = start
    spans.reverse()
    if spans and spans[0].start != 0:
        spans[0] = PageSpan(1, spans[0].label, 0, spans[0].end)
    return tuple(spans)


_HYPHENATED_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?(?:-[^\W\d_]+)*")
# fmt: off
_WORD_SUFFIXES = frozenset((
    "able", "ably", "al", "ally", "ance", "ances", "ation", "ations", "cation", "ed", "ence", "ences", "er", "ered",
    "ers", "ful", "fully", "ible", "ibly", "ic", "ical", "ically", "ing", "ings", "ion", "ions", "ism", "isms",
    "ist", "ists", "ities", "ity", "ive", "ively", "ization", "less", "ly", "ment", "ments", "ness", "ous",
    "ously", "ship", "sion", "sions", "tion", "tional", "tions", "tive", "ture", "tures", "ty", "ular", "uous",
))
_HYPHENATED_PREFIXES = frozenset((
    "cross", "ex", "fast", "full", "half", "high", "large", "long", "low", "quasi", "real", "self", "semi", "short",
    "small", "so", "time", "well",
))
# fmt: on
_COMPOUND_LINKS = frozenset(("a", "and", "as", "at", "by", "for", "in", "of", "on", "or", "the", "to", "up"))
_PUNCTUATION = ".,;:()"
_LAST_WORD = re.compile(r"(?:\w+-)*\w+$")
_FIRST_WORD = re.compile(r"\w+(?:-\w+)*")


@dataclass(frozen=True, slots=True)
class WordCounts:
    """How often the document has each word, and each part of a hyphened word by its side of the hyphen."""

    words: Counter[str]
    heads: Counter[str]
    tails: Counter[str]


def count_words(lines: Iterable[tuple[str, bool, bool]]) -> WordCounts:
    """Counts the words of lines given as (text, first word is a rest, last word is broken), leaving broken ones out."""
    texts: list[str] = []
    parts: list[str] = []
    for text, rest, broken in lines:
        texts.append(text)
        if rest or broken:
            found = _HYPHENATED_WORD.findall(text.lower())
            if broken and found:
                parts.append(found.pop())
            if rest and found:
                parts.append(found[0])
    counts: dict[str, int] = {}
    for token, count in Counter("\n".join(texts).lower().split()).items():
        bare = token.strip(_PUNCTUATION)
        if bare.isalpha():
            counts[bare] = counts.get(bare, 0) + count
        else:
            for word in _HYPHENATED_WORD.findall(token):
                counts[word] = counts.get(word, 0) + count
    words = Counter(counts)
    words.subtract(parts)
    heads: Counter[str] = Counter()
    tails: Counter[str] = Counter()
    for word, count in words.items():
        if "-" in word:
            first, *_, last = word.split("-")
            heads[first] += count
            tails[last] += count
    return WordCounts(words, heads, tails)


def keeps_hyphen(before: str, after: str, known: WordCounts) -> bool:
    """True if a word that ends `before` with a hyphen and goes on in `after` is written with that hyphen."""
    left = _LAST_WORD.search(before, before.rfind(" ") + 1)
    right = _FIRST_WORD.match(after)
    if left is None or right is None:
        return True
    head, tail = left.group().lower(), right.group().lower()
    if not tail[0].isalpha() or not head[-1].isalpha():
        return True
    near_head, near_tail = head.rsplit("-", 1)[-1], tail.split("-", 1)[0]
    joined = known.words[head + tail] + known.words[near_head + near_tail] * (head != near_head or tail != near_tail)
    hyphened = known.words[f"{head}-{tail}"]
    if head == near_head and tail == near_tail:
        joined += known.words[f"{head}{tail}s"] + (known.words[f"{head}{tail[:-1]}"] if tail.endswith("s") else 0)
        hyphened += known.words[f"{head}-{tail}s"] + (known.words[f"{head}-{tail[:-1]}"] if tail.endswith("s") else 0)
    if joined != hyphened:
        return hyphened > joined
    if near_tail in _COMPOUND_LINKS and near_tail != tail:  # "proof-/of-concept", "peer-/to-peer"
        return True
    if near_tail in _WORD_SUFFIXES:
        return False
    if right.group()[0].isupper() and not left.group().isupper():
        return True
    if len(near_head) == 1 or "-" in head:
        return True
    both = known.words[near_head] and known.words[near_tail] and len(near_head) > 2 and len(near_tail) > 3
    if near_head in _HYPHENATED_PREFIXES and len(near_tail) > 4:
        return True
    compound = known.heads[near_head] + known.tails[near_tail] > 1
    return bool(both or (compound and known.words[near_tail]))

"""Folded text for exact search, with an offset map; and its squeezed form, a prefilter."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ragcli.text.characters import SOFT_HYPHEN
from ragcli.text.unicode import normalised

JOIN: Final = "\ufdd0"
"""Stands in a folded text where a word was broken at a line end. A noncharacter: no real text has it."""

_HYPHENS: Final = "-\u2010\u2011"
_INVISIBLE: Final = f"{SOFT_HYPHEN}\u180e\u200b\u200c\u200d\u2060\ufeff"
_INVISIBLE_ONES: Final = frozenset(_INVISIBLE)
_ALIKE: Final = str.maketrans(
    dict.fromkeys("`´‘’‚‛′ʼ＇", "'")
    | dict.fromkeys("“”„‟″«»＂", '"')
    | dict.fromkeys("‐‑‒–—―−⁃﹘﹣－", "-")
    | {JOIN: "\ufffd"}
)
_ALIKE_AND_VISIBLE: Final = _ALIKE | dict.fromkeys(map(ord, _INVISIBLE))

_FOREIGN: Final = re.compile(r"[^\x00-\x7f]+")
# Wherever a text may not run one to one: anything but single spaces and printable ASCII. Led by one character class,
# because that is what `re` skips through quickly.
_REGION: Final = re.compile(r"[^!-~](?:[^!-~]+|(?<! ))")
# What may end a word: `\w` has no accents that stand for themselves, nor the vowel signs of Indian scripts and Thai.
_MARKS: Final = (
    r"\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0903\u093a-\u094f\u0e31\u0e34-\u0e3a"
    r"\u0e47-\u0e4e\u1dc0-\u1dff\u20d0-\u20f0"
)
_BROKEN: Final = rf"(?<=[\w{_MARKS}])[{_HYPHENS}{SOFT_HYPHEN}][^\S\n]*\n\s*(?=\w)"
_SPECIAL: Final = re.compile(
    rf"(?P<broken>{_BROKEN})"
    r"|(?P<space>\s{2,}|[^\S ])"
    rf"|(?P<foreign>[!-~]?(?:(?!{_BROKEN})[^\x00-\x7f\s])+)"
)
_REST_OF_BREAK: Final = re.compile(r"[^\S\n]*\n\s*(?=\w)")
_CACHED_RUN: Final = 16
_SQUEEZE_BYTES: Final = bytes(range(256)).lower().replace(b"`", b"'")
_SQUEEZED_AWAY: Final = bytes(range(0x09, 0x0E)) + bytes(range(0x1C, 0x21)) + b"-"


def squeeze(text: str) -> str:
    """The form that rules texts out: case-folded, and without white space, hyphens and invisible characters.

    If a literal pattern matches `text` (see `ragcli.index.pattern_matching`), then `squeeze(pattern) in squeeze(text)`.
    Meant to be stored beside a text; some 100 MB/s on ASCII, a third of that on ordinary papers.
    """
    if not text.isascii():
        text = "".join(_squeezed_pieces(text))
    # All that is left to do concerns ASCII, and bytes do it several times faster than strings.
    squeezed = text.encode("utf-8", "surrogatepass").translate(_SQUEEZE_BYTES, _SQUEEZED_AWAY)
    return squeezed.decode("utf-8", "surrogatepass")


def _squeezed_pieces(text: str) -> Iterator[str]:
    position = 0
    for run in _FOREIGN.finditer(text):
        start, end = run.span()
        if start > position and _belongs_to_previous(text[start]):
            start -= 1
        yield text[position:start]
        for left, right, plain in _stretches(text, start, end):
            part = text[left:right]
            yield part if plain else "".join(_fold_run(part, keep_case=False).split())
        position = end
    yield text[position:]


@dataclass(frozen=True, slots=True)
class FoldedText:
    """A folded text and the way back.

    `at` are ascending offsets into `text` where a stretch begins; `starts` are the original offsets of those
    places; `ends` are -1 for a stretch that runs one to one, else the original end of the whole stretch.
    """

    text: str
    at: Sequence[int]
    starts: Sequence[int]
    ends: Sequence[int]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The original (start, end) of `text[start:end]`, which must not be empty; whole characters only."""
        first = bisect_right(self.at, start) - 1
        last = bisect_right(self.at, end - 1) - 1
        begin = self.starts[first] if self.ends[first] >= 0 else self.starts[first] + start - self.at[first]
        finish = self.ends[last] if self.ends[last] >= 0 else self.starts[last] + end - self.at[last]
        return begin, finish


class _Builder:
    """Collects folded pieces and the places where they stop running one to one."""

    def __init__(self, text: str, *, keep_case: bool) -> None:
        self.text = text
        self.keep_case = keep_case
        self.pieces: list[str] = []
        self.size = 0
        self.at = [0]
        self.starts = [0]
        self.ends = [-1]

    def plain(self, start: int, end: int) -> None:
        """Take over text[start:end], which is ASCII or has no case, so that it runs one to one."""
        if start < end:
            stretch = self.text[start:end]
            self.same(stretch if self.keep_case else stretch.lower())

    def same(self, folded: str) -> None:
        """Add characters that run one to one with the text."""
        self.pieces.append(folded)
        self.size += len(folded)

    def changed(self, folded: str, start: int, end: int) -> None:
        """Add characters that together stand for text[start:end], and go on one to one after it."""
        if folded:
            self._mark(start, end)
            self.same(folded)
        self._mark(end, -1)

    def join(self, start: int, end: int) -> None:
        """Add a join, once where several meet."""
        self.changed("" if self.pieces and self.pieces[-1] == JOIN else JOIN, start, end)

    def _mark(self, start: int, end: int) -> None:
        if self.at[-1] == self.size:
            self.starts[-1], self.ends[-1] = start, end
        else:
            self.at.append(self.size)
            self.starts.append(start)
            self.ends.append(end)

    def folded(self) -> FoldedText:
        return FoldedText("".join(self.pieces).replace("`", "'"), self.at, self.starts, self.ends)


def fold(text: str, joins: Sequence[int] = (), *, keep_case: bool = False) -> FoldedText:
    """Fold `text` for comparison; `joins` as in `ragcli.types.Document`.

    White space runs become one space. A join, a soft hyphen, and a hyphen before a line break inside a word
    become `JOIN`. Everything else is NFKC_Casefold (NFKC with `keep_case`) with quotes and dashes made alike.
    """
    builder = _Builder(text, keep_case=keep_case)
    position = 0
    for join in joins:
        if not position <= join < len(text):
            continue
        _fold_stretch(builder, position, join)
        position = join
        if text[join] in _HYPHENS:
            position = join + 1
            rest = _REST_OF_BREAK.match(text, position)
            if rest:
                position = rest.end()
        builder.join(join, position)
    _fold_stretch(builder, position, len(text))
    return builder.folded()


def _fold_stretch(builder: _Builder, start: int, end: int) -> None:
    position = start
    for region in _REGION.finditer(builder.text, start, end):
        first, last = region.span()
        # The character before may carry a mark or be the hyphen of a broken word; the one after is looked at.
        for special in _SPECIAL.finditer(builder.text, max(position, first - 1), min(last + 1, end)):
            builder.plain(position, special.start())
            position = special.end()
            _fold_special(builder, special)
    builder.plain(position, end)


def _fold_special(builder: _Builder, special: re.Match[str]) -> None:
    start, end = special.span()
    if special.lastgroup == "broken":
        builder.join(start, end)
    elif special.lastgroup == "space":
        if end - start == 1:
            builder.same(" ")
        else:
            builder.changed(" ", start, end)
    else:
        for left, right, plain in _stretches(builder.text, start, end):
            if plain:
                builder.plain(left, right)
            else:
                _fold_foreign(builder, left, right)


def _fold_foreign(builder: _Builder, start: int, end: int) -> None:
    run = builder.text[start:end]
    units = _units(run, builder.keep_case) if len(run) <= _CACHED_RUN else _split(run, builder.keep_case)
    if isinstance(units, str):
        builder.same(units)
        return
    for folded, left, right in units:
        if folded == JOIN:
            builder.join(start + left, start + right)
        else:
            builder.changed(folded, start + left, start + right)
    builder.changed("", end, end)


def _stretches(text: str, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Parts of a foreign run, those marked True being their own folded form.

    Short runs are one part. Long ones are mostly Chinese, Japanese or Korean, which this makes as fast as ASCII.
    """
    position = start
    if end - start > _CACHED_RUN:
        for plain in _cjk_run().finditer(text, start, end):
            # The last character of a stretch may carry a mark, so it goes with what follows.
            first, last = plain.start(), plain.end() - 1
            if position < first:
                yield position, first, False
            yield first, last, True
            position = last
    if position < end:
        yield position, end, False


@lru_cache(maxsize=1)
def _cjk_run() -> re.Pattern[str]:
    """Runs of kana, ideographs and Hangul. Compiling it takes longer than a whole search for an English phrase."""
    return re.compile(r"[\u3041-\u3096\u30a1-\u30fa\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]{2,}")


def _fold_run(run: str, *, keep_case: bool) -> str:
    return _fold_short(run, keep_case) if len(run) <= _CACHED_RUN else _normalise(run, keep_case)


@lru_cache(maxsize=4096)
def _fold_short(run: str, keep_case: bool) -> str:
    return _normalise(run, keep_case)


def _normalise(run: str, keep_case: bool) -> str:
    """NFKC_Casefold (or NFKC) of a run that starts where a character does, look-alikes made equal."""
    # Look-alikes first too: NFKC would take ´ and ″ apart.
    run = normalised("NFKD", run.translate(_ALIKE_AND_VISIBLE))
    if not keep_case:
        # The iota subscript folds into a letter, so marks must be in their order before.
        run = normalised("NFKC", run.casefold()).casefold()
    return normalised("NFKC", run).translate(_ALIKE)


_Unit = tuple[str, int, int]


@lru_cache(maxsize=4096)
def _units(run: str, keep_case: bool) -> str | tuple[_Unit, ...]:
    return _split(run, keep_case)


def _split(run: str, keep_case: bool) -> str | tuple[_Unit, ...]:
    """A foreign run as (folded, start, end) per visible character, or as one string where all run one to one."""
    units = tuple(
        (JOIN if run[start:end] == SOFT_HYPHEN else _fold_run(run[start:end], keep_case=keep_case), start, end)
        for start, end in _clusters(run)
    )
    if len(units) == len(run) and all(len(folded) == 1 for folded, _, _ in units) and JOIN not in {u[0] for u in units}:
        return "".join(folded for folded, _, _ in units)
    return units


def _clusters(run: str) -> Iterator[tuple[int, int]]:
    """Spans of what the eye takes as one character, without invisible ones at the end; soft hyphens by themselves."""
    marked = [] if _INVISIBLE_ONES.isdisjoint(run) else _marks_follow(run)
    start = 0
    while start < len(run):
        end = start + 1
        if run[start] in _INVISIBLE and not marked[end]:
            if run[start] == SOFT_HYPHEN:
                yield start, end
            start = end
            continue
        while end < len(run):
            if run[end] in _INVISIBLE and not marked[end + 1]:
                break
            if not _belongs_to_previous(run[end]):
                break
            end += 1
        yield start, end
        start = end


def _marks_follow(run: str) -> list[bool]:
    """For every place in the run: is the next visible character one that belongs to the character before it?"""
    follow = [False] * (len(run) + 1)
    for place in range(len(run) - 1, -1, -1):
        character = run[place]
        follow[place] = follow[place + 1] if character in _INVISIBLE else _belongs_to_previous(character)
    return follow


@lru_cache(maxsize=4096)
def _belongs_to_previous(char: str) -> bool:
    """Is `char` a mark, a Hangul vowel or final consonant, or invisible?"""
    if char in _INVISIBLE:
        return True
    first = unicodedata.normalize("NFKD", char)[0]
    return unicodedata.combining(first) != 0 or unicodedata.category(first)[0] == "M" or "\u1160" <= first <= "\u11ff"

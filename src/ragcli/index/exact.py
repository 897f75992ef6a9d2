"""Finding a phrase or a regular expression in a text, for `ragcli grep`.

A literal means what a reader means by it, not what a typesetter did to it: see `ragcli.index.folding` for what
counts as equal. At a join, the pattern may have a hyphen, or a hyphen and a line break, or nothing. Offsets
are always those of the text as it stands, so that `text[start:end]` can be shown and cited.

A regular expression (see `ragcli.index.regular`) runs on the text as it stands, case-sensitive as written.

No numpy here, and the regular expression engines are imported only when asked for: grep is judged by how fast it
starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from ragcli.errors import InputError, UsageError
from ragcli.index.folding import JOIN, fold, squeeze

LONGEST_PATTERN: Final = 20_000


class Matcher(Protocol):
    """A compiled pattern."""

    @property
    def prefilter(self) -> str | None:
        """A text can only match if this is in `squeeze(text)`; None when nothing can be told beforehand."""

    def find_all(self, text: str, joins: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of every match, in order, none overlapping, none empty."""


def compile_pattern(
    pattern: str, *, regex: bool = False, ignore_case: bool | None = None, word: bool = False
) -> Matcher:
    """Make a matcher. `ignore_case` left None means: a literal ignores case, a regular expression does not.

    With `word`, a match must not begin or end inside a word. Raises UsageError for an empty or invalid pattern,
    InputError for one that is too long.
    """
    if not pattern:
        raise UsageError("The pattern is empty; give the words to look for.")
    if len(pattern) > LONGEST_PATTERN:
        raise InputError(
            f"The pattern has {len(pattern):,} characters; at most {LONGEST_PATTERN:,} can be searched for at once."
        )
    if regex:
        from ragcli.index.regular import RegexMatcher

        return RegexMatcher(pattern, ignore_case=bool(ignore_case), word=word)
    return _Literal(pattern, ignore_case=ignore_case is not False, word=word)


class _Literal:
    def __init__(self, pattern: str, *, ignore_case: bool, word: bool) -> None:
        self._keep_case = not ignore_case
        self._word = word
        self._folded = fold(pattern, keep_case=self._keep_case).text.strip(JOIN)
        if not self._folded:
            raise UsageError("The pattern has only invisible characters; give the words to look for.")
        self.prefilter = squeeze(pattern) or None
        self._simple = None if word or JOIN in self._folded else self._folded
        self._expression: re.Pattern[str] | None = None

    def find_all(self, text: str, joins: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
        folded = fold(text, joins, keep_case=self._keep_case)
        spans = self._find(folded.text) if self._simple and JOIN not in folded.text else self._match(folded.text)
        finished = 0
        for first, last in spans:
            start, end = folded.span(first, last)
            # A character that folds into several (a ligature) can hold two matches; it is reported once.
            if end > start >= finished:
                finished = end
                yield start, end

    def _find(self, folded: str) -> Iterator[tuple[int, int]]:
        needle = self._folded
        position = folded.find(needle)
        while position >= 0:
            yield position, position + len(needle)
            position = folded.find(needle, position + len(needle))

    def _match(self, folded: str) -> Iterator[tuple[int, int]]:
        if self._expression is None:
            self._expression = re.compile(_expression(self._folded, word=self._word))
        for match in self._expression.finditer(folded):
            yield match.span()


def _expression(folded: str, *, word: bool) -> str:
    """A regular expression that accepts every reading of the joins, in the pattern's and in the text's."""
    parts: list[str] = []
    position = 0
    while position < len(folded):
        char = folded[position]
        if char == JOIN:
            parts.append(f"(?:- ?|{JOIN})?")
        elif folded.startswith("- ", position):
            parts.append(f"(?:- |{JOIN})")
            position += 1
        elif char == "-":
            parts.append(f"[-{JOIN}]")
        else:
            follows = folded[position + 1 : position + 2]
            inside = follows and follows not in f"- {JOIN}" and char != " "
            parts.append(re.escape(char) + (f"{JOIN}?" if inside else ""))
        position += 1
    return rf"(?<!\w)(?:{''.join(parts)})(?!\w)" if word else "".join(parts)

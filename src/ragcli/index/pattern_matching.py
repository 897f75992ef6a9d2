"""Exact search in a text: literals that tolerate typography, and regular expressions."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol

from ragcli.errors import InputError, UsageError
from ragcli.text.characters import truncate
from ragcli.text.re2_patterns import compile_re2
from ragcli.text.text_folding import JOIN, fold, squeeze

MAX_PATTERN_CHARS: Final = 20_000


class PatternMatcher(Protocol):
    """A compiled pattern."""

    @property
    def prefilter(self) -> str | None:
        """A text can only match if this is in `squeeze(text)`; None when nothing can be told beforehand."""

    def find_all(self, text: str, joins: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of every match, in order, none overlapping, none empty."""


def compile_pattern(
    pattern: str, *, regex: bool = False, ignore_case: bool | None = None, word: bool = False
) -> PatternMatcher:
    """Make a matcher. `ignore_case` left None means: a literal ignores case, a regular expression does not.

    With `word`, a match must not begin or end inside a word. Raises UsageError for an empty or invalid pattern,
    InputError for one that is too long.
    """
    if not pattern:
        raise UsageError("The pattern is empty; give the words to look for.")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise InputError(
            f"The pattern has {len(pattern):,} characters; at most {MAX_PATTERN_CHARS:,} can be searched for at once."
        )
    if regex:
        return RegexMatcher(pattern, ignore_case=bool(ignore_case), word=word)
    return _LiteralMatcher(pattern, ignore_case=ignore_case is not False, word=word)


class _LiteralMatcher:
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
            self._expression = re.compile(_hyphenation_regex(self._folded, word=self._word))
        for match in self._expression.finditer(folded):
            yield match.span()


def _hyphenation_regex(folded: str, *, word: bool) -> str:
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


_SECONDS: Final = 1.2
"""How long a search for one match may take; with the program's start, it is told within two seconds."""
_CHARACTERS_PER_SECOND: Final = 5_000_000
_LARGEST_PROGRAM: Final = 1_000
_LONGEST_PART: Final = 1_500
"""Characters between two alternatives, for the timed engine: it prepares the search for a string in time that grows
with the cube of its length, and looks at no clock meanwhile."""
_PLAIN: Final = re.compile(r"[^\\.^$*+?{}\[\]|()]+\Z")
_SPACES: Final = r"\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_CLASSES: Final = {"d": r"\p{Nd}", "w": r"\p{L}\p{N}_", "s": _SPACES}


class RegexMatcher:
    """A compiled regular expression; see `ragcli.index.pattern_matching.PatternMatcher`."""

    def __init__(self, pattern: str, *, ignore_case: bool, word: bool) -> None:
        check_syntax(pattern)
        self.prefilter = required_literal(pattern, ignore_case=ignore_case)
        self._pattern = pattern
        self._ignore_case = ignore_case
        self._word = word
        self._literal = not word and not ignore_case and _PLAIN.match(pattern) is not None
        self._linear: Any = None
        self._ascii_only = False
        if not word and not self._literal:
            self._linear, self._ascii_only = _compile_linear(pattern, ignore_case=ignore_case)
        self._timed: Any = None
        self._spent = 0.0
        self._seen = 0

    def find_all(self, text: str, joins: Sequence[int] = ()) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of every match, none empty. Raises InputError when it takes too long."""
        del joins  # an expression is matched against the text as it stands
        if self._literal:
            yield from _occurrences(self._pattern, text)
        elif self._linear is not None and (text.isascii() or (not self._ascii_only and _encodable(text))):
            for match in self._linear.finditer(text):
                start, end = match.span()
                if end > start:
                    yield start, end
        else:
            yield from self._with_time_limit(text)

    def _with_time_limit(self, text: str) -> Iterator[tuple[int, int]]:
        if self._timed is None:
            self._timed = _compile_timed(self._pattern, ignore_case=self._ignore_case, word=self._word)
        self._seen += len(text)
        # Large collections may take longer in all, since an ordinary expression then does.
        allowed = _SECONDS + self._seen / _CHARACTERS_PER_SECOND
        position = 0
        while position <= len(text):
            started = time.monotonic()
            try:
                # Searched match by match, so that only the engine's time counts and not the consumer's.
                match = self._timed.search(text, position, timeout=max(0.01, min(_SECONDS, allowed - self._spent)))
            except TimeoutError:
                raise InputError(
                    f"The regular expression {_shown(self._pattern)} takes too long on this text; "
                    "nested repeats such as (a+)+ are the usual cause."
                ) from None
            finally:
                self._spent += time.monotonic() - started
            if match is None:
                return
            start, end = match.span()
            if end > start:
                yield start, end
            position = max(end, start + 1) if end == start else end


def _occurrences(literal: str, text: str) -> Iterator[tuple[int, int]]:
    start = text.find(literal)
    while start >= 0:
        end = start + len(literal)
        yield start, end
        start = text.find(literal, end)


def check_syntax(pattern: str) -> None:
    """Raise UsageError, naming the place, unless `pattern` is a regular expression as Python's `re` reads it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except re.error as error:
        where = "" if error.pos is None else f" at character {error.pos + 1}"
        raise UsageError(f"The regular expression {_shown(pattern)} is invalid{where}: {error.msg}.") from None
    except (RecursionError, OverflowError):
        raise UsageError(
            f"The regular expression {_shown(pattern)} is nested too deeply or repeats too often."
        ) from None


def required_literal(pattern: str, *, ignore_case: bool = False) -> str | None:
    """The squeezed form of a literal that every match holds, or None when none is plain to see.

    Reads only the outermost level, and gives up on alternatives and inline flags. The last character of a run is
    left out, since an accent may follow it in the text and change its folded form.
    """
    if "|" in pattern or re.search(r"\(\?[a-zA-Z-]*[:)]", pattern.replace("(?:", "")):
        return None
    best = run = ""
    depth = 0
    position = 0
    while position < len(pattern):
        char = pattern[position]
        position += 1
        literal = ""
        if char == "\\":
            escaped = pattern[position : position + 1]
            position += 1
            if escaped in "xuUN" or escaped.isdigit():
                return None
            if escaped.isascii() and not escaped.isalnum():
                literal = escaped
        elif char == "[":
            position = _end_of_class(pattern, position)
        elif char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char.isascii() and char not in ".^$*+?{":
            literal = char
        repeated = pattern[position : position + 1]
        if depth or not literal or (ignore_case and literal in "iI"):
            # The dotless i equals i for `re` and not for Unicode's case folding.
            run = ""
            if char == "{":
                position = max(position, pattern.find("}", position) + 1)
            continue
        if repeated and repeated in "*?{":
            run = ""
            continue
        run += literal
        if len(run) > len(best):
            best = run
        if repeated == "+":
            run = ""
    return squeeze(best[:-1]) or None


def _end_of_class(pattern: str, position: int) -> int:
    """The offset after the `]` of the class whose inside starts at `position`."""
    if pattern[position : position + 1] == "^":
        position += 1
    position += 1  # a ] in the first place is itself; an escape is skipped below
    if pattern[position - 1 : position] == "\\":
        position += 1
    while position < len(pattern) and pattern[position] != "]":
        position += 2 if pattern[position] == "\\" else 1
    return position + 1


def _compile_linear(pattern: str, *, ignore_case: bool) -> tuple[Any, bool]:
    """RE2's form of the expression, and whether it is right on ASCII texts only; (None, False) if there is none."""
    translated = _for_re2(pattern)
    if translated is None or not _encodable(pattern):
        return None, False
    try:
        compiled = compile_re2(translated[0], ignore_case=ignore_case)
    except ValueError:
        return None, False
    # RE2 is linear in the text times the program; a huge one is better off under the time limit.
    return (compiled, translated[1]) if compiled.programsize <= _LARGEST_PROGRAM else (None, False)


def _for_re2(pattern: str) -> tuple[str, bool] | None:
    """The expression in RE2's words, and whether it means the same on ASCII texts only; None if it has no such form."""
    parts: list[str] = []
    ascii_only = in_class = False
    position = 0
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == "\\":
            escaped = pattern[position]
            position += 1
            if escaped in "dws":
                parts.append(_CLASSES[escaped] if in_class else f"[{_CLASSES[escaped]}]")
            elif escaped in "DWS" and not in_class:
                parts.append(f"[^{_CLASSES[escaped.lower()]}]")
            elif escaped == "Z":
                parts.append(r"\z")
            elif escaped in "uUN" or escaped.isdigit() or (in_class and escaped == "b"):
                return None
            else:
                ascii_only = ascii_only or escaped in "bBDWS"
                parts.append(char + escaped)
        elif in_class:
            if char == "[":
                return None
            in_class = char != "]"
            parts.append(char)
        elif char == "[":
            in_class = True
            parts.append(char)
            for first in ("^", "]"):
                if pattern.startswith(first, position):
                    parts.append("\\]" if first == "]" else first)
                    position += 1
        elif char == "$" or (char == "{" and pattern.startswith(",", position)):
            return None
        else:
            parts.append(char)
    return "".join(parts), ascii_only


def _compile_timed(pattern: str, *, ignore_case: bool, word: bool) -> Any:
    import regex

    longest = max(map(len, pattern.split("|")))
    if longest > _LONGEST_PART:
        raise InputError(
            f"The regular expression {_shown(pattern)} is too long: it has {longest:,} characters with no | between "
            f"them, and at most {_LONGEST_PART:,} can be searched for. Without -E, a phrase may be longer."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return regex.compile(
                rf"(?<!\w)(?:{pattern})(?!\w)" if word else pattern,
                regex.VERSION0 | (regex.IGNORECASE if ignore_case else 0),
            )
    except (regex.error, RecursionError, OverflowError, MemoryError) as error:
        raise UsageError(f"The regular expression {_shown(pattern)} cannot be used here: {error}.") from None


def _encodable(text: str) -> bool:
    """Can RE2 read it? Lone surrogates have no UTF-8 form."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(pattern: str) -> str:
    return repr(truncate(pattern, 60))

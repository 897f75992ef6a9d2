"""The words and signs of an expression, each with the place where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from ragcli.errors import FilterError
from ragcli.filters.periods import read_period
from ragcli.filters.tree import KEYWORDS, Value, storable

Kind = Literal["key", "keyword", "text", "number", "date", "sign", "end"]

_SPACE: Final = re.compile(r"\s+")
_DATE: Final = re.compile(
    r"\d{4}-\d{2}(?:-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}(?::?\d{2})?)?)?)?(?![\w:.-])", re.ASCII
)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])", re.ASCII)
_WORD: Final = re.compile(r"[^\W\d]")
_WORD_PART: Final = re.compile(r"\w+")
_SIGN: Final = re.compile(r"!=|<=|>=|==|[=<>~()\[\],]")
_OTHER_WORD: Final = re.compile(r"[\w.:+-]+")
_JOINED: Final = re.compile(r"[.\-][\w.\-]*\w")
_ESCAPED: Final = re.compile(r"\\([\\\"'`])")
_INSTEAD: Final = {
    "&": "and",
    "|": "or",
    "!": "not",
    "≥": ">=",
    "≤": "<=",
    "≠": "!=",
    **dict.fromkeys("“”„«»", '"'),
    **dict.fromkeys("‘’‚", "'"),
}
_LONGEST_NUMBER: Final = 300


@dataclass(frozen=True, slots=True)
class Token:
    """`text` is as written, or of what is quoted the inside; `value` is that of a literal."""

    kind: Kind
    text: str
    start: int
    value: Value = ""


def tokens_of(expression: str) -> Iterator[Token]:
    """The tokens in order, an "end" the last. FilterError where there is none."""
    at = 0
    while True:
        if space := _SPACE.match(expression, at):
            at = space.end()
        if at == len(expression):
            yield Token("end", "the end", at)
            return
        token, at = _token(expression, at)
        yield token


def _token(expression: str, at: int) -> tuple[Token, int]:
    first = expression[at]
    if first in "\"'`":
        return _quoted(expression, at)
    if _WORD.match(expression, at):
        return _word(expression, at, _word_end(expression, at))
    if found := _DATE.match(expression, at):
        period = read_period(found.group())
        if period is None:
            raise _wrong(f"there is no date {found.group()}", expression, at)
        return Token("date", found.group(), at, period), found.end()
    if found := _NUMBER.match(expression, at):
        return _number(expression, found)
    if found := _SIGN.match(expression, at):
        sign = "=" if found.group() == "==" else found.group()
        return Token("sign", sign, at), found.end()
    if found := _OTHER_WORD.match(expression, at):
        raise _wrong(f"'{found.group()}' is neither a number nor a date; a text stands in quotes", expression, at)
    hint = _INSTEAD.get(first)
    raise _wrong(f"'{first}' means nothing here" + (f"; write `{hint}`" if hint else ""), expression, at)


def _word_end(expression: str, at: int) -> int:
    """Where the word that begins there ends; signs of vowels, tones and accents are part of it."""
    import unicodedata

    while at < len(expression):
        if rest := _WORD_PART.match(expression, at):
            at = rest.end()
        elif unicodedata.category(expression[at]).startswith("M"):
            at += 1
        else:
            break
    return at


def _word(expression: str, at: int, stop: int) -> tuple[Token, int]:
    text = expression[at:stop]
    if joined := _JOINED.match(expression, stop):
        raise _wrong(
            f"a key with such signs in it stands in backticks: `{text}{joined.group()}`", expression, joined.start()
        )
    if text.lower() in KEYWORDS:
        return Token("keyword", text.lower(), at), stop
    return Token("key", text, at), stop


def _number(expression: str, found: re.Match[str]) -> tuple[Token, int]:
    text = found.group()
    if len(text) > _LONGEST_NUMBER or float(text) in (float("inf"), float("-inf")):
        raise _wrong("there are no numbers that large", expression, found.start())
    whole = text.lstrip("+-").isdigit()
    return Token("number", text, found.start(), storable(int(text)) if whole else float(text)), found.end()


def _quoted(expression: str, at: int) -> tuple[Token, int]:
    quote, stop = expression[at], at + 1
    while stop < len(expression) and expression[stop] != quote:
        # A backslash before anything but a quote or another is itself, as in the expression "\d+".
        stop += 2 if _ESCAPED.match(expression, stop) else 1
    if stop >= len(expression):
        raise _wrong(f"the quote {quote} is never closed", expression, at)
    inside = _ESCAPED.sub(r"\1", expression[at + 1 : stop])
    if quote != "`":
        return Token("text", inside, at, inside), stop + 1
    if not inside:
        raise _wrong("the key between the backticks is empty", expression, at)
    return Token("key", inside, at), stop + 1


def _wrong(what: str, expression: str, at: int) -> FilterError:
    return FilterError(f"The filter cannot be read: {what}.", expression=expression, at=at)

"""Tokenizer and recursive-descent parser of filter expressions such as `year >= 2017`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from ragcli.errors import FilterError
from ragcli.filters.expression_tree import (
    KEYWORDS,
    And,
    Compare,
    Exists,
    Filter,
    FilterValue,
    Match,
    Not,
    OneOf,
    Or,
    all_of,
    any_of,
    to_sqlite_number,
)
from ragcli.filters.predicate_evaluation import compile_match
from ragcli.text.characters import truncate
from ragcli.text.datetimes import parse_period

TokenKind = Literal["key", "keyword", "text", "number", "date", "sign", "end"]

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
_SUGGESTED_SIGN: Final = {
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
_SHOWN_CHARS: Final = 40


@dataclass(frozen=True, slots=True)
class FilterToken:
    """`text` is as written, or of what is quoted the inside; `value` is that of a literal."""

    kind: TokenKind
    text: str
    start: int
    value: FilterValue = ""


def tokenize(expression: str) -> Iterator[FilterToken]:
    """The tokens in order, an "end" the last. FilterError where there is none."""
    at = 0
    while True:
        if space := _SPACE.match(expression, at):
            at = space.end()
        if at == len(expression):
            yield FilterToken("end", "the end", at)
            return
        token, at = _next_token(expression, at)
        yield token


def _next_token(expression: str, at: int) -> tuple[FilterToken, int]:
    first = expression[at]
    if first in "\"'`":
        return _quoted(expression, at)
    if _WORD.match(expression, at):
        return _word(expression, at, _end_of_word(expression, at))
    if found := _DATE.match(expression, at):
        period = parse_period(found.group())
        if period is None:
            raise _token_error(f"there is no date {found.group()}", expression, at)
        return FilterToken("date", found.group(), at, period), found.end()
    if found := _NUMBER.match(expression, at):
        return _number(expression, found)
    if found := _SIGN.match(expression, at):
        sign = "=" if found.group() == "==" else found.group()
        return FilterToken("sign", sign, at), found.end()
    if found := _OTHER_WORD.match(expression, at):
        raise _token_error(f"'{found.group()}' is neither a number nor a date; a text stands in quotes", expression, at)
    hint = _SUGGESTED_SIGN.get(first)
    raise _token_error(f"'{first}' means nothing here" + (f"; write `{hint}`" if hint else ""), expression, at)


def _end_of_word(expression: str, at: int) -> int:
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


def _word(expression: str, at: int, stop: int) -> tuple[FilterToken, int]:
    text = expression[at:stop]
    if joined := _JOINED.match(expression, stop):
        raise _token_error(
            f"a key with such signs in it stands in backticks: `{text}{joined.group()}`", expression, joined.start()
        )
    if text.lower() in KEYWORDS:
        return FilterToken("keyword", text.lower(), at), stop
    return FilterToken("key", text, at), stop


def _number(expression: str, found: re.Match[str]) -> tuple[FilterToken, int]:
    text = found.group()
    if len(text) > _LONGEST_NUMBER or float(text) in (float("inf"), float("-inf")):
        raise _token_error("there are no numbers that large", expression, found.start())
    whole = text.lstrip("+-").isdigit()
    return FilterToken(
        "number", text, found.start(), to_sqlite_number(int(text)) if whole else float(text)
    ), found.end()


def _quoted(expression: str, at: int) -> tuple[FilterToken, int]:
    quote, stop = expression[at], at + 1
    while stop < len(expression) and expression[stop] != quote:
        # A backslash before anything but a quote or another is itself, as in the expression "\d+".
        stop += 2 if _ESCAPED.match(expression, stop) else 1
    if stop >= len(expression):
        raise _token_error(f"the quote {quote} is never closed", expression, at)
    inside = _ESCAPED.sub(r"\1", expression[at + 1 : stop])
    if quote != "`":
        return FilterToken("text", inside, at, inside), stop + 1
    if not inside:
        raise _token_error("the key between the backticks is empty", expression, at)
    return FilterToken("key", inside, at), stop + 1


def _token_error(what: str, expression: str, at: int) -> FilterError:
    return FilterError(f"The filter cannot be read: {what}.", expression=expression, at=at)


MAX_EXPRESSION_CHARS: Final = 20_000
"""Characters of an expression."""
MAX_NESTING: Final = 100
"""Parentheses and `not` in one another."""

_ORDERS: Final = ("<", "<=", ">", ">=")


def parse_where(text: str) -> Filter:
    """The filter that an expression says. FilterError, which shows where the fault is, if it says none."""
    if len(text) > MAX_EXPRESSION_CHARS:
        raise FilterError(
            f"The filter has {len(text):,} characters, and {MAX_EXPRESSION_CHARS:,} is the most that is read."
        )
    if not text.strip():
        raise FilterError("The filter is empty; say for instance 'year >= 2017 and author ~ \"Temme\"'.")
    parser = _Parser(text)
    found = parser.filter()
    parser.end()
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokenize(text))
        self._at = 0
        self._depth = 0

    def filter(self) -> Filter:
        parts = [self._part()]
        while self._takes("keyword", "or"):
            parts.append(self._part())
        return any_of(*parts)

    def end(self) -> None:
        if self._token.kind != "end":
            raise self._unexpected("`and`, `or` or the end")

    def _part(self) -> Filter:
        parts = [self._term()]
        while self._takes("keyword", "and"):
            parts.append(self._term())
        return all_of(*parts)

    def _term(self) -> Filter:
        token = self._token
        if token.text in ("not", "(") and token.kind in ("keyword", "sign"):
            self._deeper(token)
            found = self._negated() if token.text == "not" else self._enclosed()
            self._depth -= 1
            return found
        if self._takes("keyword", "exists"):
            return Exists(self._key())
        if self._takes("keyword", "true"):
            return And(())
        if self._takes("keyword", "false"):
            return Or(())
        return self._condition(self._key())

    def _deeper(self, token: FilterToken) -> None:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise self._wrong(f"more than {MAX_NESTING} conditions stand in one another", token)
        self._at += 1

    def _negated(self) -> Filter:
        return Not(self._term())

    def _enclosed(self) -> Filter:
        opening = self._tokens[self._at - 1]
        found = self.filter()
        if not self._takes("sign", ")"):
            if self._token.kind == "end":
                raise self._wrong("this parenthesis is never closed", opening)
            raise self._unexpected("`and`, `or` or `)`")
        return found

    def _key(self) -> str:
        token = self._token
        if token.kind == "key":
            self._at += 1
            return token.text
        if token.kind in ("text", "number", "date"):
            raise self._unexpected("a key; it stands first and without quotes, as in `year >= 2017`")
        raise self._unexpected("a key")

    def _condition(self, key: str) -> Filter:
        token = self._token
        if token.kind == "sign" and token.text in ("=", "!=", *_ORDERS):
            self._at += 1
            return self._compared(key, token)
        if self._takes("keyword", "in"):
            return OneOf(key, self._values())
        if token.kind == "keyword" and token.text == "not":
            self._at += 1
            if not self._takes("keyword", "in"):
                raise self._unexpected("`in` after `not`")
            return OneOf(key, self._values(), negated=True)
        if token.kind in ("sign", "keyword") and token.text in ("~", "like", "matches"):
            self._at += 1
            return self._matched(key, token)
        if token.kind in ("text", "number", "date", "key"):
            raise self._unexpected(f"what is to be known of `{key}`, as in `{key} = …` or `{key} in […]`")
        return Compare(key, "=", True)

    def _compared(self, key: str, sign: FilterToken) -> Filter:
        value_token = self._token
        value = self._value()
        if sign.text in _ORDERS:
            if isinstance(value, bool):
                raise self._wrong("true and false are not before or after anything; compare with `=`", value_token)
            return Compare(key, _ordering_operator(sign.text), value)
        return Compare(key, "=" if sign.text == "=" else "!=", value)

    def _matched(self, key: str, sign: FilterToken) -> Filter:
        token = self._token
        if token.kind != "text":
            raise self._unexpected(f"a text in quotes after `{sign.text}`")
        self._at += 1
        found = Match(key, "like" if sign.text == "like" else "matches" if sign.text == "matches" else "~", token.text)
        try:
            compile_match(found)
        except ValueError as error:
            raise self._wrong(f"this is no regular expression: {error}", token) from None
        return found

    def _values(self) -> tuple[FilterValue, ...]:
        opening = self._token
        if not self._takes("sign", "["):
            raise self._unexpected("a list after `in`, as in `in [1, 2]`")
        values: list[FilterValue] = []
        while not self._takes("sign", "]"):
            if values and not self._takes("sign", ","):
                if self._token.kind == "end":
                    raise self._wrong("this list is never closed", opening)
                raise self._unexpected("`,` or `]`")
            values.append(self._value())
        return tuple(values)

    def _value(self) -> FilterValue:
        token = self._token
        if token.kind in ("text", "number", "date"):
            self._at += 1
            return token.value
        if token.kind == "keyword" and token.text in ("true", "false"):
            self._at += 1
            return token.text == "true"
        if token.kind == "key":
            raise self._unexpected(f'a value; a text stands in quotes, as in "{truncate(token.text, _SHOWN_CHARS)}"')
        raise self._unexpected("a value")

    @property
    def _token(self) -> FilterToken:
        return self._tokens[self._at]

    def _takes(self, kind: str, text: str) -> bool:
        taken = self._token.kind == kind and self._token.text == text
        self._at += taken
        return taken

    def _unexpected(self, wanted: str) -> FilterError:
        token = self._token
        said = "it ends" if token.kind == "end" else f"there is {_token_text(token)}"
        return self._wrong(f"{said} where it needs {wanted}", token)

    def _wrong(self, what: str, token: FilterToken) -> FilterError:
        return FilterError(f"The filter cannot be read: {what}.", expression=self._text, at=token.start)


def _ordering_operator(sign: str) -> Literal["<", "<=", ">", ">="]:
    return "<" if sign == "<" else "<=" if sign == "<=" else ">" if sign == ">" else ">="


def _token_text(token: FilterToken) -> str:
    return (
        f'"{truncate(token.text, _SHOWN_CHARS)}"' if token.kind == "text" else f"`{truncate(token.text, _SHOWN_CHARS)}`"
    )

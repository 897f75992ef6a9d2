"""Reading `year >= 2017 and author ~ "Temme" and tag in ["noise", "zne"] and not draft`.

    filter    = part { "or" part }
    part      = term { "and" term }
    term      = "not" term | "(" filter ")" | "exists" key | "true" | "false" | key [ condition ]
    condition = ( "=" | "!=" | "<" | "<=" | ">" | ">=" ) value
              | [ "not" ] "in" "[" [ value { "," value } ] "]"
              | ( "~" | "like" | "matches" ) text
    value     = text | number | date | "true" | "false"

A key alone stands for `key = true`. Texts are in single or double quotes, dates and numbers are bare, a key that is
not one plain word is in backticks. Words of the language may be written in any case.
"""

from __future__ import annotations

from typing import Final, Literal

from ragcli.errors import FilterError
from ragcli.filters.patterns import matcher
from ragcli.filters.tokens import Token, tokens_of
from ragcli.filters.tree import And, Compare, Exists, Filter, Match, Not, OneOf, Or, Value, all_of, any_of

LONGEST: Final = 20_000
"""Characters of an expression."""
DEEPEST: Final = 100
"""Parentheses and `not` in one another."""

_ORDERS: Final = ("<", "<=", ">", ">=")


def parse_where(text: str) -> Filter:
    """The filter that an expression says. FilterError, which shows where the fault is, if it says none."""
    if len(text) > LONGEST:
        raise FilterError(f"The filter has {len(text):,} characters, and {LONGEST:,} is the most that is read.")
    if not text.strip():
        raise FilterError("The filter is empty; say for instance 'year >= 2017 and author ~ \"Temme\"'.")
    parser = _Parser(text)
    found = parser.filter()
    parser.end()
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(tokens_of(text))
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

    def _deeper(self, token: Token) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._wrong(f"more than {DEEPEST} conditions stand in one another", token)
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

    def _compared(self, key: str, sign: Token) -> Filter:
        value_token = self._token
        value = self._value()
        if sign.text in _ORDERS:
            if isinstance(value, bool):
                raise self._wrong("true and false are not before or after anything; compare with `=`", value_token)
            return Compare(key, _order(sign.text), value)
        return Compare(key, "=" if sign.text == "=" else "!=", value)

    def _matched(self, key: str, sign: Token) -> Filter:
        token = self._token
        if token.kind != "text":
            raise self._unexpected(f"a text in quotes after `{sign.text}`")
        self._at += 1
        found = Match(key, "like" if sign.text == "like" else "matches" if sign.text == "matches" else "~", token.text)
        try:
            matcher(found)
        except ValueError as error:
            raise self._wrong(f"this is no regular expression: {error}", token) from None
        return found

    def _values(self) -> tuple[Value, ...]:
        opening = self._token
        if not self._takes("sign", "["):
            raise self._unexpected("a list after `in`, as in `in [1, 2]`")
        values: list[Value] = []
        while not self._takes("sign", "]"):
            if values and not self._takes("sign", ","):
                if self._token.kind == "end":
                    raise self._wrong("this list is never closed", opening)
                raise self._unexpected("`,` or `]`")
            values.append(self._value())
        return tuple(values)

    def _value(self) -> Value:
        token = self._token
        if token.kind in ("text", "number", "date"):
            self._at += 1
            return token.value
        if token.kind == "keyword" and token.text in ("true", "false"):
            self._at += 1
            return token.text == "true"
        if token.kind == "key":
            raise self._unexpected(f'a value; a text stands in quotes, as in "{_short(token.text)}"')
        raise self._unexpected("a value")

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _takes(self, kind: str, text: str) -> bool:
        taken = self._token.kind == kind and self._token.text == text
        self._at += taken
        return taken

    def _unexpected(self, wanted: str) -> FilterError:
        token = self._token
        said = "it ends" if token.kind == "end" else f"there is {_named(token)}"
        return self._wrong(f"{said} where it needs {wanted}", token)

    def _wrong(self, what: str, token: Token) -> FilterError:
        return FilterError(f"The filter cannot be read: {what}.", expression=self._text, at=token.start)


def _order(sign: str) -> Literal["<", "<=", ">", ">="]:
    return "<" if sign == "<" else "<=" if sign == "<=" else ">" if sign == ">" else ">="


def _named(token: Token) -> str:
    return f'"{_short(token.text)}"' if token.kind == "text" else f"`{_short(token.text)}`"


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"

"""Matching texts: holding a word, wildcards, regular expressions. None of it can be made to take for ever.

Case and accents do not matter to `~` and `like`: "Müller" holds "muller". A regular expression runs on RE2, in time
linear in the text, on the text as it is; `(?i)` at its start makes it ignore case.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ragcli.filters.tree import Match

_MARKS: Final = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
_LIKE_PART: Final = re.compile(r"\\(.)|(%)|(_)|([^\\%_]+|\\)", re.DOTALL)
_LARGEST_PROGRAM: Final = 8 << 20


def folded(text: str) -> str:
    """The text without case and accents."""
    if text.isascii():
        return text.lower()
    from ragcli.normal_forms import normalised

    return _MARKS.sub("", normalised("NFKD", normalised("NFKD", text).casefold()))


def matcher(condition: Match) -> Callable[[str], bool]:
    """The test that a match makes of a text. ValueError, saying what is wrong, for a bad regular expression."""
    if condition.operator == "~":
        needle = folded(condition.pattern)
        return lambda text: needle in folded(text)
    if condition.operator == "like":
        compiled = _compiled(_like(folded(condition.pattern)))
        return lambda text: compiled.fullmatch(_bytes(folded(text))) is not None
    compiled = _compiled(condition.pattern)
    return lambda text: compiled.search(_bytes(text)) is not None


def _like(pattern: str) -> str:
    import re2

    parts = []
    for escaped, many, one, plain in _LIKE_PART.findall(pattern):
        parts.append("(?s:.*)" if many else "(?s:.)" if one else re2.escape(escaped or plain))
    return "".join(parts)


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = _LARGEST_PROGRAM
    options.log_errors = False
    try:
        return re2.compile(_bytes(pattern), options)
    except re2.error as error:
        said = error.args[0] if error.args else "it is none"
        raise ValueError(said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)) from None


def _bytes(text: str) -> bytes:
    """For RE2, which reads UTF-8 and would count offsets that nobody asks for when given a str."""
    return text.encode("utf-8", "replace")

"""English stop words, and the content words of a text."""

from __future__ import annotations

import re
from typing import Final

_STOP_WORD_LIST: Final = (
    "a about an and are as at be been by can could did do does for from had has have he her his how i if in "
    "into is it its may more most no not of on or our she should so some such than that the their them then "
    "there these they this those to us was we were what when where which who whom why will with would you "
    "your"
)
STOP_WORDS: Final = frozenset(_STOP_WORD_LIST.split())
"""English words that are in every text and tell nothing of what it is about."""
_WORD: Final = re.compile(r"[^\W_]+")


def content_words(text: str) -> list[str]:
    """The words that say what a text is about, in small letters and in their order."""
    return [word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS]

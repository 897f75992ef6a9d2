"""Unicode's normal forms, in time that grows with the text and no faster.

Normalising sorts the marks over a letter, and Python sorts them by insertion: a letter with a hundred thousand marks,
which a hostile file can hold, takes minutes. No language piles up more than a few. So a pile is cut every MOST_MARKS,
much as Unicode's stream-safe format does it (UAX 15, section 13), and each part is normalised by itself.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]

MOST_MARKS: Final = 60
_PILE: Final = re.compile(rf"[^\x00-\u02ff]{{{MOST_MARKS + 1}}}")
"""Where a pile may be: there are no marks before U+0300."""


def normalised(form: Form, text: str) -> str:
    """`unicodedata.normalize(form, text)`, but for piles of more than MOST_MARKS marks, which are cut."""
    if _PILE.search(text) is None:
        return unicodedata.normalize(form, text)
    parts: list[str] = []
    begun = marks = 0
    for place, character in enumerate(text):
        if character < "\u0300" or unicodedata.category(character)[0] != "M":
            marks = 0
        elif marks == MOST_MARKS:
            parts.append(unicodedata.normalize(form, text[begun:place]))
            begun, marks = place, 1
        else:
            marks += 1
    return "".join(parts) + unicodedata.normalize(form, text[begun:])

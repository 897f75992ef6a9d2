"""Baseline faithfulness judge: F1 of the words that a claim and a passage share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from ragcli.grounding.faithfulness.claims import Claim, Support

OVERLAP_THRESHOLD: Final = 0.35
"""A sentence is supported from this F1 of its words and a passage's on."""

_WORD: Final = re.compile("[a-z0-9]+")
_STOP: Final = (
    "a an the and or but if then else when while of at by for with about into through during before after above below "
    "to from up down in out on off over under again further once here there all any both each few more most other "
    "some such no nor not only own same so than too very can will just don should now is are was were be been being "
    "have has had having do does did doing would could ought i you he she it we they them his her its our their this "
    "that these those am as s t what which who whom how why where"
)
_STOP_WORDS: Final = frozenset(_STOP.split())


class WordOverlapJudge:
    """F1 of the words, stop words aside, against the passage where it is best."""

    name = "heuristic"

    def judge(self, claims: Sequence[Claim]) -> tuple[Support, ...]:
        """One verdict a claim."""
        return tuple(self._of(claim) for claim in claims)

    def _of(self, claim: Claim) -> Support:
        wanted = _words(claim.text)
        best, where, missing = 0.0, None, wanted
        for number, passage in enumerate(claim.passages):
            there = _words(passage.text)
            shared = len(wanted.keys() & there.keys())
            f1 = 2 * shared / (len(wanted) + len(there)) if shared else 0.0
            if f1 > best or where is None:
                best, where = f1, number
                missing = {word: None for word in wanted if word not in there}
        end = len(claim.passages[where].text) if where is not None else 0
        return Support(claim.text, best >= OVERLAP_THRESHOLD, best, tuple(missing), where, 0, end)


def _words(text: str) -> dict[str, None]:
    """The words in their order, each once."""
    return dict.fromkeys(word for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS)

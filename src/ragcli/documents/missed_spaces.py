"""Spaces that PDFium missed: words run together where a font's space is narrower than PDFium expects.

That two letters of a word stand too far apart is seen only by asking for each letter's box. A word that was once
seen to be one isn't looked at again, so this costs little beyond a paper's vocabulary.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from ragcli.documents.lines import median
from ragcli.documents.pdfium_text import PageText, Span

_RUN = re.compile("[A-Za-z\u00aa-\U0010ffff]{5,}")
"""What has the words in it; much faster to find than they are."""
_WORD = re.compile(r"[^\W\d_]{5,}")


class MissedSpaces:
    """Puts them into the lines of one page after another; make one per document."""

    def __init__(self) -> None:
        self._sound: set[str] = set()
        self._words: list[Span] = []
        self._gaps: dict[str, list[float]] = {}

    def turn_to(self, page: PageText) -> None:
        """Looks for the page's unknown words and measures them. Its lines come next."""
        text, sound = page.text, self._sound
        words: list[Span] = []
        for found in _RUN.finditer(text):
            run = found.group()
            if run in sound:
                continue
            if run.isalpha():
                words.append(found.span())
            else:
                inner = map(re.Match.span, _WORD.finditer(text, *found.span()))
                words += [span for span in inner if text[slice(*span)] not in sound]
        first = {text[start:end]: (start, end) for start, end in reversed(words)}
        self._gaps = dict(zip(first, page.gaps(list(first.values())), strict=True))
        self._words = words

    def put_in(self, page: PageText, start: int, end: int, size: float, least: float) -> str:
        """The page's text[start:end] with its missed spaces: where letters of a word are farther apart than `least`.

        `size` is the letters'; both in points.
        """
        text, words = page.text, self._words
        number = bisect_left(words, (start, start))
        if number == len(words) or words[number][0] >= end:
            return text[start:end]
        out: list[str] = []
        done = start
        while number < len(words) and words[number][0] < end:
            place, after = words[number]
            number += 1
            word = text[place:after]
            if word in self._sound:
                continue
            gaps = self._gaps.pop(word, None) or next(page.gaps([(place, after)]))
            cuts = _cuts(gaps, size, least)
            if not cuts:
                self._sound.add(word)
            for cut in cuts:
                out += text[done : place + cut], " "
                done = place + cut
        out.append(text[done:end])
        return "".join(out)


def _cuts(gaps: list[float], size: float, least: float) -> list[int]:
    """The places in a word where letters are at least `least` points farther apart than letters are."""
    if max(gaps) <= least or abs(median(gaps)) > 0.08 * size:  # letter-spaced: every gap is wide
        return []
    return [place for place, gap in enumerate(gaps, 1) if gap > least]

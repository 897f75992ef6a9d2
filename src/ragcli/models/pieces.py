"""From text to word pieces, in windows that the model can read.

`tokenizer.json` says everything about a tokenizer, and the small `tokenizers` library reads it in 45 ms, where
transformers takes seconds to import; for plain questions even that can be spared (see `plain`). Its stored truncation
and padding are switched off: they would drop a text's tail without a word.

A text longer than the model reads is cut into as few windows as possible, all about equally long. 300 pieces
become 150 + 150 and not 254 + 46, because a short remainder would be read with next to no context. A cut falls
between words where one is near.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ragcli.errors import ModelUnavailable
from ragcli.models.plain import PlainWords, keep_plain, read_plain
from ragcli.models.protocols import IntArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# How far from an even cut a word's start may be and still be taken.
_REACH = 16

TOKENIZER = "tokenizer.json"


class Pieces:
    """A tokenizer with the length its model reads."""

    def __init__(self, tokenizer: Tokenizer, max_length: int, *, lower_case: bool = False) -> None:
        self._tokenizer = _unbounded(tokenizer)
        self._lower_case = lower_case
        probe = tokenizer.encode("a")
        mask = probe.special_tokens_mask
        ahead = mask.index(0) if 0 in mask else len(mask)
        behind = mask[::-1].index(0) if 0 in mask else 0
        self.before = np.asarray(probe.ids[:ahead], dtype=np.int32)
        self.after = np.asarray(probe.ids[len(mask) - behind :], dtype=np.int32)
        self.limit = max(1, max_length - len(self.before) - len(self.after))

    @property
    def vocabulary_size(self) -> int:
        """One more than the largest token id, additions included."""
        return int(self._tokenizer.get_vocab_size(with_added_tokens=True))

    def split(self, texts: Sequence[str]) -> list[list[IntArray]]:
        """For each text its windows, at least one: word-piece ids in text order without special tokens."""
        texts = [self._clean(text) for text in texts]
        encoded = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [self._windows(text, encoding.ids) for text, encoding in zip(texts, encoded, strict=True)]

    def keep(self, tokenizer_file: Path) -> None:
        """Let the next start do without the tokenizer, as far as that can be."""
        keep_plain(tokenizer_file, self._tokenizer, self.before.tolist(), self.after.tolist())

    def wrap(self, ids: IntArray) -> IntArray:
        """A window as the model wants it, its special tokens around it."""
        return np.concatenate([self.before, ids, self.after])

    def _clean(self, text: str) -> str:
        return encodable(text).lower() if self._lower_case else encodable(text)

    def _windows(self, text: str, ids: list[int]) -> list[IntArray]:
        pieces = np.asarray(ids, dtype=np.int32)
        if len(pieces) <= self.limit:
            return [pieces]
        words = self._tokenizer.encode(text, add_special_tokens=False).word_ids
        starts = [place for place in range(1, len(words)) if words[place] != words[place - 1]]
        cuts = window_cuts(len(pieces), self.limit, starts)
        return [pieces[start:end] for start, end in pairwise([0, *cuts, len(pieces)])]


class QuickPieces(Pieces):
    """As `Pieces`, but the tokenizer is not loaded before a text comes that is not a plain question."""

    def __init__(self, words: PlainWords, folder: Path, max_length: int, *, lower_case: bool = False) -> None:
        self._words = words
        self._folder = folder
        self._lower_case = lower_case
        self.before = np.asarray(words.before, dtype=np.int32)
        self.after = np.asarray(words.after, dtype=np.int32)
        self.limit = max(1, max_length - len(self.before) - len(self.after))

    @property
    def vocabulary_size(self) -> int:
        """One more than the largest token id, additions included."""
        return self._words.size

    def split(self, texts: Sequence[str]) -> list[list[IntArray]]:
        """As `Pieces.split`."""
        if len(texts) == 1:
            ids = self._words.split(self._clean(texts[0]))
            if ids is not None and len(ids) <= self.limit:
                return [[np.asarray(ids, dtype=np.int32)]]
        return super().split(texts)

    @cached_property
    def _tokenizer(self) -> Tokenizer:  # type: ignore[override]
        return _unbounded(read_tokenizer(self._folder))


def load_pieces(folder: Path, max_length: int, *, lower_case: bool) -> Pieces:
    """The tokenizer in a model's folder, loaded now only if it was never loaded before."""
    place = folder / TOKENIZER
    words = read_plain(place) if place.is_file() else None
    if words is not None:
        return QuickPieces(words, folder, max_length, lower_case=lower_case)
    pieces = Pieces(read_tokenizer(folder), max_length, lower_case=lower_case)
    pieces.keep(place)
    return pieces


def encodable(text: str) -> str:
    """The text with "?" for each half of a surrogate pair, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def window_cuts(count: int, limit: int, starts: Sequence[int]) -> list[int]:
    """Where to cut `count` pieces into the fewest windows of at most `limit`, all about equally long.

    `starts` are the ascending places at which a word starts; the nearest one to an even cut is taken if it is
    within a few pieces and leaves every window short enough.
    """
    windows = -(-count // limit)
    known = np.asarray(starts, dtype=np.int64)
    cuts: list[int] = []
    for number in range(1, windows):
        previous = cuts[-1] if cuts else 0
        lowest = max(previous + 1, count - (windows - number) * limit)
        highest = min(previous + limit, count - (windows - number))
        even = min(max(round(number * count / windows), lowest), highest)
        near = known[(known >= max(lowest, even - _REACH)) & (known <= min(highest, even + _REACH))]
        cuts.append(int(near[np.abs(near - even).argmin()]) if len(near) else even)
    return cuts


def read_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer in a model's folder. Raises ModelUnavailable where there is none or it is damaged."""
    from tokenizers import Tokenizer

    path = folder / TOKENIZER
    if not path.is_file():
        raise ModelUnavailable(f"{folder} has no tokenizer.json: the model's files are not complete; get them again.")
    try:
        return Tokenizer.from_file(str(path))
    # The library raises bare Exception for a file it cannot read.
    except Exception as error:
        raise ModelUnavailable(f"{path} cannot be read ({error}); get the model's files again.") from None


def _unbounded(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer

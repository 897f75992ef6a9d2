"""Split text into word pieces, in windows that fit the model's maximum length.

The `tokenizers` library reads `tokenizer.json`; its stored truncation and padding are switched off, since they would
drop a text's tail without a word. A text longer than the model reads is cut into as few windows as possible, all
about equally long (300 pieces become 150 + 150, not 254 + 46), between words where one is near. Loading
`tokenizer.json` takes some 45 ms, a tenth of a cold query; a question in printable ASCII is split by WordPiece (Wu et
al. 2016, arXiv:1609.08144) over a vocabulary cached as lines, read in 3 ms. Everything else goes to the library, and
so does every tokenizer that does more than that.
"""

from __future__ import annotations

import contextlib
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ragcli.atomic_files import cache_dir, replace_file_atomically
from ragcli.errors import ModelUnavailable
from ragcli.models.engine_interface import IntArray
from ragcli.models.model_lookup import file_sha256

if TYPE_CHECKING:
    from tokenizers import Tokenizer


_LONGEST_WORD: Final = 100
_INSIDE: Final = "##"
# Markers such as [SEP] are one piece wherever they stand; a text that may hold one is not plain.
_PLAIN: Final = re.compile(r"[\t\n\r -;=-Z\\-~]*")
_WORDS: Final = re.compile(r"[!-/:-@\[-`{-~]|[^\s!-/:-@\[-`{-~]+")


@dataclass(frozen=True, slots=True)
class AsciiWordPiece:
    """A vocabulary, and what else is to be known of its tokenizer.

    `before` and `after` are the ids of the special tokens around a text, `size` is one more than the largest id.
    """

    ids: Mapping[str, int]
    unknown: int
    lower_case: bool
    before: tuple[int, ...]
    after: tuple[int, ...]
    size: int

    def split(self, text: str) -> list[int] | None:
        """The ids of the text's pieces, without special tokens; None if it is for the library to split."""
        if not _PLAIN.fullmatch(text):
            return None
        ids: list[int] = []
        for word in _WORDS.findall(text.lower() if self.lower_case else text):
            ids += self._pieces(word)
        return ids

    def _pieces(self, word: str) -> list[int]:
        whole = self.ids.get(word)
        if whole is not None:
            return [whole]
        found: list[int] = []
        start = 0
        while start < len(word) <= _LONGEST_WORD:
            for stop in range(len(word), start, -1):
                piece = self.ids.get(word[start:stop] if start == 0 else _INSIDE + word[start:stop])
                if piece is not None:
                    found.append(piece)
                    start = stop
                    break
            else:
                return [self.unknown]
        return found or [self.unknown]


def read_cached_vocabulary(tokenizer_file: Path) -> AsciiWordPiece | None:
    """What `keep_plain` kept of this tokenizer, None if it never did, could not, or the cache is damaged."""
    try:
        header, _, lines = _vocabulary_cache_path(tokenizer_file).read_bytes().partition(b"\n")
        about = json.loads(header)
        if zlib.crc32(lines) != about.pop("checksum"):
            return None
        pieces = lines.decode("utf-8").split("\n")
        ids = dict(zip(pieces, range(len(pieces)), strict=True))
        before, after = (tuple(map(int, about.pop(side))) for side in ("before", "after"))
        return AsciiWordPiece(ids=ids, before=before, after=after, **about)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def cache_vocabulary(tokenizer_file: Path, tokenizer: Tokenizer, before: list[int], after: list[int]) -> None:
    """Keep the vocabulary for `read_plain`, if the tokenizer does no more than is told in the module's head."""
    about = json.loads(tokenizer.to_str())
    pieces = _vocabulary(about)
    if pieces is None:
        return
    lines = "\n".join(pieces).encode()
    header = {
        "checksum": zlib.crc32(lines),
        "unknown": pieces.index(about["model"]["unk_token"]),
        "lower_case": about["normalizer"]["lowercase"],
        "before": before,
        "after": after,
        "size": int(tokenizer.get_vocab_size(with_added_tokens=True)),
    }
    # A cache that cannot be written costs time, not the answer.
    with contextlib.suppress(OSError):
        replace_file_atomically(_vocabulary_cache_path(tokenizer_file), json.dumps(header).encode() + b"\n" + lines)


def _vocabulary(about: Mapping[str, Any]) -> list[str] | None:
    """The pieces by id, None if this is another kind of tokenizer."""
    model, normalizer, cutter = (about.get(part) or {} for part in ("model", "normalizer", "pre_tokenizer"))
    ids = model.get("vocab")
    usual = (
        model.get("type") == "WordPiece"
        and model.get("continuing_subword_prefix") == _INSIDE
        and model.get("max_input_chars_per_word") == _LONGEST_WORD
        and normalizer.get("type") == "BertNormalizer"
        and normalizer.get("clean_text") is True
        and cutter.get("type") == "BertPreTokenizer"
    )
    if not usual or not ids or model.get("unk_token") not in ids:
        return None
    pieces = sorted(ids, key=ids.__getitem__)
    if [ids[piece] for piece in pieces] != list(range(len(pieces))) or any("\n" in piece for piece in pieces):
        return None
    # Added tokens are looked for in the text before anything else.
    if any(_PLAIN.fullmatch(each["content"]) for each in about.get("added_tokens", ())):
        return None
    return pieces


def _vocabulary_cache_path(tokenizer_file: Path) -> Path:
    return cache_dir() / "pieces" / f"{file_sha256(tokenizer_file)[:32]}.txt"


# How far from an even cut a word's start may be and still be taken.
_REACH = 16

TOKENIZER_FILE = "tokenizer.json"


class WindowedTokenizer:
    """A tokenizer with the length its model reads."""

    def __init__(self, tokenizer: Tokenizer, max_length: int, *, lower_case: bool = False) -> None:
        self._tokenizer = _without_truncation(tokenizer)
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
        cache_vocabulary(tokenizer_file, self._tokenizer, self.before.tolist(), self.after.tolist())

    def wrap(self, ids: IntArray) -> IntArray:
        """A window as the model wants it, its special tokens around it."""
        return np.concatenate([self.before, ids, self.after])

    def _clean(self, text: str) -> str:
        return (
            replace_surrogates_for_tokenizer(text).lower()
            if self._lower_case
            else replace_surrogates_for_tokenizer(text)
        )

    def _windows(self, text: str, ids: list[int]) -> list[IntArray]:
        pieces = np.asarray(ids, dtype=np.int32)
        if len(pieces) <= self.limit:
            return [pieces]
        words = self._tokenizer.encode(text, add_special_tokens=False).word_ids
        starts = [place for place in range(1, len(words)) if words[place] != words[place - 1]]
        cuts = window_boundaries(len(pieces), self.limit, starts)
        return [pieces[start:end] for start, end in pairwise([0, *cuts, len(pieces)])]


class CachedVocabularyTokenizer(WindowedTokenizer):
    """As `Pieces`, but the tokenizer is not loaded before a text comes that is not a plain question."""

    def __init__(self, words: AsciiWordPiece, folder: Path, max_length: int, *, lower_case: bool = False) -> None:
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
        return _without_truncation(read_tokenizer(self._folder))


def load_windowed_tokenizer(folder: Path, max_length: int, *, lower_case: bool) -> WindowedTokenizer:
    """The tokenizer in a model's folder, loaded now only if it was never loaded before."""
    place = folder / TOKENIZER_FILE
    words = read_cached_vocabulary(place) if place.is_file() else None
    if words is not None:
        return CachedVocabularyTokenizer(words, folder, max_length, lower_case=lower_case)
    pieces = WindowedTokenizer(read_tokenizer(folder), max_length, lower_case=lower_case)
    pieces.keep(place)
    return pieces


def replace_surrogates_for_tokenizer(text: str) -> str:
    """The text with "?" for each half of a surrogate pair, which no tokenizer takes."""
    return text.encode("utf-8", "replace").decode("utf-8")


def window_boundaries(count: int, limit: int, starts: Sequence[int]) -> list[int]:
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

    path = folder / TOKENIZER_FILE
    if not path.is_file():
        raise ModelUnavailable(f"{folder} has no tokenizer.json: the model's files are not complete; get them again.")
    try:
        return Tokenizer.from_file(str(path))
    # The library raises bare Exception for a file it cannot read.
    except Exception as error:
        raise ModelUnavailable(f"{path} cannot be read ({error}); get the model's files again.") from None


def _without_truncation(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer

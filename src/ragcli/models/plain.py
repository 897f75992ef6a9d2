"""Word pieces of plain questions, without loading the tokenizer.

Reading a `tokenizer.json` takes some 45 ms, library included, which is a tenth of a whole query from a cold start. A
question in printable ASCII needs none of what the library is for: BERT's tokenizers lower its letters, cut it at
spaces and around punctuation, and take from each word the longest known piece, again and again (WordPiece: Wu et
al. 2016, arXiv:1609.08144). For those the vocabulary is kept in the cache as lines, read in 3 ms; everything else
goes to the library, and so does every tokenizer that does more than this.
"""

from __future__ import annotations

import contextlib
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragcli.models.cache import file_sha256
from ragcli.private import cache_dir, replace_file

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_LONGEST_WORD: Final = 100
_INSIDE: Final = "##"
# Markers such as [SEP] are one piece wherever they stand; a text that may hold one is not plain.
_PLAIN: Final = re.compile(r"[\t\n\r -;=-Z\\-~]*")
_WORDS: Final = re.compile(r"[!-/:-@\[-`{-~]|[^\s!-/:-@\[-`{-~]+")


@dataclass(frozen=True, slots=True)
class PlainWords:
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


def read_plain(tokenizer_file: Path) -> PlainWords | None:
    """What `keep_plain` kept of this tokenizer, None if it never did, could not, or the cache is damaged."""
    try:
        header, _, lines = _place(tokenizer_file).read_bytes().partition(b"\n")
        about = json.loads(header)
        if zlib.crc32(lines) != about.pop("checksum"):
            return None
        pieces = lines.decode("utf-8").split("\n")
        ids = dict(zip(pieces, range(len(pieces)), strict=True))
        before, after = (tuple(map(int, about.pop(side))) for side in ("before", "after"))
        return PlainWords(ids=ids, before=before, after=after, **about)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def keep_plain(tokenizer_file: Path, tokenizer: Tokenizer, before: list[int], after: list[int]) -> None:
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
        replace_file(_place(tokenizer_file), json.dumps(header).encode() + b"\n" + lines)


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


def _place(tokenizer_file: Path) -> Path:
    return cache_dir() / "pieces" / f"{file_sha256(tokenizer_file)[:32]}.txt"

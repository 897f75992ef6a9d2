"""Inputs made out of others, word by word.

Flipping bytes mostly turns a document into one that is refused at the door. These changes keep words, numbers and
brackets whole and put them where they don't belong: half of all inputs are made here, the other half by libFuzzer.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

_TOKEN = re.compile(rb"[A-Za-z_]+|\d+|[ \t]+|\r?\n|[^\x00-\x7f]+|.", re.DOTALL)
_NUMBER = re.compile(rb"\d+")
_NUMBERS = (
    *(b"0", b"1", b"-1", b"2", b"7", b"255", b"65535", b"65536", b"1000000", b"2147483647", b"2147483648"),
    *(b"4294967296", b"9223372036854775808", b"99999999999999999999", b"1e308", b"1e999", b"0.00000001", b"-0"),
)
_LONGEST_PART = 40
_MANY_PAGES = re.compile(rb"(/Count\s*)\d{4,}")


def mutated(data: bytes, words: Sequence[bytes], most: int, seed: int) -> bytes:
    """The data with up to four changes, no longer than `most`; the same for the same seed."""
    chance = random.Random(seed)
    tokens = _TOKEN.findall(data)
    for _ in range(chance.randint(1, 4)):
        tokens = chance.choice(_CHANGES)(tokens, words, chance)
    return b"".join(tokens)[:most]


def tamed(data: bytes) -> bytes:
    """The data with no PDF in it that claims thousands of pages: each would take seconds, and tell nothing new."""
    return _MANY_PAGES.sub(rb"\g<1>300", data)


def _part(tokens: list[bytes], chance: random.Random) -> tuple[int, int]:
    start = chance.randrange(len(tokens)) if tokens else 0
    return start, min(len(tokens), start + 1 + int(_LONGEST_PART * chance.random() ** 3))


def _without(tokens: list[bytes], _: Sequence[bytes], chance: random.Random) -> list[bytes]:
    start, end = _part(tokens, chance)
    return tokens[:start] + tokens[end:]


def _moved(tokens: list[bytes], _: Sequence[bytes], chance: random.Random) -> list[bytes]:
    start, end = _part(tokens, chance)
    part, rest = tokens[start:end], tokens[:start] + tokens[end:]
    place = chance.randint(0, len(rest))
    return rest[:place] + part + rest[place:]


def _repeated(tokens: list[bytes], _: Sequence[bytes], chance: random.Random) -> list[bytes]:
    start, end = _part(tokens, chance)
    return tokens[:end] + tokens[start:end] * int(1 + 60 * chance.random() ** 4) + tokens[end:]


def _copied_over(tokens: list[bytes], _: Sequence[bytes], chance: random.Random) -> list[bytes]:
    start, end = _part(tokens, chance)
    other, until = _part(tokens, chance)
    return tokens[:other] + tokens[start:end] + tokens[until:]


def _with_word(tokens: list[bytes], words: Sequence[bytes], chance: random.Random) -> list[bytes]:
    place = chance.randint(0, len(tokens))
    kept = place + chance.randint(0, 1)
    return [*tokens[:place], chance.choice(words), *tokens[kept:]]


def _with_number(tokens: list[bytes], words: Sequence[bytes], chance: random.Random) -> list[bytes]:
    places = [place for place, token in enumerate(tokens) if _NUMBER.fullmatch(token)]
    if not places:
        return _with_word(tokens, words, chance)
    place = chance.choice(places)
    number = chance.choice(_NUMBERS) if chance.random() < 0.6 else tokens[chance.choice(places)]
    return [*tokens[:place], number, *tokens[place + 1 :]]


_CHANGES = (_without, _moved, _repeated, _copied_over, _with_word, _with_number, _with_number)

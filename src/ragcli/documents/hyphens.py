"""Is a hyphen at a line's end part of the word, or only the printer's?

"recommen-/dation" is one word, "high-/latency" keeps its hyphen. No rule tells them apart, but the document itself
often does: one of the two forms mostly stands elsewhere in it, unbroken. Where neither does, a hyphen stays between
two parts that are both words of the document, and goes otherwise. Whatever is decided here, the place is recorded
and both readings stay searchable.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?(?:-[^\W\d_]+)*")
# fmt: off
_ENDINGS = frozenset((
    "able", "ably", "al", "ally", "ance", "ances", "ation", "ations", "cation", "ed", "ence", "ences", "er", "ered",
    "ers", "ful", "fully", "ible", "ibly", "ic", "ical", "ically", "ing", "ings", "ion", "ions", "ism", "isms",
    "ist", "ists", "ities", "ity", "ive", "ively", "ization", "less", "ly", "ment", "ments", "ness", "ous",
    "ously", "ship", "sion", "sions", "tion", "tional", "tions", "tive", "ture", "tures", "ty", "ular", "uous",
))
_HEADS = frozenset((
    "cross", "ex", "fast", "full", "half", "high", "large", "long", "low", "quasi", "real", "self", "semi", "short",
    "small", "so", "time", "well",
))
# fmt: on
_LINKS = frozenset(("a", "and", "as", "at", "by", "for", "in", "of", "on", "or", "the", "to", "up"))
_MARKS = ".,;:()"
_LAST = re.compile(r"(?:\w+-)*\w+$")
_FIRST = re.compile(r"\w+(?:-\w+)*")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """How often the document has each word, and each part of a hyphened word by its side of the hyphen."""

    words: Counter[str]
    heads: Counter[str]
    tails: Counter[str]


def vocabulary(lines: Iterable[tuple[str, bool, bool]]) -> Vocabulary:
    """Counts the words of lines given as (text, first word is a rest, last word is broken), leaving broken ones out."""
    texts: list[str] = []
    parts: list[str] = []
    for text, rest, broken in lines:
        texts.append(text)
        if rest or broken:
            found = _WORD.findall(text.lower())
            if broken and found:
                parts.append(found.pop())
            if rest and found:
                parts.append(found[0])
    counts: dict[str, int] = {}
    for token, count in Counter("\n".join(texts).lower().split()).items():
        bare = token.strip(_MARKS)
        if bare.isalpha():
            counts[bare] = counts.get(bare, 0) + count
        else:
            for word in _WORD.findall(token):
                counts[word] = counts.get(word, 0) + count
    words = Counter(counts)
    words.subtract(parts)
    heads: Counter[str] = Counter()
    tails: Counter[str] = Counter()
    for word, count in words.items():
        if "-" in word:
            first, *_, last = word.split("-")
            heads[first] += count
            tails[last] += count
    return Vocabulary(words, heads, tails)


def keeps_hyphen(before: str, after: str, known: Vocabulary) -> bool:
    """True if a word that ends `before` with a hyphen and goes on in `after` is written with that hyphen."""
    left = _LAST.search(before, before.rfind(" ") + 1)
    right = _FIRST.match(after)
    if left is None or right is None:
        return True
    head, tail = left.group().lower(), right.group().lower()
    if not tail[0].isalpha() or not head[-1].isalpha():
        return True
    near_head, near_tail = head.rsplit("-", 1)[-1], tail.split("-", 1)[0]
    joined = known.words[head + tail] + known.words[near_head + near_tail] * (head != near_head or tail != near_tail)
    hyphened = known.words[f"{head}-{tail}"]
    if head == near_head and tail == near_tail:
        joined += known.words[f"{head}{tail}s"] + (known.words[f"{head}{tail[:-1]}"] if tail.endswith("s") else 0)
        hyphened += known.words[f"{head}-{tail}s"] + (known.words[f"{head}-{tail[:-1]}"] if tail.endswith("s") else 0)
    if joined != hyphened:
        return hyphened > joined
    if near_tail in _LINKS and near_tail != tail:  # "proof-/of-concept", "peer-/to-peer"
        return True
    if near_tail in _ENDINGS:
        return False
    if right.group()[0].isupper() and not left.group().isupper():
        return True
    if len(near_head) == 1 or "-" in head:
        return True
    both = known.words[near_head] and known.words[near_tail] and len(near_head) > 2 and len(near_tail) > 3
    if near_head in _HEADS and len(near_tail) > 4:
        return True
    compound = known.heads[near_head] + known.tails[near_tail] > 1
    return bool(both or (compound and known.words[near_tail]))

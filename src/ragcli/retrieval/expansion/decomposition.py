"""Rule-based question decomposition: split a question into sub-questions by its words."""

from __future__ import annotations

import re
from typing import Final

MAX_SUBQUESTIONS: Final = 5
# A longer text is a pasted paragraph and no question with seams; sides longer than that are no topics.
_LONGEST: Final = 1000
_LONGEST_SIDE: Final = 10

_ASKING: Final = (
    "how|what|why|when|where|which|who|whom|whose|is|are|was|were|do|does|did|can|could|should|will|would|has|have|"
    "explain|describe|compare|contrast|list|name|give|show|tell|summari[sz]e|define|discuss|find|say"
)
_BEGINS: Final = re.compile(rf"\W*(?:{_ASKING})\b", re.IGNORECASE)
_LEANS: Final = re.compile(
    r"\b(?:it|its|they|them|their|he|she|his|her|this|that one|these|those|each|both|either|either one|the latter|"
    r"the former|the same)\b",
    re.IGNORECASE,
)
# Between questions: a mark, a semicolon or a line's end; or "and" with another question's beginning behind it.
_SEAM: Final = re.compile(
    rf"(?:(?<=\?)\s+|(?<=？)\s*|\s*;\s*|\s*\n+\s*)(?:and\s+|but\s+)?|,?\s+(?:and|but)(?:\s+also)?\s+(?=(?:{_ASKING})\b)",
    re.IGNORECASE,
)
_BULLET: Final = re.compile(r"^\s*(?:[-*•]|\(?[0-9a-z][.)])\s+", re.IGNORECASE)
_TAIL: Final = (
    r"(?P<tail>\s+(?:in terms of|with respect to|with regard to|regarding|concerning|when|for|in|on|as to)\s.+)?"
)
_PAIRS: Final = tuple(
    re.compile(pattern + _TAIL + r"\s*[?？.!]*$", re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"^(?:please\s+)?(?:compare|contrast|compare and contrast)\s+(?P<first>.+?)\s+"
        r"(?:with|to|and|against|versus|vs\.?)\s+(?P<second>.+?)",
        r"^(?:.*\b)?(?:differences?|distinctions?|comparison|similarit(?:y|ies)|trade-?offs?)\s+between\s+"
        r"(?P<first>.+?)\s+and\s+(?P<second>.+?)",
        r"^how\s+(?:do|does|did|are|is)\s+(?P<first>.+?)\s+(?:differ(?:ent)?)\s+from\s+(?P<second>.+?)",
        r"^how\s+(?:do|does|did)\s+(?P<first>.+?)\s+compare\s+(?:with|to|against)\s+(?P<second>.+?)",
        r"^(?P<first>.+?)\s+(?:versus|vs\.?)\s+(?P<second>.+?)",
    )
)
_BOTH: Final = re.compile(
    r"^(?P<before>.*?)\bboth\s+(?P<first>.+?)\s+and\s+(?P<second>\S+)(?P<tail>.*)$", re.IGNORECASE
)
_SHARED: Final = re.compile(r"^(?P<head>.+\s(?:of|for|in|behind))\s+(?P<rest>.+)$", re.IGNORECASE)
_WORD: Final = re.compile(r"\w+")


def split_question(question: str) -> tuple[str, ...]:
    """The questions in a question, at most five; the question alone, as it is, where no seam shows."""
    parts: list[str] = []
    for part, leans in _pieces(question.strip()) if len(question) <= _LONGEST else ():
        parts += (part,) if leans else _pair(part)
    distinct = tuple(dict.fromkeys(part for part in parts if _WORD.search(part)))
    return distinct[:MAX_SUBQUESTIONS] if len(distinct) > 1 else (question,)


def _pieces(text: str) -> list[tuple[str, bool]]:
    """The text cut at its seams, and whether a piece leans on what stands before it, which it then has before it."""
    bounds, start = [], 0
    for seam in _SEAM.finditer(text):
        before, after = text[start : seam.start()], text[seam.end() :]
        # What a seam divides must be questions, or "the fall of Rome; a history" would be cut.
        if _asks(before) and _asks(after):
            bounds.append((start, seam.start()))
            start = seam.end()
    bounds.append((start, len(text)))
    pieces: list[tuple[str, bool]] = []
    anchor = 0
    for start, end in bounds:
        if _LEANS.search(text[start:end]) and pieces:
            pieces.append((text[anchor:end].strip(), True))
        else:
            anchor = start
            pieces.append((_BULLET.sub("", text[start:end].strip()), False))
    return pieces


def _asks(piece: str) -> bool:
    piece = _BULLET.sub("", piece.strip())
    return bool(_BEGINS.match(piece)) or piece.endswith(("?", "？"))


def _pair(part: str) -> tuple[str, ...]:
    """The two sides of a comparison, each with what is asked of both; anything else as it is."""
    for pattern in _PAIRS:
        if found := pattern.match(part):
            first, second, tail = found["first"].strip(), found["second"].strip(" ,"), found["tail"] or ""
            if max(len(first.split()), len(second.split())) > _LONGEST_SIDE:
                break
            shared = _SHARED.match(first)
            if shared and not _SHARED.match(second):
                second = f"{shared['head']} {second}"
            return first + tail, second + tail
    if found := _BOTH.match(part):
        return tuple(" ".join(f"{found['before']}{found[side]}{found['tail']}".split()) for side in ("first", "second"))
    return (part,)

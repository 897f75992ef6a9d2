r"""Parse citations in a draft: [1], [@key], \cite{key}, (Author 2017), file names, DOIs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

CitationKind = Literal["label", "author", "source", "chunk"]

_YEAR: Final = r"(?:1[5-9]|20)\d{2}"
_LABEL: Final = re.compile(r"\[\s*\^?(\d{1,4}(?:\s*(?:[,;–-]|and)\s*\^?\d{1,4})*)\s*\]")
_FOOTNOTE: Final = re.compile(r"\[\^([\w:.+-]{1,60})\]")
_RANGE: Final = re.compile(r"(\d+)(?:\s*[–-]\s*(\d+))?")
_BRACKETED_KEYS: Final = re.compile(r"\[[^\[\]]*(?<![\w.])-?@[^\[\]]*\]")
_KEY: Final = re.compile(r"(?<![\w.])-?@([^\W_](?:[\w:.#$%&+?<>~/-]*\w)?)")
_LATEX: Final = re.compile(r"~?\\[a-zA-Z]{0,20}cite[a-zA-Z]{0,20}\*?(?:\[[^\]]{0,200}\]){0,2}\{([^}]{1,2000})\}")
_IN_PARENTHESES: Final = re.compile(rf"\s*[(\[]([^()\[\]]*\b{_YEAR}[a-z]?\b[^()\[\]]*)[)\]]")
_NAME: Final = r"[A-ZÀ-ÖØ-Þ][^\W\d_]*(?:['’-][^\W\d_]+)*"
_AUTHORED: Final = re.compile(
    rf"(?:see\s+|e\.g\.,?\s+|cf\.\s+|also\s+)*({_NAME})(?:,?\s+(?:et\s+al\.?|and\s+{_NAME}|&\s+{_NAME}|{_NAME}|[A-Z]\.))*"
    rf",?\s+({_YEAR})[a-z]?(?:\s*,.*)?\s*"
)
_TEXTUAL: Final = re.compile(
    rf"\b({_NAME})(?:\s+et\s+al\.?|\s+(?:and|&)\s+{_NAME})?(?:['’]s)?\s+[(\[]({_YEAR})[a-z]?(?:,[^)\]]*)?[)\]]"
)
_REFERRED: Final = re.compile(rf",?\s+(?:cf\.|see(?:\s+also)?|e\.g\.,?)\s+{_TEXTUAL.pattern}")
_PART: Final = (
    r"(?:§{1,2}|(?:Fig(?:ure)?s?|Tab(?:le)?s?|Sec(?:t|tion)?s?|Eqs?|Equations?|App(?:endix)?|Chap(?:ter)?s?|"
    r"Algorithms?|Listings?|Theorems?|Lemmas?)\b\.?)"
)
_NUMBERED: Final = r"(?:[A-Z]?\d+(?:\.\d+)*[a-z]?|[A-Z])\b"
_OWN_PART: Final = re.compile(
    rf"\s*\(\s*(?:(?:see|cf\.|also|e\.g\.,?)\s+)*{_PART}(?:\s*{_NUMBERED})?"
    rf"(?:\s*(?:[,;–-]|and|&)\s*(?:{_PART}\s*)?(?:{_NUMBERED})?)*\s*\)",
    re.IGNORECASE,
)
_FILE: Final = re.compile(
    r"(?:\s*[(\[])?(?<![\w/])((?:[\w.~-]+/)*[\w.~+-]+\.(?:pdf|md|markdown|txt|rst|html?|jsonl|tex))(?![\w/])"
    r"(?:,?\s+pp?\.\s*(\d+)(?:\s*[-–]\s*\d+)?)?[)\]]?",
    re.IGNORECASE,
)
_CHUNK: Final = re.compile(r"\s*[(\[]?\b(d[0-9a-f]{10}:\d{1,6})\b[)\]]?")
_ARXIV: Final = re.compile(r"\barXiv:\s?(\d{4}\.\d{4,5}|[a-z-]+/\d{7})", re.IGNORECASE)
_DOI: Final = re.compile(r"(?:https?://(?:dx\.)?doi\.org/|\bdoi:\s*)?\b(10\.\d{4,9}/[^\s\]})>,;]+)", re.IGNORECASE)
_IDENTIFIED: Final = re.compile(
    rf"\s*[(\[]\s*(?:{_ARXIV.pattern}|{_DOI.pattern})(?:\s*\[[\w.-]+\])?\s*[)\]]", re.IGNORECASE
)
_MOST_IN_RANGE: Final = 50


@dataclass(frozen=True, slots=True)
class DraftCitation:
    """What a sentence cites, as it names it: a label of the list of references or a key, an author with a year, a
    file or an identifier with perhaps a page, or a chunk."""

    kind: CitationKind
    name: str
    year: str | None = None
    page: int | None = None

    @property
    def written(self) -> str:
        """The citation for people to read."""
        if self.kind == "author":
            return f"{self.name} {self.year}"
        return f"[{self.name}]" if self.kind == "label" else self.name


def citations_of(sentence: str) -> tuple[DraftCitation, ...]:
    """What a sentence cites, each once."""
    return tuple(dict.fromkeys(_found(sentence)))


def without_citation_marks(sentence: str) -> str:
    """The sentence as a claim: citations in brackets gone, and of "Shor (1997) showed" the year.

    Where the draft points to a part of itself, as in "(see Fig. 2)", is no part of the claim either.
    """
    text = _TEXTUAL.sub(lambda found: found[1], _REFERRED.sub("", _OWN_PART.sub("", sentence)))
    for pattern in (_LABEL, _FOOTNOTE, _BRACKETED_KEYS, _LATEX, _CHUNK, _IDENTIFIED):
        text = pattern.sub("", text)
    text = _FILE.sub(lambda found: "" if found[0].lstrip()[:1] in "([" else found[1], text)
    text = _IN_PARENTHESES.sub(lambda found: "" if _cites(found[1]) else found[0], text)
    text = re.sub(r"\s+([.,;:!?])", r"\1", text)
    return " ".join(text.split())


def _found(sentence: str) -> Iterator[DraftCitation]:
    for found in _LABEL.finditer(sentence):
        for first, last in _RANGE.findall(found[1]):
            low, high = int(first), int(last or first)
            yield from (DraftCitation("label", str(n)) for n in range(low, min(high, low + _MOST_IN_RANGE) + 1))
    yield from (DraftCitation("label", found[1]) for found in _FOOTNOTE.finditer(sentence))
    yield from (DraftCitation("label", found[1]) for found in _KEY.finditer(sentence))
    for found in _LATEX.finditer(sentence):
        yield from (DraftCitation("label", key.strip()) for key in found[1].split(",") if key.strip())
    yield from (DraftCitation("author", found[1], found[2]) for found in _TEXTUAL.finditer(sentence))
    for found in _IN_PARENTHESES.finditer(sentence):
        for part in found[1].split(";"):
            if authored := _AUTHORED.fullmatch(part.strip()):
                yield DraftCitation("author", authored[1], authored[2])
    for found in _FILE.finditer(sentence):
        yield DraftCitation("source", found[1], page=int(found[2]) if found[2] else None)
    yield from (DraftCitation("chunk", found[1]) for found in _CHUNK.finditer(sentence))
    yield from (DraftCitation("source", found[1]) for found in _ARXIV.finditer(sentence))
    yield from (DraftCitation("source", found[1].rstrip(".")) for found in _DOI.finditer(sentence))


def _cites(inside: str) -> bool:
    return any(_AUTHORED.fullmatch(part.strip()) for part in inside.split(";"))

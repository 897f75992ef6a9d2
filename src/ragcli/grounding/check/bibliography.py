"""Resolve citations to documents of the collections."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from ragcli.grounding.check.citation_parser import DraftCitation
from ragcli.text.stop_words import STOP_WORDS
from ragcli.text.unicode import letters_and_digits

if TYPE_CHECKING:
    from ragcli.collection import DocumentRow
    from ragcli.engines import CollectionReader

_WORD: Final = re.compile(r"[^\W_]+")
_YEAR: Final = re.compile(r"(?<!\d)((?:1[5-9]|20)\d{2})(?!\d)")
_KEY: Final = re.compile(r"([a-z][a-z'-]+?)(?:etal)?[_:-]?((?:1[5-9]|20)?\d{2})[_:-]?([a-z]*)", re.IGNORECASE)
_FIRST_NAME: Final = re.compile(r"[^\W\d_]{2,}(?:['’-][^\W\d_]+)*")
_ENOUGH_OF_TITLE: Final = 0.8
_HEAD: Final = 800
_MOST: Final = 5


@dataclass(frozen=True, slots=True)
class BibliographyEntry:
    """A document that can be cited."""

    reader: CollectionReader
    row: DocumentRow

    @property
    def authors(self) -> str:
        """Its authors, as far as they are known."""
        for key in ("author", "authors", "creator"):
            value = self.row.metadata.get(key)
            if value:
                return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        return ""

    @property
    def about(self) -> str:
        """What is known of it beyond its text."""
        return " › ".join(part for part in (self.row.title, self.authors, self.row.source) if part)


class Bibliography:
    """The documents of some collections, to be found by what a draft calls them."""

    def __init__(self, readers: Sequence[CollectionReader]) -> None:
        self._entries = [BibliographyEntry(reader, row) for reader in readers for row in reader.documents()]
        self._heads: dict[tuple[str, str], frozenset[str]] = {}

    def cited(self, citation: DraftCitation, references: Mapping[str, str]) -> list[BibliographyEntry]:
        """The documents that the citation means; none if none fits."""
        match citation.kind:
            case "author":
                return self._by_author(citation.name, citation.year)
            case "source":
                return self._by_source(citation.name)
            case "chunk":
                document = citation.name.rpartition(":")[0]
                return [each for each in self._entries if each.row.document_id == document]
            case "label":
                if citation.name in references:
                    return self._by_description(references[citation.name])
                return [] if citation.name.isdigit() else self._by_key(citation.name, references)

    def _by_source(self, name: str) -> list[BibliographyEntry]:
        wanted = name.removeprefix("./").lower()
        exact = [
            each
            for each in self._entries
            if wanted in (each.row.source.lower(), (each.row.path or "").lower(), (each.row.record_id or "").lower())
        ]
        if exact:
            return exact
        file = PurePath(wanted).name
        named = [each for each in self._entries if PurePath(each.row.source).name.lower() == file]
        return named or [each for each in self._entries if wanted in self._identifiers(each)]

    def _identifiers(self, entry: BibliographyEntry) -> set[str]:
        found = {str(entry.row.metadata[key]).lower() for key in ("doi", "arxiv") if key in entry.row.metadata}
        return found | {value.removeprefix("arxiv:").partition("v")[0] for value in found}

    def _by_key(self, key: str, references: Mapping[str, str]) -> list[BibliographyEntry]:
        wanted = letters_and_digits(key)
        for each in self._entries:
            names = (each.row.document_id, each.row.record_id or "", PurePath(each.row.source).stem)
            own = each.row.metadata.get("citekey") or each.row.metadata.get("key") or ""
            if wanted in {letters_and_digits(name) for name in (*names, str(own)) if name}:
                return [each]
        for text in references.values():
            if key in text:
                return self._by_description(text)
        found = _KEY.fullmatch(key)
        if found is None:
            return []
        year = found[2] if len(found[2]) == 4 else None
        mine = self._by_author(found[1], year)
        word = found[3].lower()
        titled = [each for each in mine if word and word in _words(f"{each.row.title or ''} {each.row.source}")]
        return titled or mine

    def _by_description(self, text: str) -> list[BibliographyEntry]:
        lower = text.lower()
        for each in self._entries:
            name = PurePath(each.row.source).name.lower()
            if name in lower or each.row.document_id.lower() in lower.split():
                return [each]
        for each in self._entries:
            if any(identifier and identifier in lower for identifier in self._identifiers(each)):
                return [each]
        words = _words(text)
        best, most = None, 0.0
        for each in self._entries:
            for title in (each.row.title or "", PurePath(each.row.source).stem if each.row.path else ""):
                telling = _words(title)
                share = len(telling & words) / len(telling) if telling else 0.0
                enough = (share >= _ENOUGH_OF_TITLE and len(telling) >= 3) or (share == 1.0 and len(telling) == 2)
                if enough and share * len(telling) > most:
                    best, most = each, share * len(telling)
        if best is not None:
            return [best]
        author, year = _FIRST_NAME.search(text), _YEAR.search(text)
        return self._by_author(author[0], year[1]) if author and year else []

    def _by_author(self, name: str, year: str | None) -> list[BibliographyEntry]:
        wanted = letters_and_digits(name)
        mine = [each for each in self._entries if wanted in self._names(each)]
        dated = [each for each in mine if year is not None and year in self._years(each)]
        return (dated or mine)[:_MOST]

    def _names(self, entry: BibliographyEntry) -> frozenset[str]:
        """Words among which an author's name would be: known authors, else what stands at the document's beginning."""
        key = (entry.reader.name, entry.row.document_id)
        if key not in self._heads:
            if not (text := entry.authors):
                first = entry.reader.find_chunk(f"{entry.row.document_id}:0")
                text = first.text[:_HEAD] if first is not None else ""
            title = _words(entry.row.title or "")
            self._heads[key] = frozenset(_words(f"{text} {entry.row.source}") - (title - _words(entry.authors)))
        return self._heads[key]

    def _years(self, entry: BibliographyEntry) -> set[str]:
        metadata = entry.row.metadata
        known = " ".join(str(metadata[key]) for key in ("year", "date", "published") if key in metadata)
        return set(_YEAR.findall(f"{known} {entry.row.source}"))


def _words(text: str) -> set[str]:
    return {letters_and_digits(word) for word in _WORD.findall(text)} - STOP_WORDS

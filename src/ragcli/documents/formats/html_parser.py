"""Parse HTML: all text content of a page, with its headings, code blocks and meta tags."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragcli.documents.character_repair import sanitize_text
from ragcli.documents.file_access import display_name
from ragcli.documents.formats.plain_text_parser import decode_text, empty_text_warnings
from ragcli.documents.metadata_normalization import parse_year, split_list, typed_metadata
from ragcli.text.characters import SOFT_HYPHEN
from ragcli.text.identifiers import DOI_PREFIX
from ragcli.types import Document, Heading, MetadataValue

# fmt: off
_LEFT_OUT = frozenset((
    "script", "style", "template", "noscript", "nav", "head", "iframe", "object", "embed", "svg", "canvas", "audio",
    "video", "map", "select", "option", "datalist", "button", "annotation", "annotation-xml",
))
_APART = frozenset((
    "p", "blockquote", "figure", "table", "ul", "ol", "dl", "pre", "section", "article", "aside", "header", "footer",
    "main", "details", "h1", "h2", "h3", "h4", "h5", "h6",
))
_BLOCKS = _APART | frozenset((
    "address", "body", "caption", "center", "dd", "dialog", "div", "dt", "fieldset", "figcaption", "form", "hgroup",
    "hr", "legend", "li", "menu", "search", "summary", "tbody", "tfoot", "thead", "tr",
))
# fmt: on
_LISTS = frozenset({"ul", "ol", "menu"})
_IN_LISTS = _LISTS | {"p"}
_CELLS = frozenset({"td", "th"})
_HEADING = re.compile(r"^h[1-6]$")
_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_WHITE = re.compile(r"[ \t\n\r\f\u00a0]+")
_TITLES = ("citation_title", "dc.title", "og:title")
_AUTHORS = ("citation_author", "dc.creator", "author")
_DATES = ("citation_publication_date", "citation_date", "citation_year", "dc.date", "article:published_time", "date")
_DOI = re.compile(rf"\b{DOI_PREFIX}\S+")
_DOIS = ("citation_doi", "dc.identifier")


def read_html(data: bytes, path: Path) -> Document:
    """A web page or a saved one."""
    from selectolax.lexbor import LexborHTMLParser

    name = display_name(path)
    declared = _CHARSET.search(data[:4096])
    source = decode_text(data, name, declared=declared.group(1).decode("ascii") if declared else None)
    tree = LexborHTMLParser(source.replace("\x00", "\ufffd"))
    page = _Page()
    if tree.body is not None:
        page.write(tree.body)
    text, joins = _without_soft_hyphens(page)
    metadata, title = _about(tree)
    first = next((heading.title for heading in page.headings if heading.level == 1), None)
    return Document(
        text=text,
        kind="html",
        title=title or first,
        metadata=metadata,
        headings=tuple(sorted(page.headings, key=lambda heading: heading.start)),  # one may stand inside another
        joins=joins,
        spans=tuple(page.spans),
        warnings=empty_text_warnings(text),
    )


@dataclass(slots=True)
class _Page:
    """The text so far. `gap` is what stands before the next word: nothing, a space, or one or two line ends."""

    out: list[str] = field(default_factory=list)
    length: int = 0
    gap: str = ""
    headings: list[Heading] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    counters: list[int] = field(default_factory=list)
    marked: int = 0
    """How many pieces there were after the last list item's mark."""

    def write(self, root: Any) -> None:
        """Everything under `root`. A loop and no recursion: pages are nested deeper than Python's stack."""
        node, descend = root, True
        opened: list[tuple[int, int]] = []
        while True:
            if descend and self._enter(node, opened):
                node = node.child
                continue
            following = node.next
            while following is None:
                node = node.parent
                if node is None:
                    return
                self._leave(node, opened)
                if node.mem_id == root.mem_id:
                    return
                following = node.next
            node, descend = following, True

    def _enter(self, node: Any, opened: list[tuple[int, int]]) -> bool:
        """Writes what stands before the node's content; True if that content comes next."""
        tag = _tag(node)
        if tag == "-text":
            self._words(node.text_content or "")
            return False
        if not tag or tag in _LEFT_OUT or tag.startswith(("-", "!")):
            return False
        if tag == "br":
            self._break("\n")
            return False
        if tag == "img":
            self._words(f" {node.attributes.get('alt') or ''} ")
            return False
        if (node.attributes.get("aria-hidden") or "") == "true":  # a second copy, for the eye only
            return False
        if tag == "pre":
            self._preformatted(node)
            return False
        if tag in _BLOCKS:
            self._break(self._distance(tag))
        if tag in _CELLS and self.gap == "" and self.length and not self.out[-1].endswith("\n"):
            self._add("\t")
        if tag in _LISTS:
            self.counters.append(0 if tag == "ol" else -1)
        if tag == "li":
            self._item()
        if node.child is None:
            self._leave(node, opened)
            return False
        if _HEADING.match(tag):
            opened.append((node.mem_id, len(self.out)))
        return True

    def _leave(self, node: Any, opened: list[tuple[int, int]]) -> None:
        tag = _tag(node)
        if opened and _HEADING.match(tag) and opened[-1][0] == node.mem_id:
            _, begin = opened.pop()
            title = " ".join("".join(self.out[begin:]).split())
            if title:
                start = self.length - len("".join(self.out[begin:]).lstrip())
                self.headings.append(Heading(int(tag[1]), title, start))
        if tag in _LISTS and self.counters:
            self.counters.pop()
        if tag in _BLOCKS:
            self._break(self._distance(tag))

    def _distance(self, tag: str) -> str:
        """What stands around an element: an empty line, but not inside a list."""
        return "\n\n" if tag in _APART and not (self.counters and tag in _IN_LISTS) else "\n"

    def _item(self) -> None:
        if self.counters and self.counters[-1] >= 0:
            self.counters[-1] += 1
            self._add(f"{self.counters[-1]}. ")
        else:
            self._add("- ")
        self.marked = len(self.out)

    def _preformatted(self, node: Any) -> None:
        self._break("\n\n")
        code = (node.text() or "").replace("\r\n", "\n").strip("\n")
        if code.strip():
            self._flush()
            start = self.length
            self._raw(code)
            self.spans.append((start, self.length))
        self._break("\n\n")

    def _words(self, text: str) -> None:
        text = _WHITE.sub(" ", text)
        if text.startswith(" ") and not self.gap and self.length and not self.out[-1].endswith((" ", "\t", "\n")):
            self.gap = " "
        words = text.strip(" ")
        if words:
            self._add(words)
            if text.endswith(" "):
                self.gap = " "

    def _break(self, gap: str) -> None:
        if self.out and self.marked == len(self.out):
            return  # an item's number or dash, and the paragraph that it belongs to
        if len(gap) > len(self.gap) or self.gap == " ":
            self.gap = gap

    def _add(self, text: str) -> None:
        self._flush()
        self._raw(text)

    def _flush(self) -> None:
        if self.length and self.gap:
            self._raw(self.gap)
        self.gap = ""

    def _raw(self, text: str) -> None:
        self.out.append(text)
        self.length += len(text)


def _tag(node: Any) -> str:
    """The element's name. What isn't one, such as `<?php … ?>`, has an empty name."""
    return node.tag or ""


def _without_soft_hyphens(page: _Page) -> tuple[str, tuple[int, ...]]:
    """The text; soft hyphens, which web pages put inside long words, leave joins and shift what comes after."""
    text = "".join(page.out)
    whole, joins = sanitize_text(text)
    if len(whole) != len(text):
        soft = [place for place, character in enumerate(text) if character == SOFT_HYPHEN]

        def moved(place: int) -> int:
            return place - bisect_left(soft, place)

        page.headings = [
            Heading(heading.level, heading.title.replace(SOFT_HYPHEN, ""), moved(heading.start))
            for heading in page.headings
        ]
        page.spans = [(moved(start), moved(end)) for start, end in page.spans]
    return whole, joins


def _about(tree: Any) -> tuple[dict[str, MetadataValue], str | None]:
    """Metadata and title as the page's head gives them; the names that journals use come first."""
    named: dict[str, list[str]] = {}
    for node in tree.css("meta"):
        key = (node.attributes.get("name") or node.attributes.get("property") or "").strip().lower()
        value = " ".join((node.attributes.get("content") or "").split())
        if key and value:
            named.setdefault(key, []).append(sanitize_text(value)[0])
    metadata: dict[str, MetadataValue] = {}
    authors = _first(named, _AUTHORS)
    if authors:
        metadata["author"] = authors if len(authors) > 1 or "citation_author" in named else split_list(authors[0])
    for date in _first(named, _DATES):
        if parse_year(date) is not None:
            metadata |= typed_metadata({"date": date})
    for identifier in _first(named, _DOIS):
        if found := _DOI.search(identifier):
            metadata["doi"] = found.group()
    if arxiv := _first(named, ("citation_arxiv_id",)):
        metadata |= typed_metadata({"arxiv": arxiv[0]})
    if words := _first(named, ("citation_keywords", "keywords")):
        metadata["keywords"] = [word for text in words for word in split_list(text)]
    titles = _first(named, _TITLES)
    if titles:
        return metadata, titles[0]
    node = tree.css_first("title")
    title = " ".join((node.text() or "").split()) if node is not None else ""
    return metadata, sanitize_text(title)[0] or None


def _first(named: Mapping[str, list[str]], keys: tuple[str, ...]) -> list[str]:
    return next((named[key] for key in keys if key in named), [])

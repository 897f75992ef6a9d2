"""Parse a draft into the sentences that claim something, each with its citations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ragcli.grounding.check.citation_parser import DraftCitation, citations_of, without_citation_marks
from ragcli.grounding.check.latex import as_markdown, is_latex
from ragcli.text.sentences import sentence_spans

if TYPE_CHECKING:
    from markdown_it.token import Token

MIN_CLAIM_WORDS: Final = 4
"""Sentences with fewer words claim nothing that could be checked."""

_FRONT: Final = re.compile(r"\A(---|\+\+\+)[ \t]*\n.*?^\1[ \t]*$", re.DOTALL | re.MULTILINE)
_REFERENCES: Final = re.compile(
    r"(?:\d+\.?\s*)?(?:references?|bibliography|literature(?: cited)?|works cited|sources|cited works|notes)\W*",
    re.IGNORECASE,
)
_ENTRY: Final = re.compile(r"\s*(?:[-*]\s+)?(?:\[\^?([\w:.+-]{1,60})\]:?|(\d{1,3})[.)])\s+(\S.*)")
_LABELLED: Final = re.compile(r"\s*\[\^?([\w:.+-]{1,60})\]:\s*(\S.*)")
_LISTED: Final = re.compile(r"\s*\[(\d{1,3})\]\s+(\S.*)")
_DISPLAYED: Final = re.compile(
    r"\$\$.*?\$\$|\\\[(?:(?!\\\[).)*?\\\]|\\begin\{(equation|align)(\*?)\}(?:(?!\\begin\{\1).)*?\\end\{\1\2\}",
    re.DOTALL,
)
_INLINE_MATHS: Final = re.compile(r"(?<![\\$\w])\$(?!\s)([^$\n]{1,200}?)(?<!\s)\$(?![\w$])|\\\((.{1,200}?)\\\)")
_MATHS: Final = re.compile(r"[\\^_={}]")
_ESCAPED_BRACKET: Final = re.compile(r"\\([\[\]])")
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~ ])")
_IMAGE: Final = re.compile(r"!\[[^\]\n]{0,1000}\]\([^)\n]*\)")
_LINK: Final = re.compile(r"\[([^\[\]\n]{1,1000})\]\(<?([^)\s]*)>?(?:\s+\"[^\"\n]*\")?\)")
_TAG: Final = re.compile(r"</?[A-Za-z][^>\n]*>|<!--.*?-->", re.DOTALL)
_CODE: Final = re.compile(r"`+([^`\n]*)`+")
_EMPHASIS: Final = re.compile(
    r"(?<![\w*])(\*{1,3}|~~)(?=\S)(.{1,1000}?)(?<=\S)\1(?![\w*])|(?<!\w)(_{1,3})(?=\S)(.{1,1000}?)(?<=\S)\3(?!\w)"
)
_MARK: Final = re.compile(r"\A\s*(?:(?:[-*+•>]|\d{1,3}[.)])\s+)*")
_WORD: Final = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class DraftSentence:
    """A sentence as it stands in the draft, the claim that it makes, what it cites, and the line it begins on."""

    text: str
    claim: str
    citations: tuple[DraftCitation, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Draft:
    """What is to be checked, and what [1] or @key stand for by the draft's own list of references."""

    sentences: tuple[DraftSentence, ...]
    references: Mapping[str, str]


def read_draft(text: str) -> Draft:
    """Read a draft."""
    from markdown_it import MarkdownIt

    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if is_latex(text):
        text = as_markdown(text)
    text = _FRONT.sub(lambda found: "\n" * found[0].count("\n"), text)
    text = _DISPLAYED.sub(_without_maths, text)
    # A line such as "[1]: Shor 1997" would be taken for the address of a link, and vanish.
    reader = MarkdownIt("commonmark", {"maxNesting": 50}).enable("table").disable("reference")
    sentences: list[DraftSentence] = []
    references: dict[str, str] = {}
    listing = False
    for kind, content, line, number in _blocks(reader.parse(text)):
        if kind == "heading":
            listing = _REFERENCES.fullmatch(content.strip()) is not None
            continue
        # Pandoc writes what is no link as \[1\].
        content = _ESCAPED_BRACKET.sub(r"\1", content)
        body = _without_entries(content, number, references, listing=listing)
        sentences += _sentences(body, line)
    return Draft(tuple(sentences), references)


def without_markup(sentence: str) -> str:
    """The words of a sentence of markdown: no mark of a list or a quotation before them, no stars around them."""
    return _plain(_MARK.sub("", sentence))[0].strip()


def _without_entries(content: str, number: int | None, references: dict[str, str], *, listing: bool) -> str:
    """A block without the entries of the list of references that stand in it, which are put among the others."""
    body: list[str] = []
    inside = False
    current: str | None = None
    for line in content.split("\n"):
        found = _ENTRY.match(line) if listing else _LABELLED.match(line) or _listed(line, inside=inside, first=not body)
        if found is not None:
            label, said = next(each for each in found.groups()[:-1] if each), found[found.lastindex or 1].strip()
        elif listing and number is not None and not body:
            label, said = str(number), line.strip()
        elif inside:
            # An entry goes on for as many lines as it needs.
            if current is not None:
                references[current] += f" {line.strip()}"
            label = said = ""
        else:
            label = said = line.strip() if listing else ""
        if label:
            inside = found is not None or number is not None
            current = label if inside and label not in references else None
            references.setdefault(label, said)
        body.append("" if listing or inside else line)
    return "\n".join(body)


def _listed(line: str, *, inside: bool, first: bool) -> re.Match[str] | None:
    """An entry such as "[1] Shor, P.", and no line of a paragraph that happens to begin with what it cites."""
    found = _LISTED.match(line)
    return found if found is not None and (inside or (first and not found[2][0].islower())) else None


def _blocks(tokens: list[Token]) -> Iterator[tuple[str, str, int, int | None]]:
    """What kind each block of words is, its text, its line, and its number where it is an item of a numbered list."""
    inside: list[str] = []
    numbers: list[int | None] = []
    fresh = False
    for token in tokens:
        match token.type:
            case "heading_open" | "table_open":
                inside.append(token.type)
            case "heading_close" | "table_close":
                inside.pop()
            case "ordered_list_open":
                numbers.append(_start(token) - 1)
            case "bullet_list_open":
                numbers.append(None)
            case "ordered_list_close" | "bullet_list_close":
                numbers.pop()
            case "list_item_open":
                if numbers and numbers[-1] is not None:
                    numbers[-1] += 1
                fresh = True
            case "inline" if "table_open" not in inside:
                line = (token.map[0] if token.map else 0) + 1
                number = numbers[-1] if numbers and fresh else None
                fresh = False
                yield "heading" if "heading_open" in inside else "words", token.content, line, number
            case _:
                pass


def _start(token: Token) -> int:
    start: Any = token.attrGet("start")
    return int(start) if start is not None else 1


def _sentences(content: str, line: int) -> Iterator[DraftSentence]:
    plain, links = _plain(content)
    for start, end in sentence_spans(plain):
        shown = " ".join(plain[start:end].split())
        claim = without_citation_marks(shown)
        if shown.rstrip("\"'”’)").endswith(("?", ":")) or len(_WORD.findall(claim)) < MIN_CLAIM_WORDS:
            continue
        linked = tuple(DraftCitation("source", links[word]) for word in links if word in shown)
        citations = tuple(dict.fromkeys((*citations_of(shown), *linked)))
        yield DraftSentence(shown, claim, citations, line + plain.count("\n", 0, start))


def _plain(content: str) -> tuple[str, dict[str, str]]:
    """The words of a block without markup, line by line as before, and where its links to files lead."""
    links: dict[str, str] = {}

    def linked(found: re.Match[str]) -> str:
        if "://" not in found[2] and not found[2].startswith("#") and "." in found[2]:
            links[found[1]] = found[2]
        return found[1]

    text = _TAG.sub("", _IMAGE.sub("", content))
    text = _LINK.sub(linked, text)
    text = _INLINE_MATHS.sub(_maths, text)
    text = _CODE.sub(r"\1", text)
    text = _EMPHASIS.sub(lambda found: found[2] or found[4], text)
    return _ESCAPED.sub(r"\1", text), links


def _without_maths(found: re.Match[str]) -> str:
    """The lines of displayed maths, or what stands in brackets that are merely escaped, as in \\[1, 2\\]."""
    if found[0].startswith("\\[") and not _MATHS.search(found[0][2:-2]):
        return found[0]
    return "\n" * found[0].count("\n")


def _maths(found: re.Match[str]) -> str:
    """A number or a name between dollars is read; a formula says nothing that could be looked for."""
    inner: str = found[1] or found[2]
    return "" if _MATHS.search(inner) else inner

"""Bibliographic metadata of a PDF from its information dictionary, XMP packet and first page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from html import unescape
from typing import Final

from ragcli.documents.character_repair import repair_line, tex_ligature_codes
from ragcli.documents.metadata_normalization import split_list, typed_metadata
from ragcli.documents.pdf.page_model import Line, PageLines
from ragcli.documents.pdf.reflow import ReflowedText
from ragcli.text.characters import SOFT_HYPHEN
from ragcli.text.datetimes import parse_date
from ragcli.text.identifiers import ARXIV_ID, DOI_PREFIX
from ragcli.types import MetadataValue

_NO_TITLE = re.compile(
    r"^(?:untitled.*|microsoft (?:word|powerpoint).*|(?:slide|page|layout|document|figure)\s*\d*|title|no title|paper"
    r"|draft|manuscript|main|article|template|powerpoint presentation|presentation\d*|arxiv:.*|\(?null\)?|none|doi:.*"
    r"|.*\.(?:docx?|tex|dvi|pdf|e?ps|rtf|indd|qxd|pages|odt|fm|wpd|pptx?|xlsx?|html?|txt|md))$",
    re.IGNORECASE,
)
_NO_AUTHOR = re.compile(
    r"^(?:administrator|admin|user|root|unknown|anonymous|author|owner|tex|latex|microsoft|windows user|.*@.*|.*\d.*)$",
    re.IGNORECASE,
)
_ORGANISATION = re.compile(
    r"\b(?:universit\w*|institut\w*|laborator\w*|labs?|department|dept|school|college|inc|corp\w*|company|research"
    r"|cent(?:er|re)|group|society|association|press|ltd|gmbh|google|microsoft|ibm|bell|foundation|faculty|technology|projects?|högskola\w*|hochschule|université|universität|academy|division)\b",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"^[A-Z][\w’'.-]*(?:[ -](?:[A-Z][\w’'.-]*|van|von|de|der|den|di|da|la|le|du|del|el|al|ter|bin)){1,4}$"
)
_FOOTNOTE_MARKS = re.compile(r"(?:[*∗†‡§¶‖#♯♭\d⋆⇤]+,?)+")
_ARXIV = re.compile(rf"arxiv:\s*((?:{ARXIV_ID})(?:v\d+)?)", re.IGNORECASE)
_DOI = re.compile(rf"\b({DOI_PREFIX}[^\s\"<>{{}}|\\^\[\]]+)", re.IGNORECASE)
_KEYWORDS = re.compile(
    r"^(?:author )?(?:key\s?words?(?: and phrases)?|index terms)\s*[:.—–-]\s*(.{3,400})$", re.IGNORECASE | re.DOTALL
)
_YEAR = r"(1[89]\d\d|20\d\d)"
_YEARS = (
    re.compile(rf"(?:©|\(c\)|copyright)(?:\s*(?:©|\(c\)))?\D{{0,12}}{_YEAR}", re.IGNORECASE),
    re.compile(
        r"\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?,?\s+(?:\d{1,2}(?:st|nd|rd|th)?(?:\s*[-–]\s*\d{1,2})?,?\s+)?"
        + _YEAR,
        re.IGNORECASE,
    ),
    re.compile(
        rf"\b(?:to appear in|in proceedings of|proceedings of|proc\.|appeared in)\b.{{0,80}}?\b{_YEAR}\b", re.IGNORECASE
    ),
)
_VENUE_YEAR = re.compile(rf"\b[A-Z]{{3,8}}\s?(?:[’']\d\d,\s.{{0,60}}?)?{_YEAR}\b")
_PDF_DATE = re.compile(r"D:(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(?:(\d\d)(?:Z|([+-])(\d\d)'?(?:(\d\d)'?)?)?)?)?", re.ASCII)
_SECTION = re.compile(r"^(?:abstract|summary|introduction|(?:table of )?contents|\d+(?:\.\d+)*\.?\s)", re.IGNORECASE)
_ABSTRACT = re.compile(r"\n\s*abstract\b", re.IGNORECASE)
_HEAD_END = re.compile(
    r"^(?:abstract|a b s t r a c t|summary|1\.?\s+introduction|introduction|contents)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class PaperMetadata:
    """What was found. `metadata` has only keys that were."""

    title: str | None
    metadata: dict[str, MetadataValue]


def extract_paper_metadata(
    pages: Sequence[PageLines],
    running_heads: Sequence[str],
    flow: ReflowedText,
    information: Mapping[str, str],
    body: float,
) -> PaperMetadata:
    """Reads the first page, its margin and running lines (`running_heads`), and the file's own information."""
    first = pages[0] if pages else PageLines((), 0, 0)
    tex = tex_ligature_codes(line.text for page in pages[:5] for line in page.lines)
    lines = [(repair_line(line.text, tex), line) for line in first.lines]
    printed, title_end = _largest(lines, first, body)
    page_text = flow.text[: flow.pages[0].end] if flow.pages else ""
    stamp = "\n".join([*first.aside, *running_heads, information.get("Subject", ""), information.get("Title", "")])
    title = _title(information.get("Title", ""), printed, page_text)
    metadata: dict[str, object] = {}
    authors = _file_authors(information.get("Author", ""), page_text) or (
        _printed_authors(lines[title_end:]) if first.placed else []
    )
    if authors:
        metadata["author"] = authors
    arxiv = _ARXIV.search(stamp) or _only(_ARXIV, page_text)
    if arxiv:
        metadata["arxiv"] = arxiv.group(1)
    doi = _DOI.search(information.get("doi", "") or information.get("Subject", "")) or _only(_DOI, page_text)
    if doi:
        metadata["doi"] = doi.group(1).rstrip(".,;:)")
    year = _year(stamp, arxiv.group(1) if arxiv else None, page_text)
    if year:
        metadata["year"] = year
    keywords = _keywords(information.get("Keywords", ""), page_text)
    if keywords:
        metadata["keywords"] = keywords
    if created := _creation_date(information.get("CreationDate", "")):
        metadata["created"] = created
    return PaperMetadata(title, typed_metadata(metadata))


def _alphanumeric_key(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


def _title(written: str, printed: str | None, page_text: str) -> str | None:
    """The file's own title if it is one, else the printed one."""
    written = " ".join(repair_line(written).split())
    usable = len(_alphanumeric_key(written)) >= 4 and not _NO_TITLE.match(written)
    if usable and printed is not None:
        if _alphanumeric_key(written) in _alphanumeric_key(printed):
            return written if len(_alphanumeric_key(printed)) > 1.6 * len(_alphanumeric_key(written)) else printed
        if len(written) > 20 and _alphanumeric_key(written) in _alphanumeric_key(page_text[:3000]):
            return written
        return printed
    if usable and (
        not page_text.strip() or _alphanumeric_key(written) in _alphanumeric_key(page_text) or len(written.split()) > 2
    ):
        return written
    return printed


def _largest(lines: Sequence[tuple[str, Line]], page: PageLines, body: float) -> tuple[str | None, int]:
    """The first page's largest text, and the number of the line after it."""
    if not page.placed or not lines:
        return None, 0
    height = page.height
    sizes = sorted(
        {round(line.size, 1) for text, line in lines if len(text) > 3 and line.baseline > 0.35 * height}, reverse=True
    )
    for size in sizes[:4]:
        if size < 1.12 * body:
            break
        run = [n for n, (text, line) in enumerate(lines) if line.size >= 0.96 * size and line.baseline > 0.3 * height]
        run = [n for n in run if lines[n][1].size <= 1.06 * size]
        if not run:
            continue
        start = run[0]
        end = start
        while end + 1 < len(lines) and end + 1 in run:
            end += 1
        text = _join_title_lines([lines[n][0] for n in range(start, end + 1)])
        letters = sum(character.isalpha() for character in text)
        if letters >= 6 and len(text) <= 300 and not _NO_TITLE.match(text) and not _SECTION.match(text):
            return text.rstrip("*∗†‡§¶ "), end + 1
    bold = _first_bold(lines, height)
    return bold if bold is not None else (None, 0)


def _first_bold(lines: Sequence[tuple[str, Line]], height: float) -> tuple[str, int] | None:
    """A page in one size throughout: its title is the bold text it begins with."""
    end = 0
    while end < len(lines) and lines[end][1].bold and lines[end][1].baseline > 0.6 * height and end < 4:
        end += 1
    text = _join_title_lines([text for text, _ in lines[:end]])
    return (text, end) if 2 <= len(text.split()) <= 30 and end < len(lines) else None


def _join_title_lines(texts: Sequence[str]) -> str:
    out = ""
    for text in texts:
        if out.endswith(SOFT_HYPHEN):
            out = out[:-1] + ("-" if text[:1].isupper() else "") + text
        else:
            out = f"{out} {text}" if out else text
    return " ".join(out.replace(SOFT_HYPHEN, "").split())


def _split_names(text: str) -> list[str]:
    text = _FOOTNOTE_MARKS.sub(",", text)
    parts = [part.strip(" ,.") for part in re.split(r"[;,]|\band\b|&|·|\s{3,}", text)]
    return [part for part in parts if part]


def _file_authors(text: str, page_text: str) -> list[str]:
    text = " ".join(repair_line(text).split())
    if not text or _NO_AUTHOR.match(text):
        return []
    if re.match(r"^[^,;]+,\s*(?:[A-Z]\.[\s-]?)+$", text):  # Casimir, H.B.G.
        return [text]
    names = [name for part in text.split(";") for name in _split_names(part)]
    names = [name for name in names if not _ORGANISATION.search(name)]
    last = [name.split()[-1] for name in names if name.split()]
    if names and (
        not page_text.strip() or any(_alphanumeric_key(word) in _alphanumeric_key(page_text) for word in last)
    ):
        return names
    return []


def _printed_authors(lines: Sequence[tuple[str, Line]]) -> list[str]:
    """Names in the lines under the title. Doubt ends the list; doubt before the first name leaves it empty."""
    names: list[str] = []
    affiliated = False
    before: Line | None = None
    for text, line in _whole_names(lines[:24]):
        if _HEAD_END.match(text):
            break
        beside = before is not None and line.baseline > before.baseline + 1
        before = line
        text = re.sub(r"^by\s+", "", text, flags=re.IGNORECASE)
        if "@" in text:
            affiliated = False
            continue
        if _ORGANISATION.search(text):
            affiliated = True
            continue
        parts = _split_names(text)
        if not parts or not all(_NAME.match(part) and len(part) < 40 for part in parts):
            break
        if affiliated and not beside:  # a town, most likely
            continue
        affiliated = False
        names += parts
    return names


def _whole_names(lines: Sequence[tuple[str, Line]]) -> list[tuple[str, Line]]:
    """The lines, where a list of names breaks inside a name put together."""
    out: list[tuple[str, Line]] = []
    for text, line in lines:
        if out and out[-1][0].count(",") > 1 and "," in text:
            last, first = out[-1][0].rsplit(",", 1)[1].split(), text.split(",", 1)[0].split()
            if len(last) == 1 and len(first) <= 2:
                out[-1] = (f"{out[-1][0]} {text}", line)
                continue
        out.append((text, line))
    return out


def _only(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The pattern's match, if the text has but one such thing; several would be references."""
    found = list(pattern.finditer(text))
    return found[0] if found and len({match.group(1).lower() for match in found}) == 1 else None


def _year(stamp: str, arxiv: str | None, page_text: str) -> int | None:
    head = _ABSTRACT.split(page_text[:2500], maxsplit=1)[0][:1500]
    for text, patterns in ((stamp, (*_YEARS, _VENUE_YEAR)), (head, _YEARS), (page_text, _YEARS[:1])):
        for pattern in patterns:
            found = pattern.search(text)
            if found:
                return int(found.group(1))
    if arxiv and re.match(r"\d{4}\.", arxiv):
        return 2000 + int(arxiv[:2])
    return None


def _creation_date(written: str) -> date | None:
    """When the file was made, as PDF (D:20170219231640-05'00') or XMP writes it."""
    found = _PDF_DATE.match(written.strip())
    if found is None:
        return parse_date(written.strip())
    year, month, day, hour, minute, second, zone, away, minutes = found.groups("0")
    shift = timedelta(hours=int(away), minutes=int(minutes))
    try:
        moment = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC)
        return moment - (shift if zone == "+" else -shift)
    except (ValueError, OverflowError):
        return None


def _keywords(written: str, page_text: str) -> list[str]:
    text = written
    if not text.strip():
        for paragraph in page_text.split("\n\n"):
            found = _KEYWORDS.match(paragraph.strip())
            if found:
                text = found.group(1)
                break
    words = [" ".join(word.split()).rstrip(".") for word in split_list(text)]
    return [word for word in words if word and len(word) <= 80]


_MAX_PACKET_BYTES: Final = 1 << 18
_MAX_PACKETS: Final = 8
_MAX_LIST_ITEMS: Final = 200
_ELEMENTS: Final = (
    ("Title", "dc:title", " "),
    ("Author", "dc:creator", "; "),
    ("Subject", "dc:description", " "),
    ("Keywords", "dc:subject", "; "),
    ("Keywords", "pdf:Keywords", " "),
    ("doi", "prism:doi", " "),
    ("doi", "pdfx:doi", " "),
    ("doi", "dc:identifier", " "),
    ("CreationDate", "xmp:CreateDate", " "),
)


def read_xmp(data: bytes) -> dict[str, str]:
    """What the file's one XMP packet says, under the names of the information dictionary, and `doi`."""
    packets = set(_packets(data))
    if len(packets) != 1:
        return {}
    text = packets.pop().decode("utf-8", "replace")
    found: dict[str, str] = {}
    for name, tag, between in _ELEMENTS:
        value = between.join(_rdf_items(_xml_element(text, tag) or _xml_attribute(text, tag))).strip()
        if value and name not in found:
            found[name] = value
    return found


def _packets(data: bytes) -> Iterator[bytes]:
    at = 0
    for _ in range(_MAX_PACKETS):
        start = data.find(b"<x:xmpmeta", at)
        stop = data.find(b"</x:xmpmeta>", start) if start >= 0 else -1
        if stop < 0:
            return
        if stop - start <= _MAX_PACKET_BYTES:
            yield data[start:stop]
        at = stop


def _xml_element(text: str, tag: str) -> str:
    start = text.find(f"<{tag}")
    opened = text.find(">", start) if start >= 0 else -1
    stop = text.find(f"</{tag}>", opened) if opened >= 0 else -1
    return text[opened + 1 : stop] if stop >= 0 and text[start + len(tag) + 1] in " >\t\r\n" else ""


def _xml_attribute(text: str, tag: str) -> str:
    for quote in "\"'":
        start = text.find(f" {tag}={quote}")
        stop = text.find(quote, start + len(tag) + 3) if start >= 0 else -1
        if stop >= 0:
            return text[start + len(tag) + 3 : stop]
    return ""


def _rdf_items(inside: str) -> Iterator[str]:
    """The items of a list, or the one value that it is."""
    if "<rdf:li" not in inside:
        if "<" not in inside:
            yield _unescaped_text(inside)
        return
    at = 0
    for _ in range(_MAX_LIST_ITEMS):
        start = inside.find("<rdf:li", at)
        opened = inside.find(">", start) if start >= 0 else -1
        stop = inside.find("</rdf:li>", opened) if opened >= 0 else -1
        if stop < 0:
            return
        if item := _unescaped_text(inside[opened + 1 : stop]):
            yield item
        at = stop


def _unescaped_text(text: str) -> str:
    return " ".join(unescape(text).split())

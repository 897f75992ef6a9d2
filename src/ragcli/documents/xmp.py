"""What a PDF says of itself in XMP, where its information dictionary is silent.

Publishers put DOI and keywords there. PDFium gives no access to it, and parsing the file a second time for it would
cost more than all the rest, but a packet lies in the file as plain text, so that programs that know nothing of PDF
can find it. Pictures in a paper may have packets of their own, and which one is the paper's cannot be told from the
text: if there are several that differ, none is believed. No XML parser is let near it; tags are looked for as they
stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from typing import Final

_LARGEST: Final = 1 << 18
_MOST_PACKETS: Final = 8
_MOST_ITEMS: Final = 200
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


def xmp_information(data: bytes) -> dict[str, str]:
    """What the file's one XMP packet says, under the names of the information dictionary, and `doi`."""
    packets = set(_packets(data))
    if len(packets) != 1:
        return {}
    text = packets.pop().decode("utf-8", "replace")
    found: dict[str, str] = {}
    for name, tag, between in _ELEMENTS:
        value = between.join(_items(_element(text, tag) or _attribute(text, tag))).strip()
        if value and name not in found:
            found[name] = value
    return found


def _packets(data: bytes) -> Iterator[bytes]:
    at = 0
    for _ in range(_MOST_PACKETS):
        start = data.find(b"<x:xmpmeta", at)
        stop = data.find(b"</x:xmpmeta>", start) if start >= 0 else -1
        if stop < 0:
            return
        if stop - start <= _LARGEST:
            yield data[start:stop]
        at = stop


def _element(text: str, tag: str) -> str:
    start = text.find(f"<{tag}")
    opened = text.find(">", start) if start >= 0 else -1
    stop = text.find(f"</{tag}>", opened) if opened >= 0 else -1
    return text[opened + 1 : stop] if stop >= 0 and text[start + len(tag) + 1] in " >\t\r\n" else ""


def _attribute(text: str, tag: str) -> str:
    for quote in "\"'":
        start = text.find(f" {tag}={quote}")
        stop = text.find(quote, start + len(tag) + 3) if start >= 0 else -1
        if stop >= 0:
            return text[start + len(tag) + 3 : stop]
    return ""


def _items(inside: str) -> Iterator[str]:
    """The items of a list, or the one value that it is."""
    if "<rdf:li" not in inside:
        if "<" not in inside:
            yield _plain(inside)
        return
    at = 0
    for _ in range(_MOST_ITEMS):
        start = inside.find("<rdf:li", at)
        opened = inside.find(">", start) if start >= 0 else -1
        stop = inside.find("</rdf:li>", opened) if opened >= 0 else -1
        if stop < 0:
            return
        if item := _plain(inside[opened + 1 : stop]):
            yield item
        at = stop


def _plain(text: str) -> str:
    return " ".join(unescape(text).split())

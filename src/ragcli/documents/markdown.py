"""Markdown: the text as its author wrote it, with its front matter, headings and code fences understood.

The text keeps its markup. Only blocks are parsed: the inline rules cost most of markdown-it's time, and hostile text
can make them cost far more, while nothing in a chunk depends on what is bold.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Mapping
from pathlib import Path

from ragcli.documents.characters import plain
from ragcli.documents.options import called
from ragcli.documents.plain import decoded, emptiness, listed, year_in
from ragcli.records import Document, Heading, MetadataValue

_YAML = re.compile(r"\A---[ \t]*\n(.*?)(?:^|\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML = re.compile(r"\A\+\+\+[ \t]*\n(.*?)(?:^|\n)\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_LONGEST_FRONT = 65_536
_MOST_FRONT = 4 * _LONGEST_FRONT
_LONGEST_HEADING = 1_000
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_EMPHASIS = re.compile(r"(\*{1,3}|_{1,3}|`+|~~)(?=\S)(.+?)(?<=\S)\1")
_ANCHOR = re.compile(r"\s*\{[#.][^}]*\}\s*$")


def read_markdown(data: bytes, path: Path) -> Document:
    """A markdown file. Front matter in YAML or TOML becomes metadata and leaves the text."""
    text = decoded(data, called(path)).replace("\r\n", "\n").replace("\r", "\n")
    front, text, warnings = _front_matter(text)
    text, joins = plain(text)
    headings, spans = _blocks(text)
    metadata = typed_metadata(front)
    title = front.get("title")
    first = next((heading.title for heading in headings if heading.level == 1), None)
    return Document(
        text=text,
        kind="markdown",
        title=(_line(title) if isinstance(title, str | int | float) else "") or first,
        metadata=metadata,
        headings=headings,
        joins=joins,
        spans=spans,
        warnings=(*warnings, *emptiness(text)),
    )


def _front_matter(text: str) -> tuple[Mapping[str, object], str, tuple[str, ...]]:
    """The front matter, the text after it, and a warning if it can't be read; it is then left in the text."""
    found = _YAML.match(text[:_LONGEST_FRONT])
    if found is not None:
        import yaml

        try:
            front = yaml.safe_load(found.group(1)) or {}
        except Exception as error:  # PyYAML raises whatever Python does about a date, a number or a set that is none
            return {}, text, (f"front matter is not YAML: {_line(error)[:120] or type(error).__name__}",)
        if not _fits(front):
            return {}, text, (f"front matter refers to itself so often that it has over {_MOST_FRONT:,} characters",)
        if isinstance(front, Mapping):
            return front, text[found.end() :], ()
        return {}, text, ()  # a rule and some text, no front matter
    found = _TOML.match(text[:_LONGEST_FRONT])
    if found is not None:
        import tomllib

        try:
            return tomllib.loads(found.group(1)), text[found.end() :], ()
        except (
            ValueError,
            RecursionError,
        ) as error:  # of a number that is too long, a ValueError that is no TOML error
            return {}, text, (f"front matter is not TOML: {_line(error)[:120] or type(error).__name__}",)
    return {}, text, ()


def _fits(front: object) -> bool:
    """Whether front matter is no larger than _MOST_FRONT when all its references are written out.

    A dozen lines of YAML can stand for gigabytes: each names the one before nine times. Counting stops at the limit.
    """
    size = 0
    waiting = [front]
    while waiting and size <= _MOST_FRONT:
        value = waiting.pop()
        size += len(value) if isinstance(value, str) else 1
        if isinstance(value, Mapping):
            waiting.extend(value.keys())
            waiting.extend(value.values())
        elif isinstance(value, list | tuple | set):
            waiting.extend(value)
    return size <= _MOST_FRONT


def typed_metadata(front: Mapping[str, object]) -> dict[str, MetadataValue]:
    """Front matter, or a record's fields, as metadata: the common names made alike, the rest as it is."""
    out: dict[str, MetadataValue] = {}
    for key, value in front.items():
        own = _line(key)
        name = own.lower()
        if name == "title" or value is None:
            continue
        if name in ("author", "authors"):
            out["authors"] = _lines(listed(value))
        elif name in ("tags", "keywords"):
            out["keywords"] = [*_strings(out.get("keywords")), *_lines(listed(value))]
        elif name in ("date", "year", "published") and (year := year_in(value)) is not None:
            out["year"] = year
            if name == "date":
                out["date"] = _line(value)
        else:
            known = metadata_value(value)
            if known is not None:
                out[name if name in ("doi", "arxiv") else own] = known
    return out


def _line(value: object) -> str:
    """A value as one line of text; nothing for a number of thousands of digits, which Python doesn't write out."""
    try:
        return " ".join(plain(str(value))[0].split())
    except (ValueError, RecursionError):
        return ""


def _lines(values: list[str]) -> list[str]:
    return [line for value in values if (line := _line(value))]


def _strings(value: MetadataValue | None) -> list[str]:
    return value if isinstance(value, list) else []


def metadata_value(value: object) -> MetadataValue | None:
    """A value as metadata can hold it; what has no such form is kept as JSON text."""
    if isinstance(value, str):
        return plain(value)[0]
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else _line(value) or None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return [plain(item)[0] if isinstance(item, str) else _line(item) for item in value]
    try:
        return plain(json.dumps(value, ensure_ascii=False, default=str))[0]
    except (ValueError, RecursionError, TypeError):
        return None


def _blocks(text: str) -> tuple[tuple[Heading, ...], tuple[tuple[int, int], ...]]:
    """Headings, and the ranges of code blocks and tables."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.enableOnly(["normalize", "block"])
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    starts[-1] = len(text)
    headings: list[Heading] = []
    spans: list[tuple[int, int]] = []
    tokens = parser.parse(text)
    for index, token in enumerate(tokens):
        if token.map is None or token.level:
            continue
        first, after = token.map
        if token.type == "heading_open":
            title = _words(tokens[index + 1].content)
            if title:
                headings.append(Heading(int(token.tag[1:]), title, starts[first]))
        elif token.type in ("fence", "code_block", "table_open"):
            spans.append((starts[first], min(starts[min(after, len(starts) - 1)], len(text))))
    return tuple(headings), tuple(spans)


def _words(content: str) -> str:
    """A heading without its markup; only its beginning, since the expressions can take the square of its length."""
    content = _ANCHOR.sub("", content[:_LONGEST_HEADING])
    content = _LINK.sub(r"\1", content)
    return " ".join(_EMPHASIS.sub(r"\2", content).split())

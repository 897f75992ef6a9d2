"""Parse Markdown: front matter, headings and code fences; the text keeps its markup."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from ragcli.config.toml_reader import parse_toml
from ragcli.documents.character_repair import sanitize_text
from ragcli.documents.file_access import display_name
from ragcli.documents.formats.plain_text_parser import decode_text, empty_text_warnings
from ragcli.documents.metadata_normalization import single_line, syntax_error_reason, typed_metadata
from ragcli.types import Document, Heading

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
    text = decode_text(data, display_name(path)).replace("\r\n", "\n").replace("\r", "\n")
    front, text, warnings = _front_matter(text)
    text, joins = sanitize_text(text)
    headings, spans = _blocks(text)
    metadata = typed_metadata(front)
    title = front.get("title")
    first = next((heading.title for heading in headings if heading.level == 1), None)
    return Document(
        text=text,
        kind="markdown",
        title=(single_line(title) if isinstance(title, str | int | float) else "") or first,
        metadata=metadata,
        headings=headings,
        joins=joins,
        spans=spans,
        warnings=(*warnings, *empty_text_warnings(text)),
    )


def _front_matter(text: str) -> tuple[Mapping[str, object], str, tuple[str, ...]]:
    """The front matter, the text after it, and a warning if it can't be read; it is then left in the text."""
    found = _YAML.match(text[:_LONGEST_FRONT])
    if found is not None:
        import yaml

        try:
            front = yaml.safe_load(found.group(1)) or {}
        except Exception as error:  # PyYAML raises whatever Python does about a date, a number or a set that is none
            return {}, text, (f"front matter is not YAML: {syntax_error_reason(error)}",)
        if not _fits(front):
            return {}, text, (f"front matter refers to itself so often that it has over {_MOST_FRONT:,} characters",)
        if isinstance(front, Mapping):
            return front, text[found.end() :], ()
        return {}, text, ()  # a rule and some text, no front matter
    found = _TOML.match(text[:_LONGEST_FRONT])
    if found is not None:
        try:
            return parse_toml(found.group(1)), text[found.end() :], ()
        except (
            ValueError,
            RecursionError,
        ) as error:  # of a number that is too long, a ValueError that is no TOML error
            return {}, text, (f"front matter is not TOML: {syntax_error_reason(error)}",)
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

"""Markdown, plain text, HTML and JSONL: every word kept, structure understood, bad input told."""

from __future__ import annotations

import itertools
import json
import math
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts.fuzzing.targets import CHECKS

from ragcli.documents import read_file, read_jsonl
from ragcli.errors import DocumentError
from ragcli.types import Document, Failure


def read(path: Path, data: bytes | str) -> Document:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    (document,) = read_file(path)
    assert isinstance(document, Document)
    return document


NOTE = """\
---
title: Wormholes, in short
author: [Ada Example, Ben Sample]
date: 2021-05-03
tags: physics, gravity
draft: true
rating: 4.5
nested: {a: 1}
---
Words before.

# The *Coupling* of [two](http://x) sides

```python
# not a heading
x = 1
```

Setext heading
--------------

| a | b |
|---|---|
| 1 | 2 |

> # quoted, not the document's own

### Deep `code` {#anchor}
"""


def test_front_matter_becomes_metadata_and_leaves_the_text(tmp_path: Path) -> None:
    document = read(tmp_path / "note.md", NOTE)
    assert document.title == "Wormholes, in short"
    assert document.metadata == {
        "author": ["Ada Example", "Ben Sample"],
        "date": date(2021, 5, 3),
        "year": 2021,
        "tag": ["physics", "gravity"],
        "draft": True,
        "rating": 4.5,
        "nested": '{"a": 1}',
    }
    assert document.text == NOTE.split("---\n", 2)[2]


def test_markdown_headings_are_found_without_their_markup(tmp_path: Path) -> None:
    document = read(tmp_path / "note.md", NOTE)
    found = [(h.level, h.title, document.text[h.start :].split("\n")[0]) for h in document.headings]
    assert found == [
        (1, "The Coupling of two sides", "# The *Coupling* of [two](http://x) sides"),
        (2, "Setext heading", "Setext heading"),
        (3, "Deep code", "### Deep `code` {#anchor}"),
    ]


def test_code_and_tables_are_marked_as_whole(tmp_path: Path) -> None:
    document = read(tmp_path / "note.md", NOTE)
    whole = [document.text[start:end] for start, end in document.spans]
    assert whole[0] == "```python\n# not a heading\nx = 1\n```\n"
    assert whole[1] == "| a | b |\n|---|---|\n| 1 | 2 |\n"


def test_the_first_heading_is_the_title_if_there_is_no_front_matter(tmp_path: Path) -> None:
    assert read(tmp_path / "a.md", "## Sub\n\n# Main\n").title == "Main"
    assert read(tmp_path / "a.md", "Just words.\n").title is None


def test_front_matter_that_multiplies_itself_is_told_and_not_kept(tmp_path: Path) -> None:
    names = "abcdefgh"
    lines = ["a: &a [xxxxxxxx, xxxxxxxx]"]
    for before, name in itertools.pairwise(names):
        lines.append(f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]")
    front = "---\n" + "\n".join(lines) + "\n---\n"
    document = read(tmp_path / "a.md", front + "Body words.\n")
    assert document.metadata == {}
    assert "refers to itself" in document.warnings[0]
    assert "Body words." in document.text
    kept = read(tmp_path / "b.md", "---\na: &a [x, y]\nb: *a\n---\nBody words.\n")
    assert kept.metadata == {"a": ["x", "y"], "b": ["x", "y"]}


def test_front_matter_in_toml_is_read(tmp_path: Path) -> None:
    document = read(tmp_path / "a.md", '+++\ntitle = "T"\nyear = 1999\n+++\nBody\n')
    assert (document.title, document.metadata, document.text) == ("T", {"year": 1999}, "Body\n")


@pytest.mark.parametrize(
    "front",
    ["---\n: : [\n---\n", "---\n- a list\n---\n", "---\nnever closed\n", "---\n!!python/object:os.system x\n---\n"],
)
def test_what_is_no_front_matter_stays_in_the_text(tmp_path: Path, front: str) -> None:
    document = read(tmp_path / "a.md", f"{front}Body words.\n")
    assert "Body words." in document.text
    assert document.metadata == {}
    assert document.text.startswith("---")


def test_windows_line_ends_and_byte_order_marks_do_not_show(tmp_path: Path) -> None:
    document = read(tmp_path / "a.md", b"\xef\xbb\xbf# Title\r\n\r\nWords\rmore\r\n")
    assert document.text == "# Title\n\nWords\nmore\n"
    assert document.headings[0].start == 0


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"]
)
def test_text_is_read_in_its_own_encoding(tmp_path: Path, encoding: str) -> None:
    text = "Die Größe des Wurmlochs ist unerheblich; café, naïve façade.\n" * 3
    assert read(tmp_path / "a.txt", text.encode(encoding)).text == text


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1251", "Кротовая нора соединяет две удалённые области пространства и времени. " * 5),
        (
            "shift_jis",
            "ワームホールは時空の二つの離れた領域を結ぶ構造であり、通過するには負のエネルギーが必要である。" * 3,
        ),
    ],
)
def test_other_encodings_are_guessed(tmp_path: Path, encoding: str, text: str) -> None:
    assert read(tmp_path / "a.txt", text.encode(encoding)).text == text


def test_what_is_not_text_is_refused(tmp_path: Path) -> None:
    for data in (b"\x7fELF" + bytes(range(256)) * 20, b"%PDF-1.4\n..."):
        with pytest.raises(DocumentError, match=r"odd\.txt"):
            read(tmp_path / "odd.txt", data)


def test_an_empty_file_is_a_document_without_text_and_says_so(tmp_path: Path) -> None:
    document = read(tmp_path / "a.txt", b"")
    assert (document.text, document.warnings) == ("", ("is empty",))


def test_soft_hyphens_go_and_leave_joins(tmp_path: Path) -> None:
    document = read(tmp_path / "a.txt", "a recom\u00admen\u00addation\u00ad.")
    assert document.text == "a recommendation."
    assert document.joins == (7, 10)


def test_nul_and_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    assert read(tmp_path / "a.txt", b"words " * 40 + b"a\x00b").text.endswith("a\ufffdb")
    (document,) = read_jsonl([b'{"text": "a\\ud800b\\u0000"}'], "x")
    assert isinstance(document, Document)
    assert document.text == "a\ufffdb\ufffd"


PAGE = """<!doctype html>
<html><head><title>Wormholes | Site</title>
<meta name="citation_title" content="Wormholes in Short"><meta name="citation_author" content="Example, Ada">
<meta name="citation_author" content="Sample, Ben"><meta name="citation_publication_date" content="2020/01/05">
<meta name="citation_doi" content="10.1234/xyz"><meta name="keywords" content="gravity, delay">
<style>p { color: red }</style><script>var hidden = 1;</script></head>
<body><nav><a href="/">Home</a><a href="/blog">Blog</a></nav>
<h1>Worm<em>holes</em></h1>
<p>First words,<br>second line with H<sub>2</sub>O &amp; more&nbsp;words.
<h2>Code</h2><pre><code>def f():
    return 1

x = 2</code></pre>
<ul><li>one<li><p>two</p><ol><li>inner</ol></ul>
<dl><dt>term<dd>meaning</dl>
<table><caption>Numbers</caption><tr><th>k<th>v<tr><td>alpha<td>1</table>
<figure><img alt="a diagram" src="x.png"><figcaption>The throat.</figcaption></figure>
<details><summary>More</summary>folded words</details>
<p>in<b>line</b> and <span aria-hidden="true">twice</span>once</p>
<p>recom\u00admen\u00addation</p><h2>After</h2>
<aside>side words</aside><footer>foot words</footer></body></html>"""


def test_all_of_a_web_pages_words_are_kept_and_nothing_else(tmp_path: Path) -> None:
    text = read(tmp_path / "a.html", PAGE).text
    assert text.split("\n\n") == [
        "Wormholes",
        "First words,\nsecond line with H2O & more words.",
        "Code",
        "def f():\n    return 1",
        "x = 2",
        "- one\n- two\n1. inner",
        "term\nmeaning",
        "Numbers\nk\tv\nalpha\t1",
        "a diagram\nThe throat.",
        "More\nfolded words",
        "inline and once",
        "recommendation",
        "After",
        "side words",
        "foot words",
    ]


def test_a_web_pages_headings_code_and_joins_are_where_they_say(tmp_path: Path) -> None:
    document = read(tmp_path / "a.html", PAGE)
    assert [(h.level, h.title) for h in document.headings] == [(1, "Wormholes"), (2, "Code"), (2, "After")]
    assert all(document.text.startswith(h.title, h.start) for h in document.headings)
    assert [document.text[start:end] for start, end in document.spans] == ["def f():\n    return 1\n\nx = 2"]
    assert [document.text[join - 5 : join] for join in document.joins] == ["recom", "ommen"]


def test_what_a_web_page_says_about_itself_becomes_metadata(tmp_path: Path) -> None:
    document = read(tmp_path / "a.html", PAGE)
    assert document.title == "Wormholes in Short"
    assert document.metadata == {
        "author": ["Example, Ada", "Sample, Ben"],
        "year": 2020,
        "date": date(2020, 1, 5),
        "doi": "10.1234/xyz",
        "keywords": ["gravity", "delay"],
    }


def test_a_web_page_names_its_encoding(tmp_path: Path) -> None:
    source = '<meta charset="iso-8859-2"><p>Žluťoučký kůň</p>'
    assert read(tmp_path / "a.html", source.encode("iso-8859-2")).text == "Žluťoučký kůň"


def test_a_deeply_nested_page_loses_nothing(tmp_path: Path) -> None:
    assert read(tmp_path / "a.html", "<div>" * 3000 + "deep" + "</div>" * 3000 + "<p>after").text == "deep\n\nafter"


TAGS = (
    "<p>",
    "</p>",
    "<li>",
    "<ul>",
    "</ul>",
    "<h2>",
    "</h2>",
    "<pre>",
    "</pre>",
    "<td>",
    "<br>",
    "</div>",
    "<b",
    "<!--",
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from((*TAGS, "word", " ", "&amp;")), max_size=40))
def test_no_markup_however_broken_stops_the_reader(pieces: list[str]) -> None:
    from ragcli.documents.formats.html_parser import read_html

    document = read_html("".join(pieces).encode(), Path("a.html"))
    assert all(document.text[h.start :].startswith(h.title.split()[0]) for h in document.headings)


def records(*lines: object) -> list[Document | Failure]:
    return list(
        read_jsonl([(line if isinstance(line, str) else json.dumps(line)).encode() for line in lines], "c.jsonl")
    )


def test_a_record_becomes_a_document() -> None:
    (document,) = records({"_id": "d7", "title": "A title", "text": "The text.", "year": 1999, "tags": ["a", "b"]})
    assert isinstance(document, Document)
    assert (document.record_id, document.title, document.text) == ("d7", "A title", "A title\n\nThe text.")
    assert document.metadata == {"year": 1999, "tag": ["a", "b"]}
    assert document.kind == "jsonl"


def test_ids_may_be_numbers_or_missing() -> None:
    found = records({"id": 12, "text": "a"}, {"text": "b"})
    assert [item.record_id for item in found if isinstance(item, Document)] == ["12", "c.jsonl:2"]


def test_a_record_may_have_a_title_and_no_text() -> None:
    (document,) = records({"id": "x", "title": "Only a title", "text": ""})
    assert isinstance(document, Document)
    assert document.text == "Only a title"


def test_metadata_keeps_what_it_can_hold() -> None:
    (document,) = records(
        {
            "id": "x",
            "text": "t",
            "none": None,
            "flag": False,
            "big": 1 << 70,
            "object": {"a": [1]},
            "metadata": {"k": "v"},
        }
    )
    assert isinstance(document, Document)
    assert document.metadata == {"flag": False, "big": str(1 << 70), "object": '{"a": [1]}', "k": "v"}


def test_a_bad_line_costs_only_itself_and_says_where_it_is() -> None:
    found = list(
        read_jsonl(
            [
                b'\xef\xbb\xbf{"id": "1", "text": "first"}',
                b"",
                b"{broken",
                b'{"text": "\xff"}',
                b"[1, 2]",
                b'{"id": "5"}',
                b'{"id": "6", "text": 7}',
                b'{"id": "7", "text": "  "}',
                b"[" * 100_000,
                b'{"id": "2", "text": "last"}',
            ],
            "c.jsonl",
        )
    )
    assert [item.text for item in found if isinstance(item, Document)] == ["first", "last"]
    reasons = {item.source: item.reason for item in found if isinstance(item, Failure)}
    assert list(reasons) == [f"c.jsonl:{number}" for number in range(3, 10)]
    assert all(f"c.jsonl, line {source.split(':')[1]}" in reason for source, reason in reasons.items())


def test_lines_are_read_no_sooner_than_they_are_needed() -> None:
    taken: list[int] = []

    def lines() -> object:
        for number in range(10):
            taken.append(number)
            yield b'{"text": "x"}'

    documents = read_jsonl(lines(), "c.jsonl")  # type: ignore[arg-type]
    next(documents)
    assert taken == [0]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(["id", "_id", "text", "title", "metadata", "x"]), VALUES))
def test_every_record_gives_a_document_or_a_failure(record: dict[str, object]) -> None:
    (item,) = records(record)
    if isinstance(item, Document):
        assert item.text.strip()
        assert all(not isinstance(value, float) or math.isfinite(value) for value in item.metadata.values())
        json.dumps(dict(item.metadata), allow_nan=False).encode("utf-8")


WRITTEN = st.sampled_from(
    (
        *(b'{"text": "a"}', b'{"id": "x", "text": "b"}', b'{"_id": 7, "title": "T", "text": ""}', b'{"title": "only"}'),
        *(b"{", b"[]", b"null", b'"text"', b" ", b"\t\r", b"\xef\xbb\xbf", b'{"text": "\xff"}', b'{"text": "\\ud800"}'),
        *(b'{"text": 1}', b'{"text": "c", "a": NaN, "b": 1e999, "c": 123456789012345678901}', b"\x00", b'{"id": true}'),
        *(b'{"text": "d", "metadata": {"a": [1, {"b": null}]}, "authors": "X; Y"}', b"[" * 2_000, b"1" * 5_000),
    )
)


@settings(max_examples=100, deadline=None)
@given(st.lists(WRITTEN | st.binary(max_size=30), max_size=10), st.sampled_from([b"\n", b"\r\n"]))
def test_each_line_of_any_bytes_gives_a_document_or_a_failure_that_names_it_in_order(
    lines: list[bytes], end: bytes
) -> None:
    CHECKS["jsonl"](end.join(lines))


def test_a_file_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="docx"):
        read(tmp_path / "a.docx", b"x")


def test_a_file_that_is_gone_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match=r"gone\.md cannot be opened"):
        list(read_file(tmp_path / "gone.md"))

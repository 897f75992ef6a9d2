"""What the fuzzer found, kept: each input once broke a reader, and its promises hold now.

Inputs are cut down to what matters. `scripts/fuzz` looks for more.
"""

from __future__ import annotations

import re
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scripts.fuzzing.checks import check_chunks, check_document
from scripts.fuzzing.seeds import pdf_file, stream
from scripts.fuzzing.targets import CHECKS

from ragcli.config import load_config
from ragcli.documents import chunk_document
from ragcli.documents.character_repair import repair_line
from ragcli.documents.formats.html_parser import read_html
from ragcli.documents.formats.markdown_parser import read_markdown
from ragcli.documents.parse_options import ReadOptions
from ragcli.documents.pdf.pdf_parser import read_pdf
from ragcli.errors import ConfigError, DocumentError
from ragcli.index.pattern_matching import compile_pattern
from ragcli.index.term_analysis import pretokenize
from ragcli.text.text_folding import fold, squeeze
from ragcli.text.unicode import MAX_COMBINING_MARKS, MAX_GRAPHEME_LENGTH, normalised
from ragcli.types import Document

FOUND: dict[str, tuple[bytes, ...]] = {
    "html": (
        b"x<?i>",
        b"<h1><div>/h1><h2>Inner</h2><",
        "\u200d".encode() * 70 + b"<div>" + "\u200d".encode() * 70,
        b"<meta charset=undefined>caf\xe9",
        b"<meta charset=idna>caf\xe9",
        b"<meta charset=hex>caf\xe9",
        "<meta name=date content=²⁰²¹>x".encode(),
    ),
    "jsonl": (
        b'{"text":"t"}\x1d\n',
        b'{"text":"x","tags":"\\ude00"}',
        b'{"text":"x","\\ud800":1}',
        b'{"text":"x","authors":["\\u0000"]}',
        '{"text":"x","date":"²⁰²¹"}'.encode(),
    ),
    "evaluation": (
        b'{"query": "\\ude00", "relevant_ids": ["b"]}',
        b'{"id": "\\ud800", "query": "x", "relevant_ids": ["\\udfff"]}',
        b'{"query": "x", "relevant_ids": [' + b"1" * 5_000 + b"]}",
    ),
    "config": (
        b"[query]\ntop = " + b"1" * 5_000,
        b"[query]\ntop = 0x" + b"f" * 5_000,
        b"[query]\npipeline = 0x" + b"f" * 5_000,
        b"[defaults]\noverlap = 0x" + b"f" * 5_000,
        b"[defaults]\nparse_timeout = inf",
        "[query]\nreranker = '\u2028\u2028\u2028'\ntop = 0".encode(),
    ),
    "markdown": (
        b"---\na: !!timestamp x\n---\nx",
        b"---\na: !!bool x\n---\nx",
        b'---\na: !!int ""\n---\nx',
        b'---\ntitle: "\\uD800"\n---\nx',
        b"---\ntitle: 0x" + b"f" * 5_000 + b"\n---\nx",
        b"---\ndate: 0x" + b"f" * 5_000 + b"\n---\nx",
        b"---\ntags: 0x" + b"f" * 5_000 + b"\n---\nx",
        b"---\na: [0x" + b"f" * 5_000 + b"]\n---\nx",
        b"+++\na = " + b"1" * 5_000 + b"\n+++\nx",
        b"+++\na = " + b"[" * 5_000 + b"\n+++\nx",
    ),
}


@pytest.mark.parametrize(("target", "data"), [(target, data) for target, all_of in FOUND.items() for data in all_of])
def test_readers_keep_their_promises_of_what_once_broke_them(target: str, data: bytes) -> None:
    CHECKS[target](data)


def test_a_web_page_with_a_processing_instruction_is_read() -> None:
    document = read_html(b"<p>before <?php echo 1; ?>after</p>", Path("a.html"))
    assert document.text == "before after"


@pytest.mark.parametrize("charset", ["utf-16", "unicode_escape", "undefined", "idna", "hex", "no-such-thing"])
def test_a_page_that_names_an_encoding_it_cannot_have_is_read_all_the_same(charset: str) -> None:
    document = read_html(
        f"<meta charset={charset}><p>Caf\xe9 and \x93more\x94 words here".encode("latin-1"), Path("a.html")
    )
    assert document.text.startswith("Caf")
    assert document.text.endswith("words here")


def test_headings_inside_of_headings_come_in_the_order_of_the_text() -> None:
    document = read_html(b"<h1><div>Outer<h2>Inner</h2></div></h1><p>x</p>", Path("a.html"))
    assert [heading.title for heading in document.headings] == ["Outer Inner", "Inner"]


def test_a_pdf_whose_table_lies_beyond_every_file_is_refused() -> None:
    data = b"%PDF-1.7\n1 0 obj\n<< >>\nendobj\ntrailer\n<< /Root 1 0 R >>\nstartxref\n9223372036854775808\n%%EOF\n"
    for engine in ("pdfium", "pypdf"):
        with pytest.raises(DocumentError):
            read_pdf(data, Path("a.pdf"), ReadOptions(pdf_engine=engine))  # type: ignore[arg-type]


def test_half_a_character_or_a_nul_in_a_bookmark_a_label_or_a_title_costs_nothing_else() -> None:
    half = b"<FEFF0041D800004200000043>"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R /Outlines 5 0 R /PageLabels << /Nums [0 << /P %s >>] >> >>" % half,
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 7 0 R >> >> >>",
        stream(b"BT /F1 10 Tf 72 700 Td (A wormhole needs negative energy) Tj ET"),
        b"<< /Type /Outlines /First 6 0 R /Last 6 0 R >>",
        b"<< /Title %s /Parent 5 0 R /Dest [3 0 R /Fit] >>" % half,
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman >>",
        b"<< /Title %s /Author (A. Writer) >>" % half,
    ]
    data = pdf_file(objects, b"/Info 8 0 R ")
    for engine in ("pdfium", "pypdf"):
        document = read_pdf(data, Path("a.pdf"), ReadOptions(pdf_engine=engine))  # type: ignore[arg-type]
        check_document(document)
        assert document.text == "A wormhole needs negative energy"
        assert document.pages[0].label is None or document.pages[0].label.isprintable()


def test_front_matter_that_yaml_stumbles_over_stays_in_the_text() -> None:
    document = read_markdown(b"---\na: !!timestamp never\n---\nWords.\n", Path("a.md"))
    assert document.text == "---\na: !!timestamp never\n---\nWords.\n"
    assert any("front matter" in warning for warning in document.warnings)


def test_a_large_configuration_made_to_be_slow_is_told_of_at_once(tmp_path: Path) -> None:
    file = tmp_path / "collections.toml"
    file.write_text("".join(f"#a{number}\n" for number in range(100_000)) + "a = 1\n", encoding="utf-8")
    start = time.perf_counter()
    with pytest.raises(ConfigError, match="a is not a key"):
        load_config(file)
    file.write_text('a = """\n' + "a\n" * 100_000 + '"""\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="a is not a key"):
        load_config(file)
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(
    "text",
    ["x" * 55 + "-" + "\t" * 350 + "\u0301y", "\u1160" * 70 + " ", "ߞ" + "\u1160" * 49 + " " + "\u1160" * 80],
)
def test_no_chunk_is_blank_or_swollen_where_blank_space_meets_what_cannot_be_cut(text: str) -> None:
    check_chunks(Document(text=text, kind="text"), [(50, 0), (60, 12)])


PILES = {
    "marks in the wrong order": "a" + "\u0301\u0323" * 40_000,
    "marks that are two": "\u0f73" * 60_000,
    "zero-width spaces": "\u200b" * 60_000,
    "soft hyphens": "\u00ad" * 60_000,
    "zero-width spaces and a mark": "\u200b" * 60_000 + "\u0301",
}


@pytest.mark.parametrize("text", PILES.values(), ids=PILES)
def test_nothing_piled_up_without_end_keeps_a_search_waiting(text: str) -> None:
    start = time.perf_counter()
    fold(text)
    squeeze(text)
    pretokenize(text)
    repair_line(text)
    list(compile_pattern("a phrase").find_all(text))
    assert time.perf_counter() - start < 5


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="aé\u0301\u0323\u0345ﬁ한\u1112\u1161中 \u0f73", max_size=500))
@example("a" + "\u0301\u0323" * 30 + "\u00e9" * 500)
def test_texts_with_no_such_piles_have_unicode_s_own_normal_forms(text: str) -> None:
    text = text + " " * 500 + text
    longest = max((len(pile) for pile in re.findall("[\u0301\u0323\u0345\u0f73]+", text)), default=0)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        if longest <= MAX_COMBINING_MARKS:
            assert normalised(form, text) == unicodedata.normalize(form, text)  # type: ignore[arg-type]
        piled = normalised(form, "e" + "\u0301\u0323" * 1_000 + text)  # type: ignore[arg-type]
        assert normalised(form, piled).count("\u0323") == piled.count("\u0323")  # type: ignore[arg-type]


@pytest.mark.parametrize("letter", ["a\u0301", "a\u200d", "🇩🇪", "\u1100", "क\u094d"])
def test_characters_without_end_neither_swell_a_chunk_nor_take_long(letter: str) -> None:
    for text in (letter * 40_000, letter[0] + letter[-1] * 80_000):
        start = time.perf_counter()
        chunks = chunk_document(Document(text=text, kind="text"))
        assert max(chunk.end - chunk.start for chunk in chunks) <= 1200 + MAX_GRAPHEME_LENGTH
        assert time.perf_counter() - start < 10

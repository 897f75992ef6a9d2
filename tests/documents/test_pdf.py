"""PDFs: the words whole and in order, what surrounds them gone, and what a paper says about itself found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from fpdf import FPDF
from tests.support import pdfs

from ragcli.documents import ReadOptions, read_file
from ragcli.documents.character_repair import repair_line, tex_ligature_codes
from ragcli.documents.pdf.reflow import count_words, keeps_hyphen
from ragcli.errors import DocumentError, PasswordNeeded
from ragcli.types import Document


def read(path: Path, options: ReadOptions | None = None) -> Document:
    (document,) = read_file(path, options or ReadOptions())
    assert isinstance(document, Document)
    return document


def page_of(document: Document, offset: int) -> int:
    return next(page.number for page in document.pages if page.start <= offset < page.end)


def lines_of(path: Path, lines: list[str], *, x: float = 72) -> Document:
    pdf = pdfs.new_pdf()
    pdf.add_page()
    pdfs.put_lines(pdf, x, 90, lines)
    return read(pdfs.write(pdf, path))


def test_lines_of_a_paragraph_run_together_and_paragraphs_stay_apart(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    pdf.add_page()
    first, second = pdfs.prose(1, 5), pdfs.prose(2, 5)
    y = pdfs.put_lines(pdf, 72, 90, pdfs.wrapped(pdf, first, 440))
    pdfs.put_lines(pdf, 72, y + 12, pdfs.wrapped(pdf, second, 440))
    assert read(pdfs.write(pdf, tmp_path / "a.pdf")).text == f"{first}\n\n{second}"


def test_an_indented_first_line_begins_a_paragraph(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    pdf.add_page()
    first, second = pdfs.prose(1, 5), pdfs.prose(2, 5)
    y = pdfs.put_lines(pdf, 72, 90, pdfs.wrapped(pdf, first, 440))
    head, *rest = pdfs.wrapped(pdf, second, 420)
    pdfs.put(pdf, 88, y, head)
    pdfs.put_lines(pdf, 72, y + pdfs.LEADING, rest)
    assert read(pdfs.write(pdf, tmp_path / "a.pdf")).text == f"{first}\n\n{second}"


def test_running_heads_and_page_numbers_are_not_in_the_text(tmp_path: Path) -> None:
    document = read(pdfs.paper(tmp_path / "paper.pdf", pages=4))
    assert "Wormholes in Brief" not in document.text
    assert "\n" not in document.text
    assert [len(document.text[page.start : page.end].split()) > 100 for page in document.pages] == [True] * 4


def test_a_body_line_that_stands_on_one_page_only_is_kept(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    for number in range(5):
        pdf.add_page()
        pdfs.put(pdf, 72, 60, f"Result {['alpha', 'beta', 'gamma', 'delta', 'epsilon'][number]} opens this page.")
        pdfs.put_lines(pdf, 72, 90, pdfs.wrapped(pdf, pdfs.prose(number, 6), 440))
    text = read(pdfs.write(pdf, tmp_path / "a.pdf")).text
    assert all(word in text for word in ("alpha", "beta", "gamma", "delta", "epsilon"))


def test_a_document_that_says_the_same_on_every_page_keeps_its_words(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    for _ in range(5):
        pdf.add_page()
        pdfs.put(pdf, 72, 60, "Background radiation")
    assert "Background radiation" in read(pdfs.write(pdf, tmp_path / "a.pdf")).text


def test_numbers_that_do_not_count_pages_are_kept(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    for number in (1948, 1905, 1936):
        pdf.add_page()
        pdfs.put(pdf, 72, 60, str(number))
        pdfs.put_lines(pdf, 72, 90, pdfs.wrapped(pdf, pdfs.prose(number, 6), 440))
    text = read(pdfs.write(pdf, tmp_path / "a.pdf")).text
    assert all(str(number) in text for number in (1948, 1905, 1936))


def test_every_character_knows_its_page(tmp_path: Path) -> None:
    document = read(pdfs.paper(tmp_path / "paper.pdf", pages=3))
    assert [page.number for page in document.pages] == [1, 2, 3]
    assert document.pages[0].start == 0
    assert document.pages[-1].end == len(document.text)
    for before, after in zip(document.pages, document.pages[1:], strict=False):
        assert before.end == after.start


def test_a_sentence_that_runs_over_the_page_stays_whole(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    lines = pdfs.wrapped(pdf, pdfs.prose(1, 40), 440)
    for part in (lines[:20], lines[20:40]):
        pdf.add_page()
        pdfs.put_lines(pdf, 72, 90, part)
    document = read(pdfs.write(pdf, tmp_path / "a.pdf"))
    assert document.text == " ".join(lines[:40])
    assert page_of(document, document.text.index(lines[19][-8:])) == 1
    assert document.text[document.pages[1].start :].startswith(lines[20])


def test_a_footnote_does_not_tear_the_sentence_that_runs_over_the_page(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    lines = pdfs.wrapped(pdf, pdfs.prose(1, 40), 440)
    cut = next(number for number in range(20, 40) if lines[number][0].islower() and lines[number - 1][-1].isalnum())
    pdf.add_page()
    y = pdfs.put_lines(pdf, 72, 90, ["An opening paragraph of its own."])
    y = pdfs.put_lines(pdf, 72, y + 12, lines[:cut])
    pdfs.put(pdf, 72, y + 20, "1 A note about the coupling, in small print.", size=8)
    pdf.add_page()
    pdfs.put_lines(pdf, 72, 90, lines[cut:40])
    document = read(pdfs.write(pdf, tmp_path / "a.pdf"))
    assert " ".join(lines[:40]) in document.text
    assert page_of(document, document.text.index("A note about")) == 1


@pytest.mark.parametrize("row_by_row", [False, True], ids=["written by columns", "written by rows"])
def test_two_columns_are_read_one_after_the_other(tmp_path: Path, *, row_by_row: bool) -> None:
    path, left, right = pdfs.two_columns(tmp_path / "a.pdf", row_by_row=row_by_row)
    words = read(path).text.split()
    assert words == " ".join([*left, *right]).split()


def test_a_table_is_read_row_by_row(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    pdf.add_page()
    for row in range(8):
        pdfs.put(pdf, 72, 90 + 14 * row, f"item {row}")
        pdfs.put(pdf, 340, 90 + 14 * row, f"value {row}")
    text = read(pdfs.write(pdf, tmp_path / "a.pdf")).text
    assert " ".join(text.split()) == " ".join(f"item {row} value {row}" for row in range(8))


def test_a_word_broken_at_a_line_end_is_joined_and_the_place_recorded(tmp_path: Path) -> None:
    document = lines_of(tmp_path / "a.pdf", ["We present a novel recommen-", "dation of the coupling."])
    place = document.text.index("recommendation") + len("recommen")
    assert document.joins == (place,)


def test_a_hyphen_stays_where_the_document_writes_the_word_with_it(tmp_path: Path) -> None:
    lines = ["A high-latency network is slow. In such high-", "latency networks the delay is all."]
    document = lines_of(tmp_path / "a.pdf", lines)
    assert "such high-latency networks" in document.text
    (join,) = document.joins
    assert document.text[join] == "-"


def test_a_hyphen_goes_where_the_document_writes_the_word_without_it(tmp_path: Path) -> None:
    document = lines_of(tmp_path / "a.pdf", ["The workload is heavy. Another work-", "load is light."])
    assert "Another workload is light." in document.text


def test_names_keep_the_hyphen_of_a_line_end(tmp_path: Path) -> None:
    assert "Bose-Einstein" in lines_of(tmp_path / "a.pdf", ["It is a condensate of Bose-", "Einstein type."]).text


def test_a_word_broken_over_a_page_is_joined_and_each_half_has_its_page(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    lines = pdfs.wrapped(pdf, pdfs.prose(1, 12), 440)
    for part in ([*lines, "and this is the informa-"], ["tion that we need."]):
        pdf.add_page()
        pdfs.put_lines(pdf, 72, 90, part)
    document = read(pdfs.write(pdf, tmp_path / "a.pdf"))
    place = document.text.index("information")
    assert (page_of(document, place), page_of(document, place + 7)) == (1, 2)


def test_ligatures_become_letters_and_superscripts_stay(tmp_path: Path) -> None:
    content = "BT /F1 12 Tf 72 700 Td (an ef\\256cient \\257ow with x\\262) Tj ET"
    encoding = "<< /Type /Encoding /BaseEncoding /WinAnsiEncoding /Differences [174 /fi /fl] >>"
    assert read(pdfs.raw_pdf(tmp_path / "a.pdf", content, encoding=encoding)).text == "an efficient flow with x²"


def test_ligatures_of_old_tex_fonts_become_letters() -> None:
    lines = [
        "the bene\x0cts of a re\x0cned de\x0cnition",
        "and e\x0bective di\x0berences",
        'the \x0crst \\di\x0eculty"',
    ]
    codes = tex_ligature_codes(lines)
    clean = [repair_line(line, codes) for line in lines]
    assert clean == ["the benefits of a refined definition", "and effective differences", "the first “difficulty”"]


def test_the_same_codes_in_formulas_are_not_taken_for_letters() -> None:
    lines = ["where \x0cij = 1", "the angle \x0c is small", "and \x0cx grows"]
    assert tex_ligature_codes(lines) == frozenset()
    assert repair_line(lines[1]) == "the angle is small"


def test_accents_printed_apart_are_put_on_their_letters() -> None:
    assert repair_line("Schr¨odinger, Erd˝os, Poincar´e and Laszl ´ o") == "Schrödinger, Erdős, Poincaré and Laszló"


def test_a_title_comes_from_the_metadata_if_the_page_says_it_too(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    pdf.set_title("Wormholes and Their Delays")
    pdf.add_page()
    pdfs.put(pdf, 150, 90, "Wormholes and Their Delays", size=18)
    pdfs.put_lines(pdf, 72, 150, pdfs.wrapped(pdf, pdfs.prose(1, 9), 440))
    assert read(pdfs.write(pdf, tmp_path / "a.pdf")).title == "Wormholes and Their Delays"


@pytest.mark.parametrize("written", ["untitled", "Microsoft Word - draft7.doc", "paper.dvi", "Slide 1", ""])
def test_a_title_is_the_first_pages_largest_text_if_the_metadata_has_none(tmp_path: Path, written: str) -> None:
    pdf = pdfs.new_pdf()
    pdf.set_title(written)
    pdf.add_page()
    pdfs.put(pdf, 150, 90, "On the Delay of Signals", size=18)
    pdfs.put(pdf, 150, 112, "in Traversable Wormholes", size=18)
    pdfs.put(pdf, 200, 140, "Ada Example and Ben Sample", size=12)
    pdfs.put_lines(pdf, 72, 180, pdfs.wrapped(pdf, pdfs.prose(1, 9), 440))
    document = read(pdfs.write(pdf, tmp_path / "a.pdf"))
    assert document.title == "On the Delay of Signals in Traversable Wormholes"
    assert document.metadata["author"] == ["Ada Example", "Ben Sample"]


def test_what_a_paper_says_about_itself_becomes_metadata(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    pdf.add_page()
    pdfs.put(pdf, 150, 90, "On the Delay of Signals", size=18)
    pdfs.put(pdf, 200, 120, "Ada Example", size=12)
    pdfs.put(pdf, 200, 134, "University of Nowhere", size=12)
    y = pdfs.put_lines(pdf, 72, 180, pdfs.wrapped(pdf, pdfs.prose(1, 9), 440))
    pdfs.put(pdf, 72, y + 14, "Keywords: wormholes, null energy, delay")
    pdfs.put(pdf, 72, y + 40, "Copyright 2019 by the author. doi:10.1234/abc.def-5", size=8)
    with pdf.rotation(90, 30, 500):
        pdfs.put(pdf, 30, 500, "arXiv:1906.01234v2 [hep-th] 4 Jun 2019", size=16)
    pdf.set_creation_date(datetime(2019, 6, 5, 14, 30, tzinfo=timezone(timedelta(hours=2))))
    document = read(pdfs.write(pdf, tmp_path / "a.pdf"))
    assert document.metadata == {
        "created": datetime(2019, 6, 5, 12, 30, tzinfo=UTC),
        "author": ["Ada Example"],
        "arxiv": "1906.01234v2",
        "doi": "10.1234/abc.def-5",
        "year": 2019,
        "keywords": ["wormholes", "null energy", "delay"],
    }
    assert "arXiv" not in document.text


XMP = """<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" pdf:Keywords="delay, signals"><prism:doi>10.1234/xmp.7</prism:doi>
<dc:creator><rdf:Seq><rdf:li>Ada Example</rdf:li><rdf:li>Ben &amp; Sample</rdf:li></rdf:Seq></dc:creator>
</rdf:Description></rdf:RDF></x:xmpmeta>"""


def test_what_only_the_xmp_packet_says_becomes_metadata_too(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    pdf.add_page()
    pdfs.put(pdf, 150, 90, "On the Delay of Signals", size=18)
    pdfs.put(pdf, 150, 120, pdfs.SENTENCES[0])
    pdf.set_xmp_metadata(XMP)
    path = pdfs.write(pdf, tmp_path / "a.pdf")
    metadata = read(path).metadata
    assert metadata["doi"] == "10.1234/xmp.7"
    assert metadata["keywords"] == ["delay", "signals"]
    # With a picture's packet beside it there is no telling which is the paper's.
    path.write_bytes(path.read_bytes() + XMP.replace("10.1234", "10.9999").encode())
    assert "doi" not in read(path).metadata


def test_years_of_the_references_are_not_the_papers_year(tmp_path: Path) -> None:
    document = lines_of(
        tmp_path / "a.pdf", ["As was shown before [Smith 1987, Jones 1991], nothing", "travels faster."]
    )
    assert "year" not in document.metadata


def test_headings_come_from_the_outline_and_stand_where_their_words_are(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    for number, name in enumerate(["Introduction", "The Coupling", "A Missing One"]):
        pdf.add_page()
        pdf.start_section(name, level=0)
        if number < 2:
            pdfs.put(pdf, 72, 70, f"{number + 1} {name}", size=11)
        pdfs.put_lines(pdf, 72, 100, pdfs.wrapped(pdf, pdfs.prose(number, 9), 440))
    document = read(pdfs.write(pdf, tmp_path / "a.pdf"))
    assert [(h.level, h.title) for h in document.headings] == [(1, "Introduction"), (1, "The Coupling")]
    assert [document.text[h.start :].split("\n")[0] for h in document.headings] == ["1 Introduction", "2 The Coupling"]


def test_headings_come_from_the_print_if_there_is_no_outline(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    for number, name in enumerate(["1 Introduction", "2 The Coupling", "2.1 Its Sign", "3 Conclusion"]):
        pdf.add_page()
        pdfs.put(pdf, 72, 80, name, size=14, style="B")
        pdfs.put_lines(pdf, 72, 110, pdfs.wrapped(pdf, pdfs.prose(number, 9), 440))
    document = read(pdfs.write(pdf, tmp_path / "a.pdf"))
    found = [(h.level, h.title, page_of(document, h.start)) for h in document.headings]
    assert found == [(1, "1 Introduction", 1), (1, "2 The Coupling", 2), (2, "2.1 Its Sign", 3), (1, "3 Conclusion", 4)]


def test_a_numbered_list_is_not_taken_for_headings(tmp_path: Path) -> None:
    lines = [f"{number}. Take the coupling and turn it by {number} degrees." for number in range(1, 7)]
    assert lines_of(tmp_path / "a.pdf", lines).headings == ()


def test_page_labels_are_those_printed_in_a_viewer(tmp_path: Path) -> None:
    pdf = FPDF()
    pdf.set_font("Helvetica", size=11)
    for number in range(3):
        pdf.add_page(label_style="r" if number == 0 else "D", label_start=1 if number < 2 else None)
        pdf.text(20, 30, f"Text {number} is here.")
    labels = [page.label for page in read(pdfs.write(pdf, tmp_path / "a.pdf")).pages]
    assert labels == ["i", "1", "2"]


def test_pages_without_text_are_counted(tmp_path: Path) -> None:
    document = read(pdfs.scanned(tmp_path / "a.pdf", pages=4, with_text=[1]))
    assert document.warnings == ("3 of 4 pages have no text (scanned?)",)
    assert page_of(document, 0) == 2


@pytest.mark.parametrize(("pages", "words"), [(1, "its one page has no text"), (3, "none of its 3 pages has text")])
def test_a_scanned_document_fails_and_names_the_way_out(tmp_path: Path, pages: int, words: str) -> None:
    path = pdfs.scanned(tmp_path / "scan.pdf", pages=pages)
    with pytest.raises(DocumentError, match=rf"scan\.pdf: {words}.*--ocr.*ragcli\[ocr\]"):
        read(path)


def test_pages_without_a_picture_keep_the_one_line_that_they_share(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    for _ in range(4):
        pdf.add_page()
        pdfs.put_lines(pdf, 72, 60, ["The same words on every page"])
    document = read(pdfs.write(pdf, tmp_path / "a.pdf"))
    assert document.text.count("The same words on every page") == 4
    assert document.warnings == ()


def test_a_stamp_on_every_scanned_page_is_not_taken_for_its_text(tmp_path: Path) -> None:
    pdf = pdfs.new_pdf()
    for number in range(6):
        pdf.add_page()
        if number:
            pdf.image(pdfs.picture(), x=0, y=0, w=pdf.w)
        pdfs.put(pdf, 72, 770, "Downloaded from an archive by a reader", size=7)
        if number == 0:
            pdfs.put_lines(pdf, 72, 90, pdfs.wrapped(pdf, pdfs.prose(1, 8), 440))
    assert read(pdfs.write(pdf, tmp_path / "a.pdf")).warnings == ("5 of 6 pages have no text (scanned?)",)


@pytest.mark.parametrize("engine", ["pdfium", "pypdf"])
def test_an_empty_user_password_opens_a_document(tmp_path: Path, engine: str) -> None:
    pytest.importorskip("cryptography") if engine == "pypdf" else None
    path = pdfs.encrypted(tmp_path / "a.pdf", user_password="")
    options = ReadOptions(pdf_engine="pypdf" if engine == "pypdf" else "pdfium")
    assert "secret of the wormhole" in read(path, options).text


def test_a_password_is_needed_and_any_of_those_given_will_do(tmp_path: Path) -> None:
    path = pdfs.encrypted(tmp_path / "a.pdf", user_password="sesame")
    with pytest.raises(PasswordNeeded, match="--password"):
        read(path)
    with pytest.raises(PasswordNeeded, match="none of the given passwords"):
        read(path, ReadOptions(passwords=("guess",)))
    assert "secret of the wormhole" in read(path, ReadOptions(passwords=("guess", "sesame"))).text


def test_the_other_engine_reads_the_same_words(tmp_path: Path) -> None:
    path = pdfs.paper(tmp_path / "paper.pdf", pages=3)
    ours, other = read(path), read(path, ReadOptions(pdf_engine="pypdf"))
    assert other.text.split() == ours.text.split()
    assert [page.number for page in other.pages] == [1, 2, 3]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><html><body>Please log in</body></html>", "web page"),
        (b"%!PS-Adobe-3.0\n", "PostScript"),
        (b"just some words", "not a PDF"),
        (b"%PDF-1.7\nnothing of the kind follows", "cannot be read as a PDF"),
    ],
)
def test_what_is_no_pdf_fails_with_a_sentence(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "odd.pdf"
    path.write_bytes(data)
    with pytest.raises(DocumentError, match=rf"odd\.pdf.*{reason}"):
        read(path)


def test_a_truncated_pdf_is_read_or_fails_with_a_sentence(tmp_path: Path) -> None:
    whole = pdfs.paper(tmp_path / "paper.pdf", pages=3).read_bytes()
    for part in (0.2, 0.5, 0.9):
        path = tmp_path / "cut.pdf"
        path.write_bytes(whole[: int(len(whole) * part)])
        try:
            text = read(path).text
        except DocumentError as error:
            text = str(error)
        assert "cut.pdf" in text or "wormhole" in text


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("a fragile proof", "of-concept that ran", True),
        ("a peer", "to-peer system", True),
        ("the recom", "mender-based ranking", False),
        ("the frag", "ile proof", False),
    ],
)
def test_a_word_of_several_parts_keeps_the_hyphen_it_is_broken_at(before: str, after: str, kept: bool) -> None:
    assert keeps_hyphen(before, after, count_words([("nothing that helps", False, False)])) is kept

"""Real papers and odd PDFs, from the folder that RAGCLI_TEST_DATA names; they are not in the repository."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragcli.documents import ReadOptions, chunk_document, read_file, read_files
from ragcli.errors import DocumentError
from ragcli.types import Document, Failure

DATA = os.environ.get("RAGCLI_TEST_DATA")
pytestmark = pytest.mark.skipif(DATA is None, reason="RAGCLI_TEST_DATA does not name a folder with real papers")


@pytest.fixture(scope="module")
def papers() -> dict[str, Document | Failure]:
    paths = sorted(Path(DATA or "", "papers").glob("*/*.pdf"))
    return {each.path.stem: next(iter(each.items)) for each in read_files(paths, ReadOptions())}


def paper(papers: dict[str, Document | Failure], start: str) -> Document:
    (found,) = [item for name, item in papers.items() if name.startswith(start)]
    assert isinstance(found, Document)
    return found


def test_all_papers_are_read_but_the_scanned_ones(papers: dict[str, Document | Failure]) -> None:
    failed = {name: item.reason for name, item in papers.items() if isinstance(item, Failure)}
    assert set(failed) == {"1985-Flajolet-Probabilistic-counting", "the_lisp_ii_garbage_collector"}
    assert "none of its 28 pages has text (scanned?)" in failed["1985-Flajolet-Probabilistic-counting"]


@pytest.mark.parametrize(
    ("start", "phrase"),
    [
        ("graph_of_word", "query recommendation based"),
        ("unix", "access special file"),
        ("why-functional", "place conceptual limits"),
        ("tor-", "high-latency networks"),
        ("the-google", "Each chunk replica is stored as a plain Linux file"),
        ("the-pagerank", "an inherently subjective matter"),
        ("okapi", "benefit"),
        ("in-search", "Raft ensures that there is at most one leader in a given term."),
        ("in-search", "solve a variety of fault-tolerance problems in distributed systems."),
        ("bigtable", "be explicitly assigned by client applications."),
        ("bitcoin", "the longest chain"),
        ("shors", "n − 1 complex numbers"),
    ],
)
def test_phrases_that_the_print_breaks_are_whole(
    papers: dict[str, Document | Failure], start: str, phrase: str
) -> None:
    assert phrase in paper(papers, start).text


@pytest.mark.parametrize(
    ("start", "phrase", "page"),
    [
        ("in-search", "5.2 Leader election\n", 5),
        ("bigtable", "10 Related Work\n", 12),
        ("the-google", "2.5 Chunk Size\n", 3),
        ("purely", "9.4 Open Problems\n", 142),
    ],
)
def test_pages_are_those_of_a_viewer(papers: dict[str, Document | Failure], start: str, phrase: str, page: int) -> None:
    document = paper(papers, start)
    place = document.text.index(phrase)
    assert [span.number for span in document.pages if span.start <= place < span.end] == [page]


def test_running_heads_and_numbers_are_gone(papers: dict[str, Document | Failure]) -> None:
    assert "FACTORING WITH A QUANTUM COMPUTER" not in paper(papers, "shors").text
    assert "To appear in OSDI" not in paper(papers, "bigtable").text
    assert "Communications July 1974" not in paper(papers, "unix").text


@pytest.mark.parametrize(
    ("start", "title"),
    [
        ("in-search", "In Search of an Understandable Consensus Algorithm"),
        ("dynamo", "Dynamo: Amazon’s Highly Available Key-value Store"),
        ("a-mathematical", "A Mathematical Theory of Communication"),
        ("the-google", "The Google File System"),
        ("unix", "The UNIX Time-Sharing System"),
        ("shors", "Polynomial-Time Algorithms for Prime Factorization and Discrete Logarithms on a Quantum Computer"),
        (
            "brewers",
            "Brewer’s Conjecture and the Feasibility of Consistent, Available, Partition-Tolerant Web Services",
        ),
    ],
)
def test_titles_are_the_papers_own(papers: dict[str, Document | Failure], start: str, title: str) -> None:
    assert paper(papers, start).title == title


def test_what_papers_say_about_themselves_is_found(papers: dict[str, Document | Failure]) -> None:
    assert paper(papers, "shors").metadata["arxiv"] == "quant-ph/9508027v2"
    assert paper(papers, "shors").metadata["year"] == 1996
    assert paper(papers, "graph_of_word").metadata["doi"] == "10.1145/2505515.2505671"
    assert paper(papers, "a-mathematical").metadata["year"] == 1948
    assert paper(papers, "tor-").metadata["author"] == ["Roger Dingledine", "Nick Mathewson", "Paul Syverson"]
    assert len(paper(papers, "dynamo").metadata["author"]) == 9  # type: ignore[arg-type]


def test_chunks_of_papers_stand_under_their_headings(papers: dict[str, Document | Failure]) -> None:
    document = paper(papers, "in-search")
    election = [chunk for chunk in chunk_document(document) if chunk.heading and "Leader election" in chunk.heading]
    assert election
    assert election[0].page_start == 5
    assert "5 The Raft consensus algorithm › 5.2 Leader election" in {chunk.heading for chunk in election}


def test_joins_and_pages_fit_the_text(papers: dict[str, Document | Failure]) -> None:
    for item in papers.values():
        if isinstance(item, Failure):
            continue
        assert list(item.joins) == sorted(set(item.joins))
        for join in item.joins:
            assert item.text[join] == "-" or (item.text[join].isalnum() and item.text[join - 1].isalnum())
        assert item.pages[0].start == 0
        assert item.pages[-1].end == len(item.text)


def test_odd_pdfs_are_read_or_fail_with_a_sentence() -> None:
    paths = sorted(Path(DATA or "", "pdfs-odd").glob("*.pdf"))
    found = {
        each.path.name: next(iter(each.items)) for each in read_files(paths, ReadOptions(passwords=("openpassword",)))
    }
    assert len(found) == len(paths) == 28
    for name, item in found.items():
        if isinstance(item, Failure):
            assert name in item.reason
            assert item.reason.endswith(".")
        else:
            assert item.text.strip()
    assert sum(isinstance(item, Failure) for item in found.values()) == 5
    assert "consectetuer adipiscing elit" in found["multicolumn.pdf"].text  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_scanned_page_is_read_by_ocr() -> None:
    pytest.importorskip("rapidocr")
    path = Path(DATA or "", "papers", "scanned", "the_lisp_ii_garbage_collector.pdf")
    (reading,) = read_files([path], ReadOptions(ocr="on", workers=1))
    (document,) = reading.items
    assert isinstance(document, Document), document
    assert "garbage" in document.text.lower()


def test_a_scanned_paper_names_ocr() -> None:
    path = Path(DATA or "", "papers", "scanned", "the_lisp_ii_garbage_collector.pdf")
    with pytest.raises(DocumentError, match="--ocr"):
        next(read_file(path))

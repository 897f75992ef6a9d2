"""Exact search in collections so large that bloom filters choose the documents to read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.support.collection_builders import HashEncoder, new_collection, prose, take_in, write_files

from ragcli.collection import Collection, repair
from ragcli.retrieval.exact_search import GrepRequest, grep


@pytest.fixture(autouse=True)
def _narrow_bloom_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ragcli.collection.read.document_bloom_filters.BLOCKS_PER_FILTER", 4)


@contextmanager
def store(collection: Collection) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(collection.path / "store.db")) as connection:
        yield connection
        connection.commit()


def bloom_filters(collection: Collection) -> list[tuple[int, int]]:
    with store(collection) as connection:
        return connection.execute("SELECT first, last FROM bloom_filters ORDER BY first").fetchall()


def found(collection: Collection, pattern: str, *, regex: bool = False) -> list[str]:
    return [hit.source for hit in grep([collection], GrepRequest(pattern, regex=regex, max_hits=None))]


def texts(numbers: range) -> dict[str, str]:
    return {f"{number:02}.txt": prose(number) for number in numbers}


def test_every_document_is_found_whether_a_filter_covers_it_or_not(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    take_in(collection, write_files(tmp_path / "in", texts(range(10))))
    assert len(bloom_filters(collection)) == 2
    for number in range(10):
        assert found(collection, f"unique{number}word") == [f"{number:02}.txt"]
    assert found(collection, "not in any of these texts") == []


def test_patterns_that_cannot_be_sifted_for_are_looked_for_everywhere(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    take_in(collection, write_files(tmp_path / "in", texts(range(10))))
    assert len({*found(collection, "un")}) == 10
    assert len({*found(collection, "[Uu]niq|nothing", regex=True)}) == 10
    assert len({*found(collection, r"\d+word", regex=True)}) == 10


def test_later_documents_get_bloom_filters_of_their_own(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    folder = write_files(tmp_path / "in", texts(range(4)))
    take_in(collection, folder)
    first = bloom_filters(collection)
    take_in(collection, write_files(folder, texts(range(4, 6))))
    assert bloom_filters(collection) == first
    take_in(collection, write_files(folder, texts(range(6, 9))))
    assert bloom_filters(collection)[: len(first)] == first
    assert len(bloom_filters(collection)) == len(first) + 1
    assert bloom_filters(collection)[-1][0] == first[-1][1] + 1
    assert found(collection, "unique7word") == ["07.txt"]


def test_documents_that_changed_are_found_by_what_they_say_now(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    folder = write_files(tmp_path / "in", texts(range(8)))
    take_in(collection, folder)
    write_files(folder, {"03.txt": "Now it speaks of zygomorphic flowers."})
    take_in(collection, folder)
    assert found(collection, "unique3word") == []
    assert found(collection, "zygomorphic") == ["03.txt"]


def test_bloom_filters_of_documents_that_are_mostly_gone_are_made_anew(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    folder = write_files(tmp_path / "in", texts(range(12)))
    take_in(collection, folder)
    for number in range(2, 12):
        (folder / f"{number:02}.txt").unlink()
    take_in(collection, write_files(folder, texts(range(20, 24))), prune=True)
    with store(collection) as connection:
        held = connection.execute("SELECT sum(held) FROM bloom_filters").fetchone()[0]
    assert held <= 6
    assert found(collection, "unique1word") == ["01.txt"]
    assert found(collection, "unique5word") == []
    assert found(collection, "unique22word") == ["22.txt"]


def test_a_damaged_filter_is_told_of_and_mended(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    take_in(collection, write_files(tmp_path / "in", texts(range(8))))
    assert collection.verify() == ()
    with store(collection) as connection:
        connection.execute("UPDATE bloom_rows SET blocks = x'00'")
    assert any("bloom filter" in sentence for sentence in collection.verify())
    assert any("bloom filter" in sentence for sentence in repair(collection, HashEncoder))
    assert collection.verify() == ()
    assert found(collection, "unique5word") == ["05.txt"]


def test_a_filter_that_lost_rows_loses_no_hit(tmp_path: Path) -> None:
    collection = new_collection(tmp_path)
    take_in(collection, write_files(tmp_path / "in", texts(range(8))))
    with store(collection) as connection:
        connection.execute("DELETE FROM bloom_rows")
    assert found(collection, "unique5word") == ["05.txt"]

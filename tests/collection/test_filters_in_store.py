"""Filters looked up in a store: the documents are those that plain Python finds, and only indexes are read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.collection_builders import WORDS, new_collection, prose, take_in_records
from tests.support.filter_strategies import comparisons, filters, many_metadata, metadata

from ragcli.collection import Collection
from ragcli.collection.read import metadata_filter
from ragcli.collection.read.metadata_filter import known_keys, matching_documents, unknown_keys
from ragcli.collection.store.metadata_layers import clean_metadata, decode_metadata, encode_metadata, write_metadata
from ragcli.collection.store.schema import create_tables
from ragcli.errors import FilterError
from ragcli.filters import Filter, OneOf, matches, parse_where, where_text
from ragcli.types import Metadata


def memory_store() -> sqlite3.Connection:
    """The tables of a store in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_tables(connection)
    return connection


@pytest.fixture
def store() -> Iterator[sqlite3.Connection]:
    with closing(memory_store()) as connection:
        yield connection


@pytest.fixture(scope="module")
def many() -> Iterator[tuple[sqlite3.Connection, list[Metadata]]]:
    """A store of many documents, and their metadata."""
    with closing(memory_store()) as connection:
        yield connection, fill(connection, many_metadata(400))


def fill(connection: sqlite3.Connection, said: list[Metadata]) -> list[Metadata]:
    """Put in documents with these metadata, numbered from 1; how they read again."""
    read = []
    for number, each in enumerate(said, 1):
        stored = encode_metadata(clean_metadata(each))
        connection.execute(
            "INSERT INTO documents (number, id, file, source, kind, hash, metadata, warnings, characters, pages,"
            " chunks, ingested_at, layers, parser, parser_version, chunker_version, row_hash)"
            " VALUES (?, ?, ?, ?, 'text', x'', ?, '[]', 0, 0, 0, '', '{}', '', '', '', x'')",
            (number, f"d{number}", number, f"s{number}", stored),
        )
        read.append(decode_metadata(stored))
        write_metadata(connection, number, read[-1])
    return read


def test_every_comparison_means_in_the_store_what_it_means_in_plain_python(
    many: tuple[sqlite3.Connection, list[Metadata]],
) -> None:
    store, read = many
    for condition in comparisons():
        wanted = [number for number, each in enumerate(read, 1) if matches(condition, each)]
        assert list(matching_documents(store, condition)) == wanted, where_text(condition)


@settings(max_examples=150, deadline=None)
@given(condition=filters(), few=st.sampled_from([0, 60, 2_000]))
def test_the_store_finds_the_documents_that_plain_python_finds(
    many: tuple[sqlite3.Connection, list[Metadata]], condition: Filter, few: int
) -> None:
    store, read = many
    wanted = [number for number, each in enumerate(read, 1) if matches(condition, each)]
    with pytest.MonkeyPatch.context() as patch:
        # From how many documents on a condition is looked up and not asked of each decides how, never what.
        patch.setattr(metadata_filter, "PROBE_LIMIT", few)
        assert list(matching_documents(store, condition)) == wanted, where_text(condition)


@settings(max_examples=60, deadline=None)
@given(said=st.lists(metadata(), max_size=4), condition=filters())
def test_whatever_documents_say_the_store_finds_those_that_plain_python_finds(
    said: list[Metadata], condition: Filter
) -> None:
    with closing(memory_store()) as store:
        wanted = [number for number, each in enumerate(fill(store, said), 1) if matches(condition, each)]
        assert list(matching_documents(store, condition)) == wanted, where_text(condition)


def test_values_of_any_text_are_bound_and_never_part_of_a_statement(store: sqlite3.Connection) -> None:
    evil = "'; DROP TABLE documents; --"
    fill(store, [{evil: evil}, {"a": "b"}])
    assert matching_documents(store, parse_where(f'`{evil}` = "{evil}"')) == (1,)
    assert matching_documents(store, parse_where(f'`{evil}` in ["{evil}"] and `{evil}` ~ "{evil}"')) == (1,)
    assert matching_documents(store, parse_where('a = "b"')) == (2,)


def test_a_list_of_thousands_is_looked_up_and_one_without_end_refused(store: sqlite3.Connection) -> None:
    fill(store, [{"a": n} for n in range(20)])
    many = OneOf("a", tuple(range(5, 15_000)))
    assert matching_documents(store, many) == tuple(range(6, 21))
    assert matching_documents(store, OneOf("a", tuple(f"t{n}" for n in range(15_000)))) == ()
    with pytest.raises(FilterError, match="20,000 are the most"):
        matching_documents(store, OneOf("a", tuple(range(30_000))))


def test_a_filter_as_large_and_as_deep_as_can_be_written_is_looked_up(store: sqlite3.Connection) -> None:
    read = fill(store, [{"a": n} for n in range(20)])
    deep = "a=7"
    for _ in range(33):
        deep = f"(not ({deep} and a>=2) or a=3)"
    for text in (" or ".join(["a=7"] * 2_800), "not " * 99 + "a=7", deep):
        condition = parse_where(text)
        wanted = tuple(number for number, each in enumerate(read, 1) if matches(condition, each))
        assert 0 < len(wanted) < 20
        assert matching_documents(store, condition) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "year >= 2017",
        "year = 2017",
        "tag = 'a'",
        "tag in ['a', 'b', 3]",
        "author ~ 'temme'",
        "date >= 2024-05",
        "date = '2024-05-01'",
        "draft",
        "exists doi",
        "not draft",
        "year != 2017",
        "year >= 2017 and author ~ 'temme' and tag in ['a', 'b'] and not draft",
    ],
)
def test_a_filter_reads_indexes_and_no_table(store: sqlite3.Connection, text: str) -> None:
    fill(store, [{"year": 2017, "tag": ["a", "b"], "author": ["Temme"], "draft": True, "doi": "x"}, {"year": 2000}])
    asked: list[str] = []
    store.set_trace_callback(asked.append)
    matching_documents(store, parse_where(text))
    store.set_trace_callback(None)
    assert asked
    for statement in asked:
        for *_, step in store.execute(f"EXPLAIN QUERY PLAN {statement}"):
            if "documents" in step or "metadata" in step or step.startswith(("SEARCH m ", "SCAN m ")):
                assert "COVERING INDEX" in step or step.startswith(
                    "SEARCH m USING PRIMARY KEY (document=? AND key=?"
                ), step


def test_the_keys_there_are_and_those_that_no_document_has(store: sqlite3.Connection) -> None:
    fill(store, [{"year": 1, "b": [], "ä": "x"}, {"year": 2, "Z": ["x", "y"]}])
    assert known_keys(store) == ("Z", "year", "ä")
    assert unknown_keys(store, parse_where("yaer = 1 or not exists b and year = 1 or yaer = 2")) == ("yaer", "b")


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    made = new_collection(tmp_path_factory.mktemp("filters"), encoder="none", token_vectors="none")
    records = [
        {"id": f"r{n}", "text": prose(n) * (1 + n % 3 * 20), "year": 2000 + n % 20, "tag": ["odd"] if n % 2 else []}
        for n in range(60)
    ]
    take_in_records(made, *records)
    return made


@pytest.mark.parametrize("text", ["year < 2003", "year >= 2003", "tag = 'odd'", "true", "false", "not year = 2001"])
def test_a_selection_has_the_chunks_of_its_documents_and_their_rows(collection: Collection, text: str) -> None:
    condition = parse_where(text)
    with collection.snapshot() as snapshot:
        chosen = snapshot.matching(condition)
        assert chosen is not None
        documents = [row for row in snapshot.documents() if matches(condition, row.metadata)]
        wanted = sorted(chunk.number for row in documents for chunk in snapshot.document_chunks(row.document_id))
        assert chosen.numbers.tolist() == wanted
        assert list(snapshot.rows(wanted).values()) == chosen.rows.tolist()
        assert [row.document_id for row in snapshot.documents(condition)] == [row.document_id for row in documents]
        assert sorted(each.source for each in snapshot.texts(None, condition)) == sorted(
            row.source for row in documents
        )
        word = WORDS[0]
        holding = {each.source for each in snapshot.texts(word)} & {row.source for row in documents}
        assert {each.source for each in snapshot.texts(word, condition)} == holding


def test_deleted_documents_are_in_no_selection(tmp_path: Path) -> None:
    made = new_collection(tmp_path, encoder="none", token_vectors="none")
    take_in_records(made, *[{"id": str(n), "text": prose(n), "keep": True} for n in range(6)])
    take_in_records(made, *[{"id": str(n), "text": prose(n + 100), "keep": n > 3} for n in range(6)])
    with made.snapshot() as snapshot:
        chosen = snapshot.matching(parse_where("keep"))
        assert chosen is not None
        assert [chunk.document_id for chunk in snapshot.chunks(chosen.numbers.tolist()).values()] == ["4", "5"]
        everything = snapshot.matching(parse_where("true"))
        assert everything is not None
        assert json.dumps(everything.numbers.tolist()) == json.dumps(sorted(snapshot.rows(range(100))))


def test_filters_that_are_equal_as_values_and_mean_different_things_are_told_apart(tmp_path: Path) -> None:
    made = new_collection(tmp_path, encoder="none", token_vectors="none")
    take_in_records(made, {"id": "a", "text": prose(1), "draft": True}, {"id": "b", "text": prose(2), "draft": 1})
    with made.snapshot() as snapshot:
        found = [snapshot.matching(parse_where(text)) for text in ("draft = true", "draft = 1")]
        assert [each.documents for each in found if each is not None] == [(1,), (2,)]

"""What the store keeps of a document: text in pieces, layout, metadata; nothing changes on the way."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from sqlite3 import Connection

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ragcli.collection.store.document_text import read_slice
from ragcli.collection.store.metadata_layers import clean_metadata
from ragcli.collection.store.schema import TEXT_PIECE_CHARACTERS
from ragcli.collection.store.sqlite_connection import create_store, open_for_reading, transaction
from ragcli.collection.write.commit_steps import FileIngested, apply_step
from ragcli.collection.write.prepared_documents import (
    ChunkedDocument,
    PreparedDocument,
    SourceFile,
    clean_document,
    hash_document_content,
    read_document,
)
from ragcli.types import Chunk, Document, Heading, PageSpan

FILE = SourceFile("/papers/a.txt", "a.txt", b"hash", 1, 2, 3, "pdfium")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Connection]:
    """An empty store."""
    with closing(create_store(tmp_path)) as connection:
        yield connection


def put(store: Connection, document: Document) -> tuple[int, Document]:
    """Store a document as one chunk; its number, and what was stored."""
    cleaned = clean_document(document)
    (before,) = store.execute("SELECT ifnull(max(number), 0) FROM chunks").fetchone()
    cut = ChunkedDocument(cleaned, (Chunk(0, 0, max(1, len(cleaned.text))),), (b"digest",), before + 1)
    row = store.execute("SELECT number FROM documents").fetchone()
    with transaction(store):
        apply_step(store, PreparedDocument(FILE, cut, hash_document_content(cleaned), row[0] if row else None))
        apply_step(store, FileIngested(FILE, 1, (), (), None))
    return store.execute("SELECT number FROM documents").fetchone()[0], cleaned


ANY_TEXT = st.text(st.characters(), max_size=50)
METADATA = st.dictionaries(
    ANY_TEXT,
    st.one_of(ANY_TEXT, st.integers(), st.floats(), st.booleans(), st.lists(ANY_TEXT, max_size=3)),
    max_size=4,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=ANY_TEXT,
    title=st.none() | ANY_TEXT,
    metadata=METADATA,
    label=st.none() | ANY_TEXT,
    heading=ANY_TEXT,
    joins=st.lists(st.integers(0, 2**32 - 1), max_size=5),
)
def test_a_document_comes_back_as_it_was_put_in(
    store: Connection,
    text: str,
    title: str | None,
    metadata: dict[str, object],
    label: str | None,
    heading: str,
    joins: list[int],
) -> None:
    document = Document(
        text=text,
        kind="text",
        title=title,
        metadata=metadata,  # type: ignore[arg-type]
        pages=(PageSpan(1, label, 0, len(text)),),
        headings=(Heading(1, heading, 0),),
        joins=tuple(sorted(joins)),
        spans=((0, 5), (7, 9)),
        warnings=("a page has no text",),
    )
    number, cleaned = put(store, document)
    back = read_document(store, number)
    assert replace(back, pages=()) == replace(cleaned, pages=())
    assert len(back.text) == len(text)
    assert [(page.number, page.start, page.end) for page in back.pages] == [(1, 0, len(text))]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_slice_of_a_long_text_is_read_from_its_pieces(store: Connection, data: st.DataObject) -> None:
    text = "".join(
        chr(0x61 + n % 26) if n % 7 else "é\U0001f600"[n % 2] for n in range(2 * TEXT_PIECE_CHARACTERS + 100)
    )
    number, _ = put(store, Document(text, "text"))
    edges = st.sampled_from(
        [
            0,
            1,
            TEXT_PIECE_CHARACTERS - 1,
            TEXT_PIECE_CHARACTERS,
            TEXT_PIECE_CHARACTERS + 1,
            2 * TEXT_PIECE_CHARACTERS,
            len(text) - 1,
            len(text),
        ]
    )
    start, end = sorted(data.draw(st.tuples(edges | st.integers(0, len(text)), edges | st.integers(0, len(text)))))
    assert read_slice(store, number, start, end) == text[start:end]


def test_metadata_lies_typed_in_a_side_table(store: Connection) -> None:
    metadata = {
        "year": 2017,
        "score": 1.5,
        "large": 2**53 + 1,
        "open": True,
        "name": "Temme",
        "tag": ["a", "b"],
        "date": "2024-05-01",
        "seen": "2024-05-01 12:30+02:00",
    }
    put(store, Document("text", "text", metadata=metadata))
    rows = store.execute(
        "SELECT key, position, type, text, number FROM metadata WHERE key NOT IN"
        " ('path', 'file', 'folder', 'suffix', 'kind', 'modified') ORDER BY key, position"
    ).fetchall()
    day = 19844 * 86400
    assert rows == [
        ("date", 0, "date", "2024-05-01", day),
        ("large", 0, "number", None, 2**53 + 1),
        ("name", 0, "text", "Temme", None),
        ("open", 0, "boolean", None, 1),
        ("score", 0, "number", None, 1.5),
        ("seen", 0, "date", "2024-05-01T10:30:00+00:00", day + 37800),
        ("tag", 0, "item", "a", None),
        ("tag", 1, "item", "b", None),
        ("year", 0, "number", None, 2017),
    ]
    plan = store.execute(
        "EXPLAIN QUERY PLAN SELECT document FROM metadata WHERE key = 'year' AND type = 'number' AND number >= 2017"
    ).fetchall()
    assert "metadata_number" in plan[0][3]


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**70, -(2**70)])
def test_numbers_that_json_or_sqlite_lack_become_text(value: float) -> None:
    assert clean_metadata({"k": value}) == {"k": str(value)}


def test_a_replaced_document_leaves_nothing_of_the_old(store: Connection) -> None:
    put(store, Document("old " * TEXT_PIECE_CHARACTERS, "text", metadata={"a": 1}))
    put(store, Document("new", "text"))
    for table, count in (("documents", 1), ("text_pieces", 1), ("layouts", 1), ("folded_text", 1)):
        assert store.execute(f"SELECT count(*) FROM {table}").fetchone() == (count,), table  # noqa: S608
    assert store.execute("SELECT count(*) FROM metadata WHERE key = 'a' OR document = 1").fetchone() == (0,)
    assert store.execute("SELECT number FROM lexical_deletes").fetchall() == [(1,)]


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    create_store(tmp_path).close()
    with closing(open_for_reading(tmp_path)) as connection, pytest.raises(Exception, match="readonly"):
        connection.execute("DELETE FROM documents")

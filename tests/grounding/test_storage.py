"""What the gate has learned of a collection is kept as safely as the collection, and no longer than it holds."""

from __future__ import annotations

import io
import sqlite3
from pathlib import Path

import pytest
from tests.support.collection_builders import HashEncoder, new_collection, prose, take_in_records

from ragcli.collection import Collection, export_collection, import_collection, reindex, repair
from ragcli.collection.store.locks import writer_lock
from ragcli.errors import CollectionBusy, CollectionError


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    made = new_collection(tmp_path)
    take_in_records(made, *({"id": f"r{n}", "text": prose(n)} for n in range(4)))
    made.store_calibration('{"learned": 1}')
    return made


def text_of(collection: Collection) -> str | None:
    stored = collection.calibration()
    return None if stored is None else stored.text


def test_a_calibration_is_read_back_until_it_is_replaced_or_forgotten(collection: Collection) -> None:
    stored = collection.calibration()
    assert stored is not None
    assert (stored.text, stored.fingerprint) == ('{"learned": 1}', HashEncoder().fingerprint)
    collection.store_calibration("second, with é")
    assert text_of(collection) == "second, with é"
    collection.store_calibration(None)
    assert collection.calibration() is None
    assert collection.verify() == ()


def test_it_outlives_an_ingest_and_a_reindex_with_the_same_model(collection: Collection) -> None:
    take_in_records(collection, {"id": "new", "text": "another"})
    reindex(collection, collection.settings, HashEncoder)
    assert text_of(collection) == '{"learned": 1}'
    assert collection.verify() == ()


def test_a_reindex_with_another_model_drops_it(collection: Collection) -> None:
    reindex(collection, collection.settings, lambda: HashEncoder(fingerprint="e" * 64))
    assert collection.calibration() is None


def test_it_travels_with_the_collection(collection: Collection, tmp_path: Path) -> None:
    stream = io.BytesIO()
    export_collection(collection, stream)
    stream.seek(0)
    import_collection(tmp_path / "other", stream)
    assert text_of(Collection.open(tmp_path / "other", "papers")) == '{"learned": 1}'


def test_a_damaged_one_is_named_never_used_and_dropped_by_repair(collection: Collection) -> None:
    connection = sqlite3.connect(collection.path / "store.db", isolation_level=None)
    connection.execute("UPDATE blobs SET data = data || x'20' WHERE name = 'gate'")
    connection.close()
    with pytest.raises(CollectionError, match="calibration in the store is damaged"):
        collection.calibration()
    assert any("calibration" in problem for problem in collection.verify())
    assert any("calibration was dropped" in done for done in repair(collection, HashEncoder))
    assert collection.calibration() is None
    assert collection.verify() == ()


def test_one_process_at_a_time_stores_one(collection: Collection) -> None:
    with writer_lock(collection.path), pytest.raises(CollectionBusy):
        collection.store_calibration("other")
    assert text_of(collection) == '{"learned": 1}'

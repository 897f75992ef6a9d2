"""Append-only files of rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ragcli.errors import CollectionError
from ragcli.index.append_only_array import RowRangeReader, RowWriter, open_rows, row_bytes


def write(path: Path, rows: list[list[float]], committed: int = 0) -> None:
    with RowWriter(path, np.float32, (2,), committed) as writer:
        writer.append(np.array(rows, np.float32).reshape(-1, 2))
        writer.sync()


def test_appended_rows_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "v.f32"
    write(path, [[1, 2], [3, 4]])
    with RowWriter(path, np.float32, (2,), 2) as writer:
        assert writer.append([[5, 6]]) == 2
        assert writer.append(np.empty((0, 2))) == 3
        writer.sync()
        assert writer.rows == 3
    assert open_rows(path, np.float32, (2,), 3).tolist() == [[1, 2], [3, 4], [5, 6]]


def test_a_reader_sees_only_the_rows_of_its_generation(tmp_path: Path) -> None:
    path = tmp_path / "v.f32"
    write(path, [[1, 2], [3, 4], [5, 6]])
    old = open_rows(path, np.float32, (2,), 2)
    write(path, [[7, 8]], committed=3)
    assert old.tolist() == [[1, 2], [3, 4]]


def test_what_a_dead_writer_left_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "v.f32"
    write(path, [[1, 2], [3, 4]])
    with path.open("ab") as file:
        file.write(b"half a row")
    write(path, [[9, 9]], committed=1)
    assert path.stat().st_size == 2 * row_bytes(np.float32, (2,))
    assert open_rows(path, np.float32, (2,), 2).tolist() == [[1, 2], [9, 9]]


def test_no_rows_need_no_file(tmp_path: Path) -> None:
    assert open_rows(tmp_path / "none", np.int64, (3,), 0).shape == (0, 3)


@pytest.mark.parametrize("rows", [3, 1000])
def test_a_short_file_is_named(tmp_path: Path, rows: int) -> None:
    path = tmp_path / "v.f32"
    write(path, [[1, 2], [3, 4]])
    with pytest.raises(CollectionError, match=r"v\.f32 is damaged"):
        open_rows(path, np.float32, (2,), rows)
    with pytest.raises(CollectionError, match=r"v\.f32 is damaged"):
        RowWriter(path, np.float32, (2,), rows)
    assert path.stat().st_size == 16


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="gone"):
        open_rows(tmp_path / "gone", np.float32, (2,), 1)


def test_rows_of_another_shape_are_refused(tmp_path: Path) -> None:
    with RowWriter(tmp_path / "v", np.float32, (2,), 0) as writer, pytest.raises(ValueError, match="do not fit"):
        writer.append([[1, 2, 3]])


def test_files_belong_to_the_user_alone(tmp_path: Path) -> None:
    write(tmp_path / "v", [[1, 2]])
    assert (tmp_path / "v").stat().st_mode & 0o077 == 0


def test_stretches_of_rows_are_read_in_the_order_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    rows = np.arange(60, dtype=np.int32).reshape(20, 3)
    path.write_bytes(rows.tobytes())
    reader = RowRangeReader(path, "<i4", (3,), 18)
    assert reader.read([4, 0, 17, 9], [7, 2, 18, 9]).tolist() == rows[[4, 5, 6, 0, 1, 17]].tolist()
    assert reader.read([], []).shape == (0, 3)
    for start, stop in ((17, 19), (-1, 2), (5, 4)):
        with pytest.raises(CollectionError, match="damaged"):
            reader.read([start], [stop])


def test_a_file_too_short_for_its_stretches_is_refused_and_one_cut_later_is_told(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(bytes(40))
    with pytest.raises(CollectionError, match="should have 44 bytes and has 40"):
        RowRangeReader(path, "<i4", (), 11)
    reader = RowRangeReader(path, "<i4", (), 10)
    path.write_bytes(bytes(8))
    with pytest.raises(CollectionError, match="shorter"):
        reader.read([0], [10])
    assert RowRangeReader(tmp_path / "none", "<i4", (), 0).read([0], [0]).shape == (0,)

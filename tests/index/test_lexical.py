"""BM25 by tantivy, and how words are analysed for it."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
import unicodedata
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragcli.errors import CollectionBusy, CollectionError
from ragcli.index.bm25 import (
    FieldBoosts,
    LexicalEntry,
    LexicalIndex,
    LexicalWriter,
)
from ragcli.index.tantivy_integrity import damaged_index_files
from ragcli.index.term_analysis import MAX_QUERY_TERMS, lexical_text

BODY_ONLY = FieldBoosts(title=0.0, heading=0.0)


def build(folder: Path, *bodies: str) -> LexicalIndex:
    with LexicalWriter(folder) as writer:
        writer.add(LexicalEntry(number, body) for number, body in enumerate(bodies))
        writer.commit()
    return LexicalIndex(folder)


def finds(index: LexicalIndex, query: str) -> list[int]:
    return sorted(index.search(query, 100)[0].tolist())


def test_scores_are_bm25s(tmp_path: Path) -> None:
    bodies = ["gamma delta gamma", "gamma", "delta delta delta omega omega", "omega"]
    index = build(tmp_path / "i", *bodies)
    rows = [Counter(body.split()) for body in bodies]
    mean = sum(sum(row.values()) for row in rows) / len(rows)

    def bm25(row: Counter[str], term: str) -> float:
        df = sum(1 for other in rows if term in other)
        idf = math.log(1 + (len(rows) - df + 0.5) / (df + 0.5))
        length = 1 - 0.75 + 0.75 * sum(row.values()) / mean
        return idf * row[term] * 2.2 / (row[term] + 1.2 * length)

    expected = [bm25(row, "gamma") + bm25(row, "omega") for row in rows]
    np.testing.assert_allclose(index.scores_of("gamma omega", range(4), boosts=BODY_ONLY), expected, atol=1e-5)
    numbers, scores = index.search("gamma omega", 3, boosts=BODY_ONLY)
    assert numbers.tolist() == sorted(range(4), key=lambda i: -expected[i])[:3]
    np.testing.assert_allclose(scores, sorted(expected, reverse=True)[:3], atol=1e-5)


def test_scores_of_given_chunks_are_those_of_the_search(tmp_path: Path) -> None:
    index = build(tmp_path / "i", *(f"common word{i % 7} word{i % 5}" for i in range(50)))
    numbers, scores = index.search("common word3 word4", 50)
    shuffled = np.random.default_rng(0).permutation(len(numbers))
    np.testing.assert_allclose(index.scores_of("common word3 word4", numbers[shuffled]), scores[shuffled], rtol=1e-5)
    assert index.scores_of("word3", [3, 999, 4, 3]).tolist()[1:3] == [0.0, 0.0]


def test_equal_scores_come_in_order_of_numbers(tmp_path: Path) -> None:
    with LexicalWriter(tmp_path / "i") as writer:
        for number in (9, 2, 7, 4):
            writer.add([LexicalEntry(number, "same words")])
            writer.commit()
    assert LexicalIndex(tmp_path / "i").search("words", 3)[0].tolist() == [2, 4, 7]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("levels of IL-6 rose", "IL6"),
        ("levels of IL6 rose", "IL-6"),
        ("the COVID-19-related deaths", "covid19"),
        ("an alpha-helix", "alphahelix"),
        ("an alpha‑helix", "alpha helix"),
        ("mutant p53's role", "p53"),
        ("Gödel’s theorem", "godel"),
        ("cafe\u0301 society", "café"),
        ("running experiments", "experiment runs"),
        ("ＦＵＬＬ width", "full"),
        ("the eﬃcient method", "efficient"),
        ("我们提出检索方法", "检索"),
        ("我们提出检索方法", "方"),
        ("情報検索システム", "検索システム"),
        ("한국어 검색", "검색"),
        ("ระบบค้นหาข้อมูลสำหรับงานวิจัยทางวิทยาศาสตร์และเทคโนโลยีสมัยใหม่", "วิจัย"),
        ("ระบบค้นหาข้อมูลสำหรับงานวิจัย", "ข้อมูล"),
        ("ລະບົບຄົ້ນຫາຂໍ້ມູນສຳລັບການຄົ້ນຄວ້າ", "ຂໍ້ມູນ"),
        ("ប្រព័ន្ធស្វែងរកទិន្នន័យសម្រាប់ការស្រាវជ្រាវ", "ទិន្នន័យ"),
        ("သုတေသနအတွက်ရှာဖွေရေးစနစ်", "ရှာဖွေရေး"),
        ("यह हिन्दी है", "हिन्दी"),
        ("الْبَحْث", "البحث"),
        ("co\u00adoperation", "cooperation"),
        ("Vitamin A is one", "a"),
    ],
)
def test_a_word_is_found_however_it_is_spelled(tmp_path: Path, text: str, query: str) -> None:
    assert finds(build(tmp_path / "i", text, "something else entirely"), query) == [0]


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=30))
def test_composed_and_decomposed_queries_are_the_same(shared_index: LexicalIndex, text: str) -> None:
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert shared_index.terms(composed) == shared_index.terms(decomposed)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60) | st.text(alphabet='+-&|!(){}[]^"~*?:\\/ aAND OR', max_size=40))
def test_any_text_is_a_valid_query(shared_index: LexicalIndex, text: str) -> None:
    numbers, scores = shared_index.search(text, 5)
    assert len(numbers) == len(scores) <= 3
    assert shared_index.scores_of(text, [0, 1]).shape == (2,)


@pytest.fixture(scope="module")
def shared_index(tmp_path_factory: pytest.TempPathFactory) -> LexicalIndex:
    return build(tmp_path_factory.mktemp("shared") / "i", "a title:word AND", "or not", "café 检索")


def test_queries_of_any_length_are_answered(shared_index: LexicalIndex) -> None:
    assert shared_index.search("", 5)[0].tolist() == []
    assert shared_index.search("🎉🎉", 5)[0].tolist() == []
    long = " ".join(f"w{i}" for i in range(100_000))
    assert len(shared_index.terms(long)) == MAX_QUERY_TERMS
    assert shared_index.search("café " + long, 5)[0].tolist() == [2]
    assert shared_index.search("café " + "x" * 1_000_000, 10**9)[0].tolist() == [2]


def test_titles_and_headings_count_as_much_as_asked(tmp_path: Path) -> None:
    with LexicalWriter(tmp_path / "i") as writer:
        writer.add(
            [
                LexicalEntry(1, "about rafts", title="Consensus"),
                LexicalEntry(2, "consensus here"),
                LexicalEntry(3, "x", heading="Consensus"),
            ]
        )
        writer.commit()
    index = LexicalIndex(tmp_path / "i")
    assert finds(index, "consensus") == [1, 2, 3]
    assert index.search("consensus", 3, boosts=BODY_ONLY)[0].tolist() == [2]
    assert index.search("consensus", 3, boosts=FieldBoosts(title=9.0))[0].tolist()[0] == 1


def test_deleted_chunks_are_not_found(tmp_path: Path) -> None:
    build(tmp_path / "i", "apple", "apple", "apple")
    with LexicalWriter(tmp_path / "i") as writer:
        writer.delete([1, 77])
        writer.commit()
    index = LexicalIndex(tmp_path / "i")
    assert finds(index, "apple") == [0, 2]
    assert index.count == 2
    assert index.numbers().tolist() == [0, 2]


def test_what_a_dead_writer_added_can_be_taken_out(tmp_path: Path) -> None:
    build(tmp_path / "i", "apple", "apple", "apple", "apple")
    assert LexicalIndex(tmp_path / "i").numbers(above=1).tolist() == [2, 3]
    with LexicalWriter(tmp_path / "i") as writer:
        writer.delete_above(1)
        writer.commit()
    assert LexicalIndex(tmp_path / "i").numbers().tolist() == [0, 1]


def test_nothing_counts_before_the_commit(tmp_path: Path) -> None:
    build(tmp_path / "i", "apple")
    reader = LexicalIndex(tmp_path / "i")
    with LexicalWriter(tmp_path / "i") as writer:
        writer.add([LexicalEntry(5, "apple")])
        assert finds(LexicalIndex(tmp_path / "i"), "apple") == [0]
        writer.commit()
        writer.add([LexicalEntry(6, "apple")])
    assert finds(LexicalIndex(tmp_path / "i"), "apple") == [0, 5]
    assert finds(reader, "apple") == [0]


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with LexicalWriter(tmp_path / "i"), pytest.raises(CollectionBusy):
        LexicalWriter(tmp_path / "i")


@pytest.mark.parametrize(("call", "counts"), [("fdatasync", (2, 7, 12)), ("renameat", (2, 5))])
@pytest.mark.skipif(not Path("/usr/bin/strace").exists(), reason="needs strace")
def test_a_killed_writer_costs_nothing_committed(tmp_path: Path, call: str, counts: tuple[int, ...]) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom ragcli.index.bm25 import LexicalEntry, LexicalWriter\n"
        "with LexicalWriter(Path(sys.argv[1])) as writer:\n"
        "    writer.add([LexicalEntry(9, 'apple')])\n    writer.commit()\n    writer.delete([0])\n    writer.commit()\n"
    )
    for count in counts:
        folder = tmp_path / f"{count}"
        build(folder, "apple", "apple")
        command = ["strace", "-f", "-qq", "-o", os.devnull, "-e", f"trace={call}"]
        inject = ["-e", f"inject={call}:signal=SIGKILL:when={count}"]
        done = subprocess.run([*command, *inject, sys.executable, "-c", code, str(folder)], check=False)
        assert done.returncode in (0, -signal.SIGKILL, 128 + signal.SIGKILL)
        assert finds(LexicalIndex(folder), "apple") in ([0, 1], [0, 1, 9], [1, 9])
        assert damaged_index_files(folder) == []
        with LexicalWriter(folder) as writer:
            writer.delete_above(1)
            writer.delete([0])
            writer.commit()
        assert finds(LexicalIndex(folder), "apple") == [1]


def test_half_written_files_of_killed_writers_do_not_pile_up(tmp_path: Path) -> None:
    build(tmp_path / "i", "alpha")
    (tmp_path / "i" / ".tmpxK3w9a").write_bytes(b"half")
    assert finds(build(tmp_path / "i", "beta"), "beta") == [0]
    assert list((tmp_path / "i").glob(".tmp*")) == []


def test_a_flipped_byte_is_noticed_and_never_a_traceback(tmp_path: Path) -> None:
    folder = tmp_path / "i"
    build(folder, *("apple pear", "plum", "apple") * 20)
    with LexicalWriter(folder) as writer:
        writer.delete([1])
        writer.commit()
    assert damaged_index_files(folder) == []
    rng = np.random.default_rng(0)
    files = sorted(path for path in folder.iterdir() if path.stat().st_size and path.name != "checksums.json")
    for path in files:
        whole = path.read_bytes()
        for _ in range(6):
            broken = bytearray(whole)
            broken[int(rng.integers(len(whole)))] ^= 1 << int(rng.integers(8))
            path.unlink()
            path.write_bytes(broken)
            assert path.name in damaged_index_files(folder)
            with suppress(CollectionError):
                index = LexicalIndex(folder)
                index.search("apple", 5)
                index.numbers()
            path.unlink()
            path.write_bytes(whole)
    assert damaged_index_files(folder) == []


def rot(path: Path) -> None:
    """Change a byte as a disk does: the file's times stay."""
    state = path.stat()
    data = bytearray(path.read_bytes())
    data[10] ^= 4
    path.write_bytes(data)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def test_a_rotten_byte_is_noticed_before_the_first_search_and_by_writers_at_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "papers" / "i"
    build(folder, *("apple pear", "plum", "apple") * 20)
    rot(next(folder.glob("*.fast")))
    with pytest.raises(CollectionError, match=r"\.fast.*verify papers --repair"):
        LexicalIndex(folder)
    monkeypatch.setattr("ragcli.index.tantivy_integrity._ALWAYS_READ", 0)
    with pytest.raises(CollectionError, match=r"\.fast"), LexicalWriter(folder):
        raise AssertionError("damage would be merged and get a sum of its own")


def test_a_folder_without_an_index_is_named(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="nowhere"):
        LexicalIndex(tmp_path / "nowhere")


def test_an_index_on_read_only_storage_can_be_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tantivy

    build(tmp_path / "i", "apple")
    plain_open = tantivy.Index.open

    def refuse(path: str) -> object:
        if path == str(tmp_path / "i"):
            raise ValueError("Failed to acquire Lockfile: IoError(Os { code: 13, kind: PermissionDenied }). None")
        return plain_open(path)

    monkeypatch.setattr("tantivy.Index", type("Index", (), {"open": staticmethod(refuse)}))
    assert finds(LexicalIndex(tmp_path / "i"), "apple") == [0]


def test_both_readings_of_a_broken_word_are_indexed(tmp_path: Path) -> None:
    joined = lexical_text("the highlatency network", [108], 100)
    kept = lexical_text("the high-latency network", [108], 100)
    index = build(tmp_path / "i", joined, kept)
    for query in ("highlatency", "high-latency", "latency"):
        assert finds(index, query) == [0, 1]


def test_joins_of_other_chunks_are_left_alone() -> None:
    text = "some words here"
    assert lexical_text(text, [2, 9, 100, 115, 400], 100) == text
    assert lexical_text(text, [], 0) == text
    assert lexical_text(text, [7], 0).split("\n") == [text, "wo rds"]


@pytest.mark.parametrize("attempts", [3, pytest.param(12, marks=pytest.mark.slow)])
def test_an_index_is_whole_and_still_when_its_writer_has_left_it_amid_a_merge(tmp_path: Path, attempts: int) -> None:
    # The eighth small segment starts a merge. On a busy machine it is far from done when the writer leaves.
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        for attempt in range(attempts):
            folder = tmp_path / str(attempt)
            with LexicalWriter(folder) as writer:
                for first in range(0, 80, 10):
                    writer.add(
                        [LexicalEntry(number, f"word{number} common " * 20) for number in range(first, first + 10)]
                    )
                    writer.commit()
            time.sleep(0.01)
            assert damaged_index_files(folder) == []
    finally:
        for each in busy:
            each.kill()
            each.wait()

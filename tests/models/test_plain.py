"""Plain questions are split without the tokenizer library, exactly as it splits them."""

from __future__ import annotations

import json
import string
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.tiny_models import WORDS, write_tokenizer

from ragcli.models.wordpiece_tokenizer import (
    CachedVocabularyTokenizer,
    WindowedTokenizer,
    load_windowed_tokenizer,
    read_cached_vocabulary,
    read_tokenizer,
)

ASCII = st.text(alphabet=[chr(code) for code in range(128)], max_size=60)
QUESTIONS = st.lists(st.sampled_from(WORDS.split()) | ASCII, max_size=12).map(" ".join)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _use_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGCLI_CACHE_DIR", str(cache))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_tokenizer(folder)
    return folder


def quick(folder: Path) -> CachedVocabularyTokenizer:
    load_windowed_tokenizer(folder, 512, lower_case=False)
    pieces = load_windowed_tokenizer(folder, 512, lower_case=False)
    assert isinstance(pieces, CachedVocabularyTokenizer)
    return pieces


@given(question=QUESTIONS)
@example("Walking; waved! 12x <b> [SEP] \x00 \x7f")
@example("paper " * 600)
@example("x" * 100 + " " + "x" * 101)
@settings(max_examples=150, deadline=None)
def test_a_question_gets_the_pieces_that_the_library_gives_it(cache: Path, folder: Path, question: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGCLI_CACHE_DIR", str(cache))
        pieces = quick(folder)
    for found, expected in zip(
        pieces.split([question])[0], WindowedTokenizer(read_tokenizer(folder), 512).split([question])[0], strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_a_plain_question_needs_no_tokenizer_file(folder: Path, tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    pieces = quick(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    known = WindowedTokenizer(read_tokenizer(folder), 512)
    assert pieces.split(["Is the CAT walking?"])[0][0].tolist() == known.split(["is the cat walking?"])[0][0].tolist()
    assert pieces.vocabulary_size == known.vocabulary_size
    assert pieces.wrap(np.zeros(1, np.int32)).tolist() == known.wrap(np.zeros(1, np.int32)).tolist()


@pytest.mark.parametrize("text", ["naïve", "a [SEP] b", "<s>", "\x1b", "中"])
def test_other_texts_go_to_the_library(folder: Path, text: str) -> None:
    quick(folder)
    words = read_cached_vocabulary(folder / "tokenizer.json")
    assert words is not None
    assert words.split(text) is None


@pytest.mark.parametrize(
    "change",
    [
        {"normalizer": {"type": "NFC"}},
        {"pre_tokenizer": {"type": "Whitespace"}},
        {"normalizer": None},
    ],
)
def test_a_tokenizer_that_does_more_is_never_imitated(tmp_path: Path, change: dict[str, object]) -> None:
    write_tokenizer(tmp_path)
    place = tmp_path / "tokenizer.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | change))
    load_windowed_tokenizer(tmp_path, 512, lower_case=False)
    assert read_cached_vocabulary(place) is None


def test_a_word_added_to_the_tokenizer_keeps_it_from_being_imitated(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    tokenizer = read_tokenizer(tmp_path)
    tokenizer.add_tokens(["catdog"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    load_windowed_tokenizer(tmp_path, 512, lower_case=False)
    assert read_cached_vocabulary(tmp_path / "tokenizer.json") is None


def test_a_damaged_cache_is_not_believed(cache: Path, tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    place = tmp_path / "tokenizer.json"
    place.write_text(place.read_text() + " ")
    load_windowed_tokenizer(tmp_path, 512, lower_case=False)
    assert read_cached_vocabulary(place) is not None
    (kept,) = [path for path in (cache / "pieces").iterdir() if _is_of(path, place)]
    data = kept.read_bytes()
    for damaged in (data[:-1], data.replace(b"cat", b"cut"), b"", b"{}\n", data[5:]):
        kept.write_bytes(damaged)
        assert read_cached_vocabulary(place) is None


def _is_of(kept: Path, tokenizer_file: Path) -> bool:
    import hashlib

    return kept.stem == hashlib.sha256(tokenizer_file.read_bytes()).hexdigest()[:32]


def test_every_printable_character_alone_is_split_alike(folder: Path) -> None:
    pieces, known = quick(folder), WindowedTokenizer(read_tokenizer(folder), 512)
    for character in string.printable:
        text = f"a{character}b"
        assert pieces.split([text])[0][0].tolist() == known.split([text])[0][0].tolist(), repr(character)

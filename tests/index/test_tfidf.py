"""TF-IDF, equal to scikit-learn's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragcli.errors import CollectionError
from ragcli.index.tfidf import TfidfReader, fit_tfidf

WORDS = [
    "wormhole",
    "Energy",
    "the",
    "of",
    "naïve",
    "Straße",
    "x",
    "42",
    "a_b",
    "черный",
    "mass",
    "mass.",
    "并行",
    "İstanbul",
]
texts = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=30), min_size=1, max_size=8
)


@settings(max_examples=60, deadline=None)
@given(texts, st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join) | st.text(max_size=20))
def test_cosines_are_scikit_learns(tmp_path_factory: pytest.TempPathFactory, texts: list[str], query: str) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    folder = tmp_path_factory.mktemp("fit") / "tfidf"
    numbers = [3 * i + 1 for i in range(len(texts))]
    fit_tfidf(folder, numbers, iter(texts))
    reader = TfidfReader(folder)
    vectorizer = TfidfVectorizer(stop_words="english", max_features=20000, ngram_range=(1, 2))
    try:
        matrix = vectorizer.fit_transform(texts)
        expected = (vectorizer.transform([query]) @ matrix.T).toarray()[0]
        other = (vectorizer.transform([query]) @ vectorizer.transform([query + " mass", "mass energy"]).T).toarray()[0]
    except ValueError:  # no term in any text
        expected, other = np.zeros(len(texts)), np.zeros(2)
    np.testing.assert_allclose(reader.cosines(query, numbers), expected, atol=1e-6)
    np.testing.assert_allclose(reader.cosine(query, texts), expected, atol=1e-6)
    np.testing.assert_allclose(reader.cosine(query, [query + " mass", "mass energy"]), other, atol=1e-6)
    ranked, scores = reader.rank(query, len(texts))
    assert set(ranked.tolist()) == {number for number, cosine in zip(numbers, expected, strict=True) if cosine > 1e-9}
    np.testing.assert_allclose(scores, [expected[numbers.index(number)] for number in ranked], atol=1e-6)
    assert (np.diff(scores) <= 0).all()


def test_features_are_limited_to_the_most_frequent_ones(tmp_path: Path) -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{int(i)}" for i in rng.zipf(1.15, 300) % 40_000) for _ in range(120)]
    fit_tfidf(tmp_path / "t", range(120), texts)
    vectorizer = TfidfVectorizer(stop_words="english", max_features=20000, ngram_range=(1, 2))
    expected = (vectorizer.fit_transform(texts) @ vectorizer.transform([texts[5]]).T).toarray()[:, 0]
    reader = TfidfReader(tmp_path / "t")
    np.testing.assert_allclose(reader.cosines(texts[5], range(120)), expected, atol=1e-6)
    np.testing.assert_allclose(reader.cosine(texts[5], texts), expected, atol=1e-6)
    assert reader.rank(texts[5], 1)[0].tolist() == [5]


def test_a_number_it_does_not_know_has_no_cosine(tmp_path: Path) -> None:
    fit_tfidf(tmp_path / "t", [4, 9], ["black holes", "white dwarfs"])
    cosines = TfidfReader(tmp_path / "t").cosines("holes", [9, 5, 4, 100])
    assert np.isnan(cosines).tolist() == [False, True, False, True]
    assert cosines[2] > cosines[0] == 0


def test_texts_without_words_give_an_empty_index(tmp_path: Path) -> None:
    for texts in ([], ["the of", ""]):
        fit_tfidf(tmp_path / "t", range(len(texts)), texts)
        reader = TfidfReader(tmp_path / "t")
        assert reader.rank("the wormhole", 5)[0].tolist() == []
        assert reader.cosine("wormhole", ["wormhole"]).tolist() == [0.0]


def test_a_new_fit_replaces_the_old_one_and_leaves_nothing_beside(tmp_path: Path) -> None:
    fit_tfidf(tmp_path / "t", [1], ["apples"])
    old = TfidfReader(tmp_path / "t")
    fit_tfidf(tmp_path / "t", [2], ["pears"])
    assert TfidfReader(tmp_path / "t").rank("pears", 1)[0].tolist() == [2]
    assert old.rank("apples", 1)[0].tolist() == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_reading_loads_no_scikit_learn(tmp_path: Path) -> None:
    fit_tfidf(tmp_path / "t", [1], ["apples and pears"])
    code = (
        "import sys\nfrom pathlib import Path\nfrom ragcli.index.tfidf import TfidfReader\n"
        "assert TfidfReader(Path(sys.argv[1])).rank('pears', 1)[0].tolist() == [1]\n"
        "print([m for m in ('sklearn', 'scipy', 'pickle') if m in sys.modules and m != 'pickle'])"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "t")]
    assert subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["about.json", "idf.f64", "rows.i32", "vocabulary.txt", "numbers.i64"])
def test_a_missing_or_cut_file_is_a_sentence(tmp_path: Path, name: str) -> None:
    fit_tfidf(tmp_path / "t", [1, 2], ["apples and pears", "plums"])
    path = tmp_path / "t" / name
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(CollectionError):
        TfidfReader(tmp_path / "t")
    path.unlink()
    with pytest.raises(CollectionError):
        TfidfReader(tmp_path / "t")

"""TF-IDF cosine as scikit-learn computes it, stored as plain arrays; scikit-learn only fits."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ragcli.atomic_files import create_durable_file, fsync_directory
from ragcli.errors import CollectionError
from ragcli.index.append_only_array import open_rows
from ragcli.index.nearest_neighbours import in_sorted, top_k

if TYPE_CHECKING:
    from ragcli.array_types import AnyArray, Float32Array, Float64Array, Int64Array


MAX_FEATURES: Final = 20_000
_FORMAT: Final = 1
_FEW_TERMS: Final = 200
_FEW_TEXTS: Final = 4
_FEW_CHUNKS: Final = 64
_WORD: Final = re.compile(r"(?u)\b\w\w+\b")


def fit_tfidf(folder: Path, numbers: Sequence[int] | Int64Array, texts: Iterable[str]) -> None:
    """Fit on `texts` and write the result to `folder`, which appears whole or not at all.

    `numbers` are the chunk numbers in the order of `texts`, ascending. A folder that is already there is replaced;
    readers that have it open keep what they opened, but a name of its own per generation is safer. With no text that
    has a word in it, the index is empty and every cosine is 0.
    """
    rows = np.asarray(numbers, "<i8")
    if (np.diff(rows) <= 0).any():
        raise ValueError("chunk numbers must ascend")
    terms, idf, columns, stop_words = _fit(texts, len(rows))
    if columns.shape[0] != len(rows):
        raise ValueError(f"{len(rows)} chunk numbers for {columns.shape[0]} texts")
    blob, offsets = _blob(terms)
    arrays: dict[str, AnyArray] = {
        "terms.i64": offsets,
        "idf.f64": idf.astype("<f8"),
        "columns.i64": columns.indptr.astype("<i8"),
        "rows.i32": columns.indices.astype("<i4"),
        "weights.f32": columns.data.astype("<f4"),
        "numbers.i64": rows,
    }
    about = {"format": _FORMAT, "terms": len(terms), "rows": len(rows), "entries": int(columns.nnz)}
    files = {name: array.tobytes() for name, array in arrays.items()}
    files["vocabulary.txt"] = blob
    files["stopwords.txt"] = "\n".join(sorted(stop_words)).encode()
    files["about.json"] = json.dumps(about).encode()
    _write_folder(folder, files)


def _fit(texts: Iterable[str], rows: int) -> tuple[list[str], Float64Array, Any, frozenset[str]]:
    """The terms, sorted; their idf; the weighted matrix by columns in that order; the stop words."""
    from scipy.sparse import csc_matrix
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, TfidfVectorizer

    vectorizer = TfidfVectorizer(stop_words="english", max_features=MAX_FEATURES, ngram_range=(1, 2))
    try:
        columns = vectorizer.fit_transform(texts).tocsc()
    except ValueError as error:
        # scikit-learn refuses texts that leave no term; for a collection that is a possible state.
        if "empty vocabulary" not in str(error):
            raise
        return [], np.empty(0), csc_matrix((rows, 0)), frozenset(ENGLISH_STOP_WORDS)
    columns.sort_indices()
    # Sorted by code points, which is the order of their UTF-8 bytes too.
    return vectorizer.get_feature_names_out().tolist(), vectorizer.idf_, columns, frozenset(ENGLISH_STOP_WORDS)


def _blob(entries: Sequence[str]) -> tuple[bytes, AnyArray]:
    encoded = [entry.encode() + b"\n" for entry in entries]
    offsets = np.zeros(len(encoded) + 1, "<i8")
    np.cumsum([len(entry) for entry in encoded], out=offsets[1:])
    return b"".join(encoded), offsets


def _write_folder(folder: Path, files: dict[str, bytes]) -> None:
    fresh = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True, mode=0o700)
    for name, content in files.items():
        create_durable_file(fresh / name, content)
    fsync_directory(fresh)
    old = folder.with_name(f"{folder.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    fsync_directory(folder.parent)
    shutil.rmtree(old, ignore_errors=True)


class TfidfReader:
    """A fitted TF-IDF, read from disk piece by piece as queries need it.

    With `own`, ascending numbers of chunks, it is as if it had been fitted to those alone, but for the choice of the
    terms: all is read and weighted anew then.
    """

    def __init__(self, folder: Path, *, own: Int64Array | None = None) -> None:
        try:
            about = json.loads((folder / "about.json").read_bytes())
            terms, rows, entries = (int(about[key]) for key in ("terms", "rows", "entries"))
            if about["format"] != _FORMAT or min(terms, rows, entries) < 0:
                raise ValueError
            self._stop_words = frozenset((folder / "stopwords.txt").read_text("utf-8").split("\n"))
        except OSError as error:
            raise CollectionError(f"Cannot read the TF-IDF index in {folder}: {error.strerror or error}.") from error
        except (ValueError, KeyError, TypeError):
            raise CollectionError(
                f"The TF-IDF index in {folder} is damaged; `ragcli collections verify --repair` builds it anew."
            ) from None
        self.folder = folder
        self.size = rows
        self._offsets = open_rows(folder / "terms.i64", np.int64, (), terms + 1)
        self._blob = open_rows(folder / "vocabulary.txt", np.uint8, (), int(self._offsets[-1]))
        self._idf = open_rows(folder / "idf.f64", np.float64, (), terms)
        self._columns = open_rows(folder / "columns.i64", np.int64, (), terms + 1)
        self._rows = open_rows(folder / "rows.i32", np.int32, (), entries)
        self._weights = open_rows(folder / "weights.f32", np.float32, (), entries)
        self.numbers: Int64Array = open_rows(folder / "numbers.i64", np.int64, (), rows)
        self._ids: dict[str, int] | None = None
        self._looked_up = 0
        if own is not None:
            self._keep(own)

    def rank(self, query: str, k: int, *, among: Int64Array | None = None) -> tuple[Int64Array, Float32Array]:
        """Chunk numbers and cosines of the `k` best chunks, best first; chunks that share no term are left out.

        `among` are the ascending numbers of the chunks to choose from, if not all are.
        """
        scores = self._scores(query)
        if among is not None:
            scores[~in_sorted(np.asarray(self.numbers), among)] = 0.0
        positions, values = top_k(np.where(scores > 0.0, scores, np.nan), k)
        return np.asarray(self.numbers)[positions], values

    def cosines(self, query: str, numbers: Sequence[int] | Int64Array) -> Float64Array:
        """Cosines (n,) of the query with chunks of this index; NaN for a number it does not know."""
        wanted = np.asarray(numbers, np.int64)
        known = np.asarray(self.numbers)
        if not len(known):
            return np.full(len(wanted), np.nan)
        positions = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        scores = self._scores(query)[positions] if len(wanted) > _FEW_CHUNKS else self._scores_at(query, positions)
        return np.where(known[positions] == wanted, scores, np.nan)

    def cosine(self, query: str, texts: Sequence[str]) -> Float64Array:
        """Cosines (n,) of the query with any texts, weighted as if scikit-learn transformed them now."""
        if len(texts) > _FEW_TEXTS:
            self._vocabulary()
        of_query = self._transform(query)
        result = np.zeros(len(texts))
        for i, text in enumerate(texts):
            of_text = self._transform(text)
            result[i] = math.fsum(weight * of_text.get(term, 0.0) for term, weight in of_query.items())
        return result

    def _keep(self, own: Int64Array) -> None:
        """Leave out all chunks but `own`, and weigh what stays as if nothing else had been there."""
        kept = np.flatnonzero(np.isin(self.numbers, own))
        place = np.full(self.size, -1, np.int32)
        place[kept] = np.arange(len(kept), dtype=np.int32)
        try:
            entries = np.flatnonzero(place[self._rows] >= 0)
            terms = np.repeat(np.arange(len(self._idf)), np.diff(self._columns))[entries]
            rows = place[self._rows[entries]]
        except (IndexError, ValueError):
            raise _damaged(self.folder) from None
        having = np.bincount(terms, minlength=len(self._idf))
        idf = np.log((1 + len(kept)) / (1 + having)) + 1
        weights = self._weights[entries] / self._idf[terms] * idf[terms]
        norms = np.sqrt(np.bincount(rows, weights * weights, minlength=len(kept)))
        self._weights = (weights / np.maximum(norms, 1e-12)[rows]).astype(np.float32)
        self._rows, self._idf = rows, idf
        self._columns = np.concatenate([[0], np.cumsum(having)]).astype(np.int64)
        self.numbers, self.size = np.asarray(self.numbers)[kept], len(kept)

    def _scores(self, query: str) -> Float64Array:
        scores = np.zeros(self.size)
        try:
            for term, weight in self._transform(query).items():
                column = slice(int(self._columns[term]), int(self._columns[term + 1]))
                scores[self._rows[column]] += weight * self._weights[column].astype(np.float64)
        except IndexError:
            raise _damaged(self.folder) from None
        return scores

    def _scores_at(self, query: str, positions: Int64Array) -> Float64Array:
        """As `_scores`, of a few chunks: they are looked for in each term's ascending rows."""
        scores = np.zeros(len(positions))
        try:
            for term, weight in self._transform(query).items():
                column = slice(int(self._columns[term]), int(self._columns[term + 1]))
                rows = self._rows[column]
                places = np.searchsorted(rows, positions)
                inside = np.flatnonzero(places < len(rows))
                met = inside[rows[places[inside]] == positions[inside]]
                scores[met] += weight * self._weights[column][places[met]].astype(np.float64)
        except IndexError:
            raise _damaged(self.folder) from None
        return scores

    def _transform(self, text: str) -> dict[int, float]:
        """The text's unit vector as {term: weight}, empty when it has no known term."""
        counts = Counter(self._terms_of(text))
        self._looked_up += len(counts)
        find = self._look_up if self._ids is None and self._looked_up <= _FEW_TERMS else self._vocabulary().get
        weights = {
            term: count * float(self._idf[term]) for name, count in counts.items() if (term := find(name)) is not None
        }
        norm = math.sqrt(math.fsum(weight * weight for weight in weights.values()))
        return {term: weight / norm for term, weight in weights.items()}

    def _terms_of(self, text: str) -> list[str]:
        words = [word for word in _WORD.findall(text.lower()) if word not in self._stop_words]
        return words + [f"{first} {second}" for first, second in pairwise(words)]

    def _look_up(self, name: str) -> int | None:
        """Bisection over the sorted vocabulary, without reading the rest of it."""
        wanted = name.encode("utf-8", "replace")
        low, high = 0, len(self._idf)
        while low < high:
            middle = (low + high) // 2
            entry = self._entry(middle)
            if entry == wanted:
                return middle
            if entry < wanted:
                low = middle + 1
            else:
                high = middle
        return None

    def _entry(self, term: int) -> bytes:
        return self._blob[self._offsets[term] : self._offsets[term + 1] - 1].tobytes()

    def _vocabulary(self) -> dict[str, int]:
        if self._ids is None:
            names = self._blob.tobytes().decode("utf-8", "replace").split("\n")
            self._ids = {name: term for term, name in enumerate(names[:-1])}
        return self._ids


def _damaged(folder: Path) -> CollectionError:
    return CollectionError(
        f"The TF-IDF index in {folder} is damaged; `ragcli collections verify --repair` builds it anew."
    )

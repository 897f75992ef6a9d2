"""Ranking and scores of a local collection: its arrays, its BM25 index and its TF-IDF, by chunk numbers.

The arrays have a row a chunk, some of them dead; rows are known to this module alone. The lexical index may hold chunks
that the state has dropped or not yet committed, so what it finds is kept to the live numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ragcli.errors import CollectionError
from ragcli.index.nearest_neighbours import (
    SIGN_SCAN_MIN_ROWS,
    in_sorted,
    top_rows,
    top_rows_among,
    top_rows_by_signs,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from collections.abc import Collection as Container
    from pathlib import Path

    from ragcli.array_types import BoolArray, ByteArray, Float32Array, Float64Array, Int32Array, Int64Array
    from ragcli.collection import Snapshot
    from ragcli.engines.reader_protocol import Stage, StageQuery
    from ragcli.filters import Filter
    from ragcli.index.bm25 import FieldBoosts
    from ragcli.index.tfidf import TfidfReader

_MAX_NAMED_CHUNKS: Final = 20_000
"""Chunks that are looked for by their numbers, when a filter leaves no more."""

_QueryKey = tuple[str, float, tuple[tuple[str, float], ...]]


class _KnownScores(NamedTuple):
    """BM25 scores that the last search gave; all others are 0 where it is `complete`, among `named` if not None."""

    query: _QueryKey
    scores: Mapping[int, float]
    complete: bool
    named: Int64Array | None


class LocalArrays:
    """The arrays and indexes of one snapshot, read when they are first asked for."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._bm25: _KnownScores | None = None
        self._vectors: tuple[bytes, Float32Array] | None = None
        self._samples: dict[int, Int64Array] = {}

    def rank(
        self, stage: Stage, query: StageQuery, depth: int, where: Filter | None, exclude: Container[int]
    ) -> tuple[Int64Array, Float64Array]:
        wanted = depth + len(exclude)
        if stage == "dense":
            numbers, scores = self._rank_dense(query, wanted, where)
        elif stage == "tfidf":
            numbers, scores = self._rank_tfidf(query, wanted, where)
        elif (chosen := self._snapshot.matching(where)) is None:
            numbers, scores = self._rank_lexical(query, wanted)
        else:
            numbers, scores = self._rank_lexical_among(query, wanted, chosen.numbers)
        if exclude:
            kept = [place for place, number in enumerate(numbers.tolist()) if number not in exclude][:depth]
            numbers, scores = numbers[kept], scores[kept]
        return numbers, scores

    def _rank_dense(self, query: StageQuery, depth: int, where: Filter | None) -> tuple[Int64Array, Float64Array]:
        snapshot = self._snapshot
        if not snapshot.record.dimension:
            return _nothing()
        vectors, many = snapshot.vectors, len(snapshot.vectors) >= SIGN_SCAN_MIN_ROWS
        chosen = snapshot.matching(where)
        if chosen is not None:
            signs = snapshot.signs if many else None
            rows, scores = top_rows_among(vectors, signs, query.vector, depth, chosen.rows)
        elif many:
            rows, scores = top_rows_by_signs(vectors, snapshot.signs, query.vector, depth, snapshot.dead)
        else:
            rows, scores = top_rows(vectors, query.vector, depth, snapshot.dead)
        return np.asarray(snapshot.row_numbers[rows], np.int64), scores.astype(np.float64)

    def _rank_tfidf(self, query: StageQuery, depth: int, where: Filter | None) -> tuple[Int64Array, Float64Array]:
        if (tfidf := self._snapshot.tfidf) is None:
            return _nothing()
        if (chosen := self._snapshot.matching(where)) is not None:
            numbers, scores = tfidf.rank(query.text, depth, among=chosen.numbers)
            return numbers, scores.astype(np.float64)
        # It may be of an older generation, and hold chunks that are gone.
        return self._alive(lambda asked: tfidf.rank(query.text, asked, among=None), depth)

    def _rank_lexical(self, query: StageQuery, depth: int) -> tuple[Int64Array, Float64Array]:
        return self._alive(lambda asked: self._search_lexical(query, asked), depth)

    def _alive(
        self, rank: Callable[[int], tuple[Int64Array, Float32Array | Float64Array]], depth: int
    ) -> tuple[Int64Array, Float64Array]:
        """The first `depth` live chunks of a ranking, which is asked for more until enough have come."""
        asked = depth
        while True:
            numbers, scores = rank(asked)
            kept = np.flatnonzero(self._find_rows(numbers)[1])
            if len(kept) >= depth or len(numbers) < asked:
                return numbers[kept[:depth]], scores[kept[:depth]].astype(np.float64)
            asked *= 2

    def _rank_lexical_among(self, query: StageQuery, depth: int, chosen: Int64Array) -> tuple[Int64Array, Float64Array]:
        # Naming each takes longer than asking for more than is wanted, if those that are chosen are many.
        few = len(chosen) <= _MAX_NAMED_CHUNKS
        asked = depth if few else 2 * depth * max(1, self._snapshot.chunk_count // len(chosen))
        named = chosen if few else None
        while True:
            numbers, scores = self._search_lexical(query, asked, named)
            kept = np.flatnonzero(in_sorted(numbers, chosen))[:depth]
            if len(kept) == depth or len(numbers) < asked:
                return numbers[kept], scores[kept]
            # Where the chosen are not among what the question finds, they will not be further down either.
            asked, named = (4 * asked, None) if asked < _MAX_NAMED_CHUNKS else (depth, chosen)

    def _search_lexical(
        self, query: StageQuery, depth: int, named: Int64Array | None = None
    ) -> tuple[Int64Array, Float64Array]:
        """The index's best, whether alive or not, which `scores` need not compute again."""
        numbers, scores = self._snapshot.lexical.search(
            query.text, depth, boosts=_boosts(query), expansion=query.expansion, among=named
        )
        known = dict(zip(numbers.tolist(), scores.tolist(), strict=True))
        self._bm25 = _KnownScores(_key(query), known, len(numbers) < depth, named)
        return numbers, scores.astype(np.float64)

    def scores(self, stage: Stage, query: StageQuery, numbers: Sequence[int] | Int64Array) -> Float64Array:
        wanted = np.asarray(numbers, np.int64)
        if stage == "dense":
            return np.asarray(self.vectors(wanted) @ query.vector, np.float64)
        if stage == "bm25":
            return self._lexical_scores(query, wanted)
        if (tfidf := self._snapshot.tfidf) is None:
            return np.full(len(wanted), np.nan)
        return self._tfidf_cosines(tfidf, query.text, wanted)

    def _lexical_scores(self, query: StageQuery, numbers: Int64Array) -> Float64Array:
        scores = np.full(len(numbers), np.nan)
        last = self._bm25
        if last is not None and last.query == _key(query):
            scores[:] = [last.scores.get(number, np.nan) for number in numbers.tolist()]
            if last.complete:
                none = np.isnan(scores)
                scores[none if last.named is None else none & in_sorted(numbers, last.named)] = 0.0
        missing = np.flatnonzero(np.isnan(scores))
        if missing.size:
            scores[missing] = self._snapshot.lexical.scores_of(
                query.text, numbers[missing], boosts=_boosts(query), expansion=query.expansion
            )
        return scores

    def _tfidf_cosines(self, tfidf: TfidfReader, text: str, numbers: Int64Array) -> Float64Array:
        cosines = np.asarray(tfidf.cosines(text, numbers), np.float64)
        # Chunks that came after the last fit are weighed by what was learned then.
        later = np.flatnonzero(np.isnan(cosines))
        if later.size:
            chunks = self._snapshot.live_chunks(numbers[later].tolist())
            cosines[later] = tfidf.cosine(text, [chunks[number].text for number in numbers[later].tolist()])
        return cosines

    def live(self, numbers: Sequence[int]) -> Int64Array:
        wanted = np.asarray(numbers, np.int64)
        return wanted[self._find_rows(wanted)[1]]

    def vectors(self, numbers: Sequence[int] | Int64Array) -> Float32Array:
        wanted = np.ascontiguousarray(numbers, np.int64)
        # Asked again for the same chunks: to score them, and to compare them with one another.
        if self._vectors is None or self._vectors[0] != wanted.tobytes():
            rows = self._rows(wanted)
            # A damaged vector may be nearest to everything.
            self._snapshot.check_vectors(rows.tolist())
            self._vectors = wanted.tobytes(), np.array(self._snapshot.vectors[rows], np.float32)
        return self._vectors[1]

    def token_bits(self, numbers: Sequence[int] | Int64Array) -> tuple[ByteArray, Int64Array]:
        tokens = self._snapshot.tokens
        if tokens is None:
            raise ValueError(f"The collection '{self._snapshot.collection}' keeps no token vectors.")
        return tokens.gather(self._rows(np.asarray(numbers, np.int64)))

    def sample(self, size: int) -> Int64Array:
        if size not in self._samples:
            alive = np.ones(len(self._snapshot.row_numbers), np.bool_)
            # Where there are tenants, another's chunks are among the dead.
            alive[self._snapshot.dead] = False
            rows = np.flatnonzero(alive)
            places = np.linspace(0, len(rows) - 1, min(size, len(rows))).astype(np.int64)
            self._samples = {size: np.asarray(self._snapshot.row_numbers[rows[places]], np.int64)}
        return self._samples[size]

    def document_frequency(self, terms: Sequence[str]) -> Int64Array:
        return np.asarray([self._snapshot.lexical.frequency(term) for term in terms], np.int64)

    def term_presence(self, terms: Sequence[str], numbers: Sequence[int] | Int64Array) -> BoolArray:
        there = np.zeros((len(numbers), len(terms)), np.bool_)
        lexical = self._snapshot.lexical
        for at, term in enumerate(terms):
            if len(numbers) and lexical.frequency(term):
                there[:, at] = lexical.scores_of(term, numbers) > 0
        return there

    def token_frequency(self, token_ids: Sequence[int] | Int32Array | Int64Array) -> Int64Array:
        ids, known = np.asarray(token_ids, np.int64), self._snapshot.token_frequency
        found = np.zeros(len(ids), np.int64)
        # An index taken over without its model has counted no word pieces.
        inside = ids < len(known)
        found[inside] = known[ids[inside]]
        return found

    def structure_bytes(self) -> dict[str, int]:
        from ragcli.collection.store.chunk_arrays import (
            CHUNK_NUMBERS,
            TOKEN_OFFSETS,
            sign_bits_file,
            token_bits_file,
            vector_file,
        )

        folder, record = self._snapshot.folder, self._snapshot.record
        dense = [CHUNK_NUMBERS, vector_file(record.dimension)]
        if record.rows >= SIGN_SCAN_MIN_ROWS:
            dense.append(sign_bits_file(record.dimension))
        late = [TOKEN_OFFSETS, token_bits_file(record.dimension)]
        return {
            "bm25": _bytes_on_disk(folder / record.lexical_name),
            "tfidf": _bytes_on_disk(folder / record.tfidf_name) if record.tfidf_name else 0,
            "dense": sum(_bytes_on_disk(file.path(folder, record.arrays)) for file in dense),
            "late": sum(_bytes_on_disk(file.path(folder, record.arrays)) for file in late),
        }

    def _rows(self, numbers: Int64Array) -> Int64Array:
        rows, there = self._find_rows(numbers)
        if not there.all():
            name = self._snapshot.collection
            raise CollectionError(
                f"The arrays of the collection '{name}' lack chunks that it should have;"
                f" `ragcli collections verify {name}` says what is damaged."
            )
        return rows

    def _find_rows(self, numbers: Int64Array) -> tuple[Int64Array, BoolArray]:
        """The rows (n,) of chunks, and which of the chunks are alive; of those that are not, the row means nothing."""
        known, dead = self._snapshot.row_numbers, self._snapshot.dead
        if not len(known):
            return np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.bool_)
        rows = np.minimum(np.searchsorted(known, numbers), len(known) - 1)
        there = known[rows] == numbers
        if len(dead):
            there &= ~in_sorted(rows, dead)
        return rows, there


def _key(query: StageQuery) -> _QueryKey:
    return query.text, query.title_weight, tuple(query.expansion)


def _boosts(query: StageQuery) -> FieldBoosts:
    from ragcli.index.bm25 import FieldBoosts

    return FieldBoosts(title=query.title_weight, heading=query.title_weight)


def _nothing() -> tuple[Int64Array, Float64Array]:
    return np.zeros(0, np.int64), np.zeros(0)


def _bytes_on_disk(path: Path) -> int:
    files = (path, *path.rglob("*")) if path.is_dir() else (path,)
    return sum(each.stat().st_size for each in files if each.is_file())

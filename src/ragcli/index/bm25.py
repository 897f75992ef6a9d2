"""BM25 index over the chunks' terms, by tantivy: reader and writer."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from ragcli.index.tantivy_integrity import (
    DISK_FULL_MARKERS,
    NOT_WRITABLE_MARKERS,
    check_index_files,
    mentions_any,
    remove_checksums,
    symlinked_copy,
    tantivy_errors_translated,
    write_checksums,
)
from ragcli.index.term_analysis import MAX_QUERY_TERMS, pretokenize, tantivy_analyzer

if TYPE_CHECKING:
    from tantivy import Index, Query, Searcher, TextAnalyzer

    from ragcli.array_types import Float32Array, Int64Array


_ANALYSER: Final = "ragcli"
_HEAP: Final = 64_000_000
_SEPARATE_TERMS: Final = 256
"""Up to so many numbers are looked up one by one; a set of them is an automaton, which takes 0.4 ms to build."""
_TIES: Final = 16
_REMEMBERED_TERMS: Final = 8192
_HALF_WRITTEN: Final = (".tmp??????", ".*.part")
"""Names of a file until it is whole and renamed: tantivy's, and `ragcli.atomic_files`' own."""
_FIELDS: Final = ("body", "title", "heading")


@dataclass(frozen=True, slots=True)
class LexicalEntry:
    """One chunk to index. `body` comes from `ragcli.index.term_analysis.lexical_text`."""

    number: int
    body: str
    title: str = ""
    heading: str = ""


@dataclass(frozen=True, slots=True)
class FieldBoosts:
    """How much a term counts where it stands. A field with 0 is not searched.

    Titles at 0.2 gain 0.008 nDCG@10 on SciFact and 0.010 on Cranfield over bodies alone; at 0.5 SciFact loses.
    """

    body: float = 1.0
    title: float = 0.2
    heading: float = 0.2


_DEFAULT_BOOSTS: Final = FieldBoosts()

ExpansionTerms = Sequence[tuple[str, float]]
"""Words to look for beside a question's own, each with how much it counts against 1 for a word of the question."""


class LexicalIndex:
    """The index as it was when opened, for reading. Later commits by a writer are not seen.

    With `own`, ascending numbers of chunks, it is as if there were no others: none else is found, and how rare a word
    is among them alone decides how much it counts. What stays the whole index's is the mean length of texts.
    """

    def __init__(self, folder: Path, *, own: Int64Array | None = None) -> None:
        self.folder = folder
        self._own = own
        self._own_frequency: dict[tuple[str, str], int] = {}
        check_index_files(folder)
        self._symlinks: tempfile.TemporaryDirectory[str] | None = None
        with tantivy_errors_translated(folder):
            try:
                self._index = _open(folder)
            except ValueError as error:
                if not mentions_any(error, (*NOT_WRITABLE_MARKERS, *DISK_FULL_MARKERS)):
                    raise
                # Even a reader of tantivy creates a lock file. Where it may not, it gets a folder of links.
                self._symlinks = symlinked_copy(folder)
                self._index = _open(Path(self._symlinks.name))
            self._searcher: Searcher = self._index.searcher()
        self._schema = self._index.schema
        self._last: tuple[tuple[str, FieldBoosts, ExpansionTerms], Query | None] | None = None

    @property
    def count(self) -> int:
        """Chunks in the index, the deleted ones left out."""
        return int(self._searcher.num_docs) if self._own is None else len(self._own)

    def search(
        self,
        query: str,
        k: int,
        *,
        boosts: FieldBoosts = _DEFAULT_BOOSTS,
        expansion: ExpansionTerms = (),
        among: Int64Array | None = None,
    ) -> tuple[Int64Array, Float32Array]:
        """Numbers and BM25 scores of the `k` best chunks that share a term with `query`, best first.

        Among equal scores the lower number comes first. Any text is a valid query; one without a word finds nothing.
        `among` are the numbers of the chunks to choose from, if not all are; their scores stay the same. On two cores
        of an Intel Xeon 20,000 of them, strewn over a million, take 60 ms.
        """
        k = min(k, self.count)
        parsed = self._query(query, boosts, expansion)
        if parsed is None or k <= 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        if among is not None:
            parsed = self._among(parsed, among.tolist())
        # tantivy orders ties by where they happen to be stored; a few more candidates let numbers decide.
        numbers, scores = self._run(parsed, k + _TIES)
        order = np.lexsort((numbers, -scores))[:k]
        return numbers[order], scores[order]

    def scores_of(
        self,
        query: str,
        numbers: Sequence[int] | Int64Array,
        *,
        boosts: FieldBoosts = _DEFAULT_BOOSTS,
        expansion: ExpansionTerms = (),
    ) -> Float32Array:
        """BM25 scores (n,) of given chunks; 0 where no term matches or the chunk is not in the index."""
        wanted = np.asarray(numbers, np.int64)
        result = np.zeros(len(wanted), np.float32)
        parsed = self._query(query, boosts, expansion)
        if parsed is None or not len(wanted):
            return result
        found, scores = self._run(
            self._among(parsed, [number for number in wanted.tolist() if number >= 0]), len(wanted)
        )
        known = dict(zip(found.tolist(), scores.tolist(), strict=True))
        for i, number in enumerate(wanted.tolist()):
            result[i] = known.get(number, 0.0)
        return result

    def numbers(self, *, above: int = -1) -> Int64Array:
        """All chunk numbers in the index that are greater than `above`, ascending."""
        if not self.count:
            return np.empty(0, np.int64)
        with tantivy_errors_translated(self.folder):
            query = _above(self._schema, above)
        found, _ = self._run(query, int(self._searcher.num_docs))
        return np.sort(found if self._own is None else found[np.isin(found, self._own)])

    def terms(self, query: str) -> list[str]:
        """The distinct terms that a query is analysed into, at most `MAX_QUERY_TERMS`."""
        return list(_terms(query))

    def frequency(self, term: str) -> int:
        """How many chunks have a term, one of those that `terms` gives, in their text; some may be deleted ones."""
        return self._frequency("body", term)

    def _frequency(self, field: str, term: str) -> int:
        with tantivy_errors_translated(self.folder):
            if self._own is None:
                return int(self._searcher.doc_freq(field, term))
            if (field, term) not in self._own_frequency:
                if len(self._own_frequency) >= _REMEMBERED_TERMS:
                    self._own_frequency.clear()
                self._own_frequency[field, term] = self._count_own(field, term, self._own)
            return self._own_frequency[field, term]

    def _count_own(self, field: str, term: str, own: Int64Array) -> int:
        import tantivy

        query = tantivy.Query.term_query(self._schema, field, term, "freq")
        everywhere = int(self._searcher.doc_freq(field, term))
        if everywhere > len(own):
            # No hit is asked for; but for one there must be room.
            found: Any = self._searcher.search(self._among(query, own.tolist()), limit=1)
            return int(found.count)
        numbers, _ = self._run(query, everywhere) if everywhere else (own[:0], None)
        return int(np.isin(numbers, own).sum())

    def _rarity(self, field: str, term: str) -> float:
        """How much a term must count for its weight to be what it is among `own` chunks alone."""
        if self._own is None:
            return 1.0
        with tantivy_errors_translated(self.folder):
            everywhere = int(self._searcher.doc_freq(field, term))
        mine = self._frequency(field, term)
        return _idf(len(self._own), mine) / _idf(self._indexed, everywhere) if mine else 0.0

    @cached_property
    def _indexed(self) -> int:
        """Chunks that tantivy counts with, the deleted ones included."""
        with tantivy_errors_translated(self.folder):
            about = json.loads((self.folder / "meta.json").read_bytes())
            return sum(int(segment["max_doc"]) for segment in about["segments"])

    def _query(self, query: str, boosts: FieldBoosts, expansion: ExpansionTerms) -> Query | None:
        # A question is asked twice: which chunks are best, and what some others score.
        if self._last is None or self._last[0] != (query, boosts, expansion):
            self._last = (query, boosts, expansion), self._parse(query, boosts, expansion)
        return self._last[1]

    def _parse(self, query: str, boosts: FieldBoosts, expansion: ExpansionTerms) -> Query | None:
        with tantivy_errors_translated(self.folder):
            if self._own is None:
                return _parsed(query, boosts, expansion)
            whole = _any_term(query, boosts, expansion, self._rarity)
            return None if whole is None else self._among(whole, self._own.tolist())

    def _among(self, query: Query, numbers: Sequence[int]) -> Query:
        """The query, with the same scores, over the given chunks only."""
        import tantivy

        with tantivy_errors_translated(self.folder):
            chunks = _any_of(self._schema, numbers)
            chosen = tantivy.Query.const_score_query(chunks, 0.0)
            return tantivy.Query.boolean_query([(tantivy.Occur.Must, query), (tantivy.Occur.Must, chosen)])

    def _run(self, query: Query, limit: int) -> tuple[Int64Array, Float32Array]:
        with tantivy_errors_translated(self.folder):
            hits = self._searcher.search(query, limit=limit, count=False).hits
            numbers = self._searcher.fast_field_values("number", [address for _, address in hits])
            if None in numbers:
                raise ValueError("a chunk has no number")
        return np.array(numbers, np.int64), np.array([score for score, _ in hits], np.float32)


class LexicalWriter:
    """Adds to and removes from an index. One at a time per folder; use it in a `with` block.

    Nothing is visible or durable before `commit`; leaving the block without one drops what was not committed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._schema = _schema()
        check_index_files(folder, to_write=True)
        with tantivy_errors_translated(folder):
            if (folder / "meta.json").exists():
                self._index = _open(folder)
            else:
                import tantivy

                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._index = tantivy.Index(self._schema, str(folder))
                self._index.register_tokenizer(_ANALYSER, _analyser())
            self._writer = self._index.writer(heap_size=_HEAP, num_threads=1)
            remove_checksums(folder)
            # What a killed writer left would be in the way when the same file name comes up again.
            self._writer.garbage_collect_files()
            # These have names of their own each time, so they would pile up; of them tantivy knows nothing.
            for left in chain.from_iterable(map(folder.glob, _HALF_WRITTEN)):
                left.unlink(missing_ok=True)

    def add(self, entries: Iterable[LexicalEntry]) -> None:
        """Add chunks. A number must not be in the index already."""
        import tantivy

        for entry in entries:
            document = tantivy.Document()
            document.add_unsigned("number", entry.number)
            for field in _FIELDS:
                text = getattr(entry, field)
                if text:
                    document.add_text(field, pretokenize(text))
            with tantivy_errors_translated(self.folder):
                self._writer.add_document(document)

    def delete(self, numbers: Iterable[int]) -> None:
        """Remove chunks; numbers that are not in the index are ignored."""
        import tantivy

        # By query: `delete_documents_by_term` takes a Python int for a signed term and finds nothing.
        wanted = sorted({int(number) for number in numbers})
        with tantivy_errors_translated(self.folder):
            if wanted:
                self._writer.delete_documents_by_query(tantivy.Query.term_set_query(self._schema, "number", wanted))

    def delete_above(self, number: int) -> None:
        """Remove every chunk with a greater number: what a writer left that died before the store's commit."""
        with tantivy_errors_translated(self.folder):
            self._writer.delete_documents_by_query(_above(self._schema, number))

    def commit(self) -> None:
        """Return when everything so far is on the disk and visible to new readers."""
        with tantivy_errors_translated(self.folder):
            self._writer.commit()

    def close(self) -> None:
        """Drop what was not committed, let running merges finish, and give the folder free."""
        with tantivy_errors_translated(self.folder):
            # No rollback before: it forgets the merges that are under way, and does not wait for them. They would go
            # on writing files after the checksums. Waiting drops what was not committed as well.
            self._writer.wait_merging_threads()
            write_checksums(self.folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@cache
def _schema() -> Any:
    import tantivy

    builder = tantivy.SchemaBuilder()
    for field in _FIELDS:
        # Frequencies without positions: no phrase is ever searched here, grep does that.
        builder.add_text_field(field, tokenizer_name=_ANALYSER, index_option="freq")
    builder.add_unsigned_field("number", indexed=True, fast=True)
    return builder.build()


@lru_cache(maxsize=4)
def _parsed(query: str, boosts: FieldBoosts, expansion: ExpansionTerms) -> Query | None:
    return _any_term(query, boosts, expansion, lambda *_: 1.0)


def _any_term(
    query: str, boosts: FieldBoosts, expansion: ExpansionTerms, rarity: Callable[[str, str], float]
) -> Query | None:
    import tantivy

    fields = [(field, boost) for field in _FIELDS if (boost := getattr(boosts, field)) > 0]
    weights = dict.fromkeys(_terms(query), 1.0)
    for word, weight in expansion:
        for term in _terms(word):
            weights[term] = weights.get(term, 0.0) + weight
    clauses: list[tuple[Any, Query]] = []
    for term, weight in weights.items():
        for field, boost in fields:
            clause = tantivy.Query.term_query(_schema(), field, term, "freq")
            counts = boost * weight * rarity(field, term)
            if not counts:
                continue
            boosted = clause if counts == 1 else tantivy.Query.boost_query(clause, counts)
            clauses.append((tantivy.Occur.Should, boosted))
    return tantivy.Query.boolean_query(clauses) if clauses else None


@lru_cache(maxsize=4)
def _terms(query: str) -> tuple[str, ...]:
    # Several collections are asked the same question, one after another.
    return tuple(dict.fromkeys(_analyser().analyze(pretokenize(query, query=True))))[:MAX_QUERY_TERMS]


@cache
def _analyser() -> TextAnalyzer:
    return tantivy_analyzer()


def _idf(chunks: int, having: int) -> float:
    """The weight of a term that so many of the chunks have, as tantivy's BM25 has it."""
    return math.log(1.0 + (chunks - having + 0.5) / (having + 0.5))


def _open(folder: Path) -> Index:
    import tantivy

    index = tantivy.Index.open(str(folder))
    # By default tantivy starts a thread that watches the folder for commits.
    index.config_reader(reload_policy="manual")
    index.register_tokenizer(_ANALYSER, _analyser())
    return index


def _any_of(schema: Any, numbers: Sequence[int]) -> Query:
    import tantivy

    if len(numbers) > _SEPARATE_TERMS:
        return tantivy.Query.term_set_query(schema, "number", numbers)
    terms = [tantivy.Query.term_query(schema, "number", number) for number in numbers]
    return tantivy.Query.boolean_query([(tantivy.Occur.Should, term) for term in terms])


def _above(schema: Any, number: int) -> Query:
    import tantivy

    return tantivy.Query.range_query(
        schema, "number", tantivy.FieldType.Unsigned, lower_bound=max(0, number + 1), include_lower=True
    )

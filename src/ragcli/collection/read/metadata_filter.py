"""Metadata filters evaluated in SQL: matching documents, their chunks and array rows.

A condition on one key is one statement with bound values, answered by an index of the table `metadata` alone.
Conditions are joined on sets of document numbers; of several that must hold, the most selective goes first, and when
few documents are left the others are asked of those alone. Patterns are matched in Python on the indexed texts. The
reference meaning is in `ragcli.filters.predicate_evaluation`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

from ragcli.collection.store.sqlite_connection import translated_read_errors
from ragcli.errors import FilterError
from ragcli.filters.expression_tree import And, Compare, Exists, Filter, Match, Not, OneOf, Or, keys_of, where_text
from ragcli.filters.predicate_evaluation import as_period, compile_match
from ragcli.text.characters import replace_surrogates

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from ragcli.collection.store.generation_record import Generation
    from ragcli.filters.expression_tree import ComparisonOperator, FilterValue

    Integers = npt.NDArray[np.int64]

PROBE_LIMIT: Final = 2_000
"""Documents of which it takes less time to ask each than to look a condition up."""

_MOST: Final = 20_000
# `%` stands before a column; `_lookup` and `_probe` put something in its place.
_TEXTS: Final = "%type IN ('text', 'item')"
_SHOWN: Final = "%type IN ('text', 'item', 'date')"

KeyCondition = Compare | OneOf | Match | Exists


def matching_documents(connection: sqlite3.Connection, condition: Filter) -> tuple[int, ...]:
    """The numbers of the documents that meet the filter, ascending. FilterError if it has too many values."""
    return tuple(sorted(_Lookup(connection).meeting(condition, None)))


class _Lookup:
    """Looks up one filter in one state."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @cached_property
    def _everything(self) -> frozenset[int]:
        # Without an order: asked for one, SQLite reads the documents themselves and not an index of them.
        return frozenset(number for (number,) in self._connection.execute("SELECT number FROM documents"))

    def meeting(self, condition: Filter, among: frozenset[int] | None) -> frozenset[int]:
        """The documents that meet the condition; of few, only `among` these."""
        match condition:
            case Or(parts):
                return frozenset().union(*(self.meeting(part, among) for part in parts))
            case And(parts):
                return self._meeting_all(parts, among)
            case Not(part):
                return (self._everything if among is None else among) - self.meeting(part, among)
            case Compare(key, "!=", value):
                return self.meeting(And((Exists(key), Not(Compare(key, "=", value)))), among)
            case OneOf(key, values, negated=True):
                return self.meeting(And((Exists(key), Not(OneOf(key, values)))), among)
        return self._holding(condition, among)

    def _meeting_all(self, parts: Sequence[Filter], among: frozenset[int] | None) -> frozenset[int]:
        if not parts:
            return self._everything if among is None else among
        if among is None and len(parts) > 1:
            parts = sorted(parts, key=self._estimate)
        found = self.meeting(parts[0], among)
        for part in parts[1:]:
            if not found:
                break
            met = self.meeting(part, found if len(found) < PROBE_LIMIT else among)
            found &= met
        return found

    def _estimate(self, condition: Filter) -> int:
        """How many values meet the condition, counted up to `PROBE_LIMIT`; those that no index answers come last."""
        match condition:
            case And(parts):
                return min((self._estimate(part) for part in parts), default=PROBE_LIMIT)
            case Or(parts):
                return min(sum(self._estimate(part) for part in parts), PROBE_LIMIT)
            case Match():
                return PROBE_LIMIT + 1
            case Not() | Compare(operator="!=") | OneOf(negated=True):
                return PROBE_LIMIT
        total = 0
        for clause, values in _clauses(condition):
            query = f"SELECT count(*) FROM ({_lookup(clause, '%document')} LIMIT {PROBE_LIMIT})"  # noqa: S608
            total += self._connection.execute(query, (replace_surrogates(condition.key), *values)).fetchone()[0]
        return min(total, PROBE_LIMIT)

    def _holding(self, condition: KeyCondition, among: frozenset[int] | None) -> frozenset[int]:
        key = replace_surrogates(condition.key)
        found: set[int] = set()
        for clause, values in _clauses(condition):
            wanted = "%document, %text" if isinstance(condition, Match) else "%document"
            if among is None:
                rows = self._connection.execute(_lookup(clause, wanted), (key, *values))
            else:
                rows = self._connection.execute(_probe(clause, wanted), (json.dumps([*among]), key, *values))
            found.update(_with_match(condition, rows) if isinstance(condition, Match) else (row[0] for row in rows))
        return frozenset(found)


def _with_match(condition: Match, rows: Iterable[tuple[int, str]]) -> Iterator[int]:
    """The documents of the rows whose text matches. Equal texts, which an index gives in a row, are tried once."""
    test = compile_match(condition)
    tried, matched = None, False
    for document, text in rows:
        if text != tried:
            tried, matched = text, test(text)
        if matched:
            yield document


def chunk_numbers(connection: sqlite3.Connection, documents: Sequence[int]) -> Integers:
    """The numbers of the documents' chunks, ascending."""
    import numpy as np

    query = "SELECT c.number FROM json_each(?) j CROSS JOIN chunks c ON c.document = j.value"
    found = connection.execute(query, (json.dumps(documents),)).fetchall()
    return np.sort(np.fromiter((number for (number,) in found), np.int64, len(found)))


def unknown_keys(connection: sqlite3.Connection, condition: Filter) -> tuple[str, ...]:
    """The keys in the filter that no document has."""
    query = "SELECT 1 FROM metadata WHERE key = ? LIMIT 1"
    return tuple(
        key
        for key in dict.fromkeys(keys_of(condition))
        if connection.execute(query, (replace_surrogates(key),)).fetchone() is None
    )


def known_keys(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Every key that a document has, found by stepping from one to the next in the index."""
    keys: list[str] = []
    query = "SELECT min(key) FROM metadata WHERE key > ?"
    while (key := connection.execute(query, (keys[-1] if keys else "",)).fetchone()[0]) is not None:
        keys.append(key)
    return tuple(keys)


class ArrayRows(Protocol):
    """The rows of the arrays in one state, as a snapshot has them.

    `row_numbers` (rows,) are the chunk numbers of all rows and `dead` the rows that count for nothing, both ascending.
    """

    @property
    def folder(self) -> Path: ...
    @property
    def record(self) -> Generation: ...
    @property
    def row_numbers(self) -> Integers: ...
    @property
    def dead(self) -> npt.NDArray[np.int32]: ...


class FilteredChunks:
    """The documents of a snapshot that meet a filter, and their chunks. `documents` are their numbers, ascending."""

    def __init__(self, state: ArrayRows, connection: sqlite3.Connection, condition: Filter) -> None:
        self._state = state
        self._connection = connection
        with translated_read_errors(state.folder):
            self.documents = matching_documents(connection, condition)

    @cached_property
    def rows(self) -> Integers:
        """The rows of the documents' chunks, ascending."""
        import numpy as np

        if 2 * len(self.documents) <= self._state.record.documents:
            return self._live_rows(self._chunks(self.documents))
        # Of most documents it takes less time to say which rows are not theirs.
        rows = self._live_rows(None)
        with translated_read_errors(self._state.folder):
            everything = {number for (number,) in self._connection.execute("SELECT number FROM documents")}
        kept = np.ones(len(rows), np.bool_)
        others = self._live_rows(self._chunks(sorted(everything.difference(self.documents))))
        kept[np.searchsorted(rows, others)] = False
        return rows[kept]

    @cached_property
    def numbers(self) -> Integers:
        """The numbers of the documents' chunks, ascending."""
        import numpy as np

        return np.asarray(self._state.row_numbers[self.rows], np.int64)

    def _chunks(self, documents: Sequence[int]) -> Integers:
        with translated_read_errors(self._state.folder):
            return chunk_numbers(self._connection, documents)

    def _live_rows(self, numbers: Integers | None) -> Integers:
        """The rows of the live chunks among ascending numbers, or of all, ascending."""
        import numpy as np

        known, dead = self._state.row_numbers, self._state.dead
        if numbers is None:
            rows = np.arange(len(known))
        else:
            rows = np.searchsorted(known, numbers)
            rows = rows[rows < len(known)]
            rows = rows[known[rows] == numbers[: len(rows)]]
        if not len(dead) or not len(rows):
            return rows
        alive: Integers = rows[dead[np.minimum(np.searchsorted(dead, rows), len(dead) - 1)] != rows]
        return alive


def cache_key(condition: Filter) -> str:
    """What tells filters apart; as values, `draft = true` and `draft = 1` are equal."""
    return where_text(condition)


SqlClause = tuple[str, list[Any]]


def _lookup(clause: str, wanted: str) -> str:
    return f"SELECT {wanted} FROM metadata WHERE key = ? AND {clause}".replace("%", "")  # noqa: S608


def _probe(clause: str, wanted: str) -> str:
    # An index that begins with the key would give all documents that have it for each of these few; `+` hides it.
    return (
        f"SELECT {wanted.replace('%', 'm.')}"  # noqa: S608
        " FROM json_each(?) j CROSS JOIN metadata m ON m.document = j.value AND m.key = ?"
        f" WHERE {clause.replace('%', '+m.')}"
    )


def _clauses(condition: KeyCondition) -> list[SqlClause]:
    """What a row of `metadata` must be like, in one of several ways, and the values to bind."""
    match condition:
        case Exists():
            return [("%type IS NOT NULL", [])]
        case Match():
            return [(_SHOWN, [])]
        case OneOf(_, values):
            return _equal_to_one(values)
        case Compare(_, operator, value):
            return _compared(operator, value)


def _compared(operator: ComparisonOperator, value: FilterValue) -> list[SqlClause]:
    found = _in_time(operator, value)
    if isinstance(value, bool):
        found.append(("%type = 'boolean' AND %number = ?", [int(value)]))
    elif isinstance(value, str):
        found.append((f"{_TEXTS} AND %text {operator} ?", [replace_surrogates(value)]))
    elif isinstance(value, int | float):
        found.append((f"%type = 'number' AND %number {operator} ?", [value]))
    return found


def _equal_to_one(values: Sequence[FilterValue]) -> list[SqlClause]:
    if len(values) > _MOST:
        raise FilterError(f"A list in the filter has {len(values):,} values, and {_MOST:,} are the most there can be.")
    found = [clause for value in values for clause in _in_time("=", value)]
    for kind, column, listed in (
        ("%type = 'boolean'", "%number", [int(value) for value in values if isinstance(value, bool)]),
        (_TEXTS, "%text", [replace_surrogates(value) for value in values if isinstance(value, str)]),
        (
            "%type = 'number'",
            "%number",
            [each for each in values if isinstance(each, int | float) and not isinstance(each, bool)],
        ),
    ):
        if listed:
            found.append((f"{kind} AND {column} IN ({', '.join('?' * len(listed))})", listed))
    return found


def _in_time(operator: ComparisonOperator, value: FilterValue) -> list[SqlClause]:
    """How a date must stand to a value that means a time."""
    period = as_period(value)
    if period is None:
        return []
    bounds: dict[str, SqlClause] = {
        "=": ("%number >= ? AND %number < ?", [period.start, period.stop]),
        "<": ("%number < ?", [period.start]),
        "<=": ("%number < ?", [period.stop]),
        ">": ("%number >= ?", [period.stop]),
        ">=": ("%number >= ?", [period.start]),
    }
    clause, given = bounds[operator]
    return [(f"%type = 'date' AND {clause}", given)]

"""Whether the tables of a store are still defined as ragcli defines them.

SQLite keeps definitions as text and believes what it reads there. A byte changed in it may take away a rule (that
chunks go with their document, that no number is given twice) without anything being wrong yet, so `verify` compares
what SQLite understands with what it understands of a new store. Texts alone would not do: a store that was brought up
from an older format has the same columns in other words.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from ragcli.collection.schema import SCHEMA

Definition = tuple[object, ...]


def altered_definitions(connection: sqlite3.Connection) -> Iterator[str]:
    """Names of the tables and indexes that are missing, not ours, or not as they were made."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(SCHEMA)
        expected, found = _definitions(fresh), _definitions(connection)
    yield from sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name))


def _definitions(connection: sqlite3.Connection) -> dict[str, Definition]:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    return {
        str(name): _table(connection, name, sql or "") if kind == "table" else (kind, table, sql)
        for kind, name, table, sql in rows
    }


def _table(connection: sqlite3.Connection, name: str, sql: str) -> Definition:
    """What a table's rows may be, but for defaults, which only older stores have."""
    quoted = name.replace('"', '""')
    columns = {
        column: (kind, needed, key)
        for _, column, kind, needed, _, key in connection.execute(f'PRAGMA table_info("{quoted}")')
    }
    parents = sorted(
        (table, column, str(to), gone)
        for _, _, table, column, to, _, gone, _ in connection.execute(f'PRAGMA foreign_key_list("{quoted}")')
    )
    rules = tuple(rule in sql for rule in ("AUTOINCREMENT", "CHECK (slot IN (1, 2))", "WITHOUT ROWID"))
    return columns, parents, rules

"""Tenants: a collection that several share and in which each reads only what is theirs.

A collection may be made with a `tenant_key`, a key of the metadata. From then on its store is opened for reading for
one tenant, and this is the one place that sees to it. In front of every table that says something of documents stands
a view of the same name that has the tenant's documents alone. SQLite finds the view first, so no statement that is
made on such a connection, now or later, reads another's text, name, number or count; and whatever is kept beside the
store (arrays, indexes) is only ever asked for chunks that the store knows.

A document is a tenant's if that key says so, as a text, a number, or one item of a list: so a document can be
several tenants'. One without the key is nobody's.

This keeps programs and people apart who ask through ragcli. Who may read the collection's folder can read all of it.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

from ragcli.errors import TenantNeeded, UsageError

if TYPE_CHECKING:
    from ragcli.collection.generation import Generation
    from ragcli.collection.rowfiles import Numbers
    from ragcli.collection.rows import IntArray

LONGEST: Final = 200
"""Characters of a tenant's name, and of the key."""

_OWN: Final = (
    "INSERT OR IGNORE INTO temp.own_documents"
    " SELECT document FROM main.metadata WHERE key = ? AND type IN ('text', 'item', 'date') AND text = ?"
)
_OWN_NUMBERS: Final = (
    "INSERT OR IGNORE INTO temp.own_documents"
    " SELECT document FROM main.metadata WHERE key = ? AND type = 'number' AND number = ?"
)
_OF_DOCUMENTS: Final = ("chunks", "next_chunks", "layouts", "pieces", "squeezed", "metadata")
_OF_NOBODY: Final = ("failures", "parked")
"""What says whose it is by no document. A failure has a name and a reason, and no metadata."""


def check_tenant_key(key: str) -> None:
    """UsageError if no key of metadata can be called so."""
    if not key.strip() or len(key) > LONGEST or not key.isprintable():
        raise UsageError(f"The tenant key is a key of the documents' metadata, and {key!r} is none.")


def check_tenant(collection: str, key: str | None, tenant: str | None) -> None:
    """TenantNeeded if the collection has tenants and none is given, UsageError if none can be called so."""
    if key is None:
        return
    if tenant is None:
        raise TenantNeeded(
            f"The collection '{collection}' is divided among tenants by '{key}': say whose documents to read, with"
            " --tenant NAME or RAGCLI_TENANT (in a program, Collection.for_tenant)."
        )
    if not tenant or len(tenant) > LONGEST:
        raise UsageError(f"A tenant's name has 1 to {LONGEST} characters, and {len(tenant):,} were given.")


def restrict(connection: sqlite3.Connection, key: str, tenant: str) -> None:
    """Let the connection, which has a read transaction open, see only what is the tenant's."""
    connection.execute("PRAGMA query_only = OFF")
    connection.execute("PRAGMA temp_store = MEMORY")
    for table in ("own_documents", "own_files"):
        connection.execute(f"CREATE TEMP TABLE {table} (number INTEGER PRIMARY KEY)")
    connection.execute(_OWN, (key, tenant))
    number = _number(tenant)
    if number is not None:
        connection.execute(_OWN_NUMBERS, (key, number))
    connection.execute(
        "INSERT OR IGNORE INTO temp.own_files SELECT file FROM main.documents WHERE number IN"
        " (SELECT number FROM temp.own_documents)"
    )
    for table in _OF_DOCUMENTS:
        _stand_before(connection, table, "document IN (SELECT number FROM temp.own_documents)")
    _stand_before(connection, "documents", "number IN (SELECT number FROM temp.own_documents)")
    _stand_before(connection, "files", "number IN (SELECT number FROM temp.own_files)")
    for table in _OF_NOBODY:
        _stand_before(connection, table, "0")
    connection.execute("PRAGMA query_only = ON")


def own_counts(connection: sqlite3.Connection) -> tuple[int, int]:
    """How many documents and chunks a restricted connection sees."""
    documents, chunks = connection.execute("SELECT count(*), ifnull(sum(chunks), 0) FROM documents").fetchone()
    return documents, chunks


def own_chunks(connection: sqlite3.Connection) -> Numbers:
    """(n,) the numbers of the chunks that a restricted connection sees, ascending."""
    import numpy as np

    found = connection.execute("SELECT number FROM chunks").fetchall()
    return np.sort(np.fromiter((number for (number,) in found), np.int64, len(found)))


def foreign_rows(row_numbers: Numbers, own: Numbers) -> IntArray:
    """The rows, ascending, whose chunk is not among `own`, which ascends as `row_numbers` does."""
    import numpy as np

    foreign = np.ones(len(row_numbers), np.bool_)
    if len(row_numbers) and len(own):
        rows = np.minimum(np.searchsorted(row_numbers, own), len(foreign) - 1)
        foreign[rows[row_numbers[rows] == own]] = False
    return np.flatnonzero(foreign).astype(np.int32)


def own_record(connection: sqlite3.Connection, record: Generation) -> Generation:
    """The record with the tenant's counts."""
    from dataclasses import replace

    documents, chunks = own_counts(connection)
    return replace(record, documents=documents, chunks=chunks)


def ownerless(connection: sqlite3.Connection, key: str) -> int:
    """How many documents of a whole collection are nobody's: what they have under the key, if anything, is no name."""
    query = (
        "SELECT count(*) FROM documents d WHERE NOT EXISTS"
        " (SELECT 1 FROM metadata m WHERE m.document = d.number AND m.key = ?"
        "  AND (m.type IN ('text', 'item', 'date') AND length(m.text) BETWEEN 1 AND ?"
        "   OR m.type = 'number' AND m.number = CAST(m.number AS INTEGER) AND abs(m.number) < 1e18))"
    )
    count: int = connection.execute(query, (key, LONGEST)).fetchone()[0]
    return count


def _stand_before(connection: sqlite3.Connection, table: str, condition: str) -> None:
    connection.execute(f"CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} WHERE {condition}")  # noqa: S608


def _number(tenant: str) -> int | None:
    """The whole number that the name is, if it is written as one is."""
    digits = tenant.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19) or (digits[0] == "0" and tenant != "0"):
        return None
    return int(tenant)

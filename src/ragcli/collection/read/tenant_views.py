"""Tenant isolation: temporary views that show a connection one tenant's documents only.

A collection may be made with a `tenant_key`, a key of the metadata. Before every table that says something of
documents stands a temporary view of the same name with the tenant's documents alone. SQLite finds the view first, so
no statement on such a connection reads another's text, name, number or count; arrays and indexes are only asked for
chunks that the store knows. A document without the key is nobody's. Who may read the folder can read all of it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ragcli.errors import TenantNeeded, UsageError

if TYPE_CHECKING:
    from ragcli.collection.store.chunk_arrays import ChunkNumbers, IntArray
    from ragcli.collection.store.generation_record import Generation


TENANT_NAME_MAX: Final = 200
"""Characters of a tenant's name, and of the key."""

_OWN: Final = (
    "INSERT OR IGNORE INTO temp.own_documents"
    " SELECT document FROM main.metadata WHERE key = ? AND type IN ('text', 'item', 'date') AND text = ?"
)
_OWN_NUMBERS: Final = (
    "INSERT OR IGNORE INTO temp.own_documents"
    " SELECT document FROM main.metadata WHERE key = ? AND type = 'number' AND number = ?"
)
_OF_DOCUMENTS: Final = ("chunks", "next_chunks", "layouts", "text_pieces", "folded_text", "metadata")
_OF_NOBODY: Final = ("failures", "uncommitted_rows")
"""What says whose it is by no document. A failure has a name and a reason, and no metadata."""


def check_tenant_key(key: str) -> None:
    """UsageError if no key of metadata can be called so."""
    if not key.strip() or len(key) > TENANT_NAME_MAX or not key.isprintable():
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
    if not tenant or len(tenant) > TENANT_NAME_MAX:
        raise UsageError(f"A tenant's name has 1 to {TENANT_NAME_MAX} characters, and {len(tenant):,} were given.")


def restrict_to_tenant(
    connection: sqlite3.Connection, record: Generation, collection: str, tenant: str | None
) -> Generation:
    """Let the connection, which has a read transaction open, see only what is the tenant's; the record as it then is.

    Nothing changes for a collection without tenants. Raises as `check_tenant`.
    """
    key = record.settings.tenant_key
    check_tenant(collection, key, tenant)
    if key is None or tenant is None:
        return record
    connection.execute("PRAGMA query_only = OFF")
    connection.execute("PRAGMA temp_store = MEMORY")
    for table in ("own_documents", "own_files"):
        connection.execute(f"CREATE TEMP TABLE {table} (number INTEGER PRIMARY KEY)")
    connection.execute(_OWN, (key, tenant))
    number = _tenant_number(tenant)
    if number is not None:
        connection.execute(_OWN_NUMBERS, (key, number))
    connection.execute(
        "INSERT OR IGNORE INTO temp.own_files SELECT file FROM main.documents WHERE number IN"
        " (SELECT number FROM temp.own_documents)"
    )
    for table in _OF_DOCUMENTS:
        _shadow_table(connection, table, "document IN (SELECT number FROM temp.own_documents)")
    _shadow_table(connection, "documents", "number IN (SELECT number FROM temp.own_documents)")
    _shadow_table(connection, "files", "number IN (SELECT number FROM temp.own_files)")
    for table in _OF_NOBODY:
        _shadow_table(connection, table, "0")
    connection.execute("PRAGMA query_only = ON")
    documents, chunks = connection.execute("SELECT count(*), ifnull(sum(chunks), 0) FROM documents").fetchone()
    return replace(record, documents=documents, chunks=chunks)


def tenant_chunk_numbers(connection: sqlite3.Connection) -> ChunkNumbers:
    """(n,) the numbers of the chunks that a restricted connection sees, ascending."""
    import numpy as np

    found = connection.execute("SELECT number FROM chunks").fetchall()
    return np.sort(np.fromiter((number for (number,) in found), np.int64, len(found)))


def foreign_rows(row_numbers: ChunkNumbers, own: ChunkNumbers) -> IntArray:
    """The rows, ascending, whose chunk is not among `own`, which ascends as `row_numbers` does."""
    import numpy as np

    foreign = np.ones(len(row_numbers), np.bool_)
    if len(row_numbers) and len(own):
        rows = np.minimum(np.searchsorted(row_numbers, own), len(foreign) - 1)
        foreign[rows[row_numbers[rows] == own]] = False
    return np.flatnonzero(foreign).astype(np.int32)


def count_without_tenant(connection: sqlite3.Connection, key: str) -> int:
    """How many documents of a whole collection are nobody's: what they have under the key, if anything, is no name."""
    query = (
        "SELECT count(*) FROM documents d WHERE NOT EXISTS"
        " (SELECT 1 FROM metadata m WHERE m.document = d.number AND m.key = ?"
        "  AND (m.type IN ('text', 'item', 'date') AND length(m.text) BETWEEN 1 AND ?"
        "   OR m.type = 'number' AND m.number = CAST(m.number AS INTEGER) AND abs(m.number) < 1e18))"
    )
    count: int = connection.execute(query, (key, TENANT_NAME_MAX)).fetchone()[0]
    return count


def _shadow_table(connection: sqlite3.Connection, table: str, condition: str) -> None:
    connection.execute(f"CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} WHERE {condition}")  # noqa: S608


def _tenant_number(tenant: str) -> int | None:
    """The whole number that the name is, if it is written as one is."""
    digits = tenant.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19) or (digits[0] == "0" and tenant != "0"):
        return None
    return int(tenant)


@dataclass(frozen=True, slots=True)
class TenantArrays:
    """Of a collection with tenants: the rows that are not one tenant's, and the counts of word pieces in those."""

    dead: IntArray
    frequency: IntArray

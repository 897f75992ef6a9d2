"""SQL schema of `store.db` (the source of truth of a collection) and the check that a store has it.

Everything beside the store (arrays, lexical index, TF-IDF, manifest) can be rebuilt from these tables. Texts lie in
pieces of fixed length, because a chunk is a slice of its document and a book must not be read whole to show one
passage.

Chunk numbers come from the generation's counter and are never given twice, not even after a crash; the lexical index
and `rows.ids` know a chunk by its number alone. `rows.ids` ascends, so a row is found by bisection and compaction
changes no table.

SQLite keeps definitions as text and believes what it reads there, so verification compares them with those of a new
store.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from typing import Final

STORE_FORMAT: Final = 1
"""The on-disk format this code writes; kept in the database's user_version. A new one needs a migration."""

APPLICATION_ID: Final = 0x72616763
"""Marks the database as ours ("ragc"), as SQLite's file header foresees."""

TEXT_PIECE_CHARACTERS: Final = 8192
"""Characters in a piece of text. A chunk of the default size touches one piece or two."""

_CHUNKS: Final = """CREATE TABLE {table} (
  number INTEGER PRIMARY KEY,
  document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
  ordinal INTEGER NOT NULL,
  start INTEGER NOT NULL,
  stop INTEGER NOT NULL,
  page_start INTEGER,
  page_end INTEGER,
  heading TEXT,
  input_hash BLOB NOT NULL,
  row_hash BLOB NOT NULL,
  UNIQUE (document, ordinal)
)"""

SCHEMA: Final = (
    """CREATE TABLE generation (
  slot INTEGER PRIMARY KEY CHECK (slot IN (1, 2)),  -- 1 the committed state, 2 what a reindex is building
  generation INTEGER NOT NULL,
  committed_at TEXT NOT NULL,
  settings TEXT NOT NULL,
  fingerprint TEXT,
  dimension INTEGER NOT NULL,
  vocabulary INTEGER NOT NULL,
  arrays INTEGER NOT NULL,
  rows INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  lexical INTEGER NOT NULL,
  tfidf INTEGER,
  tfidf_generation INTEGER,
  documents INTEGER NOT NULL,
  chunks INTEGER NOT NULL,
  next_number INTEGER NOT NULL,
  reserved_from INTEGER,
  last_ingest TEXT,
  row_hash BLOB NOT NULL
)""",
    """CREATE TABLE blobs (
  slot INTEGER NOT NULL,
  name TEXT NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (slot, name)
)""",
    # Checksums of stretches of the derived files: of an array what each commit appended, of a TF-IDF file the whole.
    """CREATE TABLE segments (
  edition INTEGER NOT NULL,
  file TEXT NOT NULL,
  start INTEGER NOT NULL,
  stop INTEGER NOT NULL,
  checksum BLOB NOT NULL,
  PRIMARY KEY (edition, file, start)
)""",
    """CREATE TABLE files (
  number INTEGER PRIMARY KEY,
  path BLOB NOT NULL UNIQUE,
  source TEXT NOT NULL,
  hash BLOB,
  size INTEGER,
  mtime_ns INTEGER,
  ctime_ns INTEGER,
  birthtime_ns INTEGER,
  engine TEXT,
  failed_hash BLOB,
  failed_with TEXT,
  ingested_at TEXT NOT NULL,
  sidecar BLOB,
  meta TEXT NOT NULL,
  row_hash BLOB NOT NULL
)""",
    "CREATE INDEX files_hash ON files (hash)",
    """CREATE TABLE failures (
  number INTEGER PRIMARY KEY,
  file INTEGER NOT NULL REFERENCES files ON DELETE CASCADE,
  source TEXT NOT NULL,
  reason TEXT NOT NULL,
  failed_at TEXT NOT NULL,
  row_hash BLOB NOT NULL
)""",
    "CREATE INDEX failures_file ON failures (file)",
    """CREATE TABLE documents (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  file INTEGER NOT NULL REFERENCES files,
  record_id TEXT,
  source TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  title TEXT,
  hash BLOB NOT NULL,
  metadata TEXT NOT NULL,
  warnings TEXT NOT NULL,
  characters INTEGER NOT NULL,
  pages INTEGER NOT NULL,
  chunks INTEGER NOT NULL,
  ingested_at TEXT NOT NULL,
  layers TEXT NOT NULL,
  parser TEXT NOT NULL,
  parser_version TEXT NOT NULL,
  chunker_version TEXT NOT NULL,
  row_hash BLOB NOT NULL
)""",
    "CREATE UNIQUE INDEX documents_record ON documents (file, ifnull(record_id, ''))",
    """CREATE TABLE layouts (
  document INTEGER PRIMARY KEY REFERENCES documents ON DELETE CASCADE,
  pages TEXT NOT NULL,
  headings TEXT NOT NULL,
  spans TEXT NOT NULL,
  joins BLOB NOT NULL,
  text_hash BLOB NOT NULL,
  row_hash BLOB NOT NULL
)""",
    """CREATE TABLE text_pieces (
  document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
  piece INTEGER NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (document, piece)
)""",
    """CREATE TABLE folded_text (
  document INTEGER PRIMARY KEY REFERENCES documents ON DELETE CASCADE,
  text TEXT NOT NULL,
  row_hash BLOB NOT NULL
)""",
    # For exact search in large collections: see `document_bloom_filters`. A row's key is the number of the filter times
    # 16,384, plus the place.
    """CREATE TABLE bloom_filters (
  number INTEGER PRIMARY KEY,
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  held INTEGER NOT NULL,
  documents BLOB NOT NULL,
  row_hash BLOB NOT NULL
)""",
    """CREATE TABLE bloom_rows (
  key INTEGER PRIMARY KEY,
  blocks BLOB NOT NULL
)""",
    _CHUNKS.format(table="chunks"),
    "CREATE INDEX chunks_input ON chunks (input_hash)",
    # The chunks of the state that a reindex is building; they become `chunks` in one commit.
    _CHUNKS.format(table="next_chunks"),
    "CREATE INDEX next_chunks_input ON next_chunks (input_hash)",
    # Rows embedded for a document that is not complete yet. They are dead to readers, but not lost to a crash.
    """CREATE TABLE uncommitted_rows (
  slot INTEGER NOT NULL,
  number INTEGER NOT NULL,
  input_hash BLOB NOT NULL,
  PRIMARY KEY (slot, number)
)""",
    "CREATE INDEX uncommitted_rows_input ON uncommitted_rows (input_hash)",
    # Chunks gone from the store that the lexical index may still hold.
    """CREATE TABLE lexical_deletes (
  number INTEGER PRIMARY KEY
)""",
    # What a document's metadata are all together: see `metadata_layers`. One row a value, a list has one an item.
    """CREATE TABLE metadata (
  document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
  key TEXT NOT NULL,
  position INTEGER NOT NULL,
  type TEXT NOT NULL,
  text TEXT,
  number NUMERIC,
  PRIMARY KEY (document, key, position)
) WITHOUT ROWID""",
    "CREATE INDEX metadata_text ON metadata (key, type, text, document)",
    "CREATE INDEX metadata_number ON metadata (key, type, number, document)",
)
"""The statements that make a store. Not a script: `executescript` commits before it begins."""


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables and indexes of a store, inside the caller's transaction if there is one."""
    for statement in SCHEMA:
        connection.execute(statement)


def altered_definitions(connection: sqlite3.Connection) -> list[str]:
    """Names of the tables and indexes that are missing, not ours, or not as they were made."""
    query = "SELECT name, type, tbl_name, sql FROM sqlite_master"
    with closing(sqlite3.connect(":memory:")) as fresh:
        create_tables(fresh)
        expected, found = (Counter(each.execute(query).fetchall()) for each in (fresh, connection))
    return sorted({str(name) for name, *_ in (*(expected - found), *(found - expected))})


STORE_FILE: Final = "store.db"

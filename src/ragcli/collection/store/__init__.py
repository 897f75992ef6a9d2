"""Storage of a collection: SQLite schema and connections, generation record, row hashes, arrays."""

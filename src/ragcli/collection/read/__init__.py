"""Reading one committed state of a collection."""

"""Ingest: detect changes, parse, chunk, embed, commit."""

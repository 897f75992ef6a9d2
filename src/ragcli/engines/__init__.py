"""Engines: what keeps a collection's chunks searchable, behind one protocol for reading."""

from __future__ import annotations

from ragcli.engines.engine_registry import open_reader, opened
from ragcli.engines.reader_protocol import CollectionReader, StageQuery

__all__ = ["CollectionReader", "StageQuery", "open_reader", "opened"]

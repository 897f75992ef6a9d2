"""The manual: one page of markdown a topic, shipped with the package.

A page's first line is its heading, which says in a few words what the page is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

TOPICS: Final = (
    "ingest",
    "metadata",
    "query",
    "filters",
    "ask",
    "agent",
    "check",
    "grep",
    "eval",
    "collections",
    "tenants",
    "configuration",
    "models",
    "plugins",
    "library",
    "output",
    "changes",
)
"""Every topic, in the order in which `ragcli help` lists them."""

ALIASES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "documents": "metadata",
        "show": "grep",
        "reindex": "collections",
        "import-index": "library",
        "trust": "configuration",
        "config": "configuration",
        "filter": "filters",
        "where": "filters",
        "json": "output",
        "exit-codes": "output",
        "python": "library",
        "encoders": "models",
        "rerankers": "models",
    }
)
"""Commands and words that have no page of their own, and the topic whose page speaks of them."""


def page(topic: str) -> str:
    """The markdown of a topic's page. Raises KeyError for a word that is no topic and no alias of one."""
    name = ALIASES.get(topic, topic)
    if name not in TOPICS:
        raise KeyError(topic)
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8")


def summary(topic: str) -> str:
    """What a topic's page is about: its heading."""
    return page(topic).partition("\n")[0].removeprefix("# ")

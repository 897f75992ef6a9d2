"""Which models' names stand for a machine elsewhere that texts would be sent to."""

from __future__ import annotations

from typing import Final

COHERE: Final = "cohere"
JINA: Final = "jina"
_BEGINNINGS: Final = ("http://", "https://", f"{COHERE}:", f"{JINA}:")


def is_remote(name: str) -> bool:
    """Whether a reranker of that name is an address, or a service on the net, and no model on this machine."""
    return name.startswith(_BEGINNINGS)

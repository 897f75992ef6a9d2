"""DOIs and arXiv identifiers in text, as regular expressions, and bare identifiers from links to them."""

from __future__ import annotations

import re
from typing import Final

DOI_PREFIX: Final = r"10\.\d{4,9}/"
"""How a DOI begins (ISO 26324); what may follow, and where it ends, depends on the text it stands in."""
ARXIV_ID: Final = r"\d{4}\.\d{4,5}|[a-z-]+(?:\.[A-Z]{2})?/\d{7}"
"""An arXiv identifier without its version, in the form since 2007 or the one before (arXiv's own scheme)."""

_LINK: Final = re.compile(
    r"^(?:https?://(?:dx\.)?doi\.org/|doi:\s*)?(?:https?://arxiv\.org/(?:abs|pdf)/|arxiv:\s*)?", re.IGNORECASE
)


def bare_identifier(text: str) -> str:
    """The DOI or arXiv identifier without the link or the name of its scheme before it."""
    return _LINK.sub("", text)

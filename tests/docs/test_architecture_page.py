"""The page on the architecture names what is there."""

from __future__ import annotations

import re
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
PLACES = (SRC / "ragcli", SRC / "ragcli" / "collection", SRC / "ragcli" / "retrieval", SRC.parent)


def test_every_path_that_the_page_names_exists() -> None:
    page = (SRC / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w./]+(?:\.py|/))`", page))
    named |= set(re.findall(r"`((?:scripts|tests)/[\w./]+)`", page))
    assert len(named) > 25
    parts = {"commands/", "option_groups/", "render/", "sufficiency/", "faithfulness/", "check/"}
    missing = [
        each
        for each in named - parts
        if not any((place / each).exists() for place in (*PLACES, SRC / "ragcli" / "retrieval"))
    ]
    assert missing == []

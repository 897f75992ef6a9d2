"""The JSON that scripts read: exactly the keys of the contract, and valid whatever a document holds.

Lone surrogates, which some PDFs and file names yield, are not text; strict readers refuse them, so each becomes
U+FFFD, one for one, which keeps offsets right. NaN and infinity, which JSON lacks, become null. What a
terminal might act on, or would not show, is written as an escape.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING, Final

from ragcli.cli.terminal import write

if TYPE_CHECKING:
    from ragcli.records import GrepHit, Hit

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_NEEDS_ESCAPE: Final = re.compile(
    "[\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


def to_json(value: object, *, indent: int | None = 2) -> str:
    """`value` as JSON text that every strict reader takes."""
    text = json.dumps(_plain(value), ensure_ascii=not _stdout_is_unicode(), allow_nan=False, indent=indent)
    # Beyond U+FFFF the escape is a pair, which the module writes as it should be.
    return _NEEDS_ESCAPE.sub(lambda found: json.dumps(found.group())[1:-1], text)


def write_json(value: object) -> None:
    """Write one JSON value to stdout."""
    write(to_json(value) + "\n")


def write_json_lines(values: Iterable[object]) -> None:
    """Write JSON values to stdout, one a line."""
    for value in values:
        write(to_json(value, indent=None) + "\n")


def hit_record(hit: Hit) -> dict[str, object]:
    """A hit under the contract's keys, those that scripts use most first."""
    chunk = hit.chunk
    return {
        "rank": hit.rank,
        "source": chunk.source,
        "text": chunk.text,
        "score": hit.score,
        "score_type": hit.score_type,
        "cosine": hit.cosine,
        "collection": chunk.collection,
        "document_id": chunk.document_id,
        "chunk_id": chunk.chunk_id,
        "page_start": chunk.page_start,
        "page_end": chunk.page_end,
        "heading": chunk.heading,
        "reranker": hit.reranker,
        "scores": dict(hit.scores),
        "title": chunk.title,
        "path": chunk.path,
        "source_score": hit.source_score,
        "duplicates": [
            {"source": each.source, "collection": each.collection, "chunk_id": each.chunk_id} for each in hit.duplicates
        ],
        "others": [hit_record(other) for other in hit.others],
    }


def grep_record(hit: GrepHit) -> dict[str, object]:
    """A grep hit under the contract's keys; `truncated` only on a last hit after which there was more."""
    record: dict[str, object] = {
        "source": hit.source,
        "chunk_index": hit.chunk_index,
        "match": hit.match,
        "snippet": hit.snippet,
        "start": hit.start,
        "end": hit.end,
        "collection": hit.collection,
        "page": hit.page,
        "path": hit.path,
    }
    return record | {"truncated": True} if hit.truncated else record


def _plain(value: object) -> object:
    match value:
        case str():
            return _SURROGATES.sub("\ufffd", value)
        case bool() | int() | None:
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {_SURROGATES.sub("\ufffd", str(key)): _plain(item) for key, item in value.items()}
        case date():
            return value.isoformat()
        case Iterable():
            return [_plain(item) for item in value]
        case _:
            return _SURROGATES.sub("\ufffd", str(value))


def _stdout_is_unicode() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("-", "").startswith("utf")

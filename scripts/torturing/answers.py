"""Every answer that a collection gives, by the calls behind the commands, so that hundreds can be asked for a second.

Each answer is a dict: {"hits": …} and perhaps {"scores": …}, {"error": …} for a sentence that was told instead, or
{"bug": …} with a traceback.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from ragcli.collection import Collection
from ragcli.errors import RagcliError
from ragcli.retrieval.exact_search import GrepRequest, grep
from ragcli.retrieval.request import QueryRequest
from ragcli.retrieval.searcher import Searcher

PIPELINES: Final = ("bm25", "tfidf", "dense", "hybrid")
_OWN_TO_A_RUN: Final = re.compile(r"(ingested|failed)_at='[^']*'|\bnumber=\d+")


def ask(folder: Path) -> dict[str, Any]:
    """Every kind of answer that the collection in a folder gives."""
    collection = Collection(folder)
    asked: dict[str, Callable[[], Any]] = {
        "documents": lambda: _documents(collection),
        "grep": lambda: _found(collection, GrepRequest(r"marker v\d", regex=True, max_hits=None)),
        "word": lambda: _found(collection, GrepRequest("unique7word")),
        "show": lambda: _shown(collection),
        "failures": lambda: [repr(each) for each in collection.failures()],
    }
    answers = {kind: _answer(call) for kind, call in asked.items()}
    info = _answer(collection.info)
    answers["info"] = {"told": [info["hits"].documents, info["hits"].chunks]} if "hits" in info else info
    try:
        with Searcher([collection]) as searcher:
            for pipeline in PIPELINES:
                request = QueryRequest("marker wormhole unique7word", top=9999, pipeline=pipeline)
                answers[pipeline] = _answer(lambda: searcher.query(request).hits, scored=True)  # noqa: B023
    except RagcliError as error:
        answers |= {pipeline: {"error": str(error)} for pipeline in PIPELINES if pipeline not in answers}
    except Exception:
        answers |= {pipeline: {"bug": traceback.format_exc()} for pipeline in PIPELINES if pipeline not in answers}
    return answers


def _answer(call: Callable[[], Any], *, scored: bool = False) -> dict[str, Any]:
    try:
        hits = call()
    except RagcliError as error:
        return {"error": str(error)}
    except Exception:
        return {"bug": traceback.format_exc()[-1500:]}
    if scored:
        return {"hits": [_record(hit) for hit in hits], "scores": [hit.score for hit in hits]}
    return {"hits": hits}


def _record(hit: Any) -> str:
    """All that a hit says, without its rank and scores."""
    kept = [each.name for each in fields(hit) if each.name not in ("rank", "score", "cosine", "scores")]
    return repr([getattr(hit, name) for name in kept])


def _found(collection: Collection, request: GrepRequest) -> list[str]:
    return [_record(hit) for hit in grep([collection], request)]


def _documents(collection: Collection) -> list[str]:
    with collection.snapshot() as snapshot:
        return [repr(each) for each in snapshot.documents()]


def _shown(collection: Collection) -> list[str]:
    with collection.snapshot() as snapshot:
        chunk = snapshot.find_chunk("r7:0")
        return [repr(each) for each in (snapshot.neighbours(chunk, 1) if chunk is not None else ())]


def as_set(answer: dict[str, Any]) -> Any:
    """An answer without order, scores and times, which depend on more than what is in the collection."""
    return sorted(_OWN_TO_A_RUN.sub("", each) for each in answer["hits"]) if "hits" in answer else answer

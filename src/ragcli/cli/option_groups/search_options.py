"""The QueryRequest that the options of `query` and `ask` make, the configuration filling in what was not given."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ragcli.cli.option_groups.filter_options import filter_from
from ragcli.cli.terminal import note, without_surrogates
from ragcli.errors import InputError
from ragcli.options import OptionError
from ragcli.retrieval.request import MAX_QUESTION_CHARS, QueryRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.cli.command_context import CommandContext
    from ragcli.collection import Collection
    from ragcli.options import OptionValues
    from ragcli.types import Hit


def query_request(here: CommandContext, values: OptionValues, text: str) -> QueryRequest:
    """The request that the options make.

    Raises OptionError for options that do not go together, InputError for a question or a history that cannot be
    read, UntrustedConfig where the configuration names a reranker that takes trust.
    """
    stated = values.stated
    if values.no_rerank and stated.get("reranker") not in (None, "none"):
        raise OptionError("{no_rerank} and {reranker} exclude each other; give one of them.")
    if "reranker" not in stated and not values.no_rerank:
        here.allow(("query", "reranker"), ("query", "reranker_key_env"))
    settled = values.over(here.config.query)
    settled.check_together(given=stated)
    wanted = settled.request_fields()
    if values.no_rerank:
        wanted["reranker"] = "none"
    if "reranker" in stated and "reranker_key_env" not in stated:
        # A key that the configuration has for its own reranker is not sent to another one.
        wanted["reranker_key_env"] = None
    if "history" in stated:
        from ragcli.retrieval.expansion.conversation import read_history

        wanted["history"] = read_history(Path(values.history).expanduser())
    return QueryRequest(_read_question(text), where=filter_from(values), **wanted)


def _read_question(text: str) -> str:
    if text == "-":
        # Four bytes a character at most; one more tells that there is more.
        text = sys.stdin.buffer.read(4 * MAX_QUESTION_CHARS + 1).decode("utf-8", errors="replace").strip()
    if len(text) > MAX_QUESTION_CHARS:
        raise InputError(f"The question has more than {MAX_QUESTION_CHARS:,} characters; ask it in fewer words.")
    return without_surrogates(text)


def check_sources(collections: Sequence[Collection], hits: Sequence[Hit], *, strict: bool) -> None:
    """Say, in one line, which files behind the hits are not as they were when ingested; if strict, as an error."""
    from ragcli.collection import changed_sources

    stale = changed_sources(collections, [hit.chunk for hit in hits])
    if not stale:
        return
    names = ", ".join(stale[:3]) + (f" and {len(stale) - 3} more" if len(stale) > 3 else "")
    have = "has" if len(stale) == 1 else "have"
    sentence = f"{names} {have} changed or gone since ingest; `ragcli ingest` brings the collection up to date."
    if strict:
        raise InputError(sentence)
    note(sentence)

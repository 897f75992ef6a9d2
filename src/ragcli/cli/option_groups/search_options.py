"""Search and ranking options of `query` and `ask`, and the QueryRequest they make."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.option_groups.common_options import complete_pipeline
from ragcli.cli.terminal import note, without_surrogates
from ragcli.errors import InputError, UsageError
from ragcli.retrieval.request import MAX_QUESTION_CHARS, PIPELINE_NAMES, QueryRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragcli.collection import Collection
    from ragcli.filters import Filter
    from ragcli.types import Hit


Question = Annotated[str, typer.Argument(metavar="TEXT", help="The question; - reads it from stdin.")]
OptionalQuestion = Annotated[
    str | None, typer.Argument(metavar="TEXT", help="The question; - reads it from stdin.", show_default=False)
]
Top = Annotated[int | None, typer.Option("-n", "--top", metavar="N", help="How many hits (5).")]
PipelineName = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        metavar="P",
        help=f"One of {', '.join(PIPELINE_NAMES)} (hybrid).",
        autocompletion=complete_pipeline,
    ),
]
PoolSize = Annotated[
    int | None, typer.Option("--pool", metavar="N", help="Candidates from each first stage, to be reranked.")
]
RerankerName = Annotated[
    str | None,
    typer.Option(
        "--reranker",
        metavar="auto|late|none|MODEL",
        help="What orders the pool: late interaction, a cross-encoder by name or folder, or one elsewhere: "
        "cohere:MODEL, jina:MODEL, or the address of a /rerank endpoint (auto).",
    ),
]
RerankerKeyEnv = Annotated[
    str | None,
    typer.Option("--reranker-key-env", metavar="VARIABLE", help="The environment variable with that one's key."),
]
NoRerank = Annotated[bool, typer.Option("--no-rerank", help="Show the first stage's own order.")]
MaxPerSource = Annotated[
    int | None, typer.Option("--max-per-source", metavar="N", help="At most N hits from one document.")
]


def search_request(
    here: CommandContext,
    text: str,
    *,
    top: int | None,
    pipeline: str | None,
    pool: int | None,
    reranker: str | None,
    no_rerank: bool,
    max_per_source: int | None,
    reranker_key_env: str | None = None,
    where: Filter | None = None,
    like: str | None = None,
) -> QueryRequest:
    """The request that these options make, the configuration filling in what was not given."""
    if no_rerank and reranker not in (None, "none"):
        raise UsageError("--no-rerank and --reranker exclude each other; give one of them.")
    if reranker is None and not no_rerank:
        here.allow(("query", "reranker"), ("query", "reranker_key_env"))
    defaults = here.config.query
    if reranker is None and reranker_key_env is None:
        # A key that the configuration has for its own reranker is not sent to another one.
        reranker_key_env = defaults.reranker_key_env
    asked = {
        "top": top,
        "pipeline": pipeline,
        "pool": pool,
        "reranker": "none" if no_rerank else reranker,
        "max_per_source": max_per_source,
    }
    settled = defaults.request_fields() | {name: value for name, value in asked.items() if value is not None}
    settled |= {"reranker_key_env": reranker_key_env, "where": where, "like": like}
    return QueryRequest(text=_read_question(text), **settled)


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


_METADATA_KEY: Final = re.compile(r"\w[\w.-]{0,63}")

Weights = Annotated[
    list[str] | None,
    typer.Option("--weight", metavar="NAME=W", help="Let a collection count W times as much; may be repeated."),
]
Diversity = Annotated[
    str | None,
    typer.Option(
        "--diversity",
        metavar="mmr=X",
        help="Prefer hits unlike those before them: maximal marginal relevance, X from 0 (no matter) to 1.",
    ),
]
Recency = Annotated[
    float | None,
    typer.Option("--recency", metavar="X", help="How much a document's newness counts, from 0 to 1 (0)."),
]
HalfLife = Annotated[
    str | None,
    typer.Option("--half-life", metavar="AGE", help="The age at which newness is half gone: 90d, 6m, 2y (365d)."),
]
IdentityKey = Annotated[
    str | None,
    typer.Option(
        "--identity",
        metavar="content|path|none|KEY",
        help="What makes documents of several collections the same, KEY being one of their metadata (content).",
    ),
]
KeepDuplicates = Annotated[
    bool, typer.Option("--keep-duplicates", help="Show passages also that say the same as one before them.")
]
Grouped = Annotated[
    bool, typer.Option("--group", help="Show each document once, with its other passages under the best one.")
]
Like = Annotated[
    str | None,
    typer.Option("--like", metavar="ID|FILE", help="In place of TEXT: find what is like this chunk, document or file."),
]


def arrangement(
    here: CommandContext,
    *,
    weight: Sequence[str] | None = None,
    diversity: str | None = None,
    recency: float | None = None,
    half_life: str | None = None,
    identity: str | None = None,
    keep_duplicates: bool = False,
    group: bool = False,
) -> dict[str, Any]:
    """The fields of a request that these options set, the configuration filling in what was not given."""
    defaults = here.config.query
    recency = recency if recency is not None else defaults.recency
    if half_life is not None and recency is None:
        raise UsageError("--half-life says how fast newness is lost; give --recency, how much it counts, as well.")
    asked: dict[str, Any] = {
        "weights": _weights(weight or ()),
        "diversity": _diversity(diversity) if diversity is not None else defaults.diversity,
        "recency": recency,
        "identity": _identity(identity) if identity is not None else None,
        "half_life": _half_life_days(half_life) if half_life is not None else defaults.half_life,
        "keep_duplicates": keep_duplicates,
        "group": group,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _weights(given: Sequence[str]) -> tuple[tuple[str, float], ...]:
    weights: dict[str, float] = {}
    for each in given:
        name, equals, value = each.rpartition("=")
        try:
            weight = float(value)
        except ValueError:
            weight = -1.0
        if not equals or not name or weight < 0:
            raise UsageError(f"--weight takes a collection and a number, like papers=2, not '{each}'.")
        if name in weights:
            raise UsageError(f"--weight gives '{name}' twice.")
        weights[name] = weight
    return tuple(weights.items())


def _diversity(text: str) -> float:
    way, equals, value = text.rpartition("=")
    try:
        share = float(value)
    except ValueError:
        share = -1.0
    if way not in ("", "mmr") or (equals and not way) or not 0.0 <= share <= 1.0:
        raise UsageError(f"--diversity takes mmr=X with X from 0 to 1, not '{text}'.")
    return share


def _half_life_days(text: str) -> float:
    from ragcli.text.datetimes import parse_days

    days = parse_days(text)
    if not days:
        raise UsageError(f"A half-life is an age such as 12h, 90d, 6w, 6m or 2y, not '{text}'.")
    return days


def _identity(text: str) -> str:
    if text in ("content", "path", "none"):
        return text
    from difflib import get_close_matches

    near = get_close_matches(text, ("content", "path", "none"), n=1, cutoff=0.75)
    if near or not _METADATA_KEY.fullmatch(text):
        hint = f"; did you mean {near[0]}?" if near else "."
        raise UsageError(f"--identity takes content, path, none, or a key of the metadata, not '{text}'{hint}")
    return text

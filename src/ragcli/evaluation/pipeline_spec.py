"""Parse pipeline specifications such as `bm25,hybrid:pool=50,reranker=late`.

A comma separates pipelines, and also the options of one; a part with `=` before any colon is an option of the
pipeline before it. The options are those of the option table that a pipeline may carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragcli.errors import UsageError
from ragcli.filters import Filter
from ragcli.llm.chat_model import Message
from ragcli.options import OptionError
from ragcli.options.query_options import SPEC_OPTIONS
from ragcli.retrieval.request import PIPELINE_NAMES, QueryRequest
from ragcli.text.suggestions import closest_name


@dataclass(frozen=True, slots=True)
class PipelineSpec:
    """A pipeline with its options. `label` is how it was written, and names it in tables and files.

    `where` is no option of it: all pipelines of a comparison look among the same documents.
    """

    label: str
    pipeline: str
    options: Mapping[str, Any]
    where: Filter | None = None

    def request(self, text: str, top: int, history: tuple[Message, ...] = ()) -> QueryRequest:
        """The question as this pipeline is to answer it; `history` is what was said before it."""
        said = history if self.options.get("rewrite") else ()
        return QueryRequest(text, top=top, pipeline=self.pipeline, where=self.where, history=said, **self.options)


def parse_specs(text: str) -> tuple[PipelineSpec, ...]:
    """The pipelines of a comparison. Raises UsageError that says what is wrong with which of them."""
    parts: list[tuple[str, list[str]]] = []
    for piece in (piece.strip() for piece in text.split(",")):
        if not piece:
            raise UsageError(f"'{text}' names a pipeline that is empty; write them like bm25,hybrid:pool=50.")
        name, colon, option = piece.partition(":")
        if "=" not in name:
            parts.append((name.strip(), [option] if colon else []))
            continue
        if not parts:
            raise UsageError(f"The option '{piece}' stands before any pipeline; write it like hybrid:{piece}.")
        if not parts[-1][1]:
            raise UsageError(f"The option '{piece}' follows '{parts[-1][0]}' without a colon: {parts[-1][0]}:{piece}.")
        parts[-1][1].append(piece)
    specs = tuple(_parse_spec(name, options) for name, options in parts)
    labels = [spec.label for spec in specs]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"'{label}' is named twice; each pipeline is compared once.")
    return specs


def _parse_spec(name: str, pieces: list[str]) -> PipelineSpec:
    if name not in PIPELINE_NAMES:
        near = closest_name(name, PIPELINE_NAMES)
        hint = f"; did you mean '{near}'?" if near else "."
        raise UsageError(f"There is no pipeline '{name}' (there are {', '.join(PIPELINE_NAMES)}){hint}")
    options: dict[str, Any] = {}
    for piece in pieces:
        key, equals, value = (part.strip() for part in piece.partition("="))
        key = key.replace("-", "_")
        if not equals or not value:
            raise UsageError(f"'{name}:{piece}' is not an option with a value; write it like {name}:pool=50.")
        if key not in SPEC_OPTIONS:
            near = closest_name(key, SPEC_OPTIONS)
            hint = f"; did you mean '{near}'?" if near else "."
            raise UsageError(f"Pipelines have no option '{key}' (they have {', '.join(SPEC_OPTIONS)}){hint}")
        if key in options:
            raise UsageError(f"'{name}' gives '{key}' twice.")
        try:
            options[key] = SPEC_OPTIONS[key].read(value)
        except OptionError as error:
            raise UsageError(f"'{name}:{piece}': {error}") from None
    label = name + (":" + ",".join(piece.strip() for piece in pieces) if pieces else "")
    spec = PipelineSpec(label, name, options)
    spec.request("?", top=1)  # this checks the values' ranges
    return spec

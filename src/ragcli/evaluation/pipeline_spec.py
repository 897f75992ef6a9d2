"""Parse pipeline specifications such as `bm25,hybrid:pool=50,reranker=late`.

A comma separates pipelines, and also the options of one; a part with `=` before any colon is an option of the
pipeline before it. The options are the fields of a query's request, each read as its type says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from ragcli.errors import UsageError
from ragcli.filters import Filter
from ragcli.llm.chat_model import Message
from ragcli.retrieval.request import PIPELINE_NAMES, QueryRequest
from ragcli.text.suggestions import closest_name

# What is asked, of what, and how much of the ranking is shown changes nothing in the ranking itself.
_EXCLUDED_FIELDS: Final = frozenset(
    {
        *("text", "top", "pipeline", "max_per_source", "expansion", "hypothetical", "like", "where"),
        *("weights", "identity", "keep_duplicates", "group", "history"),
    }
)

_BOOLEANS: Final[Mapping[str, bool]] = {
    "yes": True,
    "true": True,
    "on": True,
    "no": False,
    "false": False,
    "off": False,
}


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


def spec_option_names() -> tuple[str, ...]:
    """The options a pipeline may carry."""
    return tuple(field.name for field in fields(QueryRequest) if field.name not in _EXCLUDED_FIELDS)


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
        if key not in spec_option_names():
            near = closest_name(key, spec_option_names())
            hint = f"; did you mean '{near}'?" if near else "."
            raise UsageError(f"Pipelines have no option '{key}' (they have {', '.join(spec_option_names())}){hint}")
        if key in options:
            raise UsageError(f"'{name}' gives '{key}' twice.")
        options[key] = _parse_value(name, key, value)
    label = name + (":" + ",".join(piece.strip() for piece in pieces) if pieces else "")
    spec = PipelineSpec(label, name, options)
    spec.request("?", top=1)  # this checks the values' ranges
    return spec


def _parse_value(name: str, key: str, text: str) -> Any:
    names = {"Filter": Filter, "Message": Message}
    kind = get_type_hints(QueryRequest, localns=names)[key]
    kinds = [each for each in (get_args(kind) or (kind,)) if each is not NoneType]
    if get_origin(kind) is Literal:
        kinds = [kind]
    for each in kinds:
        reader = _value_parser(each)
        if reader is None:
            continue
        try:
            return reader(text)
        except (ValueError, KeyError):
            continue
    raise UsageError(f"'{name}:{key}={text}' is not a value that '{key}' takes; it is {_expected_types(kinds)}.")


def _value_parser(kind: Any) -> Callable[[str], Any] | None:
    if get_origin(kind) is Literal:
        choices = {str(choice): choice for choice in get_args(kind)}
        return lambda text: choices[text]
    if kind is bool:
        return lambda text: _BOOLEANS[text.lower()]
    return kind if kind in (int, float, str) else None


def _expected_types(kinds: list[Any]) -> str:
    words = []
    for kind in kinds:
        if get_origin(kind) is Literal:
            words.append("one of " + ", ".join(str(choice) for choice in get_args(kind)))
        else:
            words.append({int: "a whole number", float: "a number", bool: "yes or no"}.get(kind, "a text"))
    return " or ".join(words)

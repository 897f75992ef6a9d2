"""Every key a `collections.toml` may have: its type, its limits, and how a wrong value is told.

One table per section. Whatever reads a section reads it through here, so that the file, the example that
documents it and the code cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from ragcli.records import CollectionSettings

Kind = Literal["text", "texts", "whole number", "number", "yes or no"]
Guard = Literal["path", "collections", "model", "endpoint", "secret"]


@dataclass(frozen=True, slots=True)
class Key:
    """What one key takes. `choices` limits a text, `least` a number; both ends included.

    A key with a `guard` may need the user's trust in the file (see `guards`); the values in `free` never do.
    """

    kind: Kind
    choices: tuple[str, ...] = ()
    least: float | None = None
    guard: Guard | None = None
    free: tuple[str, ...] = ()


def _table(**keys: Key) -> Mapping[str, Key]:
    return MappingProxyType(keys)


_DOCUMENTS: Final = {
    "include": Key("texts"),
    "exclude": Key("texts"),
    "pdf_engine": Key("text", choices=("pdfium", "pypdf")),
    "ocr": Key("yes or no"),
    "parse_timeout": Key("number", least=1),
    "chunk_size": Key("whole number", least=50),
    "overlap": Key("whole number", least=0),
    "encoder": Key("text", guard="model", free=("none", CollectionSettings().encoder)),
    "token_vectors": Key("text", choices=("bits", "none")),
    "context": Key("text", choices=("none", "title", "heading")),
}

_LARGEST: Final = 2**31 - 1
"""No key means anything by more."""

TOP: Final = _table(data_dir=Key("text", guard="collections"))
DEFAULTS: Final = _table(**_DOCUMENTS)
COLLECTION: Final = _table(paths=Key("texts", guard="path"), tenant_key=Key("text"), **_DOCUMENTS)
MODELS: Final = _table(engine=Key("text", choices=("auto", "onnx", "torch")))
QUERY: Final = _table(
    top=Key("whole number", least=1),
    pipeline=Key("text", choices=("classic", "hybrid", "bm25", "tfidf", "dense")),
    pool=Key("whole number", least=1),
    reranker=Key("text", guard="model", free=("auto", "late", "none")),
    reranker_key_env=Key("text", guard="secret"),
    max_per_source=Key("whole number", least=1),
    diversity=Key("number", least=0),
    recency=Key("number", least=0),
    half_life=Key("text"),
)
LLM: Final = _table(
    base_url=Key("text", guard="endpoint"),
    model=Key("text"),
    api_key_env=Key("text", guard="secret"),
    timeout=Key("number", least=0.1),
    max_calls=Key("whole number", least=0),
    max_total_tokens=Key("whole number", least=0),
    price_in=Key("number", least=0),
    price_out=Key("number", least=0),
    max_cost=Key("number", least=0),
    cache=Key("yes or no"),
    prompts=Key("text", guard="path"),
)
ASK: Final = _table(
    preset=Key("text", choices=("strict", "balanced", "lenient")),
    judge=Key("text", choices=("calibrated", "heuristic")),
    retries=Key("whole number", least=0),
)

SECTIONS: Final[Mapping[str, Mapping[str, Key]]] = MappingProxyType(
    {"defaults": DEFAULTS, "models": MODELS, "query": QUERY, "llm": LLM, "ask": ASK}
)


def known_keys() -> frozenset[str]:
    """Every key as a dotted path; `collections.*` stands for any collection's table."""
    sections = {f"{section}.{key}" for section, keys in SECTIONS.items() for key in keys}
    return frozenset(TOP) | sections | {f"collections.*.{key}" for key in COLLECTION}


def complaint(key: Key, value: object) -> str | None:
    """What is wrong with `value` under `key`, as the end of a sentence ("must be ..."), or None."""
    if not _has_kind(key.kind, value):
        return f"must be {_KIND_NAMES[key.kind]}, not {_describe(value)}"
    if key.choices and value not in key.choices:
        return f"must be one of {', '.join(key.choices)}, not {_describe(value)}"
    if isinstance(value, (int, float)) and abs(value) > _LARGEST:
        return "must be a number of a sensible size"
    if key.least is not None and isinstance(value, (int, float)) and not value >= key.least:
        return f"must be at least {key.least:g}, not {value}"
    return None


_KIND_NAMES: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "text": "a text in quotes",
        "texts": "a list of texts in quotes",
        "whole number": "a whole number",
        "number": "a number",
        "yes or no": "true or false",
    }
)


def _has_kind(kind: Kind, value: object) -> bool:
    match kind:
        case "text":
            return isinstance(value, str)
        case "texts":
            return isinstance(value, list) and all(isinstance(item, str) for item in value)
        case "whole number":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "yes or no":
            return isinstance(value, bool)


def _describe(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float() if abs(value) > _LARGEST:  # its digits may be thousands
            return "a number"
        case str():
            return f'the text "{value if len(value) <= 40 else value[:40] + "…"}"'
        case int() | float():
            return f"the number {value}"
        case dict():
            return "a table"
        case list():
            return "a list of something else" if value else "an empty list"
        case _:
            return f"the {type(value).__name__} {value}"

"""The keys of `collections.toml`: types, bounds and validation messages.

One table per section. Whatever reads a section reads it through here, so that the file, the example that documents it
and the code cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from ragcli.types import CollectionSettings

COHERE_PREFIX: Final = "cohere"
JINA_PREFIX: Final = "jina"
_BEGINNINGS: Final = ("http://", "https://", f"{COHERE_PREFIX}:", f"{JINA_PREFIX}:")


def is_remote_reranker(name: str) -> bool:
    """Whether a reranker of that name is an address, or a service on the net, and no model on this machine."""
    return name.startswith(_BEGINNINGS)


ValueType = Literal["text", "texts", "whole number", "number", "yes or no"]
TrustGuard = Literal["path", "collections", "model", "endpoint", "secret"]


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """What one key takes. `choices` limits a text, `least` a number; both ends included.

    A key with a `guard` may need the user's trust in the file (see `guards`); the values in `free` never do.
    """

    kind: ValueType
    choices: tuple[str, ...] = ()
    least: float | None = None
    guard: TrustGuard | None = None
    free: tuple[str, ...] = ()


def _table(**keys: ConfigKey) -> Mapping[str, ConfigKey]:
    return MappingProxyType(keys)


_DOCUMENT_KEYS: Final = {
    "include": ConfigKey("texts"),
    "exclude": ConfigKey("texts"),
    "pdf_engine": ConfigKey("text", choices=("pdfium", "pypdf")),
    "ocr": ConfigKey("yes or no"),
    "parse_timeout": ConfigKey("number", least=1),
    "chunk_size": ConfigKey("whole number", least=50),
    "overlap": ConfigKey("whole number", least=0),
    "encoder": ConfigKey("text", guard="model", free=("none", CollectionSettings().encoder)),
    "token_vectors": ConfigKey("text", choices=("bits", "none")),
    "context": ConfigKey("text", choices=("none", "title", "heading")),
}

_MAX_NUMBER: Final = 2**31 - 1
"""No key means anything by more."""

TOP_LEVEL_KEYS: Final = _table(data_dir=ConfigKey("text", guard="collections"))
DEFAULTS_KEYS: Final = _table(**_DOCUMENT_KEYS)
COLLECTION_KEYS: Final = _table(paths=ConfigKey("texts", guard="path"), tenant_key=ConfigKey("text"), **_DOCUMENT_KEYS)
MODELS_KEYS: Final = _table(engine=ConfigKey("text", choices=("auto", "onnx", "torch")))
QUERY_KEYS: Final = _table(
    top=ConfigKey("whole number", least=1),
    pipeline=ConfigKey("text", choices=("classic", "hybrid", "bm25", "tfidf", "dense")),
    pool=ConfigKey("whole number", least=1),
    reranker=ConfigKey("text", guard="model", free=("auto", "late", "none")),
    reranker_key_env=ConfigKey("text", guard="secret"),
    max_per_source=ConfigKey("whole number", least=1),
    diversity=ConfigKey("number", least=0),
    recency=ConfigKey("number", least=0),
    half_life=ConfigKey("text"),
)
LLM_KEYS: Final = _table(
    base_url=ConfigKey("text", guard="endpoint"),
    model=ConfigKey("text"),
    api_key_env=ConfigKey("text", guard="secret"),
    timeout=ConfigKey("number", least=0.1),
    max_calls=ConfigKey("whole number", least=0),
    max_total_tokens=ConfigKey("whole number", least=0),
    price_in=ConfigKey("number", least=0),
    price_out=ConfigKey("number", least=0),
    max_cost=ConfigKey("number", least=0),
    cache=ConfigKey("yes or no"),
    prompts=ConfigKey("text", guard="path"),
)
ASK_KEYS: Final = _table(
    preset=ConfigKey("text", choices=("strict", "balanced", "lenient")),
    judge=ConfigKey("text", choices=("calibrated", "heuristic")),
    retries=ConfigKey("whole number", least=0),
)

SECTION_KEYS: Final[Mapping[str, Mapping[str, ConfigKey]]] = MappingProxyType(
    {"defaults": DEFAULTS_KEYS, "models": MODELS_KEYS, "query": QUERY_KEYS, "llm": LLM_KEYS, "ask": ASK_KEYS}
)


def known_config_keys() -> frozenset[str]:
    """Every key as a dotted path; `collections.*` stands for any collection's table."""
    sections = {f"{section}.{key}" for section, keys in SECTION_KEYS.items() for key in keys}
    return frozenset(TOP_LEVEL_KEYS) | sections | {f"collections.*.{key}" for key in COLLECTION_KEYS}


def invalid_value_reason(key: ConfigKey, value: object) -> str | None:
    """What is wrong with `value` under `key`, as the end of a sentence ("must be ..."), or None."""
    if not _has_type(key.kind, value):
        return f"must be {_TYPE_NAMES[key.kind]}, not {_describe_value(value)}"
    if key.choices and value not in key.choices:
        return f"must be one of {', '.join(key.choices)}, not {_describe_value(value)}"
    if isinstance(value, (int, float)) and abs(value) > _MAX_NUMBER:
        return "must be a number of a sensible size"
    if key.least is not None and isinstance(value, (int, float)) and not value >= key.least:
        return f"must be at least {key.least:g}, not {value}"
    return None


_TYPE_NAMES: Final[Mapping[ValueType, str]] = MappingProxyType(
    {
        "text": "a text in quotes",
        "texts": "a list of texts in quotes",
        "whole number": "a whole number",
        "number": "a number",
        "yes or no": "true or false",
    }
)


def _has_type(kind: ValueType, value: object) -> bool:
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


def _describe_value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float() if abs(value) > _MAX_NUMBER:  # its digits may be thousands
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

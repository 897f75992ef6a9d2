"""The keys of `collections.toml` by section, derived from the table of options, and what is wrong with a value."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from ragcli.options import Option, OptionError, OptionValues
from ragcli.options.command_options import section_options
from ragcli.options.number_parsing import MAX_NUMBER
from ragcli.options.option_model import Kind

COHERE_PREFIX: Final = "cohere"
JINA_PREFIX: Final = "jina"
_BEGINNINGS: Final = ("http://", "https://", f"{COHERE_PREFIX}:", f"{JINA_PREFIX}:")


def is_remote_reranker(name: str) -> bool:
    """Whether a reranker of that name is an address, or a service on the net, and no model on this machine."""
    return name.startswith(_BEGINNINGS)


TOP_LEVEL_KEYS: Final = section_options("top")
COLLECTION_KEYS: Final = section_options("collection", "collection only")
SECTION_KEYS: Final[Mapping[str, Mapping[str, Option]]] = MappingProxyType(
    {
        "defaults": section_options("collection"),
        **{section: section_options(section) for section in ("models", "query", "llm", "ask")},
    }
)


def known_config_keys() -> frozenset[str]:
    """Every key as a dotted path; `collections.*` stands for any collection's table."""
    sections = {f"{section}.{key}" for section, keys in SECTION_KEYS.items() for key in keys}
    return frozenset(TOP_LEVEL_KEYS) | sections | {f"collections.*.{key}" for key in COLLECTION_KEYS}


def invalid_value_reason(option: Option, value: object) -> str | None:
    """What is wrong with `value` under an option's key, as the end of a sentence ("must be ..."), or None."""
    kind = option.config_kind or option.kind
    if not _has_type(kind, value):
        return f"must be {_KIND_DESCRIPTIONS[kind]}, not {_describe_value(value)}"
    if option.choices and not option.is_choice(value):
        return f"must be one of {', '.join(option.choices)}, not {_describe_value(value)}"
    if option.config_kind is not None:
        try:
            option.read(value)
        except OptionError:
            return f"takes {option.expected}, not {_describe_value(value)}"
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        return option.range_reason(value)
    return None


def section_values(options: Mapping[str, Option], table: Mapping[str, Any]) -> OptionValues:
    """What a checked table of the file states, by the options' names."""
    stated = {}
    for key, value in table.items():
        option = options[key]
        stated[option.name] = option.read(value) if option.config_kind is not None else value
    return OptionValues({option.name: option for option in options.values()}, stated)


_KIND_DESCRIPTIONS: Final[Mapping[Kind, str]] = MappingProxyType(
    {
        "text": "a text in quotes",
        "texts": "a list of texts in quotes",
        "whole number": "a whole number",
        "number": "a number",
        "yes or no": "true or false",
    }
)


def _has_type(kind: Kind, value: object) -> bool:
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
        case int() | float() if abs(value) > MAX_NUMBER:  # its digits may be thousands
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

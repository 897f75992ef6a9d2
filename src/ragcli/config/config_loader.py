"""Find `collections.toml`, validate it, and return it as typed settings."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from ragcli.config.config_keys import (
    COLLECTION_KEYS,
    SECTION_KEYS,
    TOP_LEVEL_KEYS,
    invalid_value_reason,
    section_values,
)
from ragcli.config.toml_reader import line_of_key, parse_toml
from ragcli.config.trust_policy import KeyPath, TrustDemand, demands, without_keys
from ragcli.errors import ConfigError
from ragcli.options import Option, OptionValues
from ragcli.text.suggestions import closest_name
from ragcli.types import CollectionSettings


@dataclass(frozen=True, slots=True)
class LanguageModelDefaults:
    """Which language model is asked, and what it may cost, unless options say otherwise.

    `timeout` is for one answer, in seconds, retries included. `max_calls`, `max_total_tokens` and `max_cost` are for
    one run of the program; prices are for a million tokens, in the money that `max_cost` is in. `prompts` is a folder
    whose files replace the prompts of the same name.
    """

    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None
    timeout: float = 60.0
    max_calls: int = 1000
    max_total_tokens: int | None = None
    price_in: float = 0.0
    price_out: float = 0.0
    max_cost: float | None = None
    cache: bool = True
    prompts: Path | None = None


CONFIG_NAME: Final = "collections.toml"
_DATA_DIR: Final = "RAGCLI_DATA_DIR"

# A configuration is written by hand. A file beyond this is something else by the same name.
_LARGEST_FILE: Final = 1 << 20
_COLLECTION_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

ConfigOrigin = Literal["none", "named", "current folder", "user"]


@dataclass(frozen=True, slots=True)
class CollectionConfig:
    """What the file says about one collection, the file's defaults already filled in.

    `settings` are fixed when the collection is created; `asked` names those among them that the file states,
    so that an existing collection is held only to what was really asked for.
    """

    paths: tuple[Path, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    pdf_engine: Literal["pdfium", "pypdf"] = "pdfium"
    ocr: bool = False
    parse_timeout: float | None = None
    settings: CollectionSettings = field(default_factory=CollectionSettings)
    asked: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Config:
    """A `collections.toml`, read and checked. Without a file, every value is the built-in default.

    `origin` says how the file was found. One found in the current folder may have come with someone else's
    repository. What it asks for that needs the user's trust, and has not got it, is in `withheld` and nowhere else:
    the other fields read as if those keys were left out. `query` and `ask` are the values of the options in those
    sections. `digest` is the SHA-256 of what was read.
    """

    file: Path | None = None
    origin: ConfigOrigin = "none"
    data_dir: Path | None = None
    engine: Literal["auto", "onnx", "torch"] = "auto"
    query: OptionValues = field(default_factory=lambda: section_values(SECTION_KEYS["query"], {}))
    llm: LanguageModelDefaults = field(default_factory=LanguageModelDefaults)
    ask: OptionValues = field(default_factory=lambda: section_values(SECTION_KEYS["ask"], {}))
    defaults: CollectionConfig = field(default_factory=CollectionConfig)
    collections: Mapping[str, CollectionConfig] = field(default_factory=dict)
    withheld: tuple[TrustDemand, ...] = ()
    digest: str = ""

    def collection(self, name: str) -> CollectionConfig:
        """What holds for the collection `name`: its own table, or the defaults when it has none."""
        return self.collections.get(name, self.defaults)


def find_config(named: Path | None = None) -> tuple[Path | None, ConfigOrigin]:
    """The file to read and how it was found. Raises ConfigError if the one named is not there."""
    if named is not None:
        if not named.is_file():
            raise ConfigError(f"{named}: there is no such configuration file; check the path given with --config.")
        return named, "named"
    here = Path(CONFIG_NAME)
    found = here.is_file()
    import platformdirs

    user = Path(platformdirs.user_config_dir("ragcli", appauthor=False)) / CONFIG_NAME
    if found and not (user.is_file() and here.samefile(user)):
        return here.absolute(), "current folder"
    return (user, "user") if user.is_file() else (None, "none")


def load_config(named: Path | None = None, *, allowed: Collection[KeyPath] = ()) -> Config:
    """Read the configuration named, or else the one found. Raises ConfigError naming file, key and line.

    One found in the current folder is held to its own folder unless the user has trusted it; `allowed` are keys
    whose values may be had all the same.
    """
    file, origin = find_config(named)
    if file is None:
        return Config()
    if origin == "current folder":
        return load_untrusted_config(file, allowed=allowed)
    text, digest = _read_file(file)
    return replace(_ConfigReader(file, text).config(origin), digest=digest)


def load_untrusted_config(file: Path, *, allowed: Collection[KeyPath] = ()) -> Config:
    """Read a file as one that was found in the current folder, whether or not it was. Raises ConfigError."""
    text, digest = _read_file(file)
    reader = _ConfigReader(file, text)
    config = replace(reader.config("current folder"), digest=digest)
    wanted = [each for each in reader.demands() if each.key not in allowed]
    if not wanted:
        return config
    from ragcli.config.trust_policy import is_trusted

    if is_trusted(file, digest):
        return config
    reader.leave_out(frozenset(each.key for each in wanted))
    return replace(reader.config("current folder"), digest=digest, withheld=tuple(wanted))


def data_dir_in_environment() -> bool:
    """Does the environment say where collections live, whatever a configuration says?"""
    return bool(os.environ.get(_DATA_DIR))


def resolve_data_dir(option: Path | None, config: Config) -> Path:
    """Where collections live: the option, else `RAGCLI_DATA_DIR`, else the configuration, else the platform's."""
    if option is not None:
        return option.expanduser().absolute()
    if variable := os.environ.get(_DATA_DIR):
        return Path(variable).expanduser().absolute()
    if config.data_dir is not None:
        return config.data_dir
    import platformdirs

    return Path(platformdirs.user_data_dir("ragcli", appauthor=False))


def _read_file(file: Path) -> tuple[str, str]:
    """The file's text, and the hash of exactly that."""
    try:
        with file.open("rb") as stream:
            content = stream.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror}).") from error
    if len(content) > _LARGEST_FILE:
        raise ConfigError(f"{file}: is over a megabyte, which no configuration of ragcli needs.")
    try:
        return content.decode("utf-8-sig"), sha256(content).hexdigest()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}, line {line}: is not UTF-8 text, which TOML must be.") from error


class _ConfigReader:
    """One file on its way to a `Config`: holds the text, to say on which line a key stands."""

    __slots__ = ("file", "text", "tree")

    def __init__(self, file: Path, text: str) -> None:
        self.file = file
        self.text = text
        import tomllib

        try:
            self.tree: Mapping[str, Any] = parse_toml(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{file}: is not valid TOML: {error}.") from error
        except (ValueError, RecursionError) as error:
            wrong = "nested too deeply" if isinstance(error, RecursionError) else "it has a number that is too long"
            raise ConfigError(f"{file}: is not valid TOML: {wrong}.") from error

    def config(self, origin: ConfigOrigin) -> Config:
        tables = {"collections", *SECTION_KEYS}
        top = {key: value for key, value in self.tree.items() if key not in tables}
        self._check(top, TOP_LEVEL_KEYS, ())
        for section, keys in SECTION_KEYS.items():
            self._check(self._section(section), keys, (section,))
        defaults = self._collection(self._section("defaults"), CollectionConfig(), ("defaults",))
        data_dir = self._path(("data_dir",), top["data_dir"]) if "data_dir" in top else None
        return Config(
            file=self.file,
            origin=origin,
            data_dir=data_dir,
            engine=self._section("models").get("engine", "auto"),
            query=self._query(),
            llm=self._language_model(),
            ask=section_values(SECTION_KEYS["ask"], self._section("ask")),
            defaults=defaults,
            collections=MappingProxyType(self._collections(defaults)),
        )

    def demands(self) -> list[TrustDemand]:
        """What the file, which was found right, asks for beyond its own folder."""
        found = demands(self.tree, self.file.absolute().parent)
        return [replace(each, line=line_of_key(self.text, each.key)) for each in found]

    def leave_out(self, keys: frozenset[KeyPath]) -> None:
        """Read from now on as if these keys were not there."""
        self.tree = without_keys(self.tree, keys)

    def _query(self) -> OptionValues:
        table = dict(self._section("query"))
        if "reranker" in table:
            table["reranker"] = self._model(table["reranker"])
        return section_values(SECTION_KEYS["query"], table)

    def _language_model(self) -> LanguageModelDefaults:
        found = dict(self._section("llm"))
        if "prompts" in found:
            found["prompts"] = self._path(("llm", "prompts"), found["prompts"])
        return LanguageModelDefaults(**found)

    def _collections(self, defaults: CollectionConfig) -> dict[str, CollectionConfig]:
        found = {}
        for name, table in self._section("collections").items():
            path = ("collections", name)
            if not _COLLECTION_NAME.fullmatch(name):
                rule = "letters, digits, '.', '_' and '-', 64 at most, the first a letter or digit"
                raise self._error(path, f"is no name for a collection, which takes {rule}")
            if not isinstance(table, dict):
                raise self._error(path, "must be a table")
            self._check(table, COLLECTION_KEYS, path)
            found[name] = self._collection(table, defaults, path)
        return found

    def _collection(self, table: Mapping[str, Any], base: CollectionConfig, path: tuple[str, ...]) -> CollectionConfig:
        asked = {item.name: table[item.name] for item in fields(CollectionSettings) if item.name in table}
        if "encoder" in asked:
            asked["encoder"] = self._model(asked["encoder"])
        settings = replace(base.settings, **asked)
        if settings.overlap >= settings.chunk_size:
            culprit = next((key for key in ("overlap", "chunk_size") if key in table), "overlap")
            raise self._error(
                (*path, culprit),
                f"makes chunks of {settings.chunk_size} characters overlap by {settings.overlap}; "
                "the overlap must be the smaller",
            )
        found: dict[str, Any] = {key: tuple(table[key]) for key in ("include", "exclude") if key in table}
        found |= {key: table[key] for key in ("pdf_engine", "ocr", "parse_timeout") if key in table}
        if "paths" in table:
            found["paths"] = tuple(self._path((*path, "paths"), each) for each in table["paths"])
        return replace(base, **found, settings=settings, asked=base.asked | asked.keys())

    def _section(self, name: str) -> Mapping[str, Any]:
        section = self.tree.get(name, {})
        if not isinstance(section, dict):
            raise self._error((name,), "must be a table")
        return section

    def _check(self, table: Mapping[str, Any], keys: Mapping[str, Option], path: tuple[str, ...]) -> None:
        for name, value in table.items():
            if name not in keys:
                raise self._error((*path, name), f"is not a key ragcli knows{_nearest_key(name, keys)}")
            if wrong := invalid_value_reason(keys[name], value):
                raise self._error((*path, name), wrong)

    def _path(self, key: tuple[str, ...], text: str) -> Path:
        """A path in the file is relative to the file's own folder, wherever ragcli is called from."""
        if not text or "\0" in text:
            raise self._error(key, "has a path that is empty or no path at all")
        try:
            return self.file.absolute().parent / Path(text).expanduser()
        except RuntimeError as error:
            raise self._error(key, f'has the path "{text}", whose home folder is unknown here') from error

    def _model(self, name: str) -> str:
        """A model named by a folder is relative to the file, too; any other name stays as it is."""
        try:
            folder = self.file.absolute().parent / Path(name).expanduser()
            return str(folder) if name and folder.is_dir() else name
        except (RuntimeError, ValueError, OSError):
            return name

    def _error(self, path: tuple[str, ...], wrong: str) -> ConfigError:
        line = line_of_key(self.text, path)
        where = f"{self.file}, line {line}" if line else f"{self.file}"
        return ConfigError(f"{where}: {'.'.join(path)} {wrong}{'' if wrong.endswith('?') else '.'}")


def _nearest_key(name: str, keys: Mapping[str, Option]) -> str:
    near = closest_name(name, [*keys, *SECTION_KEYS, "collections"] if keys is TOP_LEVEL_KEYS else keys)
    return f'; did you mean "{near}"?' if near else f" (it knows {', '.join(keys)})"

"""Find the `collections.toml`, read it, and give it as values that need no further checking."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from ragcli.config.keys import COLLECTION, SECTIONS, TOP, Key, complaint
from ragcli.config.lines import line_of
from ragcli.errors import ConfigError
from ragcli.records import CollectionSettings

CONFIG_NAME: Final = "collections.toml"

# A configuration is written by hand. A file beyond this is something else by the same name.
_LARGEST_FILE: Final = 1 << 20
_COLLECTION_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Origin = Literal["none", "named", "current folder", "user"]


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
class QueryDefaults:
    """What `ragcli query` does unless its options say otherwise. None leaves the choice to the pipeline."""

    top: int = 5
    pipeline: str = "hybrid"
    pool: int | None = None
    reranker: str = "auto"
    max_per_source: int | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """A `collections.toml`, read and checked. Without a file, every value is the built-in default.

    `origin` says how the file was found. A file found in the current folder may have come with someone else's
    repository, so whoever acts on a path or a model name from it can ask.
    """

    file: Path | None = None
    origin: Origin = "none"
    data_dir: Path | None = None
    engine: Literal["auto", "onnx", "torch"] = "auto"
    query: QueryDefaults = field(default_factory=QueryDefaults)
    defaults: CollectionConfig = field(default_factory=CollectionConfig)
    collections: Mapping[str, CollectionConfig] = field(default_factory=dict)

    def collection(self, name: str) -> CollectionConfig:
        """What holds for the collection `name`: its own table, or the defaults when it has none."""
        return self.collections.get(name, self.defaults)


def find_config(named: Path | None = None) -> tuple[Path | None, Origin]:
    """The file to read and how it was found. Raises ConfigError if the one named is not there."""
    if named is not None:
        if not named.is_file():
            raise ConfigError(f"{named}: there is no such configuration file; check the path given with --config.")
        return named, "named"
    here = Path(CONFIG_NAME)
    if here.is_file():
        return here.absolute(), "current folder"
    import platformdirs

    user = Path(platformdirs.user_config_dir("ragcli", appauthor=False)) / CONFIG_NAME
    return (user, "user") if user.is_file() else (None, "none")


def load_config(named: Path | None = None) -> Config:
    """Read the configuration named, or else the one found. Raises ConfigError naming file, key and line."""
    file, origin = find_config(named)
    return Config() if file is None else _Reader(file, _read_text(file)).config(origin)


def resolve_data_dir(option: Path | None, config: Config) -> Path:
    """Where collections live: the option, else `RAGCLI_DATA_DIR`, else the configuration, else the platform's."""
    if option is not None:
        return option.expanduser().absolute()
    if variable := os.environ.get("RAGCLI_DATA_DIR"):
        return Path(variable).expanduser().absolute()
    if config.data_dir is not None:
        return config.data_dir
    import platformdirs

    return Path(platformdirs.user_data_dir("ragcli", appauthor=False))


def _read_text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            content = stream.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror}).") from error
    if len(content) > _LARGEST_FILE:
        raise ConfigError(f"{file}: is over a megabyte, which no configuration of ragcli needs.")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{file}, line {line}: is not UTF-8 text, which TOML must be.") from error


class _Reader:
    """One file on its way to a `Config`: holds the text, to say on which line a key stands."""

    __slots__ = ("file", "text", "tree")

    def __init__(self, file: Path, text: str) -> None:
        self.file = file
        self.text = text
        import tomllib

        try:
            self.tree: Mapping[str, Any] = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigError(f"{file}: is not valid TOML: {error or 'nested too deeply'}.") from error

    def config(self, origin: Origin) -> Config:
        tables = {"collections", *SECTIONS}
        top = {key: value for key, value in self.tree.items() if key not in tables}
        self._check(top, TOP, ())
        for section, keys in SECTIONS.items():
            self._check(self._section(section), keys, (section,))
        defaults = self._collection(self._section("defaults"), CollectionConfig(), ("defaults",))
        data_dir = self._path(("data_dir",), top["data_dir"]) if "data_dir" in top else None
        return Config(
            file=self.file,
            origin=origin,
            data_dir=data_dir,
            engine=self._section("models").get("engine", "auto"),
            query=self._query(),
            defaults=defaults,
            collections=MappingProxyType(self._collections(defaults)),
        )

    def _query(self) -> QueryDefaults:
        query = QueryDefaults(**self._section("query"))
        return replace(query, reranker=self._model(query.reranker))

    def _collections(self, defaults: CollectionConfig) -> dict[str, CollectionConfig]:
        found = {}
        for name, table in self._section("collections").items():
            path = ("collections", name)
            if not _COLLECTION_NAME.fullmatch(name):
                rule = "letters, digits, '.', '_' and '-', 64 at most, the first a letter or digit"
                raise self._error(path, f"is no name for a collection, which takes {rule}")
            if not isinstance(table, dict):
                raise self._error(path, "must be a table")
            self._check(table, COLLECTION, path)
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

    def _check(self, table: Mapping[str, Any], keys: Mapping[str, Key], path: tuple[str, ...]) -> None:
        for name, value in table.items():
            if name not in keys:
                raise self._error((*path, name), f"is not a key ragcli knows{_nearest(name, keys)}")
            if wrong := complaint(keys[name], value):
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
        line = line_of(self.text, path)
        where = f"{self.file}, line {line}" if line else f"{self.file}"
        return ConfigError(f"{where}: {'.'.join(path)} {wrong}{'' if wrong.endswith('?') else '.'}")


def _nearest(name: str, keys: Mapping[str, Key]) -> str:
    import difflib

    near = difflib.get_close_matches(name, [*keys, *SECTIONS, "collections"] if keys is TOP else keys, n=1)
    return f'; did you mean "{near[0]}"?' if near else f" (it knows {', '.join(keys)})"

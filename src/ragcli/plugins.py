"""Plugins: implementations that installed packages bring, found by their entry points and loaded when needed.

A package declares what it brings in its own `pyproject.toml`, one line for each name:

    [project.entry-points."ragcli.parsers"]
    docx = "ragcli_docx:parse"              # the name is a file type: the suffix without its dot, in lower case

    [project.entry-points."ragcli.rerankers"]
    voyage = "ragcli_voyage:open_reranker"  # chosen as `plugin:voyage`, or `plugin:voyage:MODEL`

The groups are `ragcli.parsers` (`documents.parser_registry.DocumentParser`), `ragcli.encoders` and `ragcli.rerankers`
(`models.model_loading.EncoderFactory`, `RerankerFactory`), `ragcli.judges` (`grounding.judge_registry`) and
`ragcli.engines`. The entry points of all installed packages are read once in a process, when a file of a type that is
not built in is met or a plugin is named; nothing of a plugin is imported before it is used. A built-in
implementation cannot be replaced by a plugin of its name.

Entry points: https://packaging.python.org/en/latest/specifications/entry-points/
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final, Generic, Literal, TypeVar, cast, get_args

from ragcli.errors import PluginError, UsageError

PluginGroup = Literal["parsers", "encoders", "rerankers", "judges", "engines"]
PLUGIN_GROUPS: Final[tuple[PluginGroup, ...]] = get_args(PluginGroup)
PLUGIN_PREFIX: Final = "plugin:"
_MAX_REASON_CHARS: Final = 300

# What the object of an entry point must have, one of these at least.
_INTERFACE: Final[Mapping[PluginGroup, tuple[str, ...]]] = MappingProxyType(
    {
        "parsers": ("__call__",),
        "encoders": ("__call__",),
        "rerankers": ("__call__",),
        "judges": ("sufficiency", "faithfulness"),
        "engines": ("__call__",),
    }
)

ImplementationT = TypeVar("ImplementationT")


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """One entry point of an installed package, not loaded: `target` is "module:attribute"."""

    group: PluginGroup
    name: str
    target: str
    distribution: str
    version: str

    def __str__(self) -> str:
        """How sentences call it."""
        return f"the plugin '{self.name}' (ragcli.{self.group}) of {self.distribution} {self.version}"


@cache
def installed_plugins() -> tuple[InstalledPlugin, ...]:
    """Every entry point in one of ragcli's groups, by group and name. Imports nothing of the packages.

    A package whose entry points cannot be read is passed over: it must not cost the others.
    """
    from importlib.metadata import distributions

    found: dict[str, list[InstalledPlugin]] = {}
    for distribution in distributions():
        try:
            entries = [each for each in distribution.entry_points if each.group.startswith("ragcli.")]
            if not entries:
                continue
            name, version = distribution.metadata["Name"], distribution.version
            # Of two installations of one package the first on the path is the one that is imported.
            found.setdefault(
                name.lower().replace("_", "-"),
                [
                    InstalledPlugin(group, each.name, each.value, name, version)
                    for each in entries
                    for group in PLUGIN_GROUPS
                    if each.group == f"ragcli.{group}"
                ],
            )
        except Exception:  # noqa: S112 (whatever a stranger's package has in place of a list of entry points)
            continue
    plugins = (each for several in found.values() for each in several)
    return tuple(sorted(plugins, key=lambda each: (PLUGIN_GROUPS.index(each.group), each.name, each.distribution)))


def find_plugin(group: PluginGroup, name: str) -> InstalledPlugin | None:
    """The installed plugin of that name, None if there is none. PluginError if two packages bring one."""
    found = [each for each in installed_plugins() if (each.group, each.name) == (group, name)]
    if len(found) > 1:
        packages = " and ".join(each.distribution for each in found)
        raise PluginError(f"The plugin '{name}' (ragcli.{group}) is brought by {packages}; uninstall all but one.")
    return found[0] if found else None


def load_plugin(plugin: InstalledPlugin) -> object:
    """Import what the entry point names. PluginError, with the package's name, for whatever keeps it from that."""
    from importlib.metadata import EntryPoint

    try:
        loaded: object = EntryPoint(plugin.name, plugin.target, plugin.group).load()
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"{_capitalised(plugin)} cannot be loaded ({error_summary(error)}); update or uninstall"
            f" {plugin.distribution}."
        ) from error
    if not any(hasattr(loaded, name) for name in _INTERFACE[plugin.group]):
        wanted = "a function" if _INTERFACE[plugin.group] == ("__call__",) else "an object with a method"
        wanted += "" if wanted == "a function" else f" {' or '.join(_INTERFACE[plugin.group])}"
        raise PluginError(
            f"{_capitalised(plugin)} cannot be used: {plugin.target} is a {type(loaded).__name__}, not {wanted}; "
            f"update or uninstall {plugin.distribution}."
        )
    return loaded


def plugin_problem(plugin: InstalledPlugin) -> str | None:
    """Why the plugin cannot be used, a sentence; None if it can. Loads it to see."""
    try:
        find_plugin(plugin.group, plugin.name)
        load_plugin(plugin)
    except PluginError as error:
        return str(error)
    return None


def is_plugin_name(name: str) -> bool:
    """Whether a name says `plugin:NAME`."""
    return name.startswith(PLUGIN_PREFIX)


def split_plugin_name(name: str) -> tuple[str, str]:
    """`plugin:NAME:MODEL` as (NAME, MODEL); MODEL may be missing, and is empty then."""
    plugin, _, model = name.removeprefix(PLUGIN_PREFIX).partition(":")
    return plugin, model


def error_summary(error: BaseException) -> str:
    """An exception on one line, its type first, cut to a length that a sentence can hold."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
    return text if len(text) <= _MAX_REASON_CHARS else f"{text[: _MAX_REASON_CHARS - 1]}…"


class Registry(Generic[ImplementationT]):
    """The implementations of one seam by name: those built in, and as `plugin:NAME` those of installed packages.

    `built_in` maps each name to a function that imports and gives the implementation.
    """

    def __init__(self, group: PluginGroup, built_in: Mapping[str, Callable[[], ImplementationT]]) -> None:
        self._group: PluginGroup = group
        self._built_in = MappingProxyType(dict(built_in))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of those built in."""
        return tuple(self._built_in)

    def get(self, name: str) -> ImplementationT:
        """The implementation of that name, loaded now.

        Raises UsageError for a name that is not built in, PluginError for a plugin that is not there or that cannot
        be loaded.
        """
        if not is_plugin_name(name):
            if name in self._built_in:
                return self._built_in[name]()
            raise UsageError(f"There is no '{name}' among the {self._group}: {', '.join(self.names)}.")
        wanted, _ = split_plugin_name(name)
        plugin = find_plugin(self._group, wanted)
        if plugin is None:
            there = ", ".join(each.name for each in installed_plugins() if each.group == self._group) or "none"
            raise PluginError(
                f"There is no plugin '{wanted}' among the installed {self._group} ({there}); `ragcli plugins` lists"
                " what packages bring."
            )
        return cast("ImplementationT", load_plugin(plugin))


def _capitalised(plugin: InstalledPlugin) -> str:
    text = str(plugin)
    return text[0].upper() + text[1:]

"""Options that several commands share, each with its help in one place, and what is made of them.

`--data-dir`, `--config`, `--color` and `--tenant` hold for every command and may stand before or after its name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection as Several
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ragcli.cli.terminal import Screen, note, screen_of
from ragcli.errors import CollectionError, MissingCollection, TenantNeeded, UntrustedConfig, UsageError

if TYPE_CHECKING:
    from ragcli.collection import Collection
    from ragcli.config import Config, Demand, KeyPath

COLOURS: Final = ("auto", "always", "never")
_KEY: Final = "ragcli."


def remember(ctx: typer.Context, param: typer.CallbackParam, value: str | None) -> str | None:
    """Keep an option that holds for every command where the command finds it; the last one given wins."""
    if value is not None:
        if param.name == "color" and value not in COLOURS:
            raise typer.BadParameter(f"'{value}' is none of {', '.join(COLOURS)}.", ctx=ctx, param_hint="--color")
        ctx.meta[f"{_KEY}{param.name}"] = value
    return value


def complete_collection(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of collections that begin with what was typed; none if they cannot be read."""
    from ragcli.collection import list_collections
    from ragcli.errors import RagcliError

    try:
        return [name for name in list_collections(Surroundings(ctx).data_dir) if name.startswith(incomplete)]
    except (RagcliError, OSError):
        return []


def complete_pipeline(incomplete: str) -> list[str]:
    """The pipelines that begin with what was typed."""
    from ragcli.retrieval.request import PIPELINES

    return [name for name in PIPELINES if name.startswith(incomplete)]


DataDir = Annotated[
    str | None,
    typer.Option("--data-dir", metavar="DIR", help="Folder of the collections.", callback=remember, expose_value=False),
]
ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config", metavar="FILE", help="The collections.toml to read.", callback=remember, expose_value=False
    ),
]
Colour = Annotated[
    str | None,
    typer.Option("--color", metavar="auto|always|never", help="Colours.", callback=remember, expose_value=False),
]
Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant",
        metavar="NAME",
        help="Whose documents to read, of collections that have tenants.",
        callback=remember,
        expose_value=False,
    ),
]
CollectionName = Annotated[
    str | None,
    typer.Option("-c", "--collection", metavar="NAME", help="The collection.", autocompletion=complete_collection),
]
CollectionNames = Annotated[
    list[str] | None,
    typer.Option(
        "-c",
        "--collection",
        metavar="NAME",
        help="Search this collection; may be repeated. Without it, all of them.",
        autocompletion=complete_collection,
    ),
]
CollectionArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The collection.", autocompletion=complete_collection)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait while another process writes to the collection.")]


def everywhere(
    data_dir: DataDir = None, config: ConfigFile = None, color: Colour = None, tenant: Tenant = None
) -> None:
    """The options that every command takes, as a signature to read them from."""


class Surroundings:
    """Where a command runs: its configuration, its data folder, its screens. Each is looked up when first asked for."""

    def __init__(self, ctx: typer.Context) -> None:
        self._meta: dict[str, Any] = ctx.meta
        # While the shell completes a word there is nobody to answer.
        self._may_ask = not ctx.resilient_parsing
        self._allowed: set[KeyPath] = set()

    @cached_property
    def config(self) -> Config:
        """The configuration in force. What it withholds for want of trust is asked for with `allow`."""
        from ragcli.config import load_config

        named = self._meta.get(f"{_KEY}config")
        return load_config(Path(named).expanduser() if named is not None else None, allowed=self._allowed)

    def allow(self, *keys: KeyPath) -> None:
        """Make sure that the values at those keys, if the configuration has any, are in it.

        A model that is on this machine is let through; for the rest a person is asked, once. Raises
        UntrustedConfig, which names the first key that may not be used.
        """
        wanted = self._wanted(keys)
        if not wanted:
            return
        from ragcli.cli.trusting import ask_to_trust, is_here, refusal, somebody_is_there

        if here := {each.key for each in wanted if each.model is not None and is_here(each.model)}:
            self._allowed |= here
            del self.config
            wanted = self._wanted(keys)
        if wanted and self._may_ask and somebody_is_there():
            self._may_ask = False
            if ask_to_trust(self.config):
                del self.config
                wanted = self._wanted(keys)
        if wanted:
            raise UntrustedConfig(refusal(self.config, wanted))

    def _wanted(self, keys: Several[KeyPath]) -> list[Demand]:
        return [each for each in self.config.withheld if each.key in keys]

    @cached_property
    def data_dir(self) -> Path:
        """The folder of the collections."""
        from ragcli.config import names_data_dir, resolve_data_dir

        option = self._meta.get(f"{_KEY}data_dir")
        if option == "":
            raise UsageError("--data-dir needs the path of a folder, and got nothing.")
        if option is None and not names_data_dir():
            self.allow(("data_dir",))
        return resolve_data_dir(Path(option) if option is not None else None, self.config)

    @cached_property
    def screen(self) -> Screen:
        """What stdout is shown on."""
        return screen_of(sys.stdout, self._meta.get(f"{_KEY}color", "auto"))

    @cached_property
    def side_screen(self) -> Screen:
        """What stderr is shown on."""
        return screen_of(sys.stderr, self._meta.get(f"{_KEY}color", "auto"))

    @property
    def tenant(self) -> str | None:
        """Whose documents are read: the option, else RAGCLI_TENANT."""
        option: str | None = self._meta.get(f"{_KEY}tenant")
        return option if option is not None else os.environ.get("RAGCLI_TENANT") or None

    def collection(self, name: str) -> Collection:
        """The collection of that name. Raises MissingCollection or UsageError."""
        from ragcli.collection import Collection

        return Collection.open(self.data_dir, name, tenant=self.tenant, notify=note)

    def collections(self, names: Sequence[str] | None) -> list[Collection]:
        """The collections named, each once, or all of them, to be read. Raises MissingCollection when there is none.

        Of all of them, one that cannot be read is told and left out: it must not cost the others. One that has
        tenants cannot be read without saying for whom; TenantNeeded if nothing else is left.
        """
        from ragcli.collection import list_collections

        if names:
            return [self.collection(name) for name in dict.fromkeys(names)]
        found = list(list_collections(self.data_dir))
        if not found:
            raise MissingCollection(
                f"There is no collection in {self.data_dir} yet; `ragcli ingest PATH` makes one "
                "(another folder is named by --data-dir)."
            )
        if len(found) == 1:
            return [self.collection(found[0])]
        readable: list[Collection] = []
        refusal: TenantNeeded | None = None
        for name in found:
            try:
                collection = self.collection(name)
                collection.check_readable()
                readable.append(collection)
            except CollectionError as error:
                note(str(error))
                refusal = error if isinstance(error, TenantNeeded) else refusal
        if not readable and refusal is not None:
            raise TenantNeeded("There is no collection that can be read without --tenant NAME or RAGCLI_TENANT.")
        return readable


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several output forms, at most one of which may be asked for."""

    flag: str
    asked: bool


def at_most_one(*choices: Choice) -> str | None:
    """The flag that was given, if any. Raises UsageError when two were that exclude each other."""
    given = [choice.flag for choice in choices if choice.asked]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other; give one of them.")
    return given[0] if given else None

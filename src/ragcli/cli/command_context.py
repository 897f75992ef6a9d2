"""What one command runs with: configuration and trust in it, data folder, collections, screens.

Each is looked up when first asked for. A `collections.toml` found in the current folder is asked about when a value
is needed that takes trust, so a command that needs none goes on. A person at a terminal is asked; a script is told
and stopped.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from collections.abc import Collection as Several
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from ragcli.cli.terminal import Screen, note, safe_line, screen_of
from ragcli.errors import CollectionError, MissingCollection, TenantNeeded, UntrustedConfig, UsageError

if TYPE_CHECKING:
    from ragcli.collection import Collection
    from ragcli.config import Config, KeyPath, TrustDemand
    from ragcli.models import Encoder


def can_prompt() -> bool:
    """Whether a person can be asked: stdin and stderr are a terminal."""
    try:
        return sys.stdin.isatty() and sys.stderr.isatty()
    except (AttributeError, ValueError):  # none, or closed
        return False


def ask_to_trust(config: Config) -> bool:
    """Show what the file asks for, and remember a yes."""
    from ragcli.config.trust_policy import trust_config

    assert config.file is not None  # noqa: S101
    sys.stderr.write(f"{safe_line(str(config.file))} was found in this folder, and asks for more than the folder:\n")
    sys.stderr.writelines(f"  {safe_line(demand_text(each))}\n" for each in config.withheld)
    sys.stderr.write("Trust this file, as it is now? [y/N] ")
    sys.stderr.flush()
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):  # Ctrl-D leaves the cursor behind the question
        sys.stderr.write("\n")
    if answer.strip().lower() not in ("y", "yes"):
        return False
    trust_config(config.file, config.digest)
    return True


def demand_text(demand: TrustDemand) -> str:
    """A demand as a line of a list."""
    return (f"line {demand.line}: " if demand.line else "") + f"{demand.name} {demand.what}"


def refusal_text(config: Config, wanted: Sequence[TrustDemand]) -> str:
    """Why a command does not go on."""
    first = wanted[0]
    where = f"{config.file}, line {first.line}" if first.line else f"{config.file}"
    return (
        f"{where}: {first.name} {first.what}, and you have not trusted this file. If you wrote it or have read it, "
        "run `ragcli trust` in a terminal, or name it with --config."
    )


def is_model_local(model: str) -> bool:
    """Whether a model is on this machine already, in a package or in the Hugging Face cache."""
    from ragcli.errors import ModelUnavailable
    from ragcli.models.model_lookup import find_model

    try:
        found = find_model(model)
    except (ModelUnavailable, OSError, ValueError):
        return False
    return found is not None and found.where != "folder"


class CommandContext:
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

        named = self._meta.get(f"{META_PREFIX}config")
        return load_config(Path(named).expanduser() if named is not None else None, allowed=self._allowed)

    def allow(self, *keys: KeyPath) -> None:
        """Make sure that the values at those keys, if the configuration has any, are in it.

        A model that is on this machine is let through; for the rest a person is asked, once. Raises
        UntrustedConfig, which names the first key that may not be used.
        """
        wanted = self._wanted(keys)
        if not wanted:
            return

        if here := {each.key for each in wanted if each.model is not None and is_model_local(each.model)}:
            self._allowed |= here
            del self.config
            wanted = self._wanted(keys)
        if wanted and self._may_ask and can_prompt():
            self._may_ask = False
            if ask_to_trust(self.config):
                del self.config
                wanted = self._wanted(keys)
        if wanted:
            raise UntrustedConfig(refusal_text(self.config, wanted))

    def _wanted(self, keys: Several[KeyPath]) -> list[TrustDemand]:
        return [each for each in self.config.withheld if each.key in keys]

    @cached_property
    def data_dir(self) -> Path:
        """The folder of the collections."""
        from ragcli.config import data_dir_in_environment, resolve_data_dir

        option = self._meta.get(f"{META_PREFIX}data_dir")
        if option == "":
            raise UsageError("--data-dir needs the path of a folder, and got nothing.")
        if option is None and not data_dir_in_environment():
            self.allow(("data_dir",))
        return resolve_data_dir(Path(option) if option is not None else None, self.config)

    @cached_property
    def screen(self) -> Screen:
        """What stdout is shown on."""
        return screen_of(sys.stdout, self._meta.get(f"{META_PREFIX}color", "auto"))

    @cached_property
    def stderr_screen(self) -> Screen:
        """What stderr is shown on."""
        return screen_of(sys.stderr, self._meta.get(f"{META_PREFIX}color", "auto"))

    @property
    def tenant(self) -> str | None:
        """Whose documents are read: the option, else RAGCLI_TENANT."""
        option: str | None = self._meta.get(f"{META_PREFIX}tenant")
        return option if option is not None else os.environ.get("RAGCLI_TENANT") or None

    def encoder_loader(
        self, model: Callable[[], str], notify: Callable[[str], None], *, download: bool
    ) -> Callable[[], Encoder]:
        """What loads an encoder for many texts when it is needed; its name is asked for then.

        `download` is for a model that the user or the configuration names: what a collection itself names may be a
        stranger's choice, if it was copied.
        """

        def load() -> Encoder:
            from ragcli.models import load_encoder

            return load_encoder(model(), engine=self.config.engine, bulk=True, notify=notify, download=download)

        return load

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
        refusal_text: TenantNeeded | None = None
        for name in found:
            try:
                collection = self.collection(name)
                collection.check_readable()
                readable.append(collection)
            except CollectionError as error:
                note(str(error))
                refusal_text = error if isinstance(error, TenantNeeded) else refusal_text
        if not readable and refusal_text is not None:
            raise TenantNeeded("There is no collection that can be read without --tenant NAME or RAGCLI_TENANT.")
        return readable


META_PREFIX: Final = "ragcli."

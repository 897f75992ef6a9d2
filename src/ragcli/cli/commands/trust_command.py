"""`ragcli trust`: allow a `collections.toml` to name paths, models and endpoints beyond its folder."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import examples, new_app
from ragcli.cli.option_groups.table_parameters import exclusive_option, table_command
from ragcli.cli.terminal import note, write
from ragcli.errors import EXIT_DONE, InputError, UntrustedConfig, UsageError
from ragcli.options import OptionError, OptionValues
from ragcli.options.command_options import JSON, LIST, REVOKE

app = new_app()


@table_command(
    app,
    REVOKE,
    LIST,
    JSON,
    epilog=examples(
        "ragcli trust", "ragcli trust ~/shared/collections.toml", "ragcli trust --list", "ragcli trust --revoke"
    ),
)
def trust(
    here: CommandContext,
    values: OptionValues,
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="The file (./collections.toml).", show_default=False),
    ] = None,
) -> int:
    """Allow a collections.toml what it asks for beyond its own folder.

    A file found in the current folder may have come with someone else's work. Until you trust it, it cannot name a
    path outside its folder, a model that is not on this machine, a place to send texts to, or the variable of a
    key; the rest of it works. Trust holds for the file where it is, as it is: when it changes, you are asked again.
    It is given at a terminal only. A file named with --config, or in your own configuration folder, needs none.
    """
    from ragcli.config import CONFIG_NAME

    exclusive_option(values, "revoke", "list")
    if values.list:
        if file is not None:
            raise OptionError("{list} shows every trusted file and takes no FILE.")
        return _list(here, as_json=values.json)
    if values.json:
        raise OptionError("{json} goes with {list}.")
    if file is not None and (not file or "\0" in file):
        raise UsageError(f"'{file}' is not a path; name a file.")
    path = Path(file if file is not None else CONFIG_NAME).expanduser()
    if path.is_dir():
        path /= CONFIG_NAME
    return _revoke(path) if values.revoke else _trust(path)


def _trust(path: Path) -> int:
    from ragcli.cli.command_context import ask_to_trust, can_prompt, demand_text
    from ragcli.config import load_untrusted_config

    if not path.is_file():
        raise InputError(f"{path}: there is no such file.")
    config = load_untrusted_config(path)
    if not config.withheld:
        note(f"{path} asks for nothing that needs trust, or is trusted already.")
        return EXIT_DONE
    if not can_prompt():
        wanted = demand_text(config.withheld[0])
        raise UntrustedConfig(f"{path}: {wanted}. Trust is given at a terminal only, and this is none.")
    if not ask_to_trust(config):
        raise UntrustedConfig(f"{path} is not trusted.")
    return EXIT_DONE


def _revoke(path: Path) -> int:
    from ragcli.config.trust_policy import revoke

    if not revoke(path):
        raise InputError(f"{path} was not trusted; `ragcli trust --list` lists the files that are.")
    return EXIT_DONE


def _list(here: CommandContext, *, as_json: bool) -> int:
    from ragcli.config.trust_policy import trust_state, trusted_files

    entries = [(each, trust_state(each)) for each in trusted_files()]
    if as_json:
        from ragcli.cli.render.json_output import write_json

        write_json(
            [
                {"path": entry.path, "sha256": entry.sha256, "trusted_at": entry.at, "state": state}
                for entry, state in entries
            ]
        )
        return EXIT_DONE
    if not entries:
        note("no file is trusted.")
        return EXIT_DONE

    from ragcli.cli.render.rich_table import Column, table, time_text

    columns = (Column("Now", whole=True), Column("Trusted", whole=True), Column("File"))
    rows = [(state, time_text(datetime.fromisoformat(entry.at)), entry.path) for entry, state in entries]
    write(table(here.screen, columns, rows))
    return EXIT_DONE

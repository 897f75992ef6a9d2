"""Commands whose options are entries of the option table: parameters built from them, values read by them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from ragcli.cli.command_context import CommandContext
from ragcli.cli.lazy_group import FastCommand
from ragcli.cli.option_groups.common_options import complete_collection
from ragcli.options import Option, OptionError, OptionGroup, OptionValues

CommandFunction = Callable[..., int]
"""A command: `(context, values, **arguments)` to an exit code; its arguments are its own parameters."""
_OWN_PARAMETERS: Final = 2


def table_command(
    app: typer.Typer,
    *groups: OptionGroup | Option,
    name: str | None = None,
    epilog: str = "",
    required: Sequence[str] = (),
) -> Callable[[CommandFunction], CommandFunction]:
    """Make a command of `app` of a function: it gets a CommandContext, an OptionValues, and its arguments.

    Options stand in the help under the headings of their groups; those given singly, and those in `required`, come
    first.
    """
    options = {each.name: each for group in groups for each in (group if isinstance(group, OptionGroup) else (group,))}
    headings = {
        each.long_flag: group.heading for group in groups if isinstance(group, OptionGroup) for each in group.options
    }

    def register(function: CommandFunction) -> CommandFunction:
        arguments = list(inspect.signature(function, eval_str=True).parameters.values())[_OWN_PARAMETERS:]

        def call(ctx: typer.Context, **given: Any) -> int:
            own = {each.name: given.pop(each.name) for each in arguments}
            return function(CommandContext(ctx), read_values(options, given), **own)

        kinds = {each.name: each.annotation for each in arguments}
        kinds |= {each.name: _annotation(each) for each in options.values() if each.cli}
        defaults = {each.name: each.default for each in arguments}
        defaults |= {
            each.name: inspect.Parameter.empty if each.name in required else _default(each)
            for each in options.values()
            if each.cli
        }
        keyword = inspect.Parameter.KEYWORD_ONLY
        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        parameters = [inspect.Parameter(at, keyword, default=defaults[at], annotation=kinds[at]) for at in kinds]
        call.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
        call.__annotations__ = {"ctx": typer.Context, **kinds, "return": int}
        call.__doc__, call.__name__ = function.__doc__, function.__name__

        class GroupedCommand(FastCommand):
            option_headings = headings

        app.command(name, cls=GroupedCommand, epilog=epilog)(call)
        return function

    return register


def read_values(options: Mapping[str, Option], given: Mapping[str, Any]) -> OptionValues:
    """The values of what was given; what has its parameter's default was not. Raises OptionError."""
    stated = {}
    for name, value in given.items():
        if value is None or value is False or value == []:
            continue
        stated[name] = True if value is True else options[name].read(value)
    return OptionValues(options, stated)


def exclusive_option(values: OptionValues, *names: str) -> str | None:
    """The one of these flags that was given, if any. Raises OptionError when two were that exclude each other."""
    given = [name for name in names if name in values.stated]
    if len(given) > 1:
        raise OptionError(" and ".join(f"{{{name}}}" for name in given) + " exclude each other; give one of them.")
    return given[0] if given else None


def _default(option: Option) -> Any:
    return False if option.kind == "yes or no" else None


def _annotation(option: Option) -> Any:
    kind: Any = str | None
    if option.kind == "yes or no":
        kind = bool
    elif option.kind == "texts":
        kind = list[str] | None
    completion: Callable[..., list[str]] | None = None
    if option.long_flag == "--collection":
        completion = complete_collection
    elif option.choices:
        completion = _choice_completion(option.choices)
    flags = [*([option.short] if option.short else []), option.long_flag]
    return Annotated[
        kind,
        typer.Option(
            *flags,
            metavar=None if option.kind == "yes or no" else option.metavar or _metavar(option),
            help=_help_text(option),
            autocompletion=completion,
            show_default=False,
        ),
    ]


def _choice_completion(choices: Sequence[str]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete


def _metavar(option: Option) -> str:
    if option.choices:
        return "|".join(option.choices)
    return {"whole number": "N", "number": "X"}.get(option.kind, "TEXT")


def _help_text(option: Option) -> str:
    shown = option.default_text
    if shown is None:
        shown = "" if option.default in (None, False, ()) else f"{option.default}"
    return f"{option.help.removesuffix('.')} ({shown})." if shown else option.help.removesuffix(".") + "."

"""Typer commands loaded when called, with option values parsed without pydantic.

Two habits of Typer are too slow for a tool that scripts call in loops. It builds every command to print one command's
help; here a group is a table of names, and a command's module is imported when the command is called. And recent
versions import pydantic (70 ms, half of a whole `ragcli grep`) to turn the text "5" into a number; here the five
types that options have are read by Python's own constructors. Where Typer's internals are not as expected, its own
way is left in place: slower, the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from ragcli.cli.option_groups.common_options import global_options
from ragcli.errors import UsageError


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command as the table of contents knows it: enough for the help, without loading the command."""

    module: str
    summary: str
    example: str


class FastCommand(TyperCommand):
    """A command that takes the options of every command, reads values without pydantic, and keeps epilog lines.

    An option with the metavar `[N]` may stand without its number, which is 1 then. `option_headings` gives the heading
    of the help under which an option stands, by its long flag.
    """

    option_headings: Mapping[str, str] = MappingProxyType({})

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params = [*self.params, *_global_params()]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the call's words."""
        return super().parse_args(ctx, _with_default_numbers(args, self.params))

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, `--help` included."""
        return _without_pydantic(super().get_params(ctx))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the options under their headings, and those of every command last."""
        if not self.option_headings:
            super().format_options(ctx, formatter)
            return
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        sections |= {heading: [] for heading in self.option_headings.values()}
        general = {flag for param in _global_params() for flag in param.opts} | {"--help"}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            heading = next((self.option_headings[flag] for flag in param.opts if flag in self.option_headings), "")
            if param.param_type_name == "argument":
                heading = "Arguments"
            elif general.intersection(param.opts):
                heading = "General"
            sections.setdefault(heading or "Options", []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the epilog as it stands."""
        _write_epilog(self.epilog, formatter)


class LazyGroup(TyperGroup):
    """A group of commands. `entries` are those whose modules are loaded when they are called."""

    entries: Mapping[str, CommandEntry] = MappingProxyType({})

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params = [*self.params, *_global_params()]

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, `--help` included."""
        return _without_pydantic(super().get_params(ctx))

    def list_commands(self, ctx: Any) -> list[str]:
        """The names in the order of the table."""
        return [*self.entries, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, its module loaded now if it wasn't."""
        entry = self.entries.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        from importlib import import_module

        command = typer.main.get_command(import_module(entry.module).app)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that `args` begins with, or a usage error that names the nearest one."""
        if args and args[0] in self.entries:
            return args[0], self.get_command(ctx, args[0]), args[1:]
        if args and self.entries and not ctx.resilient_parsing and not args[0].startswith("-"):
            from ragcli.text.suggestions import closest_name

            near = closest_name(args[0], self.entries)
            hint = f" Did you mean '{near}'?" if near else ""
            ctx.fail(f"There is no command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write one line a command, from the table alone."""
        if not self.entries:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the epilog as it stands."""
        _write_epilog(self.epilog, formatter)


def new_app(*, group: type[LazyGroup] = LazyGroup, completion: bool = False, **settings: Any) -> typer.Typer:
    """A Typer app in ragcli's manner: plain help, our own error lines. `completion` adds Typer's options for it."""
    return typer.Typer(
        cls=group,
        add_completion=completion,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        **settings,
    )


def usage_error(error: Exception) -> UsageError | None:
    """The error as ragcli tells it, if it is Typer's complaint about a call it cannot parse; else None."""
    message, ctx = getattr(error, "format_message", None), getattr(error, "ctx", None)
    if message is None:
        return None
    help_call = f"{ctx.command_path} --help" if ctx is not None else "ragcli --help"
    told = message().strip()
    return UsageError(f"{told if told.endswith(('.', '?')) else told + '.'} See `{help_call}`.")


def examples(*lines: str) -> str:
    """An epilog of example calls."""
    return "\n".join(("Examples:" if len(lines) > 1 else "Example:", *(f"  {line}" for line in lines)))


def _with_default_numbers(args: list[str], params: Sequence[Any]) -> list[str]:
    """The call's words with a 1 behind every option that may stand without its number and does."""
    bare = {name for param in params if getattr(param, "metavar", None) == "[N]" for name in param.opts}
    if not bare.intersection(args):
        return args
    words: list[str] = []
    for at, word in enumerate(args):
        if word == "--":
            return words + args[at:]
        words.append(word)
        following = args[at + 1] if at + 1 < len(args) else ""
        if word in bare and not (following.isascii() and following.isdigit()):
            words.append("1")
    return words


def _global_params() -> list[Any]:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(global_options)
    return list(typer.main.get_command(app).params)


def _write_epilog(epilog: str | None, formatter: Any) -> None:
    if epilog:
        formatter.write_paragraph()
        formatter.write(epilog.rstrip("\n") + "\n")


class _ValueParser:
    """Reads one parameter's value with a constructor; stands in for Typer's own reader."""

    __slots__ = ("convert", "many", "wanted")

    def __init__(self, convert: Callable[[str], object], wanted: str, *, many: bool) -> None:
        self.convert = convert
        self.wanted = wanted
        self.many = many

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if self.many else None
        if self.many:
            return tuple(self._one(item, param, ctx) for item in value)
        return self._one(value, param, ctx)

    def _one(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            return self.convert(value)
        except (TypeError, ValueError):
            raise typer.BadParameter(f"'{value}' is not {self.wanted}.", ctx=ctx, param=param) from None


def _as_bool(value: object) -> bool:
    # Only an environment variable or a default map gives a flag as text, and ragcli has neither.
    return bool(value)


_VALUE_PARSERS: Final[Mapping[object, _ValueParser]] = MappingProxyType(
    {
        str: _ValueParser(str, "a text", many=False),
        int: _ValueParser(int, "a whole number", many=False),
        float: _ValueParser(float, "a number", many=False),
        bool: _ValueParser(_as_bool, "yes or no", many=False),
        list[str]: _ValueParser(str, "a text", many=True),
    }
)


def _without_pydantic(params: Sequence[Any]) -> list[Any]:
    for param in params:
        annotation = getattr(getattr(param, "type_descriptor", None), "annotation", None)
        plain = _VALUE_PARSERS.get(annotation) if isinstance(annotation, type) or annotation == list[str] else None
        if plain is not None and getattr(param, "_runtime_param", plain) is None:
            param._runtime_param = plain  # noqa: SLF001
    return list(params)

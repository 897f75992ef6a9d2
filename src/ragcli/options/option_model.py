"""What an option is: its name, kind, range, help and surfaces, and how its values are read and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Final, Literal

from ragcli.options.number_parsing import MAX_NUMBER, parse_number, parse_whole_number
from ragcli.options.option_error import OptionError

Kind = Literal["text", "texts", "whole number", "number", "yes or no"]
TrustGuard = Literal["path", "collections", "model", "endpoint", "secret"]
_MAX_SHOWN_CHARACTERS: Final = 60


@dataclass(frozen=True, slots=True, eq=False)
class Conflict:
    """Another option that an option needs (`requires`), or does not go with (`excludes`), and the sentence on it.

    With a `value`, the other one is needed with that value.
    """

    name: str
    sentence: str
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Option:
    """One option: everything that the surfaces and the library know of it.

    `name` is the field of the request, the key of a configuration (where `key` gives no other) and the option of an
    evaluation's pipeline; its flag is the name with dashes (where `flag` gives no other). `default` is what holds
    where nobody says otherwise; None leaves the choice to what acts on it. `least` and `most` belong to the range,
    `above` and `below` do not; without `most`, `MAX_NUMBER` ends it. `reader` makes the value of a text (of a list
    of texts for the kind `texts`), and raises ValueError for one that it does not take; `takes` says what that is.

    Surfaces: `cli` (a flag of the commands that declare the option's group), `section` (of `collections.toml`),
    `request` (a field of QueryRequest), `spec` (an option of a pipeline in `ragcli eval`). A key with a `guard` needs
    the user's trust in its file (see `ragcli.config.trust_policy`), but for the values in `free`. `config_kind` is
    for keys that are written as a text, though the value is none. `fields` are those of the request that a mapping
    sets.
    """

    name: str
    kind: Kind = "text"
    help: str = ""
    default: Any = None
    default_text: str | None = None
    choices: tuple[str, ...] = ()
    choice_prefix: str = ""
    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    takes: str = ""
    refusal: str = ""
    reader: Callable[[Any], Any] | None = None
    metavar: str = ""
    short: str = ""
    flag: str = ""
    bare: str = ""
    cli: bool = True
    section: str = ""
    key: str = ""
    config_kind: Kind | None = None
    guard: TrustGuard | None = None
    free: tuple[str, ...] = ()
    request: bool = False
    spec: bool = False
    fields: tuple[str, ...] = ()
    requires: tuple[Conflict, ...] = ()
    excludes: tuple[Conflict, ...] = ()

    @property
    def config_key(self) -> str:
        """Its key in a section of the configuration."""
        return self.key or self.name

    @property
    def long_flag(self) -> str:
        """Its spelling on the command line."""
        return self.flag or "--" + self.name.replace("_", "-")

    @property
    def expected(self) -> str:
        """What it takes, as the end of "takes ..."."""
        if self.takes:
            return self.takes
        if self.choices:
            return " or ".join(self.choices) if len(self.choices) < 3 else f"one of {', '.join(self.choices)}"
        return _KIND_TEXTS[self.kind]

    def is_choice(self, value: object) -> bool:
        """Whether it is one of the choices, or begins as those do that are not known before (`choice_prefix`)."""
        named = bool(self.choice_prefix) and isinstance(value, str) and value.startswith(self.choice_prefix)
        return value in self.choices or named

    def read(self, text: Any) -> Any:
        """The value that a text (texts, for the kind `texts`) stands for. Raises OptionError."""
        try:
            value = self.reader(text) if self.reader is not None else _READERS[self.kind](text)
        except ValueError:
            raise self.refused(text) from None
        if self.takes and self.kind == "number" and self.range_reason(value):
            raise self.refused(text)
        self._check_stated(value)
        return value

    def check(self, value: object) -> None:
        """Raise OptionError unless it takes the value, or the value is what holds anyway."""
        if value != self.default:
            self._check_stated(value)

    def _check_stated(self, value: object) -> None:
        if self.choices and not self.is_choice(value):
            raise self.refused(value)
        match self.kind:
            case "whole number":
                right = isinstance(value, Integral) and not isinstance(value, bool)
            case "number":
                right = isinstance(value, Real) and not isinstance(value, bool)
            case _:
                return
        if not right:
            raise self.refused(value)
        if reason := self.range_reason(value):
            raise OptionError(f"{{{self.name}}} {{reason}}.", reason=reason)

    def range_reason(self, value: Any) -> str | None:
        """Why a number is outside the range, as the end of a sentence ("must be ..."), or None."""
        least, most = self.least, MAX_NUMBER if self.most is None else self.most
        if self.above is not None:
            inside = self.above < value < (MAX_NUMBER if self.below is None else self.below)
        else:
            inside = (-MAX_NUMBER if least is None else least) <= value <= most
        if inside:
            return None
        shown = shown_number(value)
        if (self.above, self.below) == (0, 1) or (least, most) == (0, 1):
            return f"must lie between 0 and 1, not {shown}"
        if self.above is not None and not value > self.above:
            return f"must be more than {self.above:g}, not {shown}"
        if least is not None and not value >= least:
            return f"must be at least {least:g}, not {shown}"
        return f"must be at most {most:,.0f}, not {shown}"

    def refused(self, value: object) -> OptionError:
        """The error for a value that it does not take."""
        given = shown_value(value)
        if self.refusal:
            return OptionError(self.refusal, given=given, choices=", ".join(self.choices))
        return OptionError(f"{{{self.name}}} takes {{takes}}, not '{{given}}'.", takes=self.expected, given=given)


@dataclass(frozen=True, slots=True, eq=False)
class OptionGroup:
    """Options that go together, under one heading of a command's help."""

    heading: str
    options: tuple[Option, ...]

    def __iter__(self) -> Any:
        return iter(self.options)


@dataclass(frozen=True, slots=True, eq=False)
class OptionValues:
    """Values of options by name, as attributes: what was stated, else the option's default.

    `stated` has what somebody said; a value of None counts as not said. Raises AttributeError for an option that is
    not among `options`.
    """

    options: Mapping[str, Option]
    stated: Mapping[str, Any] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self.stated:
            return self.stated[name]
        try:
            return self.options[name].default
        except KeyError:
            raise AttributeError(f"there is no option {name} here") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OptionValues) and dict(self.stated) == dict(other.stated)

    __hash__ = None  # type: ignore[assignment]

    def over(self, below: OptionValues) -> OptionValues:
        """These values, and where they state nothing, those of `below`."""
        return OptionValues({**below.options, **self.options}, {**below.stated, **self.stated})

    def request_fields(self) -> dict[str, Any]:
        """What is stated of the fields of a QueryRequest."""
        found: dict[str, Any] = {}
        for name, value in self.stated.items():
            option = self.options[name]
            if option.request:
                found[name] = value
            elif option.fields:
                found |= value
        return found

    def check_together(self, *, given: Iterable[str] | None = None) -> None:
        """Raise OptionError for options among `given` (all that are stated) that lack another, or exclude it."""
        for name in self.stated if given is None else given:
            option = self.options[name]
            for each in option.requires:
                there = getattr(self, each.name)
                if not there if each.value is None else there != each.value:
                    raise OptionError(each.sentence)
            for each in option.excludes:
                if each.name in self.stated:
                    raise OptionError(each.sentence)


def options_by_name(*groups: OptionGroup) -> dict[str, Option]:
    """The options of the groups, by name."""
    return {option.name: option for group in groups for option in group.options}


def check_request(options: Iterable[Option], request: object) -> None:
    """Raise OptionError for the first attribute of `request` whose value its option does not take."""
    for option in options:
        option.check(getattr(request, option.name))


def shown_number(value: Any) -> str:
    """A number as a sentence has it, unless it has digits without end."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**20:
        return "a number of very many digits"
    return f"{value}"


def shown_value(value: object) -> str:
    """A value as a sentence has it, cut where it is long."""
    text = (
        shown_number(value)
        if isinstance(value, int)
        else " ".join(map(str, value))
        if isinstance(value, (list, tuple))
        else str(value)
    )
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else text[: _MAX_SHOWN_CHARACTERS - 1] + "…"


def _truth(text: str) -> bool:
    match text.lower():
        case "yes" | "true" | "on":
            return True
        case "no" | "false" | "off":
            return False
    raise ValueError(text)


def _texts(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(texts)


_READERS: Final[Mapping[Kind, Callable[[Any], Any]]] = {
    "text": str,
    "texts": _texts,
    "whole number": parse_whole_number,
    "number": parse_number,
    "yes or no": _truth,
}
_KIND_TEXTS: Final[Mapping[Kind, str]] = {
    "text": "a text",
    "texts": "texts",
    "whole number": "a whole number",
    "number": "a number",
    "yes or no": "yes or no",
}

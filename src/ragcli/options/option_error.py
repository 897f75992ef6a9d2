"""The error of a value that an option does not take, which every surface tells with its own spelling of options."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ragcli.errors import UsageError


class OptionError(UsageError):
    """A value that an option does not take, or options that do not go together.

    `template` is the sentence, in which `{name}` stands for an option's name or, where `values` has it, for a value.
    `str(error)` names options as the library does; a surface that spells them otherwise asks `spelled` for its own.
    """

    def __init__(self, template: str, **values: object) -> None:
        self._template, self._values = template, values
        super().__init__(self.spelled(str))

    def spelled(self, spell: Callable[[str], str]) -> str:
        """The sentence, with every option's name put through `spell`."""
        return self._template.format_map(_Spelling(self._values, spell))


class _Spelling(dict[str, object]):
    def __init__(self, values: Mapping[str, object], spell: Callable[[str], str]) -> None:
        super().__init__(values)
        self._spell = spell

    def __missing__(self, name: str) -> str:
        return self._spell(name)

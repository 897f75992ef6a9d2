"""Exceptions with their messages and exit codes.

Every error carries one plain sentence: what is wrong, with which file, and what to do about it. The command line
prints that sentence and leaves with the class's exit code; a library caller catches `RagcliError`.
"""

from __future__ import annotations

from typing import ClassVar, Final

EXIT_DONE: Final = 0
EXIT_NO_MATCH: Final = 1
EXIT_USAGE: Final = 2
EXIT_BAD_INPUT: Final = 3
EXIT_SOME_FAILED: Final = 4
EXIT_NO_MODEL: Final = 5
EXIT_INSUFFICIENT: Final = 6
EXIT_INTERRUPTED: Final = 130


class RagcliError(Exception):
    """Base of every error ragcli raises on purpose. `str(error)` is the sentence to show."""

    exit_code: ClassVar[int] = EXIT_BAD_INPUT

    @property
    def sentence(self) -> str:
        """What is wrong, without any lines that show where."""
        return str(self)


class UsageError(RagcliError):
    """The call itself makes no sense: a bad option, name or combination."""

    exit_code = EXIT_USAGE


class RoleError(UsageError, TypeError):
    """A part given to the search agent came back with what its role cannot give; the sentence names the part."""


class FilterError(UsageError):
    """A filter cannot be read. `expression` and `at` tell where; its text shows them, with a caret under the fault."""

    def __init__(self, sentence: str, *, expression: str | None = None, at: int = 0) -> None:
        super().__init__(sentence)
        self.expression, self.at = expression, at

    @property
    def sentence(self) -> str:
        """What is wrong, without the expression."""
        return super().__str__()

    @property
    def picture(self) -> tuple[str, ...]:
        """The expression and the caret, a line each; nothing if there is no expression."""
        from ragcli.text.caret import caret_lines

        return () if self.expression is None else caret_lines(self.expression, self.at)

    def __str__(self) -> str:
        return "\n".join((self.sentence, *self.picture))


class InputError(RagcliError):
    """Something given as input (file, folder, pattern, question) cannot be used."""


class ConfigError(RagcliError):
    """A `collections.toml` is wrong. The sentence names file, key and line."""


class UntrustedConfig(ConfigError):
    """A `collections.toml` found in the current folder asks for what it may not without the user's trust."""


class CollectionError(RagcliError):
    """A collection is damaged, busy, or asked for what it cannot do."""


class MissingCollection(CollectionError):
    """No collection of that name, or no such document or chunk in it."""


class CollectionBusy(CollectionError):
    """Another process is writing to the collection; the sentence names its process id."""


class TenantNeeded(CollectionError):
    """The collection is divided among tenants, and the call does not say whose documents it may read."""

    exit_code = EXIT_USAGE


class DocumentError(RagcliError):
    """One document cannot be read. It costs that document only and ends up in the failures."""


class PasswordNeeded(DocumentError):
    """The document is encrypted and none of the given passwords opens it."""


class ModelUnavailable(RagcliError):
    """A model's weights are not here and may not, or cannot, be fetched."""

    exit_code = EXIT_NO_MODEL


class LanguageModelError(RagcliError):
    """A language model gave no usable answer: unreachable, too slow, over its budget, or not understood."""

    exit_code = EXIT_NO_MODEL


class LanguageModelAway(LanguageModelError):
    """A language model is not there for now: unreachable, too slow, or it refuses. Another question would not help."""


class RerankerUnavailable(ModelUnavailable):
    """A reranker elsewhere gave no scores. A search goes on without it."""


class MissingExtra(RagcliError, ImportError):
    """An optional dependency is not installed; the sentence names the extra that brings it."""

    exit_code = EXIT_NO_MODEL


class PluginError(RagcliError):
    """A plugin is not installed, cannot be loaded, or gives what its seam does not take; the sentence names it."""

    exit_code = EXIT_NO_MODEL
